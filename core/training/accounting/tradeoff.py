"""The trade-off curve of a training: the most members that an attacker catches for each share accused by mistake.

The attacker sees every noisy step and decides whether one unit was in the data. Each pair (ε, δ(ε)) of a mechanism's
privacy profile bounds the true-positive rate of every such attacker by a straight line in the false-positive rate α and
by its mirror image (`dp_ceiling`). The lowest of all these lines is the mechanism's trade-off curve (Dong, Roth & Su
2022, §2.3; Wasserman & Zhou 2010): using one pair alone, as calibration by (ε, δ) does, gives most of it
away (Kaissis et al. 2024; Kulynych et al. 2024).

δ(ε) is the larger one of a removed and of an added unit. The curve therefore holds for an attacker who accuses units of
having been in the data and for one who accuses them of having been left out, and it is the concave hull of both
directions' curves, so it also holds for averages over several units and attackers. It is not below either direction.

What is certified: δ(ε) is an upper bound (`numerical_deltas`), every line is a bound whatever ε it belongs to, and the
lowest of finitely many lines is not below the lowest of all. So `caught` is never too small, whatever the rounding.
Measured against 400,000 lines, for σ from 0.5 to 10⁵ and α from 10⁻⁴ up, it is at most 10⁻⁴ of itself too high, and its
distance from blind guessing at most 10⁻³ of that distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from core.training.accounting.composition import NoisyMechanism, added_by_vocabularies, history_of
from core.training.accounting.privacy_loss import History, numerical_deltas

LEAST_ACCUSED = 1e-4  # false-positive rate down to which the curve is tight; below it is an upper bound still
LINES = 4_001  # pairs (ε, δ) at even distances from 0 to ln 1/LEAST_ACCUSED
SMALLEST, SMALL = 1e-7, 0.1  # ε between which more pairs are at even ratios: with much noise the best line is there
MORE_LINES = 1_000
LEAST_ERROR = 1e-3  # error rates below this do not count for `gaussian_mu`
POINTS = 400  # false-positive rates at which μ is determined


def dp_ceiling(fpr: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> np.ndarray:
    """Highest true-positive rate that (ε, δ)-differential privacy allows at each false-positive rate.

    min(1, e^ε·FPR + δ, 1 − e^(−ε)·(1 − δ − FPR)) (Kairouz et al. 2015): the bound and its mirror for non-members.
    The arguments are broadcast against one another; ε may be ∞.
    """
    fpr, epsilon, delta = (np.asarray(one, dtype=float) for one in (fpr, epsilon, delta))
    grown = np.exp(np.minimum(epsilon, 700.0)) * fpr + delta
    mirrored = 1 - np.exp(-epsilon) * (1 - delta - fpr)
    return np.where(np.isinf(epsilon), 1.0, np.clip(np.minimum(grown, mirrored), 0.0, 1.0))


@dataclass(frozen=True)
class Tradeoff:
    """A certified trade-off curve: the pairs (`epsilons[i]`, `deltas[i]`) are promises that all hold at once.

    `changes` is 2 where data sets that differ in one unit are two changes apart (a unit is replaced).
    """

    epsilons: np.ndarray
    deltas: np.ndarray
    changes: int = 1

    def caught(self, accused: ArrayLike) -> np.ndarray:
        """The largest true-positive rate at each false-positive rate `accused` (shares, any shape).

        For two changes the curve is applied twice: f ∘ (1 − f) is the trade-off of a group of two (Dong, Roth & Su
        2022, §2.4).
        """
        rates = np.asarray(accused, dtype=float)
        for _ in range(self.changes):
            rates = np.maximum(rates, dp_ceiling(rates[..., None], self.epsilons, self.deltas).min(axis=-1))
        return rates

    def gaussian_mu(self) -> float:
        """The least μ of Gaussian DP whose curve Φ(Φ⁻¹(α) + μ) lies above this one; ∞ where that is more than 6.18.

        Only points at which both error rates are at least `LEAST_ERROR` count, on a grid of `POINTS`: a sampled
        Gaussian is no Gaussian, and rarer errors would determine μ alone (Gomez et al. 2025 report μ in this way).
        """
        accused = np.geomspace(LEAST_ERROR, 1 - LEAST_ERROR, POINTS)
        caught = self.caught(accused)
        counts = caught <= 1 - LEAST_ERROR
        if not counts[0]:
            return math.inf
        return max(0.0, float(np.max(ndtri(caught[counts]) - ndtri(accused[counts]))))


def tradeoff(mechanisms: Sequence[NoisyMechanism]) -> Tradeoff:
    """The curve of all mechanisms together on the same data; without any, blind guessing.

    What vocabularies add, (ε_v, δ_v), turns each pair into (ε + ε_v, δ + δ_v), also for negative ε: an attack on both
    releases is one on the noisy steps with the vocabulary's share of the likelihood bounded by e^ε_v.

    Raises:
        ValueError: The mechanisms protect different units.
    """
    spent, spent_delta = added_by_vocabularies(mechanisms)
    changes = 2 if any(mechanism.replaces for mechanism in mechanisms) else 1
    return of_history(history_of(mechanisms), spent, spent_delta, changes)


def of_history(history: History, spent: float = 0.0, spent_delta: float = 0.0, changes: int = 1) -> Tradeoff:
    """The curve of these steps, and of a release that is (`spent`, `spent_delta`)-DP beside them."""
    even = np.linspace(0.0, -math.log(LEAST_ACCUSED), LINES)
    epsilons = np.concatenate([even, np.geomspace(SMALLEST, SMALL, MORE_LINES)])
    own = epsilons - spent
    deltas = numerical_deltas(history, np.abs(own))
    deltas = np.where(own < 0, 1 - np.exp(-np.abs(own)) * (1 - deltas), deltas)
    return Tradeoff(epsilons, np.minimum(1.0, deltas + spent_delta), changes)
