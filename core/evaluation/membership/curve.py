"""Data of the Membership page's charts: a ROC curve with its band, the ceiling by the guarantee, who is caught."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.evaluation.membership.resampling import Rates
from core.evaluation.membership.units import Units
from core.evaluation.stats.bootstrap import percentile_interval, weights_with_data
from core.evaluation.stats.boundary_intervals import share_interval
from core.evaluation.stats.roc import roc
from core.training.accounting.composition import of_two
from core.training.accounting.mechanism import Mechanism

GRID = np.unique(np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 40), np.linspace(0.0, 1.0, 41)]))


def curve(units: Units, *, resamples: int, seed: int) -> pd.DataFrame:
    """The ROC curve on a grid of false-positive rates: columns fpr, tpr, low, high, threshold.

    `tpr` is the highest that is reached without exceeding `fpr` (no interpolation), `low` and `high` its 95 % interval
    over patients, with the threshold set anew in each resample. A threshold of ∞ means that no score is high enough.
    """
    weights = weights_with_data(units.patient_member, resamples=resamples, seed=seed)
    rates = Rates(units)
    cumulated = rates.cumulated(weights)
    rows = []
    for fpr in GRID:
        thresholds = rates.threshold_for(cumulated, float(fpr))
        tpr, _ = rates.at(cumulated, thresholds, strict=False)
        interval = percentile_interval(float(tpr[0]), tpr[1:], units.smallest_stratum)
        if fpr < 1:  # at FPR 1 everybody is accused, so everybody is caught and nothing is uncertain
            interval = share_interval(interval, units.patients[0])
        rows.append((fpr, interval.value, interval.low, interval.high, thresholds[0]))
    return pd.DataFrame(rows, columns=["fpr", "tpr", "low", "high", "threshold"])


def steps(units: Units) -> pd.DataFrame:
    """The exact ROC curve as a line of steps: columns fpr, tpr, from (0, 0) to (1, 1).

    A line that goes right and then up from each point to the next is the whole curve: left out are the points where
    such a line does not turn, which are most of thousands of scores.
    """
    found = roc(units.score[units.member], units.score[~units.member])
    up, right = np.diff(found.tpr) > 0, np.diff(found.fpr) > 0
    turns = np.concatenate([[True], up[:-1] & right[1:], [True]])
    return pd.DataFrame({"fpr": found.fpr[turns], "tpr": found.tpr[turns]})


@dataclass(frozen=True)
class Ceiling:
    """The guarantee of a run for the units that are evaluated; each of them is `group` units of the promise.

    `epsilon` is that of the line. `of_group` is the ε of a whole group in or out of the training data. The line has a
    larger one: it compares members with others, and where one patient is in, another one is out. With `per_note`, notes
    are evaluated under a promise for one note. The line then holds for one note more or less among the same others. A
    patient's notes are in or out together, so it is no bound on the curve that is measured here.
    """

    epsilon: float
    delta: float
    group: int
    of_group: float
    per_note: bool = False


def ceiling_for(mechanism: Mechanism, judged: Sequence[Units], level: str) -> Ceiling:
    """What a run's guarantee says about notes, admissions or patients (group privacy: Jagannatha 2021, §2).

    A promise per patient covers all data of a patient. A promise per note covers k notes with the larger ε of
    `Mechanism.patient_epsilon` at the same δ. For `Ceiling.of_group`, k is the most notes of an evaluated member
    patient (an admission has no more). If they were drawn from a larger cohort, another member may have more notes, and
    so a larger ε (`core.evaluation.guarantee.odds.group_sentence`).

    The curve's rates are those of members and of others in splits of fixed size. By symmetry they are the chance to
    accuse a patient who is in, and the chance to accuse the same one after a held-out patient took their place. That
    removes one group of units and adds another one, so the line is that of two changes (`of_two`). Its k is the most
    notes of any patient whom one of the attacks in `judged` evaluates, so it bounds the curve of each. Bounds on ε from
    attacks (`core.evaluation.guarantee.audit_guarantee`) count both changes, too, by the looser group formula, with
    which they prove less.
    """
    delta = mechanism.delta
    if mechanism.unit == "note" and level == "sample":
        epsilon = mechanism.epsilon()
        return Ceiling(epsilon, delta, 1, epsilon, per_note=True)
    members = everyone = 1
    if mechanism.unit == "note":
        members = max(int(one.mean_counts.max()) for one in judged)
        everyone = max(int(one.notes.max()) for one in judged)
    two, _ = of_two(lambda share: (mechanism.patient_epsilon(everyone, share), mechanism.counted_by), delta)
    return Ceiling(two, delta, members, mechanism.patient_epsilon(members))


@dataclass(frozen=True)
class Caught:
    """Who is called a member at one threshold."""

    members: int
    of_members: int
    others: int
    of_others: int


def caught(units: Units, threshold: float) -> Caught:
    """Members correctly and others wrongly called members by "score ≥ threshold"."""
    says = units.score >= threshold
    return Caught(int(says[units.member].sum()), units.members, int(says[~units.member].sum()), units.nonmembers)
