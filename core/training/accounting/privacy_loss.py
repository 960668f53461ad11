"""ε of any history of Poisson-sampled Gaussian steps: certified numerical composition, and Rényi DP.

A `History` gives the number of steps for each (σ, q). `core.training.accounting.gaussian` uses it for one run,
`core.training.accounting.composition` for everything released about the same data, and
`core.training.accounting.group_privacy` for patients with several notes. Every value is an upper bound for both removed
and added units.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr, ndtr

from core.models.word_noise import gaussian_epsilon
from core.training.accounting.loss_composition import ACCURACY, NEGLIGIBLE, Composed, both_directions
from core.training.accounting.loss_distribution import Step

History = Mapping[tuple[float, float], int]  # (σ, q) → steps
Frozen = tuple[tuple[tuple[float, float], int], ...]
Orders = tuple[float, ...]

# Opacus' orders, 1.1 to 63, and more: theirs keep ε above about 0.1 at δ = 1e-5, and are loose for a large ε.
_OF_OPACUS: Orders = (*(1 + tenths / 10 for tenths in range(1, 100)), *range(12, 64))
RDP_ORDERS: Orders = (1.01, 1.02, 1.05, *_OF_OPACUS, 72, 80, 96, 128, 192, 256, 512, 1024)
COARSE_ORDERS: Orders = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 1024)  # looser, and 50 × faster
MOST_UNITS = 1_000  # of one person; above this there is no numerical answer
SEVERAL_UNITS = 64  # above this a coarser grid is used, which takes no longer
COARSE_ACCURACY = 2e-3  # relative to ε
MOST_STEPS = 1_000_000_000  # of one mechanism: rounding then adds at most about 10⁻⁶ to a Rényi divergence
LEAST_NOISE = 1e-5  # σ below which ε has no numerical answer
MOST_NOISE = 1e8  # larger σ are treated as this: they cost no more ε, and their tiny losses do not fit a grid
CLOSED_FORM_ROUNDING = 1e-9  # relative to ε, absolute in δ
PROFILE_TAIL = 1e-6  # δ for which the grid is chosen where δ is computed at a given ε


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress warnings: "optimal order is the smallest alpha" says that a bound is loose, not that it is wrong."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def renyi_epsilon(history: History, delta: float, orders: Orders = RDP_ORDERS) -> float:
    """ε by adding Rényi divergences; ∞ where α/(2σ²) overflows."""
    return epsilon_of_divergences(renyi_divergences(history, orders), delta, orders)


def renyi_divergences(history: History, orders: Orders = RDP_ORDERS) -> np.ndarray:
    """The Rényi divergence of all steps at every order, (orders,); ∞ where α/(2σ²) overflows."""
    with quiet():
        try:
            steps = [_of_a_step(sigma, rate, orders) * count for (sigma, rate), count in history.items()]
        except (OverflowError, ZeroDivisionError, ValueError):
            return np.full(len(orders), math.inf)
        return np.sum(steps, axis=0) if steps else np.zeros(len(orders))


def epsilon_of_divergences(divergences: np.ndarray, delta: float, orders: Orders = RDP_ORDERS) -> float:
    """ε at `delta` that follows from Rényi divergences at these orders, at least 0; ∞ where there is no answer."""
    from core.common.opacus_parts import rdp_analysis  # imports torch

    with quiet():
        try:
            spent = float(rdp_analysis.get_privacy_spent(orders=orders, rdp=divergences, delta=delta)[0])
            return max(0.0, spent)  # the conversion gives less than 0 where δ alone covers every difference
        except (OverflowError, ZeroDivisionError, ValueError):
            return math.inf


@lru_cache(maxsize=64)
def _of_a_step(sigma: float, rate: float, orders: Orders) -> np.ndarray:
    """Rényi divergences of one step at every order. Slow for orders that are not integers."""
    from core.common.opacus_parts import rdp_analysis  # imports torch

    return rdp_analysis.compute_rdp(q=rate, noise_multiplier=sigma, steps=1, orders=orders)


def numerical_epsilon(history: History, delta: float, units: int = 1) -> float:
    """A certified upper bound on ε at `delta` for a person with `units` units (1: the unit itself).

    ∞ where there is no answer within reasonable memory, or for more than `MOST_UNITS` units.
    """
    return _numerical_epsilon(tuple(sorted(history.items())), delta, units)


@lru_cache(maxsize=512)
def _numerical_epsilon(history: Frozen, delta: float, units: int) -> float:
    kinds, steps = _kinds(dict(history), delta, units)
    if not kinds:
        return 0.0
    if _unsampled(kinds):
        return _unsampled_epsilon(kinds[0].sigma, delta)
    found = _losses(history, delta, units)
    with quiet():
        return math.inf if found is None else _larger(found, steps, delta)


def numerical_curve(sigma: float, rate: float, counts: Sequence[int], delta: float) -> list[float]:
    """`numerical_epsilon` after each of `counts` steps, ascending, all on the grid of the largest count."""
    if rate == 1.0:
        return [numerical_epsilon({(sigma, rate): count}, delta) for count in counts]
    found = _losses((((sigma, rate), counts[-1]),), delta, 1)
    if found is None:
        return [math.inf] * len(counts)
    with quiet():
        return [_larger(found, [count], delta) for count in counts]


def _larger(losses: tuple[Composed, Composed], steps: Sequence[int], delta: float) -> float:
    """The larger ε of a removed and an added unit. Chernoff's bound shows when the added one need not be composed."""
    removed, added = losses
    found = removed.epsilon(steps, delta)
    quick = added.chernoff_epsilon(steps, delta)
    return found if quick <= found else max(found, min(quick, added.epsilon(steps, delta)))


