"""The search for the least noise: excesses with a known root, with a jump, and with none."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from core.training.accounting.noise_search import LEAST_NOISE, Tolerance, least_log_noise

TOLERANCE = Tolerance(loose=8e-4, spare=1e-6, width=1e-3, farthest=20.0)
STARTS = [math.log(sigma) for sigma in (LEAST_NOISE, 0.05, 1.0, 40.0, 1e6)]


def search(excess: Callable[[float], float], start: float, slope: float = -1.5) -> tuple[float | None, int]:
    """The result, and how often the excess was computed."""
    seen: list[float] = []

    def counted(at: float) -> float:
        seen.append(at)
        return excess(at)

    return least_log_noise(counted, start, slope=slope, tolerance=TOLERANCE, most_noise=1e7), len(seen)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 7.0])
@pytest.mark.parametrize("root", [math.log(0.02), 0.0, math.log(5e4)])
def test_a_power_of_sigma_is_found_within_the_tolerance(root, power, start):
    def excess(at: float) -> float:
        return -power * (at - root)

    found, tries = search(excess, start)
    assert found is not None
    assert 0 <= -excess(found) <= max(TOLERANCE.loose, power * TOLERANCE.width)
    assert tries <= 16


@pytest.mark.parametrize("start", STARTS)
def test_a_curve_is_found_in_few_steps(start):
    """ln(e^(1/σ²) − 1), as the limit theorem of Bu et al. 2020 has it: far from a line where σ is small."""

    def excess(at: float) -> float:
        square = math.exp(-2 * at)
        return 0.5 * (square if square > 30 else math.log(math.expm1(square)))

    found, tries = search(excess, start)
    assert found is not None
    assert TOLERANCE.spare <= -excess(found) <= TOLERANCE.loose
    assert math.exp(found) == pytest.approx(1 / math.sqrt(math.log(2)), rel=1e-3)
    assert tries <= 40


@pytest.mark.parametrize("start", STARTS)
def test_where_the_excess_jumps_over_the_limit_the_result_keeps_it(start):
    found, _ = search(lambda at: 0.4 if at < 1.0 else -0.7, start)
    assert found is not None
    assert 1.0 <= found <= 1.0 + TOLERANCE.width


@pytest.mark.parametrize("start", STARTS)
def test_nothing_spent_beyond_a_point_is_no_reason_to_take_more_noise(start):
    """ε is 0, and its logarithm −∞, where δ alone covers every difference."""
    found, _ = search(lambda at: 2.0 - at if at < 1.5 else -math.inf, start)
    assert found is not None
    assert 1.5 <= found <= 1.5 + TOLERANCE.width


@pytest.mark.parametrize("excess", [lambda at: 1.0, lambda at: 100.0 - at, lambda at: math.inf])
def test_a_limit_that_no_noise_keeps_has_no_result(excess):
    assert search(excess, 0.0)[0] is None
