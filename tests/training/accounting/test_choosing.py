"""The cost of choosing: against an independent accountant, exact distributions of a winner, and known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant as rdp

from core.models.word_noise import WordNoise
from core.spec import VocabularySpec
from core.training.accounting.choosing import chosen_divergences, chosen_epsilon, truncation
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.privacy_loss import RDP_ORDERS

ORDERS = np.array(RDP_ORDERS)


def training(sigma: float, rate: float, steps: int) -> Mechanism:
    return Mechanism(unit="note", noise_multiplier=sigma, sample_rate=rate, steps=steps, delta=1e-5, max_grad_norm=1.0)


@pytest.mark.parametrize("settings", [(3.0, 0.05, 100), (2.0, 1.0, 3), (4.5, 0.01, 2_000)])
@pytest.mark.parametrize("trainings", [1, 1.5, 10, 200])
@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 4.0])
def test_an_independent_accountant_agrees(settings, trainings, shape):
    """dp-accounting, with the same orders: its own divergences, its own conversion, its own formula."""
    sigma, rate, steps = settings
    step = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma))
    event = dp_event.RepeatAndSelectDpEvent(dp_event.SelfComposedDpEvent(step, steps), trainings, shape)
    expected = rdp.RdpAccountant(orders=list(RDP_ORDERS)).compose(event).get_epsilon(1e-5)
    assert chosen_epsilon(training(*settings), trainings, shape=shape) == pytest.approx(expected, rel=2e-3)


def generating(x: np.ndarray, shape: float, gamma: float) -> np.ndarray:
    """Σ P[K = k]·x^k (Papernot & Steinke 2022, definition 1)."""
    if shape == 0:
        return np.log(1 - (1 - gamma) * x) / math.log(gamma)
    return ((1 - (1 - gamma) * x) ** -shape - 1) / (gamma**-shape - 1)


def divergence(p: np.ndarray, q: np.ndarray, order: float) -> float:
    return float(np.log((p**order * q ** (1 - order)).sum()) / (order - 1))


@pytest.mark.parametrize("shape", [-0.5, 0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("trainings", [2, 10, 50])
def test_no_winner_of_a_discrete_mechanism_says_more(shape, trainings):
    """Scores 1 … 6 with known chances for two neighbours: the winner's distribution, and its divergence, are exact."""
    gamma, orders = truncation(trainings, shape), np.array([1.5, 2.0, 4.0, 8.0, 32.0])
    for seed in range(20):
        rng = np.random.default_rng(seed)
        both = rng.dirichlet(np.full(6, 2.0), 2)
        both = 0.7 * both + 0.3 * both.mean(axis=0)
        single = [max(divergence(*both, order), divergence(*both[::-1], order)) for order in orders]
        bound = chosen_divergences(orders, np.array(single), trainings, shape)
        totals = np.concatenate([np.zeros((2, 1)), both.cumsum(axis=1)], axis=1).clip(0, 1)
        winner = np.diff(generating(totals, shape, gamma), axis=1)
        assert winner.sum(axis=1) == pytest.approx(1)
        for order, most, one in zip(orders, bound, single, strict=True):
            found = max(divergence(*winner, order), divergence(*winner[::-1], order))
            assert found <= most + 1e-9 and one < most


@pytest.mark.parametrize("shape", [-0.5, 0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("trainings", [1.01, 3, 10, 1_000])
def test_the_expected_number_of_trainings_is_the_one_asked_for(shape, trainings):
    gamma = truncation(trainings, shape)
    step = min(1e-7, 1e-3 * gamma)
    slope = float((generating(np.array(1.0), shape, gamma) - generating(np.array(1 - step), shape, gamma)) / step)
    assert slope == pytest.approx(trainings, rel=2e-2)
    assert generating(np.array(1.0), shape, gamma) == pytest.approx(1) and generating(np.array(0.0), shape, gamma) == 0


def test_known_answers():
    """Geometric: γ = 1/E[K]. Pure ε-DP becomes (2 + η)·ε (corollary 3), and one training costs what it costs."""
    assert truncation(10, 1.0) == pytest.approx(0.1) and truncation(1, 0.3) == 1.0
    orders = np.array([1e6, 1e7, 1e8])
    for shape in (0.0, 1.0, 2.5):
        assert chosen_divergences(orders, np.full(3, 0.3), 20, shape)[-1] == pytest.approx((2 + shape) * 0.3, rel=1e-4)
    alone, ten, more = (chosen_epsilon(training(2.0, 0.05, 100), one) for one in (1, 10, 100))
    assert training(2.0, 0.05, 100).epsilon() < alone < ten < more
    assert ten < training(2.0, 0.05, 1_000).epsilon(), "ten released trainings compose to more"


def test_what_has_no_answer_is_refused():
    one = training(2.0, 0.05, 100)
    for trainings in (0.5, math.nan, math.inf, 1e7):
        with pytest.raises(ValueError, match="choosing needs 1 to"):
            chosen_epsilon(one, trainings)
    for shape in (-1.0, -2.0, math.inf):
        with pytest.raises(ValueError, match="no finite sum"):
            chosen_epsilon(one, 10, shape=shape)
    for trainings, shape in ((10, math.nan), (10, 1e13), (1e6, -0.99)):
        with pytest.raises(ValueError, match="choosing needs.*η"):
            chosen_epsilon(one, trainings, shape=shape)
    with pytest.raises(ValueError, match="without a vocabulary"):
        chosen_epsilon(one.with_vocabulary(WordNoise.planned(VocabularySpec(epsilon=1.0))), 10)
