"""Labelled sentences from files: read, refused, and scored, on a text of our own."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.utility.abstracts import entity_score
from core.tasks.abstracts import labelled_sentences, sentence_counts
from core.tasks.iob import abstract_of, read_iob, types_of
from tests.tiny_models import tiny

SENTENCE = "Ibuprofen\tB-Chemical\ncaused\tO\nacute\tB-Disease\nhives\tI-Disease\n.\tO\n"


def test_sentences_are_read_with_their_words(tmp_path: Path):
    path = tmp_path / "test.tsv"
    path.write_text(f"{SENTENCE}\n\nHe\tO\nslept\tO\n", encoding="utf-8")
    first, second = read_iob(path)
    assert first.text == "Ibuprofen caused acute hives ." and second.unit == "1"
    assert [first.text[start:end] for start, end in first.words] == ["Ibuprofen", "caused", "acute", "hives", "."]
    assert first.tags == ("B-Chemical", "O", "B-Disease", "I-Disease", "O")
    assert types_of([first, second]) == ("Chemical", "Disease")


@pytest.mark.parametrize("line", ["word", "word\tX", "\tO", "word\tB-"])
def test_what_is_no_token_with_a_tag_is_named(tmp_path: Path, line: str):
    path = tmp_path / "train.tsv"
    path.write_text(f"fine\tO\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 2"):
        read_iob(path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_iob(tmp_path / "other.tsv")


def test_a_head_learns_the_words_of_a_small_file(tmp_path: Path):
    drugs, diseases = ("Ibuprofen", "Codeine", "Aspirin"), ("hives", "anemia", "colitis")
    text = "\n".join(
        f"{drug}\tB-Chemical\ncaused\tO\n{disease}\tB-Disease\n.\tO\n" for drug in drugs for disease in diseases
    )
    text += "\n"
    for name in ("train.tsv", "test.tsv"):
        (tmp_path / name).write_text(text * 40, encoding="utf-8")
    learned, judged = labelled_sentences(tmp_path, learned=360, judged=20)
    counts = sentence_counts(tiny("distilbert", seed=0, spread=4.0), learned, judged)
    found = entity_score(counts, learned=len(learned), judged=len(judged))
    assert found.f1.value > 0.9 and found.f1.low <= found.f1.value <= found.f1.high
    assert (found.learned, found.judged, found.entities) == (360, 20, 40)
    (tmp_path / "train.tsv").write_text("He\tO\n", encoding="utf-8")
    with pytest.raises(ValueError, match="sentences with entities"):
        labelled_sentences(tmp_path)


def test_a_head_that_finds_nothing_has_an_f1_with_an_interval_over_abstracts():
    """20 sentences are 2 abstracts: that none of their entities is found does not show that none ever will be."""
    counts = pd.DataFrame({"patient_id": map(str, range(20)), "trials": 2, "predicted": 1, "correct": 0})
    f1 = entity_score(counts, learned=9, judged=20).f1
    assert f1.value == 0 and (f1.low, f1.high) == pytest.approx(proportion_interval(0, 2))


def test_every_ten_consecutive_sentences_of_a_file_are_one_abstract_however_they_are_drawn():
    assert abstract_of(pd.Series(["0", "9", "10", "12", "4796"])).tolist() == [0, 0, 1, 1, 479]
