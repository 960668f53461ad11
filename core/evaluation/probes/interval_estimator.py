"""Intervals for the identity probes' figures: patients (or conditions) resampled, else Student's or Wilson's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from core.evaluation.probes.tables import Figure
from core.evaluation.stats.bootstrap import Interval, WeightedStatistic, patient_bootstrap, weighted_share
from core.evaluation.stats.intervals import mean_interval, proportion_interval

FEWEST_RESAMPLED = 10  # patients (or conditions); for fewer, resamples are too similar, and Student's t is used
Quantity = Literal["share", "correlation", "difference"]  # 0 to 1; −1 to 1; of either sign, in any unit


@dataclass(frozen=True)
class IntervalEstimator:
    """Intervals of the probes' figures: patients resampled `resamples` times, seeded by `seed`."""

    resamples: int
    seed: int

    def interval(self, statistic: WeightedStatistic, units: ArrayLike, strata: ArrayLike | None = None) -> Interval:
        """A statistic with its interval: units are resampled within strata."""
        return patient_bootstrap(statistic, units, strata, resamples=self.resamples, seed=self.seed)

    def mean(
        self,
        quantity: Quantity,
        key: tuple[str, str, str, str, str, str],
        values: np.ndarray,
        blind: float,
        note: str,
        units: ArrayLike | None = None,
    ) -> Iterator[Figure]:
        """The mean of one value per patient (NaN left out); nothing without values.

        Args:
            quantity: decides the interval where resampling shows no spread. A share of exactly 0 or 1 gets Wilson's;
                other shares, correlations and differences get none. Ends of a share stay between 0 and 1.
            key: the first columns of the figure.
            values: one value per patient.
            blind: what a blind guess reaches.
            note: the figure's note.
            units: the patient (or condition) of each value; by default each value is a unit.

        Yields:
            At most one figure.
        """
        known = np.isfinite(values)
        if not known.any():
            return
        units = (np.arange(len(values)) if units is None else np.asarray(units))[known]
        n = len(np.unique(units))
        found = self.interval(weighted_share(values[known], np.ones(known.sum())), units)
        low, high = found.low, found.high
        if quantity == "share" and found.value in (0.0, 1.0):
            low, high = proportion_interval(round(found.value * n), n)  # all equal, so resampling shows no spread
        elif np.ptp(values[known]) < 1e-12:
            low, high = np.nan, np.nan  # all equal, such as ties of a baseline: no spread for an interval
        elif 1 < n < FEWEST_RESAMPLED:
            low, high = _student(found.value, pd.Series(values[known]).groupby(units).mean().to_numpy())
            low, high = (max(0.0, low), min(1.0, high)) if quantity == "share" else (low, high)
        yield Figure(*key, found.value, low, high, n, blind, note)


def _student(value: float, values: np.ndarray) -> tuple[float, float]:
    """Student's 95 % interval around `value` from one number per patient."""
    _, low, high = mean_interval(values)
    return value - (high - low) / 2, value + (high - low) / 2
