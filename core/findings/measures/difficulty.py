"""How much notes differ in difficulty, and what an attack's AUC owes to it (Mireshghallah 2022, §1 and §4.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from scipy import stats

from core.attacks.membership.decision import LOSS, RATIO
from core.evaluation.membership.resampling import Auc, ratio
from core.evaluation.membership.strongest_attack import RESAMPLES
from core.evaluation.membership.units import Units
from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, percentile_interval, weights_with_data
from core.findings.measures.attacks import Measure, Side, auc, common, difference
from core.findings.measures.references import shadow_reference
from core.findings.measures.tables import RESAMPLES as MANY
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

BINS = 10  # as many equally large groups of notes by difficulty


def auc_within(groups: np.ndarray) -> Measure:
    """AUC over those pairs of a member's and another's note that are in the same group.

    `groups` (notes,) is in the order of the notes' ids, as `core.evaluation.membership.units.units` has them.
    """

    def measure(judged: Units, own: float | None) -> Callable[[np.ndarray], np.ndarray]:
        if len(groups) != len(judged.score):
            raise ValueError(f"{len(groups)} notes have a group, and {len(judged.score)} are judged")
        size = len(judged.patient_member)
        right, pairs = np.zeros((size, size)), np.zeros((size, size))  # member patient × other patient, all groups
        for group in np.unique(groups):
            chosen = groups == group
            part = replace(
                judged, score=judged.score[chosen], member=judged.member[chosen], patient=judged.patient[chosen]
            )
            found = Auc(part)
            right += found.pairs
            pairs += np.outer(found.members, found.others)
        return lambda weights: ratio(_bilinear(weights, right), _bilinear(weights, pairs))

    return measure


def _bilinear(weights: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """wᵀ M w of each row of weights, (B, P) → (B,)."""
    found: np.ndarray = ((weights @ matrix) * weights).sum(axis=1)
    return found


def auc_beyond(groups: np.ndarray) -> Measure:
    """AUC over all pairs − AUC over pairs of the same group: what notes of different groups add."""
    within = auc_within(groups)

    def measure(judged: Units, own: float | None) -> Callable[[np.ndarray], np.ndarray]:
        everywhere, inside = auc(judged, own), within(judged, own)
        return lambda weights: everywhere(weights) - inside(weights)

    return measure


def advantage_by_difficulty(runs: StoredRuns, spec: RunSpec) -> Interval:
    """AUC of the ratio to shadow models − of the loss, over all pairs, − the same over pairs of equally hard notes.

    Notes are equally hard if they are in the same tenth by the public base model's mean log p. The tenths are fixed,
    and patients are resampled for all four AUCs together.
    """
    scores, loss = shadow_reference(runs, spec)
    public = runs.quick_scores(spec.base_spec()).set_index("note_id")["score"]
    groups = tenths(public.reindex(np.sort(loss["note_id"])))
    return difference(Side(scores, RATIO), Side(loss, LOSS), auc_beyond(groups))


def tenths(values: pd.Series) -> np.ndarray:
    """Which tenth each value is in, 0 to 9, (notes,)."""
    return pd.qcut(values, BINS, labels=False).to_numpy()


def spread_left(ratio_scores: pd.DataFrame, loss: pd.DataFrame) -> Interval:
    """Standard deviation of the ratio / of the loss, over notes of held-out patients, who are resampled for both.

    The model read none of these notes, so what their scores differ by is not membership. Both scores are in nats per
    token, and the ratio is the loss attack's score less the reference's.
    """
    sides = [_never_read(rows).set_index("note_id") for rows in (ratio_scores, loss)]
    shared = sides[0].index.intersection(sides[1].index)
    return spread_ratio(*(rows.loc[shared] for rows in sides))


def spread_ratio(one: pd.DataFrame, other: pd.DataFrame) -> Interval:
    """Standard deviation of the scores of `one` / of `other`, over notes of held-out patients, resampled for both.

    The two may be about other notes, such as those of two hospitals, but must be about the same patients.
    """
    moments = [_moments(_never_read(rows)) for rows in (one, other)]
    if not moments[0].index.equals(moments[1].index):
        raise ValueError("the two sides of a comparison are about different patients")

    def statistic(weights: np.ndarray) -> np.ndarray:
        return ratio(*(_spread(weights @ by_patient.to_numpy()) for by_patient in moments))

    return patient_bootstrap(statistic, moments[0].index, resamples=MANY)


def _never_read(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.loc[rows["split"] == "heldout"]


def _moments(rows: pd.DataFrame) -> pd.DataFrame:
    """Number of notes, sum of their scores and of the squares, by patient."""
    score = rows["score"].astype(float)
    score = score - score.mean()  # so that squares lose no digits
    return pd.DataFrame({"notes": 1.0, "first": score, "second": score**2}).groupby(rows["patient_id"]).sum()


def _spread(sums: np.ndarray) -> np.ndarray:
    """Standard deviation by resample, (B,), of the sums of `_moments`, (B, 3)."""
    notes, first, second = sums.T
    found: np.ndarray = np.sqrt(second / notes - (first / notes) ** 2)
    return found


def shadow_spread_left(runs: StoredRuns, spec: RunSpec) -> Interval:
    """`spread_left` of the ratio to shadow models that did not read the note."""
    return spread_left(*shadow_reference(runs, spec))


Pair = tuple[Side, Side]  # the ratio and the loss on the same notes


def advantage_against_spread(hospitals: Sequence[Sequence[Pair]], *, member: bool) -> Interval:
    """Spearman's ρ over pairs of attacks: AUC of the ratio − of the loss, and what spread of the loss the ratio leaves.

    The spread is the standard deviation over the notes of members, or else of held-out patients. The pairs are fixed.
    Patients are resampled for all pairs of a hospital together, and hospitals by themselves.

    Args:
        hospitals: The pairs of each hospital; all of them are about the same patients.
        member: Whether the spread is that of the trained notes.
    """
    points, smallest = [], []
    for seed, pairs in enumerate(hospitals):
        judged = [tuple(side.units() for side in common(*pair)) for pair in pairs]
        known = judged[0][0].patient_member
        drawn = weights_with_data(known, resamples=RESAMPLES, seed=seed)
        for both in judged:
            if not all(np.array_equal(known, side.patient_member) for side in both):
                raise ValueError("the pairs of a hospital are about different patients")
            areas, spreads = ([of(side)(drawn) for side in both] for of in (_area, _spread_of(member)))
            points.append((areas[0] - areas[1], ratio(spreads[0], spreads[1])))
            smallest.append(both[0].smallest_stratum)
    gained, left = (stats.rankdata(np.stack(values), axis=0) for values in zip(*points, strict=True))
    gained, left = (ranks - ranks.mean(axis=0) for ranks in (gained, left))
    found = ratio((gained * left).sum(axis=0), np.sqrt((gained**2).sum(axis=0) * (left**2).sum(axis=0)))
    return percentile_interval(float(found[0]), found[1:], min(smallest))


def _area(judged: Units) -> Callable[[np.ndarray], np.ndarray]:
    return auc(judged, None)


def _spread_of(member: bool) -> Callable[[Units], Callable[[np.ndarray], np.ndarray]]:
    """Standard deviation of the scores of members' notes, or of others', by resample."""

    def spread(judged: Units) -> Callable[[np.ndarray], np.ndarray]:
        chosen = judged.member == member
        score, patient = judged.score[chosen] - judged.score[chosen].mean(), judged.patient[chosen]
        sums = [np.bincount(patient, score**power, minlength=len(judged.patient_member)) for power in range(3)]

        return lambda weights: _spread(np.stack([weights @ one for one in sums], axis=1))

    return spread
