"""Figures of a membership attack in many resamples of patients at once.

Each class is built from `Units` and maps weights (B, P), how often each patient was drawn, to (B,) values. All figures
of an attack share their resamples. Sums per patient are computed once, so each resample is cheap.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from core.evaluation.membership.units import Units
from core.evaluation.stats.bootstrap import weights_with_data

_SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")  # lower scores, and lower or tied ones
_POPULATION = 1  # second seed word of the population's draws, to keep them apart from those of members and others


def ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """`above` / `below`, NaN where `below` is not above 0."""
    return np.divide(above, below, out=np.full(np.shape(above), np.nan), where=np.asarray(below) > 0)


class Auc:
    """AUC = P[member's score > non-member's] + ½ P[equal] (Mann–Whitney), as a bilinear form in the patients' weights.

    K[p, q] counts the pairs of a unit of member patient p and a unit of non-member patient q that the attack ranks
    correctly (ties ½); AUC = wᵀ K w / Σ pairs.
    """

    def __init__(self, units: Units):
        member = units.member
        ours, theirs = units.score[member], units.score[~member]
        p, q = units.patient[member], units.patient[~member]
        size = len(units.patient_member)
        rising, by_patient = np.argsort(ours), np.lexsort((theirs, q))  # a search for rising values is fastest
        ours_rising, p_rising = ours[rising], p[rising]
        present, starts = np.unique(q[by_patient], return_index=True)
        self.pairs = np.zeros((size, size))
        for patient, scores in zip(present, np.split(theirs[by_patient], starts[1:]), strict=True):
            twice = sum(np.searchsorted(scores, ours_rising, side=side) for side in _SIDES)
            self.pairs[:, patient] = np.bincount(p_rising, twice, minlength=size) / 2
        self.members = np.bincount(p, minlength=size).astype(float)
        self.others = np.bincount(q, minlength=size).astype(float)

    def __call__(self, weights: np.ndarray) -> np.ndarray:
        """(B, P) → (B,)."""
        ours, theirs = np.flatnonzero(self.members), np.flatnonzero(self.others)  # K is 0 elsewhere
        drawn = np.take(weights, ours, axis=1) @ self.pairs[np.ix_(ours, theirs)]
        right = np.einsum("bq,bq->b", drawn, np.take(weights, theirs, axis=1))  # halves add up exactly
        return ratio(right, (weights @ self.members) * (weights @ self.others))


class Rates:
    """True- and false-positive rates at thresholds that may differ from resample to resample."""

    def __init__(self, units: Units):
        self.sides = []
        for side in (units.member, ~units.member):
            order = np.argsort(units.score[side], kind="stable")
            self.sides.append((units.score[side][order], units.patient[side][order]))
        self.units = units

    def cumulated(self, weights: np.ndarray) -> list[np.ndarray]:
        """Total weight of the first i units in rising order of score, (B, n + 1), for members and for non-members."""
        found = []
        for scores, patients in self.sides:
            total = np.zeros((len(weights), len(scores) + 1))
            np.cumsum(weights[:, patients], axis=1, out=total[:, 1:])
            found.append(total)
        return found

    def at(self, cumulated: list[np.ndarray], thresholds: np.ndarray, *, strict: bool) -> tuple[np.ndarray, np.ndarray]:
        """(TPR, FPR), (B,) each, of "member when score ≥ threshold" (`strict`: >) for thresholds (B,)."""
        side: Literal["left", "right"] = "right" if strict else "left"
        rates = []
        for (scores, _), total in zip(self.sides, cumulated, strict=True):
            place = np.searchsorted(scores, thresholds, side=side)
            above = total[:, -1] - total[np.arange(len(total)), place]
            rates.append(ratio(above, total[:, -1]))
        return rates[0], rates[1]

    def at_near(self, weights: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """As `at` with `strict`, from the weights (B, P), faster for thresholds that are near to each other.

        Only units between the lowest and the highest threshold are summed one by one; the others, by patient. Weights
        are whole numbers, so both ways have the same sums.
        """
        rates = []
        for scores, patients in self.sides:
            place = np.searchsorted(scores, thresholds, side="right")
            low, high, size = place.min(), place.max(), weights.shape[1]
            between = np.zeros((len(weights), high - low + 1))
            np.cumsum(weights[:, patients[low:high]], axis=1, out=between[:, 1:])
            above = weights @ np.bincount(patients[high:], minlength=size).astype(float)
            above += between[:, -1] - between[np.arange(len(weights)), place - low]
            rates.append(ratio(above, weights @ np.bincount(patients, minlength=size).astype(float)))
        return rates[0], rates[1]

    def threshold_for(self, cumulated: list[np.ndarray], fpr: float) -> np.ndarray:
        """(B,) lowest score that at most a share `fpr` of the non-members reach in each resample, or ∞."""
        scores, total = self.sides[1][0], cumulated[1]
        candidates = np.unique(np.concatenate([scores, self.sides[0][0]]))
        above = total[:, -1:] - total  # (B, n + 1): weight of non-members from position i on
        allowed = above <= fpr * total[:, -1:] * (1 + 1e-12)
        first = allowed.argmax(axis=1)  # from this position on, few enough non-members are left
        last_refused = np.where(first > 0, scores[np.maximum(first - 1, 0)], -np.inf)
        place = np.searchsorted(candidates, last_refused, side="right")
        return np.where(place < len(candidates), candidates[np.minimum(place, len(candidates) - 1)], np.inf)

    def training_mean(self, weights: np.ndarray) -> np.ndarray:
        """(B,) mean score of the members' notes: the threshold of S-BBA, A-BBA and P-BBA (Jagannatha 2021, §4.1.1).

        It is kept within the scores: where all are equal, a mean that is rounded down would accuse everyone.
        """
        return np.clip(ratio(weights @ self.units.mean_sums, weights @ self.units.mean_counts), *self.units.mean_range)


def population_thresholds(units: Units, alpha: float, *, resamples: int, seed: int) -> np.ndarray:
    """Thresholds that accuse at most a share `alpha` of the population, (1 + resamples,): the actual one comes first.

    Each is the lowest score that at most `alpha` of the population's units reach. The population's patients are drawn
    with replacement, so the thresholds vary as they would with other patients of the same kind. Where more than `alpha`
    reach even the highest score, the threshold is just above it.
    """
    scores, patients = units.population, units.population_patient
    stream = (seed, _POPULATION)
    weights = weights_with_data(np.zeros(patients.max() + 1, dtype=bool), resamples=resamples, seed=stream)
    distinct, place = np.unique(scores, return_inverse=True)
    at = np.zeros((len(scores), len(distinct)))
    at[np.arange(len(scores)), place] = 1.0
    counts = weights[:, patients] @ at  # (1 + B, distinct): units at each score
    reached = np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]
    allowed = reached <= alpha * reached[:, :1] * (1 + 1e-12)
    allowed &= counts > 0  # a score of patients who were not drawn does not occur in this resample
    lowest = distinct[allowed.argmax(axis=1)]
    above = np.nextafter(distinct[(counts > 0).shape[1] - 1 - (counts > 0)[:, ::-1].argmax(axis=1)], np.inf)
    return np.where(allowed.any(axis=1), lowest, above)
