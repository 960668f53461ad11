"""Differences between membership attacks: two attacks, models, levels or lengths on the same patients.

Both sides share every resample of patients, so what makes a patient hard for both sides cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from core.attacks.membership.decision import OWN_THRESHOLDS
from core.evaluation.membership.resampling import Rates
from core.evaluation.membership.strongest_attack import MEASURES, RESAMPLES
from core.evaluation.membership.units import Units, units
from core.evaluation.stats.bootstrap import Interval, patient_weights, percentile_interval

Measure = Callable[[Units, float | None], Callable[[np.ndarray], np.ndarray]]


@dataclass(frozen=True)
class Side:
    """Scores of one attack on one model, to be compared at a level (`sample`, `patient`) and for notes of a length.

    With `most_tokens`, notes of more tokens are left out.
    """

    scores: pd.DataFrame
    attack: str
    level: str = "sample"
    length: str = "all"
    most_tokens: int | None = None

    def units(self) -> Units:
        """What the attack is evaluated on."""
        return units(self.scores, self.level, self.length, most_tokens=self.most_tokens)


def auc(judged: Units, own: float | None) -> Callable[[np.ndarray], np.ndarray]:
    """AUC of the attack."""
    statistic = MEASURES["auc"](judged, own)
    return lambda weights: statistic(weights)[0]


def leakage(judged: Units, own: float | None) -> Callable[[np.ndarray], np.ndarray]:
    """PL = TPR − FPR at the attack's own threshold (Jagannatha 2021, eq. 2)."""
    statistic = MEASURES["privacy_leakage"](judged, own)
    return lambda weights: statistic(weights)[0]


def caught_at(fpr: float) -> Measure:
    """Share of members above the lowest threshold that at most a share `fpr` of the others reach."""

    def measure(judged: Units, own: float | None) -> Callable[[np.ndarray], np.ndarray]:
        rates = Rates(judged)

        def statistic(weights: np.ndarray) -> np.ndarray:
            cumulated = rates.cumulated(weights)
            return rates.at(cumulated, rates.threshold_for(cumulated, fpr), strict=False)[0]

        return statistic

    return measure


def difference(one: Side, other: Side, measure: Measure = auc, *, resamples: int = RESAMPLES) -> Interval:
    """`measure` of `one` − that of `other`, with a 95 % interval over patients.

    Where both sides are notes, only notes that both have scored count. Otherwise only patients that both have count.
    """
    return mean_difference([(one, other)], measure, resamples=resamples)


def mean_difference(
    pairs: Sequence[tuple[Side, Side]], measure: Measure = auc, *, resamples: int = RESAMPLES
) -> Interval:
    """Mean of `difference` over several pairs about the same patients, such as trainings that differ in their seed.

    Patients are resampled for all pairs together. The pairs themselves are fixed: another seed could differ.
    """
    known, values, smallest = None, [], []
    for pair in pairs:
        sides = [(side.units(), OWN_THRESHOLDS.get(side.attack)) for side in _common(*pair)]
        for judged, _ in sides:
            known = judged.patient_member if known is None else known
            if not np.array_equal(known, judged.patient_member):
                raise ValueError("the two sides of a comparison are about different patients")
            smallest.append(judged.smallest_stratum)
        drawn = patient_weights(sides[0][0].patient_member, resamples=resamples, seed=0)
        weights = np.vstack([np.ones(drawn.shape[1]), drawn])
        values.append(measure(*sides[0])(weights) - measure(*sides[1])(weights))
    mean = np.mean(values, axis=0)
    return percentile_interval(float(mean[0]), mean[1:], min(smallest))


def _common(one: Side, other: Side) -> tuple[Side, Side]:
    judged = [side.scores[side.scores["split"].isin(["member", "heldout"])] for side in (one, other)]
    same = all((side.level, side.length, side.most_tokens) == ("sample", "all", None) for side in (one, other))
    by = "note_id" if same else "patient_id"
    shared = set(judged[0][by]) & set(judged[1][by])
    kept = [rows[rows[by].isin(shared)] for rows in judged]
    return replace(one, scores=kept[0]), replace(other, scores=kept[1])


def single(side: Side, measure: Measure = auc, *, resamples: int = RESAMPLES) -> Interval:
    """`measure` of one attack, with a 95 % interval over patients."""
    judged = side.units()
    drawn = patient_weights(judged.patient_member, resamples=resamples, seed=0)
    values = measure(judged, OWN_THRESHOLDS.get(side.attack))(np.vstack([np.ones(drawn.shape[1]), drawn]))
    return percentile_interval(float(values[0]), values[1:], judged.smallest_stratum)
