"""Intervals of figures at the end of their range, where resampling sees no spread.

When an attack accuses none of 129 patients, every resample of them accuses none, and its interval would be 0 to 0, as
if nobody ever could be. Patients are the trials then, and the interval is one that is honest at the ends: Wilson's for
a share, Newcombe's for an AUC. Canaries that all rank first are alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import mean_interval, proportion_interval


def share_interval(found: Interval, patients: int) -> Interval:
    """A resampled share as it is, but no narrower than Wilson's interval over `patients` where it is 0 or 1 exactly.

    `patients` are those that the share is of. Resamples do vary at 0 or 1 when they set the threshold anew; the wider
    end of the two intervals is taken. No interval (NaN) stays none.
    """
    if found.value not in (0.0, 1.0) or math.isnan(found.low) or patients < 1:
        return found
    low, high = proportion_interval(round(found.value * patients), patients)
    return Interval(found.value, min(low, found.low), max(high, found.high))


def auc_interval(found: Interval, members: int, others: int, *, confidence: float = 0.95) -> Interval:
    """A resampled AUC as it is, but with Newcombe's interval over patients where it is 0 or 1 exactly.

    Newcombe 2006 (method 5): all θ with (θ̂ − θ)² ≤ z²·θ(1 − θ)·[1 + N(1 − θ)/(2 − θ) + Nθ/(1 + θ)]/(members·others),
    N = (members + others)/2 − 1, the variance of Hanley & McNeil 1982. No interval (NaN) stays none.
    """
    if found.value not in (0.0, 1.0) or math.isnan(found.low):
        return found
    z, rest = stats.norm.isf((1 - confidence) / 2), (members + others) / 2 - 1

    def left(theta: float) -> float:
        spread = theta * (1 - theta) * (1 + rest * (1 - theta) / (2 - theta) + rest * theta / (1 + theta))
        return (1 - theta) - z**2 * spread / (1 - theta) / (members * others)  # divided by 1 − θ, which is 0 at θ̂ = 1

    low = float(brentq(left, 0.0, 1.0 - 1e-12))  # for θ̂ = 1; θ̂ = 0 is its mirror image
    return Interval(1.0, low, 1.0) if found.value == 1.0 else Interval(0.0, 0.0, 1.0 - low)


def difference_interval(found: Interval, above: Interval, below: Interval) -> Interval:
    """A resampled difference of two shares as it is, but from the two intervals where a share is 0 or 1 exactly.

    MOVER (Zou & Donner 2008), which for two Wilson intervals is Newcombe's (1998, method 10): a share without spread in
    the resamples lends the difference none either, and its own interval has to.
    """
    if not {above.value, below.value} & {0.0, 1.0} or math.isnan(found.low):
        return found
    low = found.value - math.hypot(above.value - above.low, below.high - below.value)
    high = found.value + math.hypot(above.high - above.value, below.value - below.low)
    return Interval(found.value, min(low, found.low), max(high, found.high))


def bits_interval(bits: Sequence[float], most: float) -> Interval:
    """Mean exposure of some canaries with its 95 % interval, cut to 0 … `most` bits (`most` may be ∞).

    Student's t. Where all reach `most`, which shows no spread, only so much is known: a share of such canaries that is
    at least the lower end of Wilson's interval does, and others have at least 0 bits. One canary has no interval.
    """
    values = np.asarray(bits, dtype=float)
    mean, low, high = mean_interval(values)
    if len(values) > 1 and np.allclose(values, most, rtol=1e-9):
        return Interval(mean, proportion_interval(len(values), len(values))[0] * most, most)
    low, high = np.clip([low, high], 0.0, most)
    return Interval(mean, float(low), float(high))
