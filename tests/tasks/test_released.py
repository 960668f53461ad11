"""Taggers fitted on released notes: equal arms, one judge, and labels from the list alone."""

from __future__ import annotations

import pandas as pd
import pytest

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.spec import CorpusSpec
from core.tasks import released
from core.tasks.released import ALL_RELEASED, LIST, REAL, RELEASED, tagger_counts, texts_to_learn
from tests.tiny_models import tiny

SPEC = CorpusSpec(patients=40, population=30, notes_per_patient=4.0, note_length="brief", canaries=0, canary_patients=0)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return build(SPEC)


@pytest.fixture(scope="module")
def encoder():
    return tiny("distilbert", seed=0, spread=4.0)


def sums(found) -> list[int]:
    return found.counts[["trials", "predicted", "correct"]].sum().tolist()


def test_as_many_real_notes_as_released_ones_and_only_of_population_patients(corpus, monkeypatch):
    population = set(corpus.notes.loc[corpus.notes["split"] == "population", "text"])
    texts = [f"note {number}" for number in range(50)]
    found = texts_to_learn(corpus, texts, 0)
    assert found[RELEASED] == texts and len(found[REAL]) == 50 and set(found[REAL]) <= population
    assert texts_to_learn(corpus, texts, 0) == found != texts_to_learn(corpus, texts, 1)
    many = {arm: len(side) for arm, side in texts_to_learn(corpus, texts * 100, 0).items()}
    population = sum(corpus.notes["split"] == "population")
    assert many == {RELEASED: population, ALL_RELEASED: 2_000, REAL: population}
    monkeypatch.setattr(released, "LABELLED_NOTES", 20)
    few = {arm: len(side) for arm, side in texts_to_learn(corpus, texts, 0).items()}
    assert few == {RELEASED: 20, ALL_RELEASED: 50, REAL: 20}


def test_a_hospital_without_a_list_of_terms_has_no_figure_and_one_without_population_no_real_notes(corpus):
    spec = SPEC.model_copy(update={"imported": "0" * 16})
    assert texts_to_learn(Corpus(spec, corpus.patients, corpus.notes, corpus.canaries), ["a note"], 0) == {}
    nobody = Corpus(SPEC, corpus.patients, corpus.notes[corpus.notes["split"] != "population"], corpus.canaries)
    assert texts_to_learn(nobody, ["a note"], 0) == {RELEASED: ["a note"]}


def test_arms_differ_in_their_texts_alone(corpus, encoder):
    """The same texts give the same counts; texts without any term teach that nothing is an entity."""
    real = texts_to_learn(corpus, ["x"] * 100, 0)[REAL]
    learned = {REAL: real, RELEASED: list(real), "nothing": ["the and of"] * 5}
    found = tagger_counts(encoder, corpus, learned, seed=0)
    pd.testing.assert_frame_equal(found[REAL].counts, found[RELEASED].counts)
    trials = sums(found[REAL])[0]
    assert sums(found["nothing"]) == [trials, 0, 0] and found["nothing"].labels == 0
    assert sums(found[LIST])[0] == sums(found[LIST])[2] == trials, "the list has every term of the writer"
    assert found[REAL].labels > found[REAL].texts == 100 and sums(found[REAL])[2] > 0
    heldout = set(corpus.notes.loc[corpus.notes["split"] == "heldout", "patient_id"].astype(str))
    assert set(found[REAL].counts["patient_id"]) <= heldout


def test_without_held_out_notes_nothing_is_judged(corpus, encoder):
    kept = Corpus(SPEC, corpus.patients, corpus.notes[corpus.notes["split"] != "heldout"], corpus.canaries)
    assert tagger_counts(encoder, kept, {REAL: ["metformin 500 mg"]}, seed=0) == {}
