"""Figures from a run's own tables, and differences between two runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from core.attacks.probes.cosine import PROBE as COSINE
from core.attacks.probes.fill_in import NAME, OTHER_NAME
from core.attacks.probes.table import TARGET
from core.evaluation.probes.ranking import patient_aucs
from core.evaluation.probes.tables import matrices
from core.evaluation.probes.verdicts import Look
from core.evaluation.stats import intervals
from core.evaluation.stats.bootstrap import (
    Interval,
    WeightedStatistic,
    patient_bootstrap,
    weighted_perplexity,
    weighted_share,
)
from core.evaluation.summary import scale_to_pool
from core.evaluation.sweep.limit_measures import heldout_losses
from core.findings.claim import Figure
from core.findings.from_weights.abstract_entities import NAME as ABSTRACT_ENTITIES
from core.findings.stored_runs import Missing, StoredRuns
from core.spec import RunSpec
from core.tasks.inference import TASK as INFERENCE
from core.tasks.iob import abstract_of

# A verdict must not depend on the seed of the draws. With 1,000 resamples an end's standard error is about 2 % of the
# interval's width, which is more than the distance of some ends from their line; with 100,000 it is .2 %.
RESAMPLES = 100_000


def labelled(
    label: str, found: Interval, *, units: int | None = None, most: float = math.inf, joint: bool = False
) -> Figure:
    """An interval as a figure of the evidence; `units` is the sample size of one by Student's t."""
    degrees = math.inf if units is None else units - 1
    return Figure(label, found.value, found.low, found.high, degrees, most, joint)


def confidence_of_each(figures: int) -> float:
    """The confidence of each of `figures` intervals that hold together in 95 % of cases (Bonferroni).

    An interval that is longer to one side, such as Wilson's or one by χ², is taken at this level from the start: its
    two sides do not grow alike, so a 95 % interval cannot be widened afterwards (`core.findings.judging.jointly`).
    """
    return 1 - 0.05 / figures


def share_of(share: float, trials: int, figures: int, ratio: float = 1.0) -> Interval:
    """A share of `trials` by Wilson, one of `figures` that hold together; scaled to a pool `ratio` times as large."""
    ends = intervals.wilson(share, trials, confidence_of_each(figures))
    return Interval(*(scale_to_pool(one, ratio) for one in (share, *ends)))


def share_of_texts(runs: StoredRuns, spec: RunSpec, metric: str, figures: int, arm: str = "run") -> Interval:
    """A share of a run's texts as one of `figures` that hold together.

    Raises:
        Missing: The run has no such figure.
    """
    return share_of(runs.metric(spec, metric, arm).value, runs.units(spec, metric, arm), figures)


def metric_difference(runs: StoredRuns, one: RunSpec, other: RunSpec, metric: str) -> Interval:
    """A figure of `one` − that of `other`, from the intervals that both runs have stored.

    The two are taken as independent. On the same patients they go up and down together, so the interval is too wide
    rather than too narrow.
    """
    return intervals.difference(runs.metric(one, metric), runs.metric(other, metric))


def metric_trend(runs: StoredRuns, line: Sequence[tuple[float, RunSpec]], metric: str) -> Interval:
    """How much a figure grows for each doubling of a setting: the slope of the least-squares line through several runs.

    The runs are taken as independent, as in `metric_difference`.

    Args:
        runs: Where the figures are.
        line: The setting's value and the run, for each run.
        metric: The figure.
    """
    doublings = np.log2([at for at, _ in line])
    apart = doublings - doublings.mean()
    weights = apart / np.sum(apart**2)
    return intervals.weighted_sum(weights.tolist(), [runs.metric(spec, metric) for _, spec in line])


def perplexity_ratio(runs: StoredRuns, one: RunSpec, other: RunSpec) -> Interval:
    """Perplexity of held-out notes under `one` / that under `other`, the held-out patients resampled for both.

    The models share a tokenizer, so the ratio of perplexities compares them.

    Raises:
        Missing: The two runs did not score the same notes.
    """
    pair = [runs.run(spec) for spec in (one, other)]
    sides = [heldout_losses(run, summed=True) for run in pair]
    same = _same(sides, "tokens")
    if same and not any(run.figures_only for run in pair):  # of runs with figures only, the notes have no ids
        same = _same([heldout_losses(run, summed=False) for run in pair], "tokens")
    if not same:
        raise Missing(f"the runs {pair[0].id} and {pair[1].id} did not score the same held-out notes")
    both = sides[0].join(sides[1], rsuffix="_other")
    statistics = [
        weighted_perplexity(both[f"nats{end}"] / both[f"tokens{end}"], both[f"tokens{end}"]) for end in ("", "_other")
    ]
    return _paired(lambda weights: statistics[0](weights) / statistics[1](weights), both.index.to_series())


def accuracy_difference(runs: StoredRuns, one: RunSpec, other: RunSpec) -> Interval:
    """Share of claims about notes judged right with `one` − with `other`, held-out patients resampled for both.

    Raises:
        Missing: The two runs did not judge as many claims about each patient.
    """
    sides = [_answers(runs, spec) for spec in (one, other)]
    if not _same(sides, "trials"):
        found = f"{runs.run(one).id} and {runs.run(other).id}"
        raise Missing(f"the runs {found} did not judge as many claims about each held-out patient")
    both = sides[0].join(sides[1], rsuffix="_other")
    statistics = [weighted_share(both[f"correct{end}"], both[f"trials{end}"]) for end in ("", "_other")]
    return _paired(lambda weights: statistics[0](weights) - statistics[1](weights), both.index.to_series())


