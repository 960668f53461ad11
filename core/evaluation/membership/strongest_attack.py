"""The strongest of the membership attacks on a model, by patient, with an interval that accounts for choosing it.

Picking the best of N attacks by their scores also picks luck: the chosen value is too high on average, and its own 95 %
interval covers the true value less often than 95 %. So the interval is widened for N choices
(`core.evaluation.stats.intervals.best_of`). The attack with the highest lower end of these intervals is taken: the one
that certainly reaches most. By the highest value, an attack on a few dozen patients wins by chance.

A limit needs the upper end: even if the chosen attack's interval lies below it, an attack with a lower lower end may
have a higher upper end. So a limit is compared with the highest upper end of all attacks (`Strongest.up_to`). Only
attacks that were evaluated on too few patients to be bounded (`enough`) count by their lower ends alone. They are left
out by numbers of patients, never by what they reached, and are named (`Strongest.few`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.attacks.membership.decision import LOSS, OWN_THRESHOLDS, in_words
from core.evaluation.membership.resampling import Auc, Rates
from core.evaluation.membership.units import Units, units
from core.evaluation.stats.bootstrap import Interval, percentile_interval, weights_with_data
from core.evaluation.stats.boundary_intervals import auc_interval, difference_interval, share_interval
from core.evaluation.stats.intervals import best_of, most_certain
from core.evaluation.wording import interval_text, pairs_of
from core.runs.audits import StoredAudit
from core.runs.run import Run

RESAMPLES = 1_000  # of patients
CAUGHT_AT = 0.10  # false-positive rate of “members caught”
ENOUGH = 0.5  # of the members and of the others whom the attack with the most evaluates

Statistic = Callable[[np.ndarray], tuple[np.ndarray, ...]]  # weights (B, P) → value (B,) and the shares it consists of


@dataclass(frozen=True)
class Strongest:
    """The attack that certainly reaches most, its interval corrected for the choice among `attacks`.

    `patients` counts the patients it was evaluated on, members and others. With one attack, it is the quick audit's
    loss attack. `up_to` is the highest upper end of the widened intervals of this attack and of all that were evaluated
    on `enough` patients: with 95 % confidence none of them reaches more. `few` has the other attacks and the number of
    their patients.
    """

    attack: str
    interval: Interval
    attacks: int
    patients: int
    up_to: float = np.nan  # not known, so no limit is met
    few: tuple[tuple[str, int], ...] = ()


def scores_of(run: Run, audit: StoredAudit | None) -> pd.DataFrame:
    """Scores of every attack on the run: those of its full audit, and the quick audit's loss attack.

    An audit of single attacks may lack the loss attack, which may well be the strongest.
    """
    scores = pd.DataFrame() if audit is None else audit.table("scores")
    if len(scores) and (scores["attack"] == LOSS).any():
        return scores
    quick = run.table("scores")
    quick = quick[quick["attack"] == LOSS]
    return pd.concat([quick, scores], ignore_index=True) if len(scores) else quick


def strongest_sentence(found: Strongest) -> str:
    """A strongest attack's AUC as pairs of patients, with what was tried and how certain it is."""
    right, of = pairs_of(found.interval.value)
    what = (
        f"the strongest of {found.attacks} membership attacks, {in_words(found.attack)},"
        if found.attacks > 1
        else in_words(found.attack)
    )
    note = (
        "the interval is widened for the choice"
        if found.attacks > 1
        else "the only membership attack run: a full audit may find a stronger one"
    )
    low, high = found.interval.low, found.interval.high
    reaches_down = low > 0.5 and f"{low:.2f}" == "0.50"  # to a coin, which the interval excludes
    digits = 3 if reaches_down or f"{low:.2f}" == f"{high:.2f}" else 2
    ends = interval_text(low, high, f"{{:.{digits}f}}".format)
    return (
        f"Shown {of:,} pairs of one patient in the training data and one outside it, {what} picks the right one "
        f"{right:,} times ({of // 2:,} by tossing a coin). AUC {found.interval.value:.3g}, {ends}, "
        f"evaluated on {found.patients:,} patients; {note}."
    )


