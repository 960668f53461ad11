"""Pairs of a reader's test: nothing but the text tells them apart; a known score."""

from __future__ import annotations

import pandas as pd
import pytest

from core.evaluation.readers_test import SHORTEST, pairs, score

NOTES = pd.DataFrame(
    {
        "note_id": [f"n{number}" for number in range(20)],
        "text": [f"Seen today.\nPatient: {'word ' * (20 + number)}end of note {number}." for number in range(20)],
    }
)
TEXTS = pd.DataFrame(
    {
        "generation_id": range(30),
        "prompt": ["Patient:"] * 20 + ["Callback list."] * 10,
        "text": [f" {'made ' * (15 + number)}up" for number in range(30)],
    }
)


def test_both_texts_of_a_pair_begin_alike_and_are_equally_long():
    found = pairs(TEXTS, NOTES, seed=1)
    assert len(found) == 8
    for pair in found:
        assert pair.opening == "Patient:"
        assert pair.real.startswith("Patient: word") and pair.written.startswith("Patient: made")
        assert abs(len(pair.real) - len(pair.written)) <= len("note 10.") and len(pair.real) >= SHORTEST
        assert set(pair.texts) == {pair.real, pair.written}
        assert (pair.texts[0] == pair.written) == pair.written_first
    assert len({pair.note_id for pair in found}) == len({pair.generation_id for pair in found}) == 8


def test_a_seed_draws_its_own_pairs_and_order():
    drawn = [pairs(TEXTS, NOTES, seed=seed) for seed in range(40)]
    assert drawn[3] == pairs(TEXTS, NOTES, seed=3) != drawn[4]
    first = sum(pair.written_first for found in drawn for pair in found)
    assert 120 < first < 200, "of 320: neither place gives the answer away"


def test_too_few_texts_give_fewer_pairs():
    assert len(pairs(TEXTS.head(3), NOTES, seed=0)) == 3
    assert len(pairs(TEXTS, NOTES.head(2), seed=0)) == 2
    assert pairs(TEXTS.tail(10), NOTES, seed=0) == [], "no note begins like that"
    assert pairs(TEXTS.assign(text=" no"), NOTES, seed=0) == [], "too short to read"


def test_a_score_has_an_interval_and_the_chance_of_a_guess():
    found = score(7, 8)
    assert (
        found.share == 0.875
        and found.low == pytest.approx(0.529, abs=1e-3)
        and found.high == pytest.approx(0.978, abs=1e-3)
    )
    assert found.chance == 9 / 256  # C(8, 7) + C(8, 8) of 2⁸
    assert score(0, 8).chance == 1.0
    with pytest.raises(ValueError, match="trial"):
        score(0, 0)
