"""Intervals for figures at the end of their range, where resampling shows no spread.

When an attack accuses none of 129 patients, every resample accuses none as well, and the interval would be 0 to 0, as
if nobody could ever be accused. In these cases the patients are counted as trials, with an interval that stays valid at
the ends: Wilson's for a share, Newcombe's for an AUC. Canaries that all have one rank are treated in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import brentq

from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import mean_interval, proportion_interval


def share_interval(found: Interval, patients: int) -> Interval:
    """The resampled interval of a share, widened to at least Wilson's over `patients` if the share is exactly 0 or 1.

    `patients` is the number of patients behind the share. Resamples do vary at 0 or 1 when they set the threshold anew;
    the wider end of the two intervals is taken. A missing interval (NaN) stays missing. Between 0 and 1 there is none
    where no resample differs: all patients have the same share, which says nothing about others.
    """
    if found.value not in (0.0, 1.0) and found.low == found.high:
        return Interval(found.value, math.nan, math.nan)
    if found.value not in (0.0, 1.0) or math.isnan(found.low) or patients < 1:
        return found
    low, high = proportion_interval(round(found.value * patients), patients)
    return Interval(found.value, min(low, found.low), max(high, found.high))


def units_tried(units: ArrayLike, trials: ArrayLike) -> int:
    """How many different units (patients or texts), (n,), have a trial among `trials`, (n,): for `share_interval`.

    The others say nothing about the share, and several rows of one unit are not independent.
    """
    return len(np.unique(np.asarray(units)[np.asarray(trials) > 0]))


def auc_interval(found: Interval, members: int, others: int, *, confidence: float = 0.95) -> Interval:
    """The resampled interval of an AUC, replaced by Newcombe's over patients if the AUC is exactly 0 or 1.

    Newcombe 2006 (method 5): all θ with (θ̂ − θ)² ≤ z²·θ(1 − θ)·[1 + N(1 − θ)/(2 − θ) + Nθ/(1 + θ)]/(members·others),
    N = (members + others)/2 − 1, the variance of Hanley & McNeil 1982. A missing interval (NaN) stays missing. There is
    none where no resample differs: all scores are equal, which says nothing about other patients.
    """
    if found.value not in (0.0, 1.0):
        return found if found.low < found.high else Interval(found.value, math.nan, math.nan)
    if math.isnan(found.low):
        return found
    z, rest = stats.norm.isf((1 - confidence) / 2), (members + others) / 2 - 1

    def left(theta: float) -> float:
        spread = theta * (1 - theta) * (1 + rest * (1 - theta) / (2 - theta) + rest * theta / (1 + theta))
        return (1 - theta) - z**2 * spread / (1 - theta) / (members * others)  # divided by 1 − θ, which is 0 at θ̂ = 1

    low = float(brentq(left, 0.0, 1.0 - 1e-12))  # for θ̂ = 1; θ̂ = 0 is its mirror image
    return Interval(1.0, low, 1.0) if found.value == 1.0 else Interval(0.0, 0.0, 1.0 - low)


def difference_interval(found: Interval, above: Interval, below: Interval) -> Interval:
    """The resampled interval of a difference of shares, widened by the shares' own intervals if one is exactly 0 or 1.

    MOVER (Zou & Donner 2008), which for two Wilson intervals is Newcombe's (1998, method 10). A share without spread in
    the resamples adds none to the difference either, so its own interval has to.
    """
    if not {above.value, below.value} & {0.0, 1.0} or math.isnan(found.low):
        return found
    low = found.value - math.hypot(above.value - above.low, below.high - below.value)
    high = found.value + math.hypot(above.high - above.value, below.value - below.low)
    return Interval(found.value, min(low, found.low), max(high, found.high))


def bits_interval(bits: Sequence[float], most: float) -> Interval:
    """Mean exposure of several canaries, in bits, with its 95 % interval cut to 0 … `most` (`most` may be ∞)."""
    return mean_within(bits, 0.0, most)


def mean_within(values: Sequence[float], least: float, most: float) -> Interval:
    """Mean of values that lie in `least` … `most` (may be ∞), with its 95 % interval cut to that range.

    Student's t. If all values are the same, there is no spread. Then it is only known that a share p of such values, at
    least the lower end of Wilson's interval, is that one, and that the others are somewhere in the range: the mean is
    at least p times the value plus (1 − p)·`least`, and at most p times the value plus (1 − p)·`most`. Without both
    ends of the range there is no interval. Nor has a single value one.
    """
    found = np.asarray(values, dtype=float)
    mean, low, high = mean_interval(found)
    if len(found) > 1 and np.allclose(found, mean, rtol=1e-9):
        if math.isinf(most - least):
            return Interval(mean, math.nan, math.nan)
        share = proportion_interval(len(found), len(found))[0]
        each = next((end for end in (least, most) if math.isclose(mean, end)), mean)  # an end is reached exactly
        return Interval(mean, least + share * (each - least), most - share * (most - each))
    low, high = np.clip([low, high], least, most)
    return Interval(mean, float(low), float(high))
