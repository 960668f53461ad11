"""Rényi divergences for several units: closed forms, exact sums, numerical integrals, and never below them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp

from core.training.accounting.group_divergences import GROUP_ORDERS, group_divergences
from core.training.accounting.privacy_loss import epsilon_of_divergences, numerical_epsilon, renyi_divergences

STEPS = [(0.75, 0.0875, 2), (0.75, 0.0875, 37), (3.0, 0.05, 5), (1.0, 1e-3, 10), (20.0, 0.3, 4)]


def log_weights(rate: float, units: int) -> np.ndarray:
    j = np.arange(units + 1)
    choose = gammaln(units + 1) - gammaln(j + 1) - gammaln(units - j + 1)
    return choose + j * math.log(rate) + (units - j) * math.log1p(-rate)


def exact(sigma: float, rate: float, units: int, order: int) -> float:
    """Integer α: E_Q[g^α] = Σ over α draws j₁ … of their chances times e^((S² − Σ jᵢ²)/2σ²), S their sum."""
    weights, sums = log_weights(rate, units) - np.arange(units + 1) ** 2 / (2 * sigma**2), np.zeros(1)
    for _ in range(order):
        shifted = np.full((units + 1, len(sums) + units), -np.inf)
        for j in range(units + 1):
            shifted[j, j : j + len(sums)] = sums + weights[j]
        sums = logsumexp(shifted, axis=0)
    total = logsumexp(sums + np.arange(len(sums)) ** 2 / (2 * sigma**2))
    return float(total) / (order - 1)


def integral(sigma: float, rate: float, units: int, power: float) -> float:
    """E_Q[g^power] by adaptive quadrature."""
    weights, j = log_weights(rate, units), np.arange(units + 1)

    def density(x: float) -> float:
        ratio = float(logsumexp(weights + (j * x - j * j / 2) / sigma**2))
        return math.exp(power * ratio - x * x / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))

    reach = 12 * sigma + max(power, 1) * units
    return quad(density, -reach, reach, limit=2_000, epsabs=0, epsrel=1e-11, points=[0, min(units, reach / 2)])[0]


@pytest.mark.parametrize(("sigma", "rate", "units"), STEPS)
def test_integer_orders_agree_with_an_exact_sum_and_are_never_below_it(sigma, rate, units):
    found = dict(zip(GROUP_ORDERS, group_divergences({(sigma, rate): 1}, units), strict=True))
    for order in (2, 3, 5, 12, 32):
        expected = exact(sigma, rate, units, order)
        assert expected * (1 - 1e-12) <= found[order] <= expected * (1 + 1e-3)


@pytest.mark.parametrize(("sigma", "rate", "units"), [(0.75, 0.0875, 3), (3.0, 0.05, 5), (2.0, 0.9, 4)])
def test_other_orders_agree_with_numerical_integrals_of_both_directions(sigma, rate, units):
    orders = (1.1, 1.5, 2.5, 3.5)
    for order, found in zip(orders, group_divergences({(sigma, rate): 1}, units, orders), strict=True):
        both = [math.log(integral(sigma, rate, units, power)) / (order - 1) for power in (order, 1 - order)]
        assert max(both) * (1 - 1e-9) <= found <= max(both) * (1 + 1e-3)


def test_without_sampling_notes_divide_the_noise():
    orders = np.array(GROUP_ORDERS)
    assert group_divergences({(6.0, 1.0): 9}, 3) == pytest.approx(9 * orders * 9 / (2 * 36))


def test_one_unit_has_the_divergences_of_the_sampled_gaussian():
    history = {(1.5, 0.02): 100, (3.0, 0.1): 7}
    found, expected = group_divergences(history, 1), renyi_divergences(history, GROUP_ORDERS)
    assert found == pytest.approx(expected, rel=1e-2) and (found >= expected * (1 - 1e-9)).all()


@pytest.mark.parametrize("units", [2, 5, 10])
def test_epsilon_is_above_that_of_exact_composition_and_near_it(units):
    for history in ({(0.7493, 256 / 2925): 46}, {(3.0, 0.0875): 46}, {(1.0, 0.01): 500}):
        exactly = numerical_epsilon(history, 1e-5, units)
        found = epsilon_of_divergences(group_divergences(history, units), 1e-5, GROUP_ORDERS)
        assert exactly <= found <= 1.45 * exactly


def test_more_units_or_steps_cost_more_and_too_many_units_have_no_answer():
    history = {(2.0, 0.05): 50}
    few, more = (group_divergences(history, units) for units in (2, 3))
    assert (few < more).all() and group_divergences({(2.0, 0.05): 100}, 2) == pytest.approx(2 * few)
    assert np.isinf(group_divergences(history, 1_001)).all()
    assert (group_divergences({}, 5) == 0).all()
