"""Certified privacy-loss distributions of Gaussian mixtures, discretised on a uniform grid.

One step compares P = Σ_j w_j·N(j, σ²) with Q = N(0, σ²). A Poisson-sampled Gaussian step has w = (1 − q, q). A group of
k units of one person, each sampled with q, has w = Bin(k, q) when all contributions point in the same direction, which
is the worst case (Ganesh 2024, "Tight Group-Level DP Guarantees for DP-SGD with Sampling via Mixture of Gaussians
Mechanisms"). A removed unit is described by the pair (P, Q), an added unit by (Q, P).

The loss x ↦ ln P(x)/Q(x) increases with x, so the grid's losses divide the line into cells. The mass of each cell is
moved to the cell's two ends so that its P-mass and its Q-mass are kept ("connect the dots": Doroshenko et al. 2022,
"Connect the Dots: Tighter Discrete Approximations of Privacy Loss Distributions", §3). The result dominates the step,
so any composition of such results dominates the composition (Zhu, Dong & Wang 2022, theorem 10). Rounding errors of the
masses are moved to the upper end of the cell, those of the cell borders are returned as `shift`, and tails become loss
∞.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp, ndtr, ndtri

ROUNDING = 2.0**-53
LARGEST_EXPONENT = 600.0  # larger losses are rounded up: e^loss would overflow a float64
FLAT_CELLS = 1_000  # most cells between the least possible loss and the first cell with mass
NEWTON_STEPS = 60


def log_binomial(units: int, rate: float) -> np.ndarray:
    """The log of Bin(k, q)(j), the probability that a step samples j of a person's k units, j = 0…k: (units + 1,)."""
    j = np.arange(units + 1)
    choose = gammaln(units + 1) - gammaln(j + 1) - gammaln(units - j + 1)
    return choose + j * math.log(rate) + (units - j) * math.log1p(-rate)


@dataclass(frozen=True)
class Step:
    """One Gaussian step: noise N(0, σ²) on a sum that a person shifts by j with probability e^`log_weights[j]`.

    The weights sum to 1 − `missing`; the missing outcomes count as a loss of ∞.
    """

    sigma: float
    log_weights: tuple[float, ...]
    missing: float = 0.0

    @classmethod
    def sampled(cls, sigma: float, rate: float, units: int = 1, missing: float = 1e-30) -> Step:
        """A Poisson-sampled step for a person with `units` units; outcomes of probability ≤ `missing` are cut off."""
        if rate == 1.0:
            return cls(sigma / units, (-math.inf, 0.0))
        logs = log_binomial(units, rate)
        beyond = np.append(np.cumsum(np.exp(logs[:0:-1]))[::-1], 0.0)  # beyond[j] = P(more than j)
        last = max(1, int(np.argmax(beyond <= missing)))
        return cls(sigma, tuple(logs[: last + 1].tolist()), float(beyond[last]) * (1 + 1e-9))

    @property
    def largest(self) -> int:
        """The largest j with a weight."""
        return len(self.log_weights) - 1

    def terms(self, x: np.ndarray) -> np.ndarray:
        """Log of w_j·N(x; j, σ²)/N(x; 0, σ²) for every j ≥ 1: shape (largest, len(x))."""
        j = np.arange(1, self.largest + 1)[:, None]
        return np.array(self.log_weights[1:])[:, None] + (j * x - j * j / 2) / self.sigma**2

    def loss(self, x: np.ndarray) -> np.ndarray:
        """The privacy loss ln P(x)/Q(x)."""
        return np.logaddexp(self.log_weights[0], _sum(self.terms(x)))


def _sum(terms: np.ndarray) -> np.ndarray:
    return terms[0] if len(terms) == 1 else logsumexp(terms, axis=0)


@dataclass(frozen=True)
class Losses:
    """A discrete privacy loss: `mass[i]` at (start + i)·h + `shift`, and `infinite` at ∞.

    `spread[i]` bounds the variance that the discretisation added to the i-th cell, times the cell's mass.
    """

    start: int
    mass: np.ndarray
    spread: np.ndarray
    infinite: float
    shift: float


def discretise(step: Step, h: float, tail: float, largest: int) -> tuple[Losses, Losses] | None:
    """The loss of one step for a removed and for an added unit, on the grid of spacing `h`.

    Args:
        step: the step.
        h: spacing of the grid.
        tail: probability that may be cut off at either side.
        largest: most cells.

    Returns:
        (removed, added), or None where more than `largest` cells are needed.
    """
    reach = -float(ndtri(tail)) * step.sigma
    least = step.log_weights[0]
    ends = step.loss(np.array([-reach, step.largest + reach]))
    low, high = math.floor(max(ends[0], -1e300) / h), math.ceil(ends[1] / h)
    bounded = math.isfinite(least) and low - math.floor(least / h) <= FLAT_CELLS
    if bounded:
        low = math.floor(least / h)
    if high - low > largest:
        return None
    high = max(high, low + 2)
    borders = np.arange(low + 1 if bounded else low, high + 1)
    x = _where(step, borders * h, -reach, step.largest + reach)
    shift = 4 * float(np.max(np.abs(step.loss(x) - borders * h) + _loss_rounding(step, x)))
    # Cells lie between neighbouring borders; the outermost two are half-lines.
    p, p_error = _masses(step, x, True)
    q, q_error = _masses(step, x, False)
    if bounded:  # the lowest cell extends from −∞, where the loss is least, to the first border
        lower, inner = low, slice(0, -1)
    else:
        lower, inner = low, slice(1, -1)
    ends_low = (np.arange(lower, high) * h).astype(np.float64)
    up = _upper_share(p[inner], p_error[inner], q[inner], q_error[inner], ends_low, h)
    removed = _placed(lower, p[inner] + p_error[inner], up, h)
    if not bounded:
        removed.mass[0] += p[0] + p_error[0]
    down = _upper_share(q[inner], q_error[inner], p[inner], p_error[inner], -ends_low - h, h)
    added = _placed(-high, (q[inner] + q_error[inner])[::-1], down[::-1], h)
    added.mass[0] += q[-1] + q_error[-1]
    return (
        _with(removed, p[-1] + p_error[-1] + step.missing, shift),
        _with(added, 0.0 if bounded else q[0] + q_error[0], shift),
    )


