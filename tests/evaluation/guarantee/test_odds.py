"""Odds with known answers: of the promise, of the mechanism, of beliefs and of groups."""

from __future__ import annotations

import math

import pytest

from core.common.formatting import delta_text, promised_text
from core.evaluation.guarantee.odds import (
    belief,
    group_comparison,
    group_sentence,
    mechanism_accuracy,
    mechanism_sentence,
    odds_table,
    patients_sentence,
)
from core.evaluation.wording import most_right_guesses, percent_up, right_of_100
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.tradeoff import tradeoff

CLASSROOM = Mechanism(  # ε = 8 per note
    unit="note", noise_multiplier=0.7492553189197739, sample_rate=256 / 2925, steps=46, delta=1e-5, max_grad_norm=1.0
)


def gaussian(sigma: float) -> Mechanism:
    return Mechanism(
        unit="note", noise_multiplier=sigma, sample_rate=1.0, steps=1, delta=1e-5, max_grad_norm=1.0, accountant="prv"
    )


@pytest.mark.parametrize(
    ("chance", "known"),
    [(0.5, "50"), (0.731, "74"), (0.75, "75"), (0.9941, "99.5"), (0.99966, "99.97"), (1 - 1e-9, "100"), (1.0, "100")],
)
def test_attackers_of_100_are_rounded_up_to_a_number_below_100(chance, known):
    assert right_of_100(chance) == known


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


def test_a_bound_that_rounds_to_all_is_not_one_that_could_not_be_computed():
    for sigma in (0.1, 0.005):  # 99.99997 of 100, and 100 in double precision
        told = mechanism_sentence([gaussian(sigma)], "note")
        assert "more than 99.9999 may be right" in told and "no bound" not in told
    unanswered = gaussian(1e-6).model_copy(
        update={"sample_rate": 0.5}
    )  # below LEAST_NOISE: there is no numerical answer
    assert "no bound could be computed" in mechanism_sentence([unanswered], "note")


def test_the_table_by_hand():
    table = odds_table(math.log(3), 0.0)
    assert table["at most"].tolist() == pytest.approx([0.75, 0.03 / 1.02, 1 / 4, 0.75, 0.03, 0.3])
    assert (odds_table(math.inf, 1e-5)["at most"] == 1.0).all()
    for epsilon in (40.0, 1_000.0, 10_000.0):
        limits = odds_table(epsilon, 1e-5)["at most"]
        assert {percent_up(limit) for limit in limits} == {"just under 100\u00a0%"}, "a finite ε limits something"
    assert (table["at most"] >= table["without the model"]).all()
    assert table["question"].tolist()[1].replace("\u00a0", " ") == "Belief of someone who thought it 1 % likely"
    assert table["question"].tolist()[4].replace("\u00a0", " ") == "Members caught when 1 % of others are accused"


def test_the_table_with_the_mechanisms_own_figures():
    table = odds_table(CLASSROOM.epsilon(), CLASSROOM.delta, CLASSROOM)
    exact = table["by exact accounting"]
    assert exact[0] == mechanism_accuracy([CLASSROOM]) and exact.isna().tolist() == [False, *[True] * 3, False, False]
    assert (exact.dropna() < table["at most"][exact.notna()]).all(), "ε alone allows more"
    assert exact[4] == pytest.approx(float(tradeoff([CLASSROOM]).caught(0.01))) and 0.1 < exact[4] < exact[5] < 0.5


def test_what_patients_get_of_a_promise_per_note():
    told = patients_sentence(CLASSROOM, 2, 10)
    exact = [CLASSROOM.patient_epsilon(notes) for notes in (2, 10)]
    assert exact == [pytest.approx(17.70, abs=0.02), pytest.approx(133.2, abs=0.2)], "not 8·k"
    two, ten = map(promised_text, exact)
    assert f"median number of training notes (2) gets ε = {two}" in told
    assert f"the one with the most (10) gets ε = {ten}, empty in practice" in told and "δ = 10⁻⁵" in told
    assert "median" not in patients_sentence(CLASSROOM, 2, 2)


def test_several_notes_by_hand():
    # Without sampling k notes divide the noise by k: σ = 6 is σ = 2 for three notes.
    spent = gaussian(2.0).epsilon()
    assert f"ε = {promised_text(gaussian(6.0).patient_epsilon(3))} at the same δ" in group_sentence(gaussian(6.0), 3)
    assert gaussian(6.0).patient_epsilon(3) == pytest.approx(spent, abs=0.011)
    right = math.exp(spent) / (1 + math.exp(spent))
    assert f"at most {math.ceil(right * 100)} of 100" in group_sentence(gaussian(6.0), 3)
    assert "nothing is promised" in group_sentence(gaussian(1.0), 20)
    assert "no finite ε" in group_sentence(gaussian(1.0).model_copy(update={"sample_rate": 0.5}), 2_000)


def test_exact_and_loose_stand_side_by_side():
    # The group formula for two notes: 2ε and δ·(1 + e^ε).
    told = group_comparison(gaussian(2.0), 2)
    spent = gaussian(2.0).epsilon()
    assert promised_text(gaussian(2.0).patient_epsilon(2)) in told and promised_text(2 * spent) in told
    assert delta_text(1e-5 * (1 + math.exp(spent))) in told
