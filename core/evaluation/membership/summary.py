"""The `membership` table: how well each attack separates members from others, with intervals over patients.

One row is one figure of one attack at one level (sample, admission, patient) for one length of notes. `rule` says how
the attack's threshold was set:

| rule | threshold |
|---|---|
| (empty) | none: the area under the ROC curve |
| own | the attack's own: log-odds 0 of a fitted attack, else the mean training score (Jagannatha 2021, §4.1.1) |
| population 10 %, population 1 % | that share of the disjoint population scores at least this (Mireshghallah 2022) |
| ROC 10 %, ROC 1 %, ROC 0.1 % | the best threshold on the ROC curve at that false-positive rate |
| splits | as own: mean over all the splits of a fitted attack, with its range in the note and no interval |

docs/methods/membership.md has the formulas. A figure for which there are too few data is NaN, and `note` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from core.attacks.membership.decision import OWN_THRESHOLDS
from core.evaluation.audit_summaries import Audited, Summary
from core.evaluation.membership.resampling import Auc, Rates, population_thresholds, ratio
from core.evaluation.membership.units import LENGTHS, LEVELS, Units, units
from core.evaluation.stats.bootstrap import Interval, percentile_interval, weights_with_data
from core.evaluation.stats.boundary_intervals import auc_interval, difference_interval, share_interval
from core.evaluation.stats.roc import privacy_leakage, roc

COLUMNS = {
    "attack": "str",
    "level": "str",
    "length": "str",
    "rule": "str",
    "metric": "str",
    "threshold": "float64",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "n": "int64",
    "note": "str",
}
ROC_RATES = (0.10, 0.01, 0.001)
POPULATION_RATES = (0.10, 0.01)
LEAST_ABOVE = 5  # population units above a threshold; with fewer, resampling cannot show its uncertainty


@dataclass(frozen=True)
class Figure:
    """One row of the table without attack, level and length. `n` counts the members and non-members evaluated."""

    rule: str
    metric: str
    threshold: float
    value: float
    low: float
    high: float
    n: int
    note: str


def membership(scores: pd.DataFrame, *, resamples: int, seed: int) -> pd.DataFrame:
    """The `membership` table, computed from an audit's `scores` table alone.

    It covers every attack, level and length. A length for which members or others have no notes gives no rows.
    """
    rows = []
    for attack, of_attack in scores.groupby("attack", sort=False):
        for level in LEVELS:
            for length in LENGTHS:
                try:
                    chosen = units(of_attack, level, length)
                except ValueError:
                    continue
                own = OWN_THRESHOLDS.get(str(attack))
                found = figures(chosen, own=own, resamples=resamples, seed=seed)
                rows += [(attack, level, length, *vars(figure).values()) for figure in found]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def figures(units: Units, *, own: float | None, resamples: int, seed: int) -> list[Figure]:
    """Every figure of an attack on `units`. `own` is its own threshold; None means the mean training score."""
    weights = weights_with_data(units.patient_member, resamples=resamples, seed=seed)
    rates = Rates(units)
    cumulated = rates.cumulated(weights)
    found = [_auc(units, weights)]
    mean = rates.training_mean(weights) if own is None else np.full(len(weights), own)
    note = "threshold: mean score of the training notes" if own is None else "threshold: the fitted attack's log-odds 0"
    above = units.score > mean[0]
    found += _decision(units, "own", mean, rates.at(cumulated, mean, strict=True), above, note)
    for alpha in POPULATION_RATES:
        found += _by_population(units, alpha, rates, cumulated, seed)
    for alpha in ROC_RATES:
        found += _by_roc(units, alpha, rates, cumulated)
    return found


def _auc(units: Units, weights: np.ndarray) -> Figure:
    found = auc_interval(_interval(units, Auc(units)(weights)), *units.patients)
    return _figure(units, "", "auc", np.nan, found, "a blind guess gets 0.5")


def _decision(
    units: Units, rule: str, thresholds: np.ndarray, both: tuple[np.ndarray, np.ndarray], said: np.ndarray, note: str
) -> Iterator[Figure]:
    """TPR (recall), FPR, PL (TPR − FPR; Jagannatha 2021, eq. 2) and precision; the first of (B,) is the actual one.

    `said` is which units are called members at the actual threshold, bool (units,).
    """
    tpr, fpr = both
    right, wrong = tpr * units.members, fpr * units.nonmembers
    of_members, of_others = units.patients
    caught = share_interval(_interval(units, tpr), of_members)
    accused = share_interval(_interval(units, fpr), of_others)
    leaked = difference_interval(_interval(units, tpr - fpr), caught, accused)
    called = len(np.unique(units.patient[said]))  # patients with a unit that is called a member
    true = share_interval(_interval(units, ratio(right, right + wrong)), called)
    for metric, found, remark in (
        ("true_positive_rate", caught, "recall"),
        ("false_positive_rate", accused, "share of non-members accused"),
        ("privacy_leakage", leaked, "a blind guess gets 0"),
        ("precision", true, f"members are {units.members} of {_n(units)} judged"),
    ):
        yield _figure(units, rule, metric, float(thresholds[0]), found, f"{note}; {remark}")


def _by_population(
    units: Units, alpha: float, rates: Rates, cumulated: list[np.ndarray], seed: int
) -> Iterator[Figure]:
    """The figures at a population threshold. The population is resampled as well: other patients set another one."""
    rule = f"population {100 * alpha:g} %"
    threshold, note = population_threshold(units.population, alpha)
    if np.isnan(threshold):
        yield _missing(units, rule, note)
        return
    thresholds = population_thresholds(units, alpha, resamples=len(cumulated[0]) - 1, seed=seed)
    reached = units.score >= threshold
    found = _decision(units, rule, thresholds, rates.at(cumulated, thresholds, strict=False), reached, note)
    if alpha * len(units.population) >= LEAST_ABOVE:
        yield from found
        return
    few = f"; no interval: at {100 * alpha:g} % the threshold rests on fewer than {LEAST_ABOVE} of the population"
    for one in found:
        yield replace(one, low=np.nan, high=np.nan, note=one.note + few)


def population_threshold(population: np.ndarray, alpha: float) -> tuple[float, str]:
    """The lowest score that at most a share `alpha` of the population reaches (Mireshghallah 2022), and a note on it.

    The attack says "member" when score ≥ threshold. With fewer than 1/α units no such rate can be set: the threshold is
    NaN, and the note says so.
    """
    size = len(population)
    if size * alpha < 1:
        needed = int(np.ceil(1 / alpha))
        return np.nan, f"too few: a threshold at {100 * alpha:g} % needs {needed} of the population; there are {size}"
    distinct, counts = np.unique(population, return_counts=True)
    reached = np.cumsum(counts[::-1])[::-1]  # how many units score at least this
    allowed = np.flatnonzero(reached <= alpha * size * (1 + 1e-12))
    if allowed.size == 0:
        return np.nan, f"too many ties: more than {100 * alpha:g} % of the population share the highest score"
    at = allowed[0]
    return float(distinct[at]), f"threshold reached by {reached[at]} of {size} of the population"


def _by_roc(units: Units, alpha: float, rates: Rates, cumulated: list[np.ndarray]) -> Iterator[Figure]:
    rule = f"ROC {100 * alpha:g} %"
    if units.nonmembers * alpha < 1:
        needed = int(np.ceil(1 / alpha - 1e-9))
        note = f"too few: {100 * alpha:g} % needs {needed} non-members; there are {units.nonmembers}"
        yield _missing(units, rule, note)
        return
    thresholds = rates.threshold_for(cumulated, alpha)
    tpr, fpr = rates.at(cumulated, thresholds, strict=False)
    threshold = float(thresholds[0])
    note = f"realised false-positive rate {fpr[0]:.4g} ({round(fpr[0] * units.nonmembers)} of {units.nonmembers})"
    caught = share_interval(_interval(units, tpr), units.patients[0])
    yield _figure(units, rule, "true_positive_rate", threshold, caught, note)
    yield Figure(rule, "false_positive_rate", threshold, float(fpr[0]), np.nan, np.nan, _n(units), "realised")


def _interval(units: Units, values: np.ndarray) -> Interval:
    """A figure from its values: the first in the cohort, the others in the resamples."""
    return percentile_interval(float(values[0]), values[1:], units.smallest_stratum)


def _figure(units: Units, rule: str, metric: str, threshold: float, found: Interval, note: str) -> Figure:
    return Figure(rule, metric, threshold, found.value, found.low, found.high, _n(units), note)


def _missing(units: Units, rule: str, note: str) -> Figure:
    return Figure(rule, "true_positive_rate", np.nan, np.nan, np.nan, np.nan, _n(units), note)


def _n(units: Units) -> int:
    return len(units.score)


def over_splits(split_scores: pd.DataFrame) -> pd.DataFrame:
    """Rows of the `membership` table with rule `splits`: AUC and PL of fitted attacks over several patient splits.

    The splits share patients, so their spread is not a confidence interval; the note gives the range.
    """
    rows = []
    for attack, of_attack in split_scores.groupby("attack", sort=False):
        for level in LEVELS:
            found = [units(of_fit, level) for _, of_fit in of_attack.groupby("fit")]
            own = OWN_THRESHOLDS[str(attack)]
            leakages = [privacy_leakage(one.score[one.member] > own, one.score[~one.member] > own) for one in found]
            aucs = [roc(one.score[one.member], one.score[~one.member]).auc for one in found]
            for metric, values in (("auc", aucs), ("privacy_leakage", leakages)):
                spread = f"from {min(values):.3f} to {max(values):.3f}"
                note = f"mean of {len(values)} splits by patients, 20 % fitted; {spread}"
                n = round(float(np.mean([_n(one) for one in found])))
                rows.append(
                    (attack, level, "all", "splits", metric, own, float(np.mean(values)), np.nan, np.nan, n, note)
                )
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def _make(audited: Audited) -> pd.DataFrame:
    audit, splits = audited.run.spec.audit, audited.audit.table("split_scores")
    found = membership(audited.audit.table("scores"), resamples=audit.bootstrap, seed=audit.seed)
    return found if splits.empty else pd.concat([found, over_splits(splits)], ignore_index=True)


HEADLINE = "length == 'all' and level != 'admission' and metric in ('auc', 'privacy_leakage')"
MEMBERSHIP = Summary("membership", COLUMNS, ("scores",), _make, HEADLINE, version=3)
