"""Labels by the list of terms: known answers, and the writer's own spans as the oracle."""

from __future__ import annotations

import pytest

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.spec import CorpusSpec
from core.tasks.entities import tagged_notes
from core.tasks.lexicon import labelled, term_spans
from core.tasks.tagging import TYPES, entities, tags_of

SPEC = CorpusSpec(patients=60, population=20, notes_per_patient=4.0, note_length="brief", canaries=0, canary_patients=0)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build(SPEC)


def marked(text: str) -> list[tuple[str, str]]:
    return [(text[int(span["start"]) : int(span["end"])], str(span["field"])) for span in term_spans(text)]


def test_terms_have_their_type_and_the_longest_counts():
    text = "Chest radiograph for type 2 diabetes mellitus, on metformin 500 mg twice daily."
    assert marked(text) == [
        ("Chest radiograph", "test"),
        ("type 2 diabetes mellitus", "problem"),
        ("metformin 500 mg", "treatment"),
    ]
    assert marked("a radiograph of nothing") == []


def test_a_drug_takes_any_dose_along_but_no_other_number():
    assert marked("metformin 123.5 mg, then") == [("metformin 123.5 mg", "treatment")]
    assert marked("metformin 500 mgs") == [("metformin", "treatment")]
    assert marked("metformin 3 visits") == [("metformin", "treatment")]
    assert marked("metformin") == [("metformin", "treatment")]


def test_the_list_marks_what_the_writer_marked_and_little_else(corpus):
    """Its terms are the writer's; a fixed phrase may hold one of them unmarked (“on room air without oxygen”)."""
    real = tagged_notes(corpus.notes)
    true = said = both = 0
    for one in real:
        wanted = set(entities(one.tags))
        found = set(entities(tags_of(one.words, term_spans(one.text))))
        assert wanted <= found, one.text
        true, said, both = true + len(wanted), said + len(found), both + len(wanted & found)
    assert true > 300 and both == true and both / said > 0.97


def test_spans_are_in_order_within_the_text_and_texts_without_words_are_left_out(corpus):
    for text in corpus.notes["text"]:
        spans = term_spans(text)
        assert all(0 <= one["start"] < one["end"] <= len(text) and one["field"] in TYPES for one in spans)
        assert all(left["end"] <= right["start"] for left, right in zip(spans, spans[1:], strict=False))
    found = labelled(["", " \n", "metformin 500 mg"])
    assert [(one.unit, one.tags) for one in found] == [("2", ("B-treatment", "I-treatment", "I-treatment"))]
