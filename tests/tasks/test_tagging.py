"""BIO tags: from spans and back, and counts equal to those of seqeval in its strict mode."""

from __future__ import annotations

import numpy as np
import pytest
from seqeval.metrics import f1_score, precision_score, recall_score
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import IOB2

from core.corpus.synthetic.hospital import build
from core.spec import CORPUS_PRESETS
from core.tasks.entities import count_entities, tagged_notes
from core.tasks.tagging import TYPES, entities, tag_set, tags_of, word_spans


def test_tags_of_a_sentence_and_the_entities_that_they_say():
    text = "Will add metformin 500 mg for type 2 diabetes."
    words = word_spans(text)
    spans = [{"start": 9, "end": 25, "field": "treatment"}, {"start": 30, "end": 45, "field": "problem"}]
    tags = tags_of(words, spans)
    assert tags == ["O", "O", "B-treatment", *["I-treatment"] * 2, "O", "B-problem", *["I-problem"] * 2, "O"]
    assert entities(tags) == [(2, 5, "treatment"), (6, 9, "problem")]


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        (["I-test", "I-test"], []),  # nothing begun
        (["B-test", "I-problem"], [(0, 1, "test")]),  # another type ends it
        (["B-test", "B-test", "I-test"], [(0, 1, "test"), (1, 3, "test")]),  # two side by side
        (["B-test", "O", "I-test"], [(0, 1, "test")]),
        ([], []),
    ],
)
def test_tags_are_read_strictly(tags, found):
    assert entities(tags) == found


def test_counts_are_those_of_seqeval_on_random_tags():
    rng = np.random.default_rng(0)
    tags = tag_set(TYPES)
    true = [[tags[place] for place in rng.integers(len(tags), size=30)] for _ in range(40)]
    said = [[tag if rng.random() < 0.6 else tags[rng.integers(len(tags))] for tag in one] for one in true]
    counts = count_entities([str(number % 7) for number in range(40)], true, said)
    trials, predicted, correct = counts[["trials", "predicted", "correct"]].sum()
    strict = {"mode": "strict", "scheme": IOB2}
    assert correct / predicted == pytest.approx(precision_score(true, said, **strict))
    assert correct / trials == pytest.approx(recall_score(true, said, **strict))
    assert 2 * correct / (trials + predicted) == pytest.approx(f1_score(true, said, **strict))
    assert 0 < correct < min(trials, predicted) and counts["patient_id"].nunique() == 7


def test_the_labels_of_the_hospital_are_whole_words_of_three_types():
    """Nothing is lost between spans, words and tags, so that a perfect tagger would have F1 = 1."""
    notes = build(CORPUS_PRESETS["smoke"]).notes
    for note, one in zip(notes[notes["text"] != ""].itertuples(), tagged_notes(notes), strict=True):
        marked = sorted((span["start"], span["end"], span["field"]) for span in note.entity_spans)
        told = [(one.words[start][0], one.words[end - 1][1], name) for start, end, name in entities(one.tags)]
        assert told == marked and {name for _, _, name in told} <= set(TYPES)
        assert get_entities(list(one.tags)) == [(name, start, end - 1) for start, end, name in entities(one.tags)]
