"""What several mechanisms on the same data promise together.

The mechanisms' privacy losses add, so their distributions are convolved (core.training.privacy_loss), which is far
tighter than adding their ε. It holds only if every mechanism drew its own noise and its own samples:
core/runs/ledger.py looks at the seeds. Where there is no numerical answer, the Rényi divergences are added instead.

A run's own words (`Mechanism.vocabulary`) are one more step: Gaussian noise on their counts is one without sampling and
joins the convolution; Laplace noise, and the chance that a word of one unit alone comes out, are added (basic
composition: Dwork & Roth 2014, theorem 3.16).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.spec import Accountant
from core.training.accounting import Mechanism, epsilon_with_method, noise_multiplier, with_margin
from core.training.privacy_loss import (
    numerical_delta,
    numerical_epsilon,
    renyi_epsilon,
)

LEAST_ROOM = 0.01  # a room below this ε is none
LEAST_FOUND = 20.0  # ln of how far below a budget a total counts; it is 0 where δ alone covers every difference


def composed_epsilon(mechanisms: Sequence[Mechanism], delta: float) -> tuple[float, Accountant]:
    """ε of all mechanisms together at `delta`, and the accountant that gave it (`prv`, or `rdp` where PRV has none).

    All must protect the same unit; each must have noise and samples of its own. The accountant that a mechanism names
    is not asked: GDP under-reports, and a total must not. Equal mechanisms are one with more steps. No mechanism spends
    0. ∞ where the vocabularies' words alone may use `delta` up. Raises ValueError for mixed units or a δ outside
    (0, 1).
    """
    if not 0 < delta < 1:
        raise ValueError(f"δ must lie between 0 and 1, not {delta}")
    history = history_of(mechanisms)
    spent, spent_delta = _added(mechanisms)
    left = delta - spent_delta
    if left <= 0:
        return math.inf, "prv"
    if not history:
        return spent, "prv"
    if len(history) == 1:
        ((sigma, rate), steps), *_ = history.items()
        value, by = epsilon_with_method(noise_multiplier=sigma, sample_rate=rate, steps=steps, delta=left)
        return spent + value, by
    value = with_margin(numerical_epsilon(history, left))
    return (spent + value, "prv") if math.isfinite(value) else (spent + renyi_epsilon(history, left), "rdp")


def advantage(mechanisms: Sequence[Mechanism]) -> float:
    """δ(0) of all mechanisms together: the total variation between "in" and "out", a certified upper bound.

    It is the largest TPR − FPR that any attacker can have who sees every step. 1 (no bound) where there is no numerical
    answer. What is added besides, (ε, δ) of vocabularies, adds at most tanh(ε/2) + δ: total variation is subadditive
    (Kairouz et al. 2015, for k = 1).
    """
    history = history_of(mechanisms)
    spent, spent_delta = _added(mechanisms)
    besides = math.tanh(spent / 2) + spent_delta
    if not history:
        return min(1.0, besides)
    return min(1.0, numerical_delta(history, 0.0) + besides)


def room(mechanisms: Sequence[Mechanism], like: Mechanism, budget: float, delta: float) -> Mechanism | None:
    """`like` with the least noise that keeps all together within (budget, `delta`); None where there is no room.

    Words of its own it has none, whatever `like` has. Its own ε is what one more run of that many steps and that sample
    rate may spend. The total ends within 1 % of the budget and never above it. Raises ValueError for a budget that is
    not above 0.
    """
    if not (math.isfinite(budget) and budget > 0):
        raise ValueError(f"a budget is a number above 0, not {budget}")
    if composed_epsilon(mechanisms, delta)[0] >= budget:
        return None

    def with_noise(log_sigma: float) -> Mechanism:
        change = {"noise_multiplier": math.exp(log_sigma), "delta": delta, "accountant": "prv", "vocabulary": None}
        return like.model_copy(update=change)

    def excess(log_sigma: float) -> float:
        spent = composed_epsilon([*mechanisms, with_noise(log_sigma)], delta)[0]
        return math.log(spent / budget) if spent > 0 else -LEAST_FOUND

    alone = noise_multiplier(target_epsilon=budget, sample_rate=like.sample_rate, steps=like.steps, delta=delta)
    low, high = math.log(alone), math.log(max(alone, 1.0)) + 4.0  # beside others it needs more noise than alone
    over = excess(low)
    if over <= 0:  # nothing was spent so far
        return with_noise(low)
    under = excess(high)
    if under > 0:
        return None
    for _ in range(20):  # a secant within the bracket; halving where it would stall
        if under > -0.01:
            break
        share = min(0.9, max(0.1, (over + 0.005) / (over - under)))
        middle = low + share * (high - low)
        found = excess(middle)
        low, over, high, under = (middle, found, high, under) if found > 0 else (low, over, middle, found)
    return with_noise(high) if with_noise(high).epsilon() >= LEAST_ROOM else None


def history_of(mechanisms: Sequence[Mechanism]) -> dict[tuple[float, float], int]:
    """(σ, q) → steps, a vocabulary's Gaussian noise being one with q = 1.

    Raises ValueError where units differ: their promises speak of different neighbours.
    """
    if len({mechanism.unit for mechanism in mechanisms}) > 1:
        raise ValueError("promises for notes and promises for patients do not add up: compose each unit by itself")
    history: dict[tuple[float, float], int] = {}
    for mechanism in mechanisms:
        if mechanism.steps:
            key = (mechanism.noise_multiplier, mechanism.sample_rate)
            history[key] = history.get(key, 0) + mechanism.steps
        if mechanism.vocabulary is not None and mechanism.vocabulary.multiplier is not None:
            key = (mechanism.vocabulary.multiplier, 1.0)
            history[key] = history.get(key, 0) + 1
    return history


def _added(mechanisms: Sequence[Mechanism]) -> tuple[float, float]:
    """What the mechanisms' vocabularies add to ε and δ by basic composition."""
    shares = [one.vocabulary.added() for one in mechanisms if one.vocabulary is not None]
    return sum(epsilon for epsilon, _ in shares), sum(delta for _, delta in shares)
