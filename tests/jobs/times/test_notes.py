"""How many notes a run reads, before they exist."""

from __future__ import annotations

import pytest

from core.corpus.synthetic.hospital import build
from core.jobs.times.notes import expected_notes
from core.spec import CorpusSpec, PrivacySpec, RunSpec, recipe


def test_notes_are_counted_as_training_reads_them() -> None:
    """A promise for one note has no cap on a patient's notes; a cap of 1 would hide all others from the limits."""
    training = recipe("gpt2").model_copy(update={"max_notes_per_patient": 1})
    corpus = CorpusSpec(patients=1_000, notes_per_patient=40.0, canaries=0, canary_patients=0)
    for unit, notes in (("note", 28_000), ("patient", 700)):
        spec = RunSpec(corpus=corpus, training=training, privacy=PrivacySpec(target_epsilon=8.0, unit=unit))
        assert expected_notes(spec).trained == notes
    assert expected_notes(RunSpec(corpus=corpus, training=training)).trained == 700


def test_copies_of_canaries_are_notes_too() -> None:
    """Four patients with one note each, and canaries that are copied 64 times: built, they are 23,000 notes."""
    corpus = CorpusSpec(
        **{"patients": 4, "population": 0, "notes_per_patient": 1, "canaries": 2_520, "canary_copies": 64},
        canary_patients=40,
        random_canaries=100,
    )
    training = recipe("gpt2").model_copy(update={"epochs": 1_000})
    for unit in ("note", "patient"):
        privacy = PrivacySpec(target_epsilon=8.0, unit=unit)
        spec = RunSpec(corpus=corpus, training=training, privacy=privacy)
        built = len(build(corpus).training_notes(spec.note_cap))
        assert expected_notes(spec).trained == pytest.approx(built, rel=0.05)