def _with(losses: Losses, infinite: float, shift: float) -> Losses:
    return Losses(losses.start, losses.mass, losses.spread, float(infinite), shift)


def _placed(start: int, mass: np.ndarray, up: np.ndarray, h: float) -> Losses:
    """The cells' masses moved to their ends, `up` of each to the upper end."""
    total, spread = np.zeros(len(mass) + 1), np.zeros(len(mass) + 1)
    down = mass - up
    total[:-1] += down
    total[1:] += up
    spread[1:] = np.where(mass > 0, down * up / np.where(mass > 0, mass, 1.0), 0.0) * h * h
    return Losses(start, total, spread, 0.0, 0.0)


def _upper_share(
    p: np.ndarray, p_error: np.ndarray, q: np.ndarray, q_error: np.ndarray, low: np.ndarray, h: float
) -> np.ndarray:
    """The part of each cell's mass `p` that goes to its upper end low + h, so that Σ mass·e^(−loss) is at most `q`."""
    whole = p + p_error
    scaled = np.exp(np.minimum(low, LARGEST_EXPONENT))
    least = np.maximum(q - q_error, 0.0) * scaled * (1 - 8 * ROUNDING * (1 + np.abs(low)))
    up = (whole - least) / -math.expm1(-h) * (1 + 8 * ROUNDING)
    return np.where(np.abs(low) < LARGEST_EXPONENT, np.clip(up, 0.0, whole), whole)


def _masses(step: Step, x: np.ndarray, of_p: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mass below x[0], between neighbours, and above x[-1], under P or Q, and a bound on its rounding error."""
    mass, error = np.zeros(len(x) + 1), np.zeros(len(x) + 1)
    kinds = enumerate(step.log_weights) if of_p else [(0, 0.0)]
    for j, log_weight in kinds:
        if log_weight == -math.inf:
            continue
        z = (x - j) / step.sigma
        tail = ndtr(-np.abs(z))
        rounding = 16 * ROUNDING * (4 + z * z) * tail + 1e-300
        upper = z > 0
        same = upper[1:] == upper[:-1]
        between = np.where(same, np.abs(tail[1:] - tail[:-1]), 1.0 - tail[1:] - tail[:-1])
        first, last = (1 - tail[0], tail[0])[int(not upper[0])], (tail[-1], 1 - tail[-1])[int(not upper[-1])]
        one = np.concatenate([[first], between, [last]])
        errors = np.concatenate([[0.0], rounding]) + np.concatenate([rounding, [0.0]]) + 4 * ROUNDING * one
        weight = math.exp(log_weight)
        mass += weight * one
        error += weight * errors * (1 + 1e-9) + weight * one * 4 * ROUNDING * (1 + abs(log_weight))
    return mass, error


def _where(step: Step, losses: np.ndarray, low: float, high: float) -> np.ndarray:
    """The x with loss(x) = `losses`, each above the least possible loss, by Newton's method on a convex function."""
    with np.errstate(divide="ignore"):
        goal = losses + np.log(-np.expm1(step.log_weights[0] - losses))
    if step.largest == 1:
        return (goal - step.log_weights[1]) * step.sigma**2 + 0.5
    table = np.linspace(low, high, 2_001)
    x = np.interp(goal, _sum(step.terms(table)), table)
    j = np.arange(1, step.largest + 1)[:, None]
    for _ in range(NEWTON_STEPS):
        terms = step.terms(x)
        total = _sum(terms)
        slope = np.sum(j * np.exp(terms - total), axis=0) / step.sigma**2
        move = (goal - total) / slope
        x = x + move
        if np.max(np.abs(move)) <= 1e-13 * (step.sigma + step.largest):
            break
    return x


def _loss_rounding(step: Step, x: np.ndarray) -> np.ndarray:
    """A bound on the rounding error of `Step.loss` at `x`."""
    j = step.largest
    size = (j * np.abs(x) + j * j) / step.sigma**2 + max(abs(one) for one in step.log_weights[1:] if one > -math.inf)
    loss = step.loss(x)
    share = np.minimum(1.0, np.exp(_sum(step.terms(x)) - loss))
    return 8 * ROUNDING * (np.abs(loss) + share * size)
