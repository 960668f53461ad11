"""Claims about notes: what a note states, and that every claim is true, false and open equally often."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import pytest

from core.corpus.synthetic.hospital import build
from core.spec import CorpusSpec
from core.tasks.claims import LABELS, claim_pairs, facts
from core.tasks.coherence import facts_in, groups_in

CORPUS = CorpusSpec(
    patients=60, population=40, notes_per_patient=4.0, note_length="brief", canaries=0, canary_patients=0
)


@pytest.fixture(scope="module")
def pairs():
    notes = build(CORPUS).notes_of("population")
    return notes, claim_pairs(notes, [groups_in(text) for text in notes["text"]], 120, seed=3)


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("T 38.4, HR 80, BP 150/90, RR 16.", {"temperature": "fever", "pressure": "raised"}),
        ("Final readings 118/70, 36.8, 97 %.", {"temperature": "none", "pressure": "normal"}),
        ("On examination 98/60, 70 beats a minute, 36.9 degrees.", {"temperature": "none", "pressure": "low"}),
        ("The patient, 71 years old, is born 03/22/1957.", {"age": "old"}),
        ("A 40-year-old woman on room air.", {"age": "young", "sex": "female", "oxygen": "air"}),
        ("The cough is much better.", {"course": "better"}),
        ("Vitals stable: 118/70. Leaves in stable condition.", {"pressure": "normal"}),
        ("BP 150/90, later 110/70.", {}),  # two values: nothing clear
        ("Hemoglobin 36.9 g/dL.", {}),
    ],
)
def test_what_a_note_states(text, stated):
    assert facts(text, []) == stated


def test_a_dose_is_stated_by_its_drug():
    text = "Continue Metformin 500 mg twice daily."
    spans = [{"start": 9, "end": 25, "field": "treatment"}]
    assert facts(text, spans) == {"dose/metformin": "500 mg"}


def test_the_longest_phrase_counts_and_tells_its_disease():
    assert [fact.words for fact in facts_in("Type 2 diabetes mellitus with neuropathy.")] == [
        ("type", "2", "diabetes", "mellitus", "with", "neuropathy")
    ]
    assert groups_in("Type 2 diabetes mellitus.") == ["diabetes"] and groups_in("The lift works.") == []


def test_every_claim_has_one_note_of_each_label(pairs):
    """So whoever reads the claims alone, and answers each in the same way, is right in exactly a third of the cases."""
    _, found = pairs
    assert len(found) > 150 and Counter(pair.label for pair in found) == dict.fromkeys(LABELS, len(found) // 3)
    table = pd.DataFrame([(pair.claim, pair.label) for pair in found], columns=["claim", "label"])
    by_claim = table.groupby("claim")["label"].value_counts().unstack()
    assert (by_claim.eq(by_claim[LABELS[0]], axis=0)).all(axis=None)
    best = by_claim.max(axis=1).sum() / len(table)
    assert best == pytest.approx(1 / 3)


def test_labels_follow_from_what_the_notes_state(pairs):
    """An oracle of its own for three families: numbers are read again from the text."""
    _, found = pairs
    assert len({pair.family for pair in found}) >= 6
    for pair in found:
        if pair.family == "oxygen":
            air, extra = "room air" in pair.premise, "liters of oxygen" in pair.premise
            wanted = {"entailed": (True, False), "contradicted": (False, True), "open": (False, False)}[pair.label]
            asked_for_air = "room air" in pair.claim or "No extra" in pair.claim
            assert (air, extra) == (wanted if asked_for_air else wanted[::-1])
        if pair.family == "sex" and pair.label == "open":
            assert not {"he", "she", "his", "her", "man", "woman"} & set(pair.premise.lower().replace(".", " ").split())


def test_the_same_seed_draws_the_same_claims(pairs):
    notes, found = pairs
    groups = [groups_in(text) for text in notes["text"]]
    assert claim_pairs(notes, groups, 120, seed=3) == found != claim_pairs(notes, groups, 120, seed=4)
    assert claim_pairs(notes.iloc[:0], [], 10, seed=0) == []
