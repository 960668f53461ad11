"""Rényi divergences of Poisson-sampled Gaussian steps for a person with several units: certified upper bounds.

A step compares P = Σ_j Bin(k, q)(j)·N(j, σ²) with Q = N(0, σ²), the worst case for k units of one person (Ganesh 2024;
`core.training.accounting.loss_distribution`). With g = P/Q, its divergences of order α are

    D(P‖Q) = ln E_Q[g^α]/(α − 1)    and    D(Q‖P) = ln E_Q[g^(1 − α)]/(α − 1).

ln g is convex, so on a short interval it lies below its chord and above each of its tangents. With a line in place of
ln g, the integral over an interval has a closed form, and no line makes a result too small. The tails beyond the grid
are bounded by the least value of g and by the largest slope of ln g. Steps add, also if they depend on the steps before
(Mironov 2017, proposition 1).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, logsumexp

from core.training.accounting.loss_distribution import log_binomial
from core.training.accounting.privacy_loss import MOST_UNITS, History, Orders, quiet

GROUP_ORDERS: Orders = (
    *(1.02, 1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 8, 10, 12, 16),
    *(20, 24, 32, 48, 64, 96, 128, 192, 256),
)
CELL = 0.005  # width of an interval in units of σ, where the largest grid allows it
LARGEST_GRID = 30_000  # intervals
LARGEST_TABLE = 4_000_000  # intervals times units, which fit the memory
FLAT = 34.0  # −ln of the relative distance from which on ln g counts as a line
BEYOND = 12.0  # σ that the grid extends beyond all mass
ROUNDING = 2.0**-50  # of one logarithm, with a margin


def group_divergences(history: History, units: int, orders: Orders = GROUP_ORDERS) -> np.ndarray:
    """The Rényi divergence of all steps at every order, (orders,), for a person with `units` units.

    The larger one of a person removed and a person added. ∞ for more than `privacy_loss.MOST_UNITS` units, or where
    numbers overflow.
    """
    total = np.zeros(len(orders))
    for (sigma, rate), count in history.items():
        if count:
            total = total + count * _of_a_step(sigma, rate, units, orders)
    return total


@lru_cache(maxsize=64)
def _of_a_step(sigma: float, rate: float, units: int, orders: Orders) -> np.ndarray:
    at = np.array(orders, dtype=np.float64)
    if units > MOST_UNITS:
        return np.full(len(orders), math.inf)
    with quiet():
        if rate == 1.0:
            found = at * (units / sigma) ** 2 / 2
        else:
            ratio = _Ratio(sigma, rate, units, float(at.max()))
            found = np.array([np.maximum(ratio.removed(order), ratio.added(order)) / (order - 1) for order in orders])
    return np.where(np.isnan(found), math.inf, np.maximum(found, 0.0))


class _Ratio:
    """ln g on a grid of u = x/σ: values at the ends of the intervals, values and slopes in their middles."""

    def __init__(self, sigma: float, rate: float, units: int, most: float) -> None:
        self.weights = log_binomial(units, rate)
        self.shifts = np.arange(units + 1) / sigma
        self.least, self.steepest = float(self.weights[0]), units / sigma  # of ln g, and of its slope
        low, high = self._ends(sigma, most)
        cells = min(math.ceil((high - low) / CELL), LARGEST_GRID, LARGEST_TABLE // (units + 1))
        self.u = np.linspace(low, high, cells + 1)
        self.ends = self._terms(self.u)[0]
        self.u_middles = (self.u[:-1] + self.u[1:]) / 2
        self.middles, self.slopes = self._terms(self.u_middles)

    def _ends(self, sigma: float, most: float) -> tuple[float, float]:
        """Where ln g is a line in double precision, or beyond all mass at order `most`, whichever is nearer."""
        first, last = self.weights[1] - self.weights[0], self.weights[-2] - self.weights[-1]
        flat = self.shifts[1] / 2 - sigma * (FLAT + first)
        straight = self.steepest - self.shifts[1] / 2 + sigma * (FLAT + last)
        low = max(flat, -BEYOND - math.sqrt(2 * most * -self.least))
        high = min(straight, BEYOND + most * self.steepest)
        return min(low, -1.0), max(high, 1.0)

    def _terms(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The value of ln g, and its slope, at u."""
        terms = self.weights[:, None] + self.shifts[:, None] * u - self.shifts[:, None] ** 2 / 2
        total = logsumexp(terms, axis=0)
        return total, (np.exp(terms - total) * self.shifts[:, None]).sum(axis=0)

    def removed(self, order: float) -> float:
        """The logarithm of E_Q[g^α], by chords.

        Above the grid ln g has its steepest slope, below it the value at the lower end.
        """
        u, ends = self.u, self.ends
        slopes = np.diff(ends) / np.diff(u)
        inside = _integrals(order * slopes, order * ends[:-1], u[:-1], u[:-1], u[1:])
        below = order * ends[0] + log_ndtr(u[0])
        steep = order * self.steepest
        above = order * ends[-1] - steep * u[-1] + steep**2 / 2 + log_ndtr(steep - u[-1])
        return self._sum(inside, below, above, order)

    def added(self, order: float) -> float:
        """The logarithm of E_Q[g^(1 − α)], by tangents.

        Below the grid g has its least value, above it that at the upper end.
        """
        power = 1 - order
        inside = _integrals(power * self.slopes, power * self.middles, self.u_middles, self.u[:-1], self.u[1:])
        below = power * self.least + log_ndtr(self.u[0])
        above = power * self.ends[-1] + log_ndtr(-self.u[-1])
        return self._sum(inside, below, above, order)

    def _sum(self, inside: np.ndarray, below: float, above: float, order: float) -> float:
        """The logarithm of the whole integral, with what rounding may have taken from it."""
        whole = float(logsumexp(np.concatenate([inside, [below, above]])))
        reach = max(abs(float(self.u[0])), float(self.u[-1]), order * self.steepest)
        return whole + ROUNDING * (1 + reach * (reach + 1 / float(self.u[1] - self.u[0])) + abs(whole))


def _integrals(slope: np.ndarray, value: np.ndarray, at: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The logarithms of ∫ φ(u)·exp(value + slope·(u − at)) du from low to high: differences of two tails of φ."""
    left, right = low - slope, high - slope
    mirrored = left > 0  # the tail that is small has the accurate logarithm
    left, right = np.where(mirrored, -right, left), np.where(mirrored, -left, right)
    upper, lower = log_ndtr(right), log_ndtr(left)
    return value - slope * at + slope**2 / 2 + upper + np.log(-np.expm1(lower - upper))
