"""Intervals and tests for proportions, for means over seeds, and for sums and differences of figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from core.evaluation.stats.bootstrap import Interval


@dataclass(frozen=True)
class Comparison:
    """Two proportions compared: their difference p1 − p2, and whether chance explains it."""

    p1: float
    p2: float
    difference: float
    chi2: float  # Pearson, 1 degree of freedom, no continuity correction; 0 when both are 0 or both are 1
    p_value: float  # of chi2
    cohens_h: float  # 2 asin √p1 − 2 asin √p2; .2 small, .5 medium, .8 large (Cohen 1988)
    exact_p_value: float  # Fisher's exact test, two-sided: the one to trust when counts are small


def proportion_interval(successes: float, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927), which stays valid at 0 and at n of n.

    Raises:
        ValueError: There are no trials, or more successes than trials.
    """
    _check_counts(successes, trials)
    return wilson(successes / trials, trials, confidence)


def wilson(share: float, trials: float, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval of a share over `trials`, which may be an effective number of trials and need not be whole."""
    z = _normal_quantile(confidence)
    centre = (share + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z * math.sqrt(share * (1 - share) / trials + z**2 / (4 * trials**2)) / (1 + z**2 / trials)
    low = 0.0 if share == 0 else max(0.0, centre - half)  # exact at the ends, without rounding errors
    high = 1.0 if share == 1 else min(1.0, centre + half)
    return low, high


def compare_proportions(k1: int, n1: int, k2: int, n2: int) -> Comparison:
    """Compare k1 of n1 with k2 of n2: Pearson's χ², Cohen's h and Fisher's exact test (PrivAI-Leak report).

    Raises:
        ValueError: A group is empty or has more successes than trials.
    """
    _check_counts(k1, n1)
    _check_counts(k2, n2)
    p1, p2 = k1 / n1, k2 / n2
    pooled = (k1 + k2) / (n1 + n2)
    variance = pooled * (1 - pooled) * (1 / n1 + 1 / n2)
    chi2 = (p1 - p2) ** 2 / variance if variance > 0 else 0.0
    return Comparison(
        p1=p1,
        p2=p2,
        difference=p1 - p2,
        chi2=chi2,
        p_value=float(stats.chi2.sf(chi2, 1)),
        cohens_h=2 * math.asin(math.sqrt(p1)) - 2 * math.asin(math.sqrt(p2)),
        exact_p_value=float(stats.fisher_exact([[k1, n1 - k1], [k2, n2 - k2]]).pvalue),
    )


def mean_interval(values: ArrayLike) -> tuple[float, float, float]:
    """Mean and Student's 95 % t interval of a few independent values, such as one per seed: (mean, low, high).

    A single value has no spread: its interval is (nan, nan). Nor has a mean of ∞ (a perplexity above every float64).

    Raises:
        ValueError: There are no values, one of them is not a number, or ∞ and −∞ are among them.
    """
    numbers = np.asarray(values, dtype=float).ravel()
    if numbers.size == 0:
        raise ValueError("a mean needs at least one value, and there are none")
    endless = np.unique(numbers[np.isinf(numbers)])
    if np.isnan(numbers).any() or len(endless) == 2:
        raise ValueError(f"a mean needs finite values, or one kind of ∞; got {numbers.tolist()}")
    mean = float(endless[0] if len(endless) else numbers.mean())
    if numbers.size == 1 or len(endless):
        return mean, math.nan, math.nan
    half = _t_quantile(numbers.size - 1) * numbers.std(ddof=1) / math.sqrt(numbers.size)
    return mean, float(mean - half), float(mean + half)


def median_interval(values: ArrayLike) -> Interval:
    """Median with its exact 95 % interval from order statistics, whatever the distribution; values may be infinite.

    The ends are the k-th smallest and k-th largest value, k the largest with 2·P[Binomial(n, ½) < k] ≤ .05
    (David & Nagaraja 2003, §7.1). Fewer than 6 values have no 95 % interval: both ends are NaN. The median of an even
    number is the upper of the two middle values, so that it is one of the values.

    Raises:
        ValueError: There are no values, or one is not a number.
    """
    ordered = np.sort(np.asarray(values, dtype=float).ravel())
    if ordered.size == 0 or np.isnan(ordered).any():
        raise ValueError(f"a median needs at least one value, and only numbers: got {ordered.tolist()}")
    count = int(stats.binom.ppf(0.025, ordered.size, 0.5))
    if 2 * stats.binom.cdf(count - 1, ordered.size, 0.5) > 0.05:
        count -= 1
    middle = float(ordered[ordered.size // 2])
    if count < 1:
        return Interval(middle, math.nan, math.nan)
    return Interval(middle, float(ordered[count - 1]), float(ordered[-count]))


def weighted_sum(weights: Sequence[float], parts: Sequence[Interval]) -> Interval:
    """Σ wᵢθᵢ with an interval from those of the parts, taken as independent (MOVER; Zou & Donner 2008).

    The lower end is θ − √Σ (wᵢ·(θᵢ − lᵢ))², with uᵢ in place of lᵢ where wᵢ < 0; the upper end likewise. For a
    difference of two shares with Wilson intervals this is Newcombe's interval (1998, method 10).
    """
    value = sum(weight * part.value for weight, part in zip(weights, parts, strict=True))
    down = up = 0.0
    for weight, part in zip(weights, parts, strict=True):
        below, above = weight * (part.value - part.low), weight * (part.high - part.value)
        if weight < 0:
            below, above = -above, -below
        down, up = down + below**2, up + above**2
    return Interval(value, value - math.sqrt(down), value + math.sqrt(up))


def difference(one: Interval, other: Interval) -> Interval:
    """`one` − `other` by `weighted_sum`; for two independent rates this is Newcombe's interval (1998, method 10)."""
    return weighted_sum((1, -1), (one, other))


def best_of(found: Interval, attempts: int, *, least: float, most: float, degrees: float = math.inf) -> Interval:
    """The 95 % interval of the best of several figures, widened because the same figures were used to choose it.

    Bonferroni: each of `attempts` intervals is taken at 1 − 0.05/attempts, so in 95 % of cases all hold together, the
    chosen one included. Both half-widths grow by the ratio of the quantiles of Student's t with `degrees` of freedom
    (∞: the normal distribution), which is exact for means of normal figures; the ends are cut to [`least`, `most`]. The
    value is not corrected: as the highest observed, it is biased upwards.

    Raises:
        ValueError: `attempts` is below 1.
    """
    if attempts < 1:
        raise ValueError(f"the best of several attempts needs at least 1 attempt, not {attempts}")
    wide, usual = (float(stats.t.ppf(1 - tail / 2, degrees)) for tail in (0.05 / attempts, 0.05))
    wider = wide / usual
    low = max(least, found.value - wider * (found.value - found.low))
    high = min(most, found.value + wider * (found.high - found.value))
    return found if math.isnan(found.low) else Interval(found.value, low, high)


def most_certain(found: Sequence[Interval], *, least: float) -> tuple[int, Interval]:
    """The place and the widened interval (`best_of`) of the one of several figures whose lower end is highest.

    All widened intervals hold together, so the choice among them needs no further correction. A figure without a lower
    end comes last.

    Raises:
        ValueError: `found` is empty.
    """
    widened = [best_of(one, len(found), least=least, most=1.0) for one in found]
    ends = [(-math.inf if math.isnan(one.low) else one.low, one.value) for one in widened]
    place = max(range(len(widened)), key=ends.__getitem__)
    return place, widened[place]


@lru_cache(maxsize=1_000)  # a curve needs few of them, hundreds of times each, and SciPy takes .3 ms for one
def _t_quantile(degrees: int) -> float:
    return float(stats.t.ppf(0.975, degrees))


@lru_cache(maxsize=1_000)
def _normal_quantile(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence is between 0 and 1 (0.95 = 95 %), not {confidence}")
    return float(stats.norm.ppf((1 + confidence) / 2))


def _check_counts(successes: float, trials: int) -> None:
    if trials <= 0:
        raise ValueError("a proportion needs at least one trial, and there are none")
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials is not a proportion")
