"""Totals with choices: known answers, sums by hand, and what may not happen."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.models.word_noise import WordNoise
from core.spec import VocabularySpec
from core.training.accounting.choosing import chosen_epsilon
from core.training.accounting.chosen_composition import Chosen, total_epsilon, total_patient_epsilon
from core.training.accounting.composition import composed_epsilon
from core.training.accounting.group_privacy import patient_epsilon
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.privacy_loss import renyi_epsilon
from core.training.accounting.room import room
from tests.runs.released import mechanism

DELTA = 1e-5


def training(sigma: float, rate: float = 1.0, steps: int = 1, **other) -> Mechanism:
    given = {"unit": "note", "delta": DELTA, "max_grad_norm": 1.0} | other
    return Mechanism(noise_multiplier=sigma, sample_rate=rate, steps=steps, **given)


def by_hand(single: list[tuple[float, float | None]], delta: float) -> float:
    """ε of Gaussian mechanisms (ρ, E[K]), geometric numbers of trainings, from the published formulas alone.

    Divergences ρ·λ, theorem 2 with η = 1 and γ = 1/E[K], and the conversion of Balle et al. 2020, theorem 21.
    """
    orders = np.concatenate([np.linspace(1.0001, 20, 20_000), np.linspace(20, 2_000, 20_000)])
    total = np.zeros(len(orders))
    for rho, trainings in single:
        total += rho * orders
        if trainings is not None:
            best = (2 * (1 - 1 / orders) * rho * orders + 2 * math.log(trainings) / orders).min()
            total += best + math.log(trainings) / (orders - 1)
    return float((total + np.log((orders - 1) / orders) - (math.log(delta) + np.log(orders)) / (orders - 1)).min())


def test_one_choice_costs_what_choosing_costs():
    for one in (training(3.0), training(0.75, 0.0875, 46), training(2.0, unit="patient")):
        for trainings, shape in ((1, 0.0), (10, 0.0), (10, 1.0)):
            expected = chosen_epsilon(one, trainings, shape=shape)
            assert total_epsilon([], [Chosen(one, trainings, shape)], DELTA) == (expected, "rdp")
            assert Chosen(one, trainings, shape).epsilon() == expected


def test_two_choices_and_a_run_are_a_sum_of_curves_converted_once():
    chosen = [Chosen(training(4.0), 10, 1.0), Chosen(training(6.0), 50, 1.0)]
    found = total_epsilon([training(5.0)], chosen, DELTA)[0]
    curves = [(1 / (2 * 16), 10), (1 / (2 * 36), 50), (1 / (2 * 25), None)]
    assert found == pytest.approx(by_hand(curves, DELTA), rel=5e-3) and found >= by_hand(curves, DELTA)
    assert found < sum(one.epsilon() for one in chosen) + training(5.0).epsilon(), "converted once, not added"


def test_without_a_choice_nothing_changes():
    runs = [training(2.0, 0.05, 100), training(3.0)]
    assert total_epsilon(runs, [], DELTA) == composed_epsilon(runs, DELTA)
    assert total_patient_epsilon(runs, [], 3, DELTA) == patient_epsilon(runs, 3, DELTA)


def test_a_choice_never_makes_a_total_smaller_and_more_trainings_make_it_larger():
    runs, one = [training(3.0, 0.05, 100)], training(2.0, 0.05, 100)
    unchosen = renyi_epsilon({(3.0, 0.05): 100, (2.0, 0.05): 100}, DELTA)
    found = [total_epsilon(runs, [Chosen(one, trainings, 0.0)], DELTA)[0] for trainings in (1, 2, 10, 100, 1e5)]
    assert found[0] >= unchosen and (np.diff(found) > 0).all()
    shapes = [total_epsilon(runs, [Chosen(one, 10, shape)], DELTA)[0] for shape in (0.0, 1.0, 3.0)]
    assert (np.diff(shapes) > 0).all()


def test_a_patient_with_several_notes_is_the_theorem_for_the_whole_patient():
    """Without sampling k notes are one Gaussian of σ/k: the choice is then that of a mechanism with less noise."""
    one, other = training(12.0), training(20.0)
    for notes in (2, 5):
        same = [training(one.noise_multiplier / notes), training(other.noise_multiplier / notes)]
        found = total_patient_epsilon([other], [Chosen(one, 10, 0.0)], notes, DELTA)
        assert found == pytest.approx(total_epsilon(same[1:], [Chosen(same[0], 10, 0.0)], DELTA)[0], rel=0.02)
    sampled = Chosen(training(3.0, 0.0875, 46), 10, 0.0)
    found = [total_patient_epsilon([], [sampled], notes, DELTA) for notes in (1, 2, 5, 37)]
    assert found[0] == sampled.epsilon() and (np.diff(found) > 0).all()
    assert all(total > sampled.mechanism.patient_epsilon(k) for total, k in zip(found, (1, 2, 5, 37), strict=True))
    assert math.isinf(total_patient_epsilon([], [sampled], 1_001, DELTA)), "no finite answer is no promise"


def test_words_of_other_runs_and_replaced_units_count_as_ever():
    laplace = WordNoise.planned(VocabularySpec(epsilon=0.5, delta=1e-7, words=7, noise="laplace"))
    chosen = [Chosen(training(4.0), 10, 0.0)]
    plain, spoken = training(5.0), training(5.0).with_vocabulary(laplace)
    spent, share = laplace.added()
    assert total_epsilon([spoken], chosen, DELTA)[0] == spent + total_epsilon([plain], chosen, DELTA - share)[0]
    assert math.isinf(total_epsilon([spoken], chosen, share)[0])
    assert total_patient_epsilon([spoken], chosen, 2, DELTA) > total_patient_epsilon([plain], chosen, 2, DELTA) + spent
    once, twice = (total_epsilon([one], chosen, DELTA)[0] for one in (plain, plain.replacing()))
    assert twice > 2 * once, "two changes of one unit, at a smaller δ each"


def test_what_has_no_known_cost_is_refused():
    words = WordNoise.planned(VocabularySpec(epsilon=1.0))
    for wrong, why in ((training(2.0).replacing(), "replaces"), (training(2.0).with_vocabulary(words), "vocabulary")):
        with pytest.raises(ValueError, match=why):
            total_epsilon([], [Chosen(wrong, 10, 0.0)], DELTA)
    with pytest.raises(ValueError, match="do not add up"):
        total_epsilon([training(2.0, unit="patient")], [Chosen(training(2.0), 10, 0.0)], DELTA)
    with pytest.raises(ValueError, match="δ"):
        total_epsilon([], [Chosen(training(2.0), 10, 0.0)], 0.0)
    with pytest.raises(ValueError, match="at least one note"):
        total_patient_epsilon([], [Chosen(training(2.0), 10, 0.0)], 0, DELTA)
    with pytest.raises(ValueError, match="only guarantees for notes"):
        total_patient_epsilon([], [Chosen(training(2.0, unit="patient"), 10, 0.0)], 2, DELTA)


def test_what_fits_beside_a_choice_keeps_the_total_within_the_budget():
    chosen = [Chosen(training(2.0, 0.05, 100), 10, 0.0)]
    spent = total_epsilon([], chosen, DELTA)[0]
    more = room([], chosen[0].mechanism, 1.5 * spent, DELTA, chosen)
    assert 0.99 * 1.5 * spent < total_epsilon([more], chosen, DELTA)[0] <= 1.5 * spent
    assert room([], chosen[0].mechanism, 0.99 * spent, DELTA, chosen) is None


def test_a_choice_per_patient_covers_any_number_of_notes():

    chosen = Chosen(mechanism(4.0, unit="patient"), 10, 0.0)
    assert chosen.patient_epsilon(7) == pytest.approx(chosen.epsilon())
