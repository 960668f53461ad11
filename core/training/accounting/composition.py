"""The joint privacy guarantee of several mechanisms on the same data.

The mechanisms' privacy losses add, so their distributions are convolved (core.training.accounting.privacy_loss), which
is far tighter than adding their ε. This is valid only if every mechanism drew its own noise and its own samples:
core/runs/ledger/totals.py counts a run with a public seed as having no guarantee. Where there is no numerical answer,
the Rényi divergences are added instead.

A run's own vocabulary (`Mechanism.vocabulary`) is one more step. Gaussian noise on its counts is a step without
sampling and joins the convolution. Laplace noise, and the probability of releasing a word that only one unit contains,
are added (basic composition: Dwork & Roth 2014, theorem 3.16).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from core.models.word_noise import WordNoise
from core.spec import Accountant, Unit
from core.training.accounting.gaussian import epsilon_with_method, with_margin
from core.training.accounting.privacy_loss import (
    has_numerical_deltas,
    numerical_delta,
    numerical_epsilon,
    renyi_epsilon,
)

LEAST_SHARE = 1e-100  # of δ: below this there is no guarantee


class NoisyMechanism(Protocol):
    """What composition needs from a mechanism (`core.training.accounting.mechanism.Mechanism` provides it)."""

    @property
    def unit(self) -> Unit: ...  # noqa: D102 — described by Mechanism
    @property
    def noise_multiplier(self) -> float: ...  # noqa: D102
    @property
    def sample_rate(self) -> float: ...  # noqa: D102
    @property
    def steps(self) -> int: ...  # noqa: D102
    @property
    def vocabulary(self) -> WordNoise | None: ...  # noqa: D102
    @property
    def replaces(self) -> bool: ...  # noqa: D102


def composed_epsilon(mechanisms: Sequence[NoisyMechanism], delta: float) -> tuple[float, Accountant]:
    """ε of all mechanisms together at `delta`, and the accountant that computed it.

    If one of them replaces a unit (`Mechanism.replacing`), data sets that differ in one unit are two add/remove changes
    apart for it. By group privacy, what holds at (ε, δ') for one change holds at (2ε, (1 + e^ε)·δ') for two (Vadhan
    2017, lemma 2.2), and δ' is chosen so that this equals `delta`. Arguments, errors and accountants are those of
    `_composed`.
    """
    if not 0 < delta < 1:
        raise ValueError(f"δ must lie between 0 and 1, not {delta}")
    if any(mechanism.replaces for mechanism in mechanisms):
        return of_two(lambda share: _composed(mechanisms, share), delta)
    return _composed(mechanisms, delta)


def of_two(of_one: Callable[[float], tuple[float, Accountant]], delta: float) -> tuple[float, Accountant]:
    """(2ε, accountant) with ε = `of_one`(δ') and (1 + e^ε)·δ' ≤ `delta`; ∞ if there is no such δ' above 1e-100."""
    share = delta / 2
    while share > LEAST_SHARE:
        epsilon, by = of_one(share)
        if not math.isfinite(epsilon):
            break
        log_most = math.log(delta) - epsilon - math.log1p(math.exp(-epsilon))  # ln of δ / (1 + e^ε)
        if math.log(share) <= log_most:
            return 2 * epsilon, by
        share = math.exp(log_most - 0.1)  # slightly less, because ε grows slightly with every step down
    return math.inf, "rdp"


def _composed(mechanisms: Sequence[NoisyMechanism], delta: float) -> tuple[float, Accountant]:
    """ε of all mechanisms together at `delta`, and the accountant that computed it (`prv`, or `rdp` if PRV has none).

    Equal mechanisms are combined into one with more steps. The accountant that a mechanism names is ignored: GDP
    under-reports, and a total must not.

    Args:
        mechanisms: all protect the same unit, and each has its own noise and samples. Without any, ε is 0.
        delta: of the total, in (0, 1).

    Returns:
        (ε, accountant). ε is ∞ if the vocabularies alone can use up `delta`.

    Raises:
        ValueError: for mixed units or a δ outside (0, 1).
    """
    history = history_of(mechanisms)
    spent, spent_delta = added_by_vocabularies(mechanisms)
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


def advantage(mechanisms: Sequence[NoisyMechanism]) -> float:
    """δ(0) of all mechanisms together: the total variation between "in" and "out", as a certified upper bound.

    It bounds TPR − FPR of every attacker who sees every step. It is 1 (no bound) where there is no numerical answer.
    The (ε, δ) of vocabularies, which are added, contribute at most tanh(ε/2) + δ: total variation is subadditive
    (Kairouz et al. 2015, for k = 1). Where a unit is replaced, the bound is at most twice that of one change, by the
    triangle inequality.
    """
    changes = 2 if any(mechanism.replaces for mechanism in mechanisms) else 1
    return min(1.0, changes * _advantage_of_one(mechanisms))


def has_advantage(mechanisms: Sequence[NoisyMechanism]) -> bool:
    """Whether `advantage` is computed; if not, it is 1 because there is no numerical answer."""
    history = history_of(mechanisms)
    return not history or has_numerical_deltas(history)


def _advantage_of_one(mechanisms: Sequence[NoisyMechanism]) -> float:
    """The total variation between "in" and "out" for data sets that differ by one unit."""
    history = history_of(mechanisms)
    spent, spent_delta = added_by_vocabularies(mechanisms)
    added = math.tanh(spent / 2) + spent_delta
    if not history:
        return min(1.0, added)
    return min(1.0, numerical_delta(history, 0.0) + added)


def history_of(mechanisms: Sequence[NoisyMechanism]) -> dict[tuple[float, float], int]:
    """(σ, q) → steps; a vocabulary's Gaussian noise is one step with q = 1.

    Raises:
        ValueError: if units differ, because their guarantees refer to different neighbours.
    """
    if len({mechanism.unit for mechanism in mechanisms}) > 1:
        raise ValueError("guarantees for notes and guarantees for patients do not add up: compose each unit by itself")
    history: dict[tuple[float, float], int] = {}
    for mechanism in mechanisms:
        if mechanism.steps:
            key = (mechanism.noise_multiplier, mechanism.sample_rate)
            history[key] = history.get(key, 0) + mechanism.steps
        if mechanism.vocabulary is not None and mechanism.vocabulary.multiplier is not None:
            key = (mechanism.vocabulary.multiplier, 1.0)
            history[key] = history.get(key, 0) + 1
    return history


def added_by_vocabularies(mechanisms: Sequence[NoisyMechanism]) -> tuple[float, float]:
    """What the mechanisms' vocabularies add to ε and δ by basic composition."""
    shares = [one.vocabulary.added() for one in mechanisms if one.vocabulary is not None]
    return sum(epsilon for epsilon, _ in shares), sum(delta for _, delta in shares)
