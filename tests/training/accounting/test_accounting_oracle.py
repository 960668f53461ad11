"""Every ε is an upper bound: over 300 settings against dp-accounting, closed forms, and the moments of the loss.

`accounting_oracle.csv` was made by `accounting_oracle.py` with dp-accounting 0.6.0, which shares no code with what is
tested; a few of its settings are recomputed by it here. Its optimistic values lie below the truth, its pessimistic ones
above, both by an amount that falls with `interval`.
"""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm

from core.training.accounting.gaussian import epsilon, with_margin
from core.training.accounting.loss_composition import both_directions
from core.training.accounting.loss_distribution import Step
from core.training.accounting.privacy_loss import numerical_delta, numerical_epsilon, renyi_epsilon
from tests.training.accounting.accounting_oracle import TABLE, closed_form, estimate, settings

DIGITS = 1e-8  # the table has nine digits
UNDERFLOW = 700.0  # beyond this ε dp-accounting answers with a multiple of its interval


def rows() -> list[dict[str, float]]:
    with TABLE.open() as file:
        lines = [line for line in file if not line.startswith("#")]
    return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(lines)]


def ours(row: dict[str, float]) -> float:
    history = {(row["sigma"], row["rate"]): int(row["steps"])}
    return numerical_epsilon(history, row["delta"], int(row["notes"]))


def test_the_grid_is_wide() -> None:
    table = rows()
    assert len(table) >= 300
    asked = {(sigma, rate, steps) for sigma, rate, steps, _, _ in settings()}
    assert {(row["sigma"], row["rate"], int(row["steps"])) for row in table} <= asked
    assert min(row["delta"] for row in table) <= 1.01e-12 and max(row["steps"] for row in table) > 5e5
    assert sum(row["rate"] == 1 for row in table) >= 10 and sum(row["notes"] > 1 for row in table) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_no_epsilon_is_below_the_truth(part: int) -> None:
    """At or above the optimistic value everywhere."""
    for row in rows()[part::4]:
        found = ours(row)
        slack = row["interval"] if row["lower"] > UNDERFLOW else 0.0
        assert found >= row["lower"] * (1 - DIGITS) - slack, row
        assert math.isfinite(found), row


@pytest.mark.parametrize("number", [3, 16, 21])
def test_the_table_is_what_dp_accounting_says(number: int) -> None:
    row = rows()[number]
    setting = (row["sigma"], row["rate"], int(row["steps"]), row["delta"], int(row["notes"]))
    exact = 1e-6 if row["delta"] > 1e-9 else 1e-3  # its Fourier transforms round by about as much as so small a δ
    assert estimate(setting, row["interval"], True) == pytest.approx(row["upper"], rel=exact)


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "lower", "upper"),
    [(0.3, 0.01, 20_000, 502.8, 503.96), (0.3, 0.002, 50_000, 177.8, 189.36), (0.25, 0.0005, 10_000, 52.42, 52.97)],
)
def test_small_noise_and_many_steps(sigma: float, rate: float, steps: int, lower: float, upper: float) -> None:
    # Opacus' PRV, which was used before with a grid from Rényi orders of 2 and more, said 482.9, 174.4 and 64.7.
    assert lower <= numerical_epsilon({(sigma, rate): steps}, 1e-5) <= upper


@pytest.mark.parametrize("sigma", [0.2, 0.9, 7.0, 50.0])
@pytest.mark.parametrize(("steps", "delta"), [(1, 1e-12), (40, 1e-5), (10**6, 1e-8)])
def test_steps_without_sampling_are_one_gaussian(sigma: float, steps: int, delta: float) -> None:
    found, exact = numerical_epsilon({(sigma, 1.0): steps}, delta), closed_form(sigma, steps, delta, 1)
    assert exact <= found * (1 + 1e-12) and found <= exact * (1 + 1e-6) + 1e-8


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize(("sigma", "rate", "units"), [(0.8, 0.05, 1), (2.0, 0.3, 1), (1.5, 0.1, 4)])
def test_mean_and_variance_of_the_composed_loss(sigma: float, rate: float, units: int, added: bool) -> None:
    """T times those of one step, integrated on a fine line; the discretisation may only raise them, and little."""
    steps = 200
    x = np.linspace(-14 * sigma, units + 14 * sigma, 200_001)
    weights = np.exp(Step.sampled(sigma, rate, units).log_weights)
    p = sum(weight * norm.pdf(x, j, sigma) for j, weight in enumerate(weights))
    q = norm.pdf(x, 0, sigma)
    loss, density = (np.log(q / p), q) if added else (np.log(p / q), p)
    mean = float(np.trapezoid(density * loss, x))
    variance = float(np.trapezoid(density * (loss - mean) ** 2, x))
    one = both_directions([Step.sampled(sigma, rate, units)], [steps], 1e-6)[int(added)]
    _, means, variances, _ = one.cumulants.at(0.0)
    assert steps * mean - 1e-9 <= steps * float(means[0]) == pytest.approx(steps * mean, rel=2e-3)
    assert steps * float(variances[0]) == pytest.approx(steps * variance, rel=2e-3)


def test_different_steps_together() -> None:
    kinds = {(0.9, 0.03): 300, (2.0, 0.1): 80, (6.0, 1.0): 1}
    bounds = []
    for pessimistic in (False, True):
        given = {
            "pessimistic_estimate": pessimistic,
            "use_connect_dots": pessimistic,
            "value_discretization_interval": 1e-3,
        }
        parts = [
            pld.from_gaussian_mechanism(sigma, sampling_prob=rate, **given).self_compose(steps)
            for (sigma, rate), steps in kinds.items()
        ]
        bounds.append(parts[0].compose(parts[1]).compose(parts[2]))
    lower, upper = (one.get_epsilon_for_delta(1e-6) for one in bounds)
    assert lower <= numerical_epsilon(kinds, 1e-6) <= upper * 1.001
    assert numerical_epsilon(kinds, 1e-6) == pytest.approx(upper, rel=1e-3)
    low, high = (one.get_delta_for_epsilon(0.0) for one in bounds)
    assert low <= numerical_delta(kinds, 0.0) <= high + 1e-4


@pytest.mark.parametrize("number", [3, 5, 16, 21, 33])
def test_renyi_is_an_upper_bound_too(number: int) -> None:
    row = rows()[number]
    assert row["notes"] == 1
    assert renyi_epsilon({(row["sigma"], row["rate"]): int(row["steps"])}, row["delta"]) >= row["lower"]


def test_what_is_told_has_a_margin_on_top() -> None:
    bound = numerical_epsilon({(1.0, 0.05): 100}, 1e-5)
    assert epsilon(noise_multiplier=1.0, sample_rate=0.05, steps=100, delta=1e-5) == with_margin(bound) > bound
    assert [with_margin(value) for value in (0.0, 0.5, 8.0, 100.0)] == pytest.approx([0.0, 0.505, 8.01, 100.1])
    assert math.isinf(with_margin(math.inf))
