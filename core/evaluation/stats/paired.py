"""The same people asked twice: the shares that are right before and after, and whether more changed in one direction.

Only people who answered both times count. Pairs matter: those who were right both times, or wrong both times, say
nothing about a change, however many they are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from scipy import stats

from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import proportion_interval


@dataclass(frozen=True)
class Pairs:
    """A paired 2 × 2 table: how many people were right or wrong before, and right or wrong after."""

    stayed_right: int = 0
    lost: int = 0  # right before, wrong after
    gained: int = 0  # wrong before, right after
    stayed_wrong: int = 0

    @property
    def n(self) -> int:
        """People who answered both times."""
        return self.stayed_right + self.lost + self.gained + self.stayed_wrong

    @property
    def before(self) -> Interval:
        """The share that was right before, with Wilson's 95 % interval."""
        return _share(self.stayed_right + self.lost, self.n)

    @property
    def after(self) -> Interval:
        """The share that was right after, with Wilson's 95 % interval."""
        return _share(self.stayed_right + self.gained, self.n)


def pairs(answers: Iterable[tuple[bool, bool]]) -> Pairs:
    """Count pairs of (right before, right after)."""
    counted = {(before, after): 0 for before in (True, False) for after in (True, False)}
    for before, after in answers:
        counted[before, after] += 1
    return Pairs(counted[True, True], counted[True, False], counted[False, True], counted[False, False])


def paired_difference(found: Pairs, confidence: float = 0.95) -> Interval:
    """Share right after − share right before, with Newcombe's interval for paired shares (1998, method 10).

    Both shares have Wilson's interval (l, u). With δ their distances from the shares, the lower end is
    θ − √(δ₁² − 2φδ₁δ₂ + δ₂²) for the distances that make the difference small, the upper end likewise. φ is the
    correlation of the two answers; where it is positive, ad − bc is corrected by n/2, and not below 0.

    Raises:
        ValueError: There are no pairs.
    """
    n, first, second = found.n, found.stayed_right + found.gained, found.stayed_right + found.lost
    (low1, high1), (low2, high2) = (proportion_interval(count, n, confidence) for count in (first, second))
    p1, p2 = first / n, second / n
    phi = _correlation(found)
    down = _root((p1 - low1), (high2 - p2), phi)
    up = _root((high1 - p1), (p2 - low2), phi)
    return Interval(p1 - p2, p1 - p2 - down, p1 - p2 + up)


def careful_difference(found: Pairs, confidence: float = 0.95) -> Interval:
    """`paired_difference`, widened for few people to what the exact McNemar test leaves open.

    Newcombe's interval rests on score intervals and can leave out 0 where the exact test rejects nothing: with two
    people who both gained, it begins at +7 points at p = 0.5. Given the m people who changed, the difference is
    (m/n)·(2π − 1), where π, the share that gained, has the exact interval of Clopper & Pearson (1934). The wider end
    of both counts, so 0 is inside wherever p > 1 − `confidence`.
    """
    usual, changed = paired_difference(found, confidence), found.gained + found.lost
    if not changed:
        return usual
    tail = (1 - confidence) / 2
    low = float(stats.beta.ppf(tail, found.gained, found.lost + 1)) if found.gained else 0.0
    high = float(stats.beta.ppf(1 - tail, found.gained + 1, found.lost)) if found.lost else 1.0
    ends = [changed / found.n * (2 * share - 1) for share in (low, high)]
    return Interval(usual.value, min(usual.low, ends[0]), max(usual.high, ends[1]))


def mcnemar(gained: int, lost: int) -> float:
    """The two-sided p value of the exact McNemar test (1947): do changes go in one direction more than by chance?

    If both directions were equally likely, `gained` of the `gained + lost` people who changed would be binomial with
    probability 1/2. The p value is twice the smaller tail, at most 1; 1 if nobody changed.

    Raises:
        ValueError: A count is negative.
    """
    if min(gained, lost) < 0:
        raise ValueError(f"counts of people who changed are not negative; got {gained} and {lost}")
    return min(1.0, 2 * float(stats.binom.cdf(min(gained, lost), gained + lost, 0.5)))


def _share(right: int, n: int) -> Interval:
    return Interval(right / n, *proportion_interval(right, n))


def _root(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))


def _correlation(found: Pairs) -> float:
    a, b, c, d = found.stayed_right, found.lost, found.gained, found.stayed_wrong
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    product: float = a * d - b * c
    if margins == 0:
        return 0.0
    if product > 0:
        product = max(product - found.n / 2, 0)
    return product / math.sqrt(margins)
