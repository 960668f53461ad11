"""Odds with known answers: of the promise, of the mechanism, of beliefs and of groups."""

from __future__ import annotations

import math

import pytest

from core.evaluation.odds import (
    belief,
    group_sentence,
    mechanism_accuracy,
    mechanism_sentence,
    odds_table,
    patients_sentence,
)
from core.evaluation.wording import most_right_guesses, right_of
from core.training.accounting import Mechanism
from core.writing import promised_text

CLASSROOM = Mechanism(  # ε = 8 per note
    unit="note", noise_multiplier=0.7492553189197739, sample_rate=256 / 2925, steps=46, delta=1e-5, max_grad_norm=1.0
)


def gaussian(sigma: float) -> Mechanism:
    return Mechanism(
        unit="note", noise_multiplier=sigma, sample_rate=1.0, steps=1, delta=1e-5, max_grad_norm=1.0, accountant="prv"
    )


@pytest.mark.parametrize(
    ("chance", "known"),
    [(0.5, (50, 100)), (0.731, (74, 100)), (0.75, (75, 100)), (0.9941, (995, 1_000)), (1.0, (1_000_000, 1_000_000))],
)
def test_attackers_are_rounded_up_in_a_crowd_where_not_all_are_right(chance, known):
    assert right_of(chance) == known


def test_a_belief_by_hand():
    assert belief(0.5, math.log(3)) == pytest.approx(0.75)
    assert belief(0.01, math.log(3)) == pytest.approx(0.03 / 1.02)
    assert belief(0.2, 0.0) == pytest.approx(0.2), "ε = 0 teaches nothing"
    assert belief(0.2, math.inf) == 1.0 and belief(0.2, 1.0, delta=1.0) == 1.0
    for bad in ((0.0, 1.0), (1.0, 1.0), (0.5, -1.0)):
        with pytest.raises(ValueError):
            belief(*bad)


def test_the_gaussian_mechanism_by_hand():
    # Two equally likely unit-shifted normals: the best guess is right with Φ(1/2σ).
    right = 0.5 * math.erfc(-(0.5 / 1.2) / math.sqrt(2))
    found = mechanism_accuracy([gaussian(1.2)])
    assert right <= found <= right + 0.003
    promised = most_right_guesses(gaussian(1.2).epsilon(), 1e-5)
    assert found < promised, "the mechanism allows less than its ε at a tiny δ"
    told = mechanism_sentence([gaussian(1.2)], "patient")
    assert (
        "on average at most 67 are right, if in and out were equally likely beforehand (50 by tossing a coin)" in told
    )
    assert "see every step" in told
    assert "no bound" in mechanism_sentence([gaussian(0.005)], "note")


def test_the_table_by_hand():
    table = odds_table(math.log(3), 0.0)
    assert table["at most"].tolist() == pytest.approx([0.75, 0.03 / 1.02, 1 / 4, 0.75, 0.03, 0.3])
    assert (odds_table(math.inf, 1e-5)["at most"] == 1.0).all()
    assert (table["at most"] >= table["without the model"]).all()


def test_a_group_by_hand():
    # Row J7: two notes at ε = ln 3, δ = 0.01 give ε = ln 9 and δ = 0.01·(9 − 1)/(3 − 1) = 0.04 → (9 + 0.04)/10.
    assert "ε = 2.2, δ = 0.04: on average at most 91 of 100" in group_sentence(math.log(3), 0.01, 2)
    assert "nothing is promised" in group_sentence(8.0, 1e-5, 20)
    assert "Nothing is promised" in group_sentence(math.inf, 1e-5, 20)


def test_what_patients_get_of_a_promise_per_note():
    told = patients_sentence(CLASSROOM, 2, 10)
    two, ten = (promised_text(CLASSROOM.patient_epsilon(notes)) for notes in (2, 10))
    assert (float(two), float(ten)) == (pytest.approx(17.70, abs=0.1), pytest.approx(133.2, abs=1.0)), "exact, not 8·k"
    assert f"median number of training notes (2) gets ε = {two}" in told
    assert f"the one with the most (10) gets ε = {ten}, empty in practice" in told and "δ = 10⁻⁵" in told
    assert "median" not in patients_sentence(CLASSROOM, 2, 2)
