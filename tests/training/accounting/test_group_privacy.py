"""A promise per note for a patient with several: known values, an exact single step, and never less than one note."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import logsumexp
from scipy.stats import binom, norm

from core.models.word_noise import WordNoise
from core.spec import VocabularySpec
from core.training.accounting.gaussian import group_epsilon
from core.training.accounting.group_privacy import patient_epsilon
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.privacy_loss import numerical_epsilon


def mechanism(sigma: float = 0.7492553189197739, rate: float = 256 / 2925, steps: int = 46, **other) -> Mechanism:
    given = {"unit": "note", "delta": 1e-5, "max_grad_norm": 1.0} | other
    return Mechanism(noise_multiplier=sigma, sample_rate=rate, steps=steps, **given)


@pytest.mark.parametrize(("notes", "known"), [(2, 17.698), (5, 53.612), (10, 133.16)])
def test_the_classroom_mechanism_for_several_notes(notes: int, known: float) -> None:
    # dp-accounting 0.6.0, `from_mixture_gaussian_mechanism`, pessimistic, discretisation 10⁻³.
    assert mechanism().patient_epsilon(notes) == pytest.approx(known, rel=1e-3)


def delta_of_one_step(sigma: float, rate: float, notes: int, epsilon: float) -> float:
    """max δ(ε) over both directions: the loss rises with x, so each is a difference of two tail probabilities."""

    def loss(x: float) -> float:
        shifts = np.arange(notes + 1)
        logs = binom.logpmf(shifts, notes, rate) + (2 * shifts * x - shifts**2) / (2 * sigma**2)
        return float(logsumexp(logs))

    def p(side, x: float) -> float:
        return sum(binom.pmf(j, notes, rate) * side((x - j) / sigma) for j in range(notes + 1))

    above = brentq(lambda x: loss(x) - epsilon, -60 * sigma, notes + 60 * sigma, xtol=1e-14)
    removed = p(norm.sf, above) - math.exp(epsilon) * norm.sf(above / sigma)
    if loss(-60 * sigma) > -epsilon:
        return removed
    below = brentq(lambda x: loss(x) + epsilon, -60 * sigma, notes + 60 * sigma, xtol=1e-14)
    return max(removed, norm.cdf(below / sigma) - math.exp(epsilon) * p(norm.cdf, below))


@pytest.mark.parametrize("notes", [1, 2, 5, 10])
@pytest.mark.parametrize(("sigma", "rate"), [(0.8, 0.1), (3.0, 0.3)])
def test_one_step_agrees_with_its_closed_form(sigma: float, rate: float, notes: int) -> None:
    found = numerical_epsilon({(sigma, rate): 1}, 1e-5, notes)
    assert delta_of_one_step(sigma, rate, notes, found) <= 1e-5
    assert delta_of_one_step(sigma, rate, notes, found * 0.999) > 1e-5


def test_epsilon_rises_with_the_notes_and_starts_at_that_of_one() -> None:
    run = mechanism()
    found = [run.patient_epsilon(notes) for notes in (1, 2, 3, 7, 20, 60, 70, 150)]
    assert found[0] == run.epsilon() and (np.diff(found) > 0).all()
    assert math.isinf(run.patient_epsilon(2_000))
    assert found[1] < group_epsilon(run.epsilon(), 1e-5, 2)[0] * 1.2


def test_without_sampling_notes_divide_the_noise() -> None:
    # k notes move the sum by k: the Gaussian mechanism with σ/k.
    assert numerical_epsilon({(6.0, 1.0): 9}, 1e-6, 3) == numerical_epsilon({(2.0, 1.0): 9}, 1e-6)


def test_the_promise_of_a_patient_does_not_depend_on_their_notes() -> None:
    run = mechanism(unit="patient")
    assert run.patient_epsilon(20) == run.epsilon()
    with pytest.raises(ValueError, match="only guarantees for notes"):
        patient_epsilon([run], 2, 1e-5)
    with pytest.raises(ValueError, match="at least one note"):
        mechanism().patient_epsilon(0)


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_words_cost_a_patient_more_than_training_alone(noise: str) -> None:
    words = WordNoise.planned(VocabularySpec(epsilon=0.5, delta=1e-7, words=7, noise=noise))
    plain, run = mechanism(2.0), mechanism(2.0).with_vocabulary(words)
    assert run.patient_epsilon(1) == run.epsilon()
    assert plain.patient_epsilon(2) < run.patient_epsilon(2) < run.patient_epsilon(3)
    if noise == "gaussian":
        alone = words.added(3)[1]
        worst = max(21 / count * norm.sf((words.threshold - count) / words.scale) for count in (1, 2, 3))
        assert alone == pytest.approx(worst, rel=1e-6), "three notes can say seven words three times"
        steps = {(2.0, 256 / 2925): 46, (words.multiplier, 1.0): 1}
        assert run.patient_epsilon(3) == numerical_epsilon(steps, run.delta - alone, 3)
    assert math.isinf(run.patient_epsilon(60)), "words that only these notes say come out"


def test_for_one_note_it_is_the_promise_by_the_runs_own_accountant():
    run = mechanism(1.0, 0.1, 50, accountant="rdp")
    assert run.patient_epsilon(1) == run.epsilon() > run.patient_epsilon(1, run.delta)