def numerical_delta(history: History, epsilon: float) -> float:
    """`numerical_deltas` at one ε."""
    return float(numerical_deltas(history, np.array([epsilon]))[0])


def has_numerical_deltas(history: History) -> bool:
    """Whether `numerical_deltas` computes its values; if not, they are 1 because nothing better is known."""
    kinds, _ = _kinds(history, PROFILE_TAIL, 1)
    if not kinds or _unsampled(kinds):
        return True
    return _losses(tuple(sorted(history.items())), PROFILE_TAIL, 1) is not None


def numerical_deltas(history: History, epsilons: np.ndarray) -> np.ndarray:
    """Certified upper bounds on δ at each of `epsilons` (at least 0), the larger of a removed and an added unit.

    They are too large by about 10⁻⁵, by up to 5.4·10⁻³ where losses are rare and large (q below 0.01, σ below 0.6),
    and every value is 1 where there is no answer. Without any step δ is 0.
    """
    kinds, steps = _kinds(history, PROFILE_TAIL, 1)
    if not kinds:
        return np.zeros(len(epsilons))
    if _unsampled(kinds):
        return _unsampled_deltas(kinds[0].sigma, epsilons)
    found = _losses(tuple(sorted(history.items())), PROFILE_TAIL, 1)
    if found is None:
        return np.ones(len(epsilons))
    with quiet():
        return np.maximum(*(one.deltas(steps, epsilons) for one in found))


@lru_cache(maxsize=16)
def _losses(history: Frozen, delta: float, units: int) -> tuple[Composed, Composed] | None:
    if units > MOST_UNITS:
        return None
    kinds, steps = _kinds(dict(history), delta, units)
    if min(kind.sigma for kind in kinds) < LEAST_NOISE:
        return None
    with quiet():
        try:
            return both_directions(kinds, steps, delta, ACCURACY if units <= SEVERAL_UNITS else COARSE_ACCURACY)
        except (OverflowError, ValueError, MemoryError):
            return None


def _kinds(history: History, delta: float, units: int) -> tuple[list[Step], list[int]]:
    """The kinds of step for a person with `units` units, and their numbers; all steps without sampling become one.

    Gaussian mechanisms without sampling equal one with 1/σ² = Σ 1/σᵢ² (Dong, Roth & Su 2022, corollary 3.3).
    """
    total, precision = sum(history.values()), 0.0
    kinds: list[Step] = []
    steps: list[int] = []
    for (sigma, rate), count in history.items():
        if rate == 1.0:
            precision += count * (units / sigma) ** 2
        elif count:
            kinds.append(Step.sampled(min(sigma, MOST_NOISE), rate, units, NEGLIGIBLE * delta / (4 * total)))
            steps.append(count)
    if precision:
        kinds.append(Step.sampled(1 / math.sqrt(precision), 1.0))
        steps.append(1)
    return kinds, steps


def _unsampled(kinds: Sequence[Step]) -> bool:
    """Whether all steps are without sampling: `_kinds` has made one Gaussian mechanism of them, with a closed form."""
    return len(kinds) == 1 and kinds[0].log_weights[0] == -math.inf


def _unsampled_epsilon(multiplier: float, delta: float) -> float:
    """ε of one Gaussian mechanism in closed form (Balle & Wang 2018, theorem 8), rounded up."""
    if multiplier < LEAST_NOISE:
        return math.inf
    return gaussian_epsilon(multiplier, delta) * (1 + CLOSED_FORM_ROUNDING)


def _unsampled_deltas(multiplier: float, epsilons: np.ndarray) -> np.ndarray:
    """δ of one Gaussian mechanism at each ε in closed form (Balle & Wang 2018, theorem 8), rounded up."""
    half, deep = 0.5 / multiplier, epsilons * multiplier
    exact = ndtr(half - deep) - np.exp(np.minimum(epsilons + log_ndtr(-half - deep), 0.0))
    return np.clip(exact + CLOSED_FORM_ROUNDING, 0.0, 1.0)