def abstracts_difference(
    runs: StoredRuns, one: tuple[RunSpec, str], other: tuple[RunSpec, str], corpus: str
) -> Interval:
    """F1 of entities in real abstracts with `one` − with `other`, abstracts (`core.tasks.iob`) resampled for both.

    Args:
        runs: Where the tables are.
        one: A run, and which of its models: `target` or `base`.
        other: The same for what is compared with it.
        corpus: The name of the labelled abstracts.

    Raises:
        Missing: The two were not judged on the same sentences.
    """
    sides = [_counted(runs, *side, corpus) for side in (one, other)]
    if not _same(sides, "trials"):
        raise Missing(f"the two models did not read the same sentences of {corpus}")
    both = sides[0].join(sides[1], rsuffix="_other")
    statistics = [
        weighted_share(2 * both[f"correct{end}"], both[f"trials{end}"] + both[f"predicted{end}"])
        for end in ("", "_other")
    ]
    return _paired(lambda weights: statistics[0](weights) - statistics[1](weights), abstract_of(both.index.to_series()))


def _counted(runs: StoredRuns, spec: RunSpec, model: str, corpus: str) -> pd.DataFrame:
    rows = runs.measured(spec, ABSTRACT_ENTITIES)
    rows = rows[(rows["corpus"] == corpus) & (rows["model"] == model)]
    return rows.set_index("sentence")[["trials", "predicted", "correct"]].astype(int)


def _same(sides: Sequence[pd.DataFrame], column: str) -> bool:
    """Whether both tables have the same index and the same counts."""
    one, other = (side[column].sort_index() for side in sides)
    return one.index.equals(other.index) and one.tolist() == other.tolist()


def _answers(runs: StoredRuns, spec: RunSpec) -> pd.DataFrame:
    rows = runs.run(spec).table("utility")
    rows = rows[rows["task"] == INFERENCE]
    return rows.groupby("patient_id")[["trials", "correct"]].sum()


def _paired(statistic: Callable[[np.ndarray], np.ndarray], patients: pd.Series) -> Interval:
    weighted: WeightedStatistic = statistic
    return patient_bootstrap(weighted, patients.to_numpy(), resamples=RESAMPLES)


def probe(
    runs: StoredRuns,
    spec: RunSpec,
    name: str,
    measure: str,
    method: str,
    *,
    model: str = "target",
    split: str = "member",
    bin: str = "all",
) -> Interval:
    """A figure of the identity probes; NaN if the audit has none."""
    found = Look(runs.audited(spec, "probe_figures"))(name, measure, method, model=model, split=split, bin=bin)
    return Interval(found.value, found.low, found.high)


def probed(runs: StoredRuns, spec: RunSpec, name: str) -> pd.DataFrame:
    """What one identity probe asked the trained model, a row each.

    Raises:
        Missing: The audit has no such rows.
    """
    rows = runs.workspace.audit(runs.run(spec).id).table_of(name, "probes")
    if rows is None:
        raise Missing(f"the audit of run {spec.run_id} has no results of the probe “{name}”")
    return rows[rows["model"] == TARGET]


def ranking_difference(runs: StoredRuns, spec: RunSpec, name: str, other: str) -> Interval:
    """AUC by patient of a ranking probe asked with the own name − by `other`, members resampled for both."""
    rows = runs.audited(spec, "probes")
    found = matrices(rows[rows["probe"] == name])
    own = found.named[NAME, TARGET]
    member = own.splits == "member"
    sides = [
        patient_aucs(found.scores(method, TARGET)[member], own.labels[member], found.bins) for method in (NAME, other)
    ]
    judged = sides[0] - sides[1]
    judged = judged[np.isfinite(judged)]
    patients = pd.Series(np.arange(len(judged)))
    return _paired(weighted_share(judged, np.ones(len(judged))), patients)


def links_apart(runs: StoredRuns, spec: RunSpec, one: str, other: str) -> Interval:
    """How much closer the vectors `one` bring members' names to their own conditions than the vectors `other` do.

    For each, the cosine with own conditions less that with others, less the same with another patient's name. The mean
    is over patients, who are resampled for both.

    Raises:
        Missing: The audit has no cosines.
    """
    rows = probed(runs, spec, COSINE)
    rows = rows[rows["split"] == "member"]
    links = []
    for method in (one, other):
        wide = rows[rows["method"] == method].pivot(index="patient_id", columns="target", values="score")
        links.append(wide[NAME] - wide[OTHER_NAME])
    apart = (links[0] - links[1]).dropna()
    return _paired(weighted_share(apart.to_numpy(), np.ones(len(apart))), apart.index.to_series())


def mean_over_conditions(runs: StoredRuns, spec: RunSpec, name: str, bin_: str) -> tuple[Interval, int]:
    """The mean AUC of one probe for each condition of this bin of frequency, by t, and the number of conditions."""
    found = Look(runs.audited(spec, "probe_figures"))(name, "AUC", "name", model="target", split="member", bin=bin_)
    return Interval(found.value, found.low, found.high), int(found.n)


def part_of_risk(runs: StoredRuns, spec: RunSpec, version: str, part: str) -> Interval:
    """One row of the weighted privacy risk (`core.evaluation.memorisation.risk`)."""
    rows = runs.audited(spec, "risk")
    row = rows[(rows["version"] == version) & (rows["part"] == part)].iloc[0]
    return Interval.of(row)


def precision_of(runs: StoredRuns, spec: RunSpec, features: str) -> Interval:
    """Precision on unseen patients of predicting memorised notes from these features (Mireshghallah 2022, §4.4)."""
    rows = runs.audited(spec, "memorisation_predictors")
    row = rows[(rows["features"] == features) & (rows["half"] == "judged")].iloc[0]
    return Interval(float(row["precision"]), float(row["precision_low"]), float(row["precision_high"]))
