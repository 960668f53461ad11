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
from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, patient_weights, percentile_interval
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
    sides = [rows.loc[rows["split"] == "heldout"].set_index("note_id") for rows in (ratio_scores, loss)]
    both = sides[0][["patient_id", "score"]].join(sides[1]["score"], how="inner", rsuffix="_loss")
    values = both[["score", "score_loss"]].to_numpy(dtype=float)
    values -= values.mean(axis=0)  # so that squares lose no digits
    moments = pd.DataFrame(np.column_stack([np.ones(len(values)), values, values**2]))
    by_patient = moments.groupby(both["patient_id"].to_numpy()).sum()

    def statistic(weights: np.ndarray) -> np.ndarray:
        notes, first, second = np.split(weights @ by_patient.to_numpy(), [1, 3], axis=1)
        spread = np.sqrt(second / notes - (first / notes) ** 2)
        return ratio(spread[:, 0], spread[:, 1])

    return patient_bootstrap(statistic, by_patient.index, resamples=MANY)


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
        drawn = np.vstack([np.ones(len(known)), patient_weights(known, resamples=RESAMPLES, seed=seed)])
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

        def statistic(weights: np.ndarray) -> np.ndarray:
            count, first, second = (weights @ one for one in sums)
            found: np.ndarray = np.sqrt(second / count - (first / count) ** 2)
            return found

        return statistic

    return spread