def strongest(scores: pd.DataFrame, measure: str, *, resamples: int = RESAMPLES, seed: int = 0) -> Strongest | None:
    """The attack whose `measure` (one of MEASURES) is certainly highest in an audit's `scores` table, or in the loss's.

    Attacks with scores for members only, or for others only, are not considered; None if no attack is left.
    """
    return strongest_of(judged_by(scores), measure, resamples=resamples, seed=seed)


def judged_by(scores: pd.DataFrame) -> dict[str, Units]:
    """The patients of every attack in the `scores` table that scores both members and others, by the attack's name."""
    found = {}
    for attack, rows in scores.groupby("attack", sort=True):
        try:
            found[str(attack)] = units(rows, "patient")
        except ValueError:  # members or others without a note
            continue
    return found


def enough(attacks: Mapping[str, Units]) -> set[str]:
    """The attacks that were evaluated on at least ENOUGH of the members and of the others that any attack has."""
    members, others = (max((judged.patients[side] for judged in attacks.values()), default=0) for side in (0, 1))
    return {
        attack
        for attack, judged in attacks.items()
        if judged.patients[0] >= ENOUGH * members and judged.patients[1] >= ENOUGH * others
    }


def strongest_of(
    attacks: Mapping[str, Units], measure: str, *, resamples: int = RESAMPLES, seed: int = 0
) -> Strongest | None:
    """The attack of `judged_by` whose `measure` has the highest lower end; None if there is none."""
    own: dict[str, Interval] = {}
    for attack in sorted(attacks):
        found = interval_of(attacks[attack], measure, own=OWN_THRESHOLDS.get(attack), resamples=resamples, seed=seed)
        if np.isfinite(found.value):
            own[attack] = found
    if not own:
        return None
    least = -1.0 if measure == "privacy_leakage" else 0.0
    names = list(own)
    place, chosen = most_certain(list(own.values()), least=least)
    bounded = enough({attack: attacks[attack] for attack in names})
    few = tuple((attack, sum(attacks[attack].patients)) for attack in names if attack not in bounded)
    # NaN, if one of them has no interval.
    up_to = np.max([best_of(own[one], len(own), least=least, most=1.0).high for one in {*bounded, names[place]}])
    return Strongest(names[place], chosen, len(own), sum(attacks[names[place]].patients), float(up_to), few)


def interval_of(judged: Units, measure: str, *, own: float | None = None, resamples: int, seed: int) -> Interval:
    """A measure of one attack with its 95 % interval over patients; `own` is the attack's own threshold, if any."""
    weights = weights_with_data(judged.patient_member, resamples=resamples, seed=seed)
    values = MEASURES[measure](judged, own)(weights)
    found, *shares = (percentile_interval(float(one[0]), one[1:], judged.smallest_stratum) for one in values)
    members, others = judged.patients
    if measure == "auc":
        return auc_interval(found, members, others)
    if measure == "members_caught":
        return share_interval(found, members)
    caught, accused = (share_interval(share, of) for share, of in zip(shares, (members, others), strict=True))
    return difference_interval(found, caught, accused)


def _auc(judged: Units, own: float | None) -> Statistic:
    auc = Auc(judged)
    return lambda weights: (auc(weights),)


def _caught(judged: Units, own: float | None) -> Statistic:
    """Share of members at the lowest threshold that at most CAUGHT_AT of the others reach, set anew each time."""
    rates = Rates(judged)

    def statistic(weights: np.ndarray) -> tuple[np.ndarray, ...]:
        cumulated = rates.cumulated(weights)
        return (rates.at(cumulated, rates.threshold_for(cumulated, CAUGHT_AT), strict=False)[0],)

    return statistic


def _leakage(judged: Units, own: float | None) -> Statistic:
    """TPR − FPR (Jagannatha 2021, eq. 2) at the attack's own threshold or the mean training score; then TPR and FPR."""
    rates = Rates(judged)

    def statistic(weights: np.ndarray) -> tuple[np.ndarray, ...]:
        threshold = rates.training_mean(weights) if own is None else np.full(len(weights), own)
        tpr, fpr = rates.at_near(weights, threshold)
        return tpr - fpr, tpr, fpr

    return statistic


MEASURES: dict[str, Callable[[Units, float | None], Statistic]] = {
    "auc": _auc,
    "members_caught": _caught,
    "privacy_leakage": _leakage,
}
