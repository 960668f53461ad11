"""How much of an attack's AUC comes from notes that differ in difficulty (Mireshghallah 2022, §1 and §3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd

from core.attacks.membership.decision import LOSS, RATIO
from core.evaluation.membership.resampling import Auc, ratio
from core.evaluation.membership.units import Units
from core.evaluation.stats.bootstrap import Interval
from core.findings.measures.attacks import Measure, Side, auc, difference
from core.findings.measures.references import shadow_reference
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
