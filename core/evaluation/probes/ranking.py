"""How well scores rank each patient's conditions: AUC, precision at 10, and correlation with frequency (Lehman 2021).

Scores and truth are (patients, conditions). Each condition has a bin and is compared only within it. The functions
return one number per patient, NaN if there is nothing to compare; patients are then averaged and resampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy import stats

from core.evaluation.stats.bootstrap import WeightedStatistic, ratio

Bins = Sequence[str] | np.ndarray  # each condition's, (conditions,)
FEWEST = 5  # smallest bin of conditions for which a rank correlation is computed


def patient_aucs(scores: np.ndarray, has: np.ndarray, bins: Bins) -> np.ndarray:
    """P[a condition the patient has scores above one of the same bin they do not have], ties ½: (patients,).

    The mean over a patient's conditions of the share of lower-scoring conditions among those of the bin that the
    patient does not have. NaN if no bin holds both kinds of condition for the patient.
    """
    won, counted = np.zeros(len(scores)), np.zeros(len(scores))
    for places in _bins(bins):
        values, truth = scores[:, places], has[:, places]
        for row in np.flatnonzero(truth.any(1) & ~truth.all(1)):
            others, own = np.sort(values[row, ~truth[row]]), values[row, truth[row]]
            below = np.searchsorted(others, own, "left") + np.searchsorted(others, own, "right")
            won[row] += (below / 2 / len(others)).sum()
            counted[row] += len(own)
    return ratio(won, counted)


def patient_precisions(scores: np.ndarray, has: np.ndarray, bins: Bins, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """A@k: the share of the k highest ranked conditions that the patient has, and what a blind ranking gets.

    Both are (patients,): means over the bins with more than k conditions in which the patient has any. Conditions tied
    for the last places count in proportion to the places left.
    """
    found, blind, counted = (np.zeros(len(scores)) for _ in range(3))
    for places in _bins(bins):
        if len(places) <= k:
            continue
        values, truth = scores[:, places], has[:, places]
        for row in np.flatnonzero(truth.any(1)):
            found[row] += top_share(values[row], truth[row], k)
            blind[row] += truth[row].mean()
            counted[row] += 1
    return ratio(found, counted), ratio(blind, counted)


def top_share(values: np.ndarray, truth: np.ndarray, k: int) -> float:
    """Share of trues among the k highest values (n,), n ≥ k; values tied at the cut count with their expectation."""
    cut = np.partition(values, -k)[-k]
    above, level = values > cut, values == cut
    room = k - above.sum()
    return float((truth[above].sum() + truth[level].sum() * room / level.sum()) / k)


def patient_correlations(scores: np.ndarray, frequency: np.ndarray, bins: Bins) -> np.ndarray:
    """Spearman's ρ of each row of scores with `frequency` (conditions,), bins weighted by their size: (patients,).

    Bins with fewer than `FEWEST` conditions, or with equal frequencies only, are left out; NaN if none is left.
    """
    total, weight = np.zeros(len(scores)), np.zeros(len(scores))
    for ranks, expected, places in _ranked(scores, frequency, bins):
        centred = ranks - ranks.mean(1, keepdims=True)
        other = expected - expected.mean()
        norm = np.sqrt((centred**2).sum(1) * (other**2).sum())
        usable = norm > 0
        total[usable] += len(places) * (centred[usable] @ other) / norm[usable]
        weight[usable] += len(places)
    return ratio(total, weight)


def condition_correlation(
    scores: np.ndarray, frequency: np.ndarray, bins: Bins
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Input for resampling one score per condition: within-bin ranks of `scores` and `frequency`, and their bins."""
    kept = list(_ranked(scores[None], frequency, bins))
    if not kept:
        return np.empty(0), np.empty(0), np.empty(0, dtype=int)
    number = np.concatenate([np.full(len(places), at) for at, (*_, places) in enumerate(kept)])
    return np.concatenate([ranks[0] for ranks, *_ in kept]), np.concatenate([e for _, e, _ in kept]), number


def weighted_correlation(left: np.ndarray, right: np.ndarray, bins: np.ndarray) -> WeightedStatistic:
    """Statistic for `patient_bootstrap` over conditions: correlation of ranks within bins, weighted by the draws."""

    def statistic(weights: np.ndarray) -> np.ndarray:
        total, size = np.zeros(len(weights)), np.zeros(len(weights))
        for number in np.unique(bins):
            w, x, y = weights[:, bins == number], left[bins == number], right[bins == number]
            mass = w.sum(1)
            mean_x, mean_y = ratio(w @ x, mass), ratio(w @ y, mass)
            covariance = ratio(w @ (x * y), mass) - mean_x * mean_y
            spread = (ratio(w @ x**2, mass) - mean_x**2) * (ratio(w @ y**2, mass) - mean_y**2)
            usable = spread > 1e-12
            total[usable] += mass[usable] * covariance[usable] / np.sqrt(spread[usable])
            size[usable] += mass[usable]
        return ratio(total, size)

    return statistic


def _ranked(
    scores: np.ndarray, frequency: np.ndarray, bins: Bins
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    for places in _bins(bins):
        if len(places) >= FEWEST and np.ptp(frequency[places]) > 0:
            yield stats.rankdata(scores[:, places], axis=1), stats.rankdata(frequency[places]), places


def _bins(bins: Bins) -> Iterator[np.ndarray]:
    """Indices of the conditions of each bin."""
    names = np.asarray(bins, dtype=object)
    for name in dict.fromkeys(bins):
        yield np.flatnonzero(names == name)
