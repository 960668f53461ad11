"""Differences between membership attacks: two attacks, models, levels or lengths on the same patients.

Both sides share every resample of patients, so what makes a patient hard for both sides cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from core.attacks.membership.decision import OWN_THRESHOLDS
from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.membership.resampling import Rates
from core.evaluation.membership.strongest_attack import MEASURES, RESAMPLES
from core.evaluation.membership.units import Units, units
from core.evaluation.stats.bootstrap import Interval, percentile_interval, weights_in_parts, weights_with_data

MORE = 20_000  # resamples of a difference that is near 0
_CELLS = 500_000  # weights of notes held in memory at once (4 MB)

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


def difference(one: Side, other: Side, measure: Measure = auc, *, resamples: int | None = None) -> Interval:
    """`measure` of `one` − that of `other`, with a 95 % interval over patients.

    Where both sides are notes, only notes that both have scored count. Otherwise only patients that both have count.
    """
    return mean_difference([(one, other)], measure, resamples=resamples)


def mean_difference(
    pairs: Sequence[tuple[Side, Side]], measure: Measure = auc, *, resamples: int | None = None
) -> Interval:
    """Mean of `difference` over several pairs about the same patients, such as trainings that differ in their seed.

    Patients are resampled for all pairs together. The pairs themselves are fixed: another seed could differ.

    Args:
        pairs: What is compared with what.
        measure: The figure that is compared.
        resamples: How often patients are drawn; by default as often as a verdict needs (`_near_zero`).
    """
    known, statistics, smallest, notes = None, [], [], 0
    for pair in pairs:
        sides = [(side.units(), OWN_THRESHOLDS.get(side.attack)) for side in common(*pair)]
        for judged, _ in sides:
            known = judged.patient_member if known is None else known
            if not np.array_equal(known, judged.patient_member):
                raise ValueError("the two sides of a comparison are about different patients")
            smallest.append(judged.smallest_stratum)
            notes = max(notes, len(judged.score))
        statistics.append([measure(*side) for side in sides])
    if known is None:
        raise ValueError("there is nothing to compare")
    found = _mean(statistics, known, min(smallest), notes, resamples or RESAMPLES)
    return _mean(statistics, known, min(smallest), notes, MORE) if resamples is None and _near_zero(found) else found


def change(one: tuple[Side, Side], other: tuple[Side, Side]) -> Interval:
    """`difference` of the pair `one` − that of `other`, with patients resampled for all four sides together."""
    half = mean_difference([one, other[::-1]])
    return Interval(2 * half.value, 2 * half.low, 2 * half.high)


def _mean(
    statistics: Sequence[Sequence[Callable[[np.ndarray], np.ndarray]]],
    member: np.ndarray,
    smallest: int,
    notes: int,
    resamples: int,
) -> Interval:
    parts = weights_in_parts(member, resamples=resamples, seed=0, rows=max(1, _CELLS // notes))
    found = [[one(part) - other(part) for one, other in statistics] for part in (np.ones((1, len(member))), *parts)]
    mean = np.mean(np.concatenate(found, axis=1), axis=0)
    return percentile_interval(float(mean[0]), mean[1:], smallest)


def _near_zero(found: Interval) -> bool:
    """Whether the seed of the draws could decide on which side of 0 an end lies, also once the interval is widened.

    With 1,000 resamples an end's standard error is about 2 % of the interval's width. Intervals are widened by at most
    1.7 for many figures together, so 0 is far from either end where it is less than .8 or more than 2 times as far
    from the value as the end is.
    """
    away = found.low if found.value > 0 else found.high
    return bool(0.8 * abs(found.value - away) < abs(found.value) < 2 * abs(found.value - away))


def common(one: Side, other: Side) -> tuple[Side, Side]:
    """Both sides on the judged notes, or patients, that both have."""
    judged = [side.scores[side.scores["split"].isin(JUDGED_SPLITS)] for side in (one, other)]
    same = all((side.level, side.length, side.most_tokens) == ("sample", "all", None) for side in (one, other))
    by = "note_id" if same else "patient_id"
    codes = pd.factorize(pd.concat([rows[by] for rows in judged]))[0]  # far faster than `isin` of a column of text
    first, second = np.split(codes, [len(judged[0])])
    kept = [
        rows[np.isin(own, others)] for rows, own, others in zip(judged, (first, second), (second, first), strict=True)
    ]
    return replace(one, scores=kept[0]), replace(other, scores=kept[1])


def single(side: Side, measure: Measure = auc, *, resamples: int = RESAMPLES) -> Interval:
    """`measure` of one attack, with a 95 % interval over patients."""
    judged = side.units()
    weights = weights_with_data(judged.patient_member, resamples=resamples, seed=0)
    values = measure(judged, OWN_THRESHOLDS.get(side.attack))(weights)
    return percentile_interval(float(values[0]), values[1:], judged.smallest_stratum)
