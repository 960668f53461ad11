"""What it costs to choose the best of several private trainings (Papernot & Steinke 2022).

A winner says more than one training: that it won. Suppose that K trainings are made and only the best is released. K
is drawn beforehand from a truncated negative binomial distribution with shape η > −1 and parameter γ, and is not
told. Each training draws its settings anew, with the same chances. If one training is (λ, ε)-RDP for each order
λ, whatever settings it drew, the release is (λ, ε')-RDP with, for any order λ̂ ≥ 1 (theorem 2),

    ε' = ε(λ) + (1 + η)·(1 − 1/λ̂)·ε(λ̂) + (1 + η)·ln(1/γ)/λ̂ + ln(E[K])/(λ − 1).

η = 0 is the logarithmic distribution, η = 1 the geometric one. The score by which trainings are compared is part of
each training's output: it may read public notes, or is itself private. Settings may change σ, q and the number of
steps, too, if no training has larger divergences than the one whose mechanism is given.

A *fixed* number of trainings is not covered. There, all of them compose: enter each in the ledger.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from core.training.accounting.mechanism import Mechanism
from core.training.accounting.privacy_loss import RDP_ORDERS, epsilon_of_divergences, renyi_divergences

MOST_TRAININGS = 1e6  # expected
MOST_SHAPE = 1_000.0  # beyond it K is nearly a Poisson number, for which the paper has another bound
_LEAST_LOG, _MOST_LOG = -600.0, -1e-12  # of γ: where E[K] can be computed in double precision


def chosen_epsilon(mechanism: Mechanism, trainings: float, *, shape: float = 0.0, delta: float | None = None) -> float:
    """ε at `delta` of releasing the best of a random number of trainings, each of them `mechanism`.

    Args:
        mechanism: of one training, without a vocabulary from the notes.
        trainings: E[K], the expected number of trainings, at least 1.
        shape: η of the distribution of K: 0 logarithmic, 1 geometric; a larger one spreads K less and costs more.
        delta: δ of the result; by default the mechanism's.

    Raises:
        ValueError: a number out of range, a mechanism with a vocabulary from the notes, or one whose neighbours
            replace a unit.
    """
    check_covered(mechanism)
    history = {(mechanism.noise_multiplier, mechanism.sample_rate): mechanism.steps}
    chosen = chosen_divergences(np.array(RDP_ORDERS), renyi_divergences(history), trainings, shape)
    return epsilon_of_divergences(chosen, mechanism.delta if delta is None else delta)


def check_covered(mechanism: Mechanism) -> None:
    """Raise ValueError for a mechanism whose choice has no known cost."""
    if mechanism.replaces:
        raise ValueError("the cost of choosing is known for adding or removing one unit, and this run replaces one")
    if mechanism.vocabulary is not None:
        raise ValueError("the cost of choosing is known for trainings alone, without a vocabulary from the notes")


def chosen_divergences(orders: np.ndarray, divergences: np.ndarray, trainings: float, shape: float) -> np.ndarray:
    """ε'(λ) at every order of the best of a random number of trainings, (orders,), by theorem 2 (see the module).

    Args:
        orders: λ, all above 1.
        divergences: ε(λ) of one training, (orders,).
        trainings: E[K].
        shape: η.

    Raises:
        ValueError: as `truncation`.
    """
    gamma = truncation(trainings, shape)
    choosing = (1 + shape) * ((1 - 1 / orders) * divergences - math.log(gamma) / orders).min()  # the best λ̂
    return divergences + choosing + math.log(trainings) / (orders - 1)


def truncation(trainings: float, shape: float) -> float:
    """γ in (0, 1] of the distribution of shape η with E[K] = `trainings`.

    E[K] is (1/γ − 1)/ln(1/γ) for η = 0, else η·(1 − γ)/(γ·(1 − γ^η)) (Papernot & Steinke 2022, definition 1).

    Where E[K] is nearer to 1 than can be resolved, γ is the greatest that is computed, which costs more, not less.

    Raises:
        ValueError: not 1 ≤ `trainings` ≤ `MOST_TRAININGS`, not −1 < `shape` ≤ `MOST_SHAPE`, or so many trainings at a
            shape near −1 that γ is too small to be computed.
    """
    if not 1 <= trainings <= MOST_TRAININGS:
        raise ValueError(f"choosing needs 1 to {MOST_TRAININGS:,.0f} expected runs, not {trainings}")
    if not -1 < shape <= MOST_SHAPE:
        raise ValueError(
            f"choosing needs a shape η above −1 and at most {MOST_SHAPE:,.0f}, not {shape}: at −1 or below, the "
            "chances of the number of runs have no finite sum"
        )
    if trainings == 1:
        return 1.0

    def short(log_gamma: float) -> float:
        return math.log(_mean(log_gamma, shape) / trainings)

    if short(_LEAST_LOG) < 0:
        raise ValueError(f"choosing needs fewer expected runs than {trainings:g} at a shape as low as η = {shape:g}")
    if short(_MOST_LOG) > 0:
        return math.exp(_MOST_LOG)
    return math.exp(float(brentq(short, _LEAST_LOG, _MOST_LOG, xtol=1e-14)))


def _mean(log_gamma: float, shape: float) -> float:
    """E[K] for ln γ, without cancellation near γ = 1."""
    odds = math.expm1(-log_gamma)  # 1/γ − 1
    if shape == 0:
        return odds / -log_gamma
    return shape * odds / -math.expm1(shape * log_gamma)
