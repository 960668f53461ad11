"""What a check measured, and probabilities for checks by chance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scipy import stats

RARE = 1e-6  # smaller probabilities count as a mistake
FAR = 5.0  # standard deviations that count as one


@dataclass(frozen=True)
class Check:
    """One fact of a step (`claim`), what was measured of it (`measure`, `value`), and the range in which it is right.

    Both ends are included.
    """

    key: str
    claim: str
    measure: str
    value: float
    low: float
    high: float

    @property
    def passed(self) -> bool:
        """Whether the value is in its range; a value that is not a number is not."""
        return self.low <= self.value <= self.high


def chi_square(terms: int, variance: float) -> stats.distributions.rv_frozen:
    """The distribution of Σ (k − mean)²/variance over `terms` binomial counts k of this variance.

    A sum of squares of `terms` standardised counts has mean `terms` and variance about terms·(2 + 1/variance): the
    excess kurtosis of a binomial is at most 1/variance. A gamma distribution with both moments stands for it.
    """
    from scipy import stats  # a second, and pages read the rest of this module

    spread = 2 + 1 / variance
    return stats.gamma(terms / spread, scale=spread)


def two_sided(statistic: float, distribution: stats.distributions.rv_frozen) -> float:
    """The probability of a value at least as far out as this one, on either side."""
    return float(min(1.0, 2 * min(distribution.cdf(statistic), distribution.sf(statistic))))


def by_chance(key: str, claim: str, measure: str, probability: float) -> Check:
    """A check by a probability that must not be RARE."""
    return Check(key, claim, measure, float(probability), RARE, 1.0)
