"""The privacy loss of Poisson-sampled Gaussian steps, of one kind or of several together: Rényi DP, and PRV's grid.

A `History` says how many steps were taken with which (σ, q). `core.training.accounting` asks for one run, and
`core.training.composition` for all that was released of the same data; both get their bounds here. Formulas are Opacus'
own; what differs is that divergences are kept, and that a bound which does not exist is inf or None and no error.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from core.opacus_parts import (
    DiscretePRV,
    Domain,
    PoissonSubsampledGaussianPRV,
    RDPAccountant,
    TruncatedPrivacyRandomVariable,
    compose_heterogeneous,
    discretize,
    rdp_analysis,
)

History = Mapping[tuple[float, float], int]  # (σ, q) → steps
Orders = tuple[float, ...]

# Opacus' orders stop at 63, which floors ε near 0.1 at δ = 1e-5, and start at 1.1, which is loose for a large ε.
RDP_ORDERS: Orders = (1.01, 1.02, 1.05, *RDPAccountant.DEFAULT_ALPHAS, 72, 80, 96, 128, 192, 256, 512, 1024)
PRV_ORDERS: Orders = tuple(RDPAccountant.DEFAULT_ALPHAS)  # those that bound Opacus' grid
COARSE_ORDERS: Orders = (2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 1024)  # looser, and 50 × faster
PRV_LARGEST_LOSS = 650.0  # e^t overflows float64 beyond 709
PRV_LARGEST_GRID = 8_000_000  # points; about 0.5 GB while it is computed
PRV_LEAST_DELTA = 1e-11  # below, the rounding of its Fourier transforms is no longer small beside δ


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings: "optimal order is the smallest alpha" says that a bound is loose there, not that it is wrong."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def renyi_epsilon(history: History, delta: float, orders: Orders = RDP_ORDERS) -> float:
    """ε by adding Rényi divergences; inf where α/(2σ²) overflows."""
    with quiet():
        try:
            total = sum(_of_a_step(sigma, rate, orders) * steps for (sigma, rate), steps in history.items())
            spent = float(rdp_analysis.get_privacy_spent(orders=orders, rdp=total, delta=delta)[0])
            return max(0.0, spent)  # both accountants' formulas go below 0 where δ alone covers every difference
        except (OverflowError, ZeroDivisionError, ValueError):
            return math.inf


@lru_cache(maxsize=64)
def _of_a_step(sigma: float, rate: float, orders: Orders) -> np.ndarray:
    """Rényi divergences of one step at every order. Slow for orders that are not whole numbers."""
    return rdp_analysis.compute_rdp(q=rate, noise_multiplier=sigma, steps=1, orders=orders)


def prv_errors(about: float, delta: float) -> tuple[float, float]:
    """The grid's errors in ε and δ where ε is `about` so much.

    Opacus' 0.01 for an ε between 1 and 10, 1 % of ε below, and 0.1 % of ε above, where a finer one would take seconds
    and gigabytes.
    """
    return max(0.01 * min(1.0, max(about, 0.03)), 1e-3 * about), delta / 1000


def prv_grid(history: History, epsilon_error: float, delta_error: float, orders: Orders = PRV_ORDERS) -> Domain:
    """PRV's grid (Gopi et al. 2021, remark 5.6): with `PRV_ORDERS` that of Opacus' `PRVAccountant._get_domain`.

    Fewer orders bound the tails more loosely, so the grid is at most wider. Raises ValueError for losses that a float64
    does not hold, or more points than memory should.
    """
    total = sum(history.values())
    once = [renyi_epsilon({kind: 1}, delta_error / (8 * total), orders) for kind in history]
    reach = max(renyi_epsilon(history, delta_error / 4, orders), *once, epsilon_error) + 3
    if not reach <= PRV_LARGEST_LOSS:
        raise ValueError("the losses reach beyond what a float64 holds")
    grid = Domain.create_aligned(-reach, reach, epsilon_error / np.sqrt(total * np.log(12 / delta_error) / 2))
    if grid.t_max > PRV_LARGEST_LOSS or grid.size > PRV_LARGEST_GRID:
        raise ValueError("the grid is too large")
    return grid


def one_step_each(
    history: History, epsilon_error: float, delta_error: float, orders: Orders = PRV_ORDERS
) -> list[DiscretePRV] | None:
    """The loss of a single step of every kind, on one grid for the whole history; None where PRV has no answer."""
    with quiet():
        try:
            grid = prv_grid(history, epsilon_error, delta_error, orders)
            losses = [PoissonSubsampledGaussianPRV(rate, sigma) for sigma, rate in history]
            return [discretize(TruncatedPrivacyRandomVariable(one, grid.t_min, grid.t_max), grid) for one in losses]
        except (RuntimeError, ValueError, OverflowError, MemoryError):
            return None


def composed(once: list[DiscretePRV], steps: Sequence[int]) -> DiscretePRV | None:
    """The loss of `steps[i]` steps of each kind `once[i]`; None where PRV has no answer."""
    with quiet():
        try:
            return compose_heterogeneous(once, list(steps))
        except (RuntimeError, ValueError, OverflowError, MemoryError):
            return None


def prv_epsilon(loss: DiscretePRV | None, delta: float, errors: tuple[float, float]) -> float:
    """The upper bound on ε of a composed loss, grid errors (ε, δ) included; inf where there is none.

    None for a δ below `PRV_LEAST_DELTA`: at 10⁻¹³ rounding was seen to make it 2 % too small.
    """
    if loss is None or delta < PRV_LEAST_DELTA:
        return math.inf
    epsilon_error, delta_error = errors
    with quiet():
        try:
            return max(0.0, float(loss.compute_epsilon(delta, delta_error, epsilon_error)[2]))
        except (RuntimeError, ValueError, OverflowError, MemoryError):
            return math.inf
