"""Evaluates the identity probes: each figure with its 95 % interval, its n, the value of a blind guess, its controls.

Everything is computed from the table `probes` alone. Controls have rows of their own: the same figure with another
patient's name, without a name, from frequency alone, for held-out patients, for the public model. Only a leak can move
the difference between a figure and its control, which has a row with the blind value 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple, replace

import numpy as np
import pandas as pd

from core.attacks.memorisation.own_values import Shared
from core.attacks.probes.cosine import PROBE as COSINE
from core.attacks.probes.fill_in import NAME, OTHER_NAME
from core.attacks.probes.fill_in import PROBE as FILL_IN
from core.attacks.probes.generated import METHOD as COMPARATOR
from core.attacks.probes.generated import NAMES, PAIRS, TEXTS
from core.attacks.probes.half_name import OTHERS, OWN
from core.attacks.probes.half_name import PROBE as HALF_NAME
from core.attacks.probes.mlp import PROBE as NETWORK
from core.attacks.probes.name_seen import PROBE as NAME_SEEN
from core.attacks.probes.per_condition import PROBE as PER_CONDITION
from core.attacks.probes.table import PUBLIC, TARGET
from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.audit_summaries import Audited, Summary
from core.evaluation.probes import ranking
from core.evaluation.probes.conditions import rankings, single_conditions
from core.evaluation.probes.interval_estimator import IntervalEstimator
from core.evaluation.probes.tables import (
    ALL_NAMES,
    AUC,
    BOTH,
    COLUMNS,
    DIFFERENCE,
    FIGURES,
    LINK,
    OWN_MINUS_OTHER,
    PAIRED,
    PERPLEXITY,
    RIGHT,
    SHUFFLED,
    TARGET_MINUS_PUBLIC,
    TOP100,
    TOP_NAMES,
    WITH_NAME,
    Figure,
)
from core.evaluation.stats.bootstrap import Interval, weighted_auc, weighted_perplexity
from core.evaluation.stats.boundary_intervals import auc_interval, difference_interval
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import pools, scale_to_pool


def figures(probes: pd.DataFrame, pool: Mapping[str, int], *, resamples: int = 1_000, seed: int = 0) -> pd.DataFrame:
    """Every figure of the probes in the table, with `COLUMNS`.

    Intervals resample patients (seeded), or conditions for “one probe a condition”. With fewer than ten they are
    Student's; for A@100, and if all patients agree, they are Wilson's.

    Args:
        probes: The table `probes` of an audit.
        pool: Number of the cohort's patients with a known name of their own in the splits member and heldout: a
            generated name can be any of theirs.
        resamples: Number of resamples.
        seed: Seed of the resamples.
    """
    estimator = IntervalEstimator(resamples, seed)
    found: list[Figure] = []
    for probe, rows in probes.groupby("probe", sort=False):
        if probe in (FILL_IN, NETWORK):
            found += rankings(estimator, rows, probe)
        elif probe == PER_CONDITION:
            found += single_conditions(estimator, rows)
        elif probe == COSINE:
            found += _cosines(estimator, rows)
        elif probe == NAME_SEEN:
            found += _seen(estimator, rows)
        elif probe == HALF_NAME:
            found += _halves(estimator, rows)
        elif probe == NAMES:
            found += _names(rows, pool)
        elif probe == PAIRS:
            found += _pairs(estimator, rows)
        elif probe == TEXTS:
            found += _texts(rows)
    return pd.DataFrame([astuple(one) for one in found], columns=list(COLUMNS)).astype(COLUMNS)


def _cosines(estimator: IntervalEstimator, rows: pd.DataFrame) -> Iterator[Figure]:
    """Mean over patients of own minus other conditions: with their own name, with another's, and the difference."""
    for (method, model, split), part in rows.groupby(["method", "model", "split"], sort=False):
        wide = part.pivot(index="patient_id", columns="target", values="score")
        name = f"{method}, {{}}"
        for column in (NAME, OTHER_NAME):
            key = (COSINE, DIFFERENCE, name.format(column), model, split, "all")
            yield from estimator.mean("difference", key, wide[column].to_numpy(), 0.0, "patients")
        paired = (wide[NAME] - wide[OTHER_NAME]).to_numpy()
        key = (COSINE, DIFFERENCE, name.format(OWN_MINUS_OTHER), model, split, "all")
        yield from estimator.mean("difference", key, paired, 0.0, "patients, paired")


def _seen(estimator: IntervalEstimator, rows: pd.DataFrame) -> Iterator[Figure]:
    """AUC of members against held-out patients, for the model, for the public model, and the difference."""
    yield from _apart(estimator, rows, NAME_SEEN, "logistic regression", "all")


def _halves(estimator: IntervalEstimator, rows: pd.DataFrame) -> Iterator[Figure]:
    """For each hidden half: AUCs, perplexities, and how much more the patient's own other half helps than another's."""
    for hidden, part in rows.groupby("target", sort=False):
        own = part[part["method"] == OWN]
        yield from _apart(estimator, own, HALF_NAME, OWN, hidden)
        yield from _apart(estimator, part[part["method"] == OTHERS], HALF_NAME, OTHERS, hidden)
        for (model, split), group in own.groupby(["model", "split"], sort=False):
            found = estimator.interval(weighted_perplexity(-group["score"], np.ones(len(group))), group["patient_id"])
            key = (HALF_NAME, PERPLEXITY, OWN, model, split, hidden)
            yield Figure(*key, found.value, found.low, found.high, len(group), np.nan, "patients")
        for (model, split), group in part.groupby(["model", "split"], sort=False):
            wide = group.pivot(index="patient_id", columns="method", values="score")
            key = (HALF_NAME, LINK, f"{OWN} − {OTHERS}", model, split, hidden)
            paired = (wide[OWN] - wide[OTHERS]).to_numpy()
            yield from estimator.mean("difference", key, paired, 0.0, "patients, paired")


def _apart(estimator: IntervalEstimator, rows: pd.DataFrame, probe: str, method: str, bin_: str) -> Iterator[Figure]:
    """AUC of `label` by score for each model, and the target's minus the public model's on the same patients."""
    statistics, aucs = {}, {}
    for model, part in rows.sort_values("patient_id").groupby("model", sort=False):
        label, units = part["label"].to_numpy(dtype=bool), part["patient_id"].to_numpy()
        statistics[model] = weighted_auc(part["score"], label)
        found = estimator.interval(statistics[model], units, label)
        found = aucs[model] = auc_interval(found, int(label.sum()), int((~label).sum()))
        key = (probe, AUC, method, model, BOTH, bin_)
        yield Figure(*key, found.value, found.low, found.high, len(units), 0.5, "patients")
    if {TARGET, PUBLIC} <= set(statistics):
        both = estimator.interval(lambda w: statistics[TARGET](w) - statistics[PUBLIC](w), units, label)
        both = difference_interval(both, aucs[TARGET], aucs[PUBLIC])
        if both.low == both.high:  # no resample differs
            both = Interval(both.value, np.nan, np.nan)
        key = (probe, AUC, method, TARGET_MINUS_PUBLIC, BOTH, bin_)
        yield Figure(*key, both.value, both.low, both.high, len(units), 0.0, "patients, paired")


def _pairs(estimator: IntervalEstimator, rows: pd.DataFrame) -> Iterator[Figure]:
    """Share of sentences (texts) whose patient has a condition in it, against others of that patient's split."""
    for (bin_, split), part in rows.groupby(["bin", "split"], sort=False):
        label, chance, units = part["label"].to_numpy(dtype=float), part["score"].to_numpy(), part["patient_id"]
        note = f"patients, in {len(part):,} {'sentences' if bin_ == 'one sentence' else 'texts'}"
        blind = float(chance.mean())
        (own,) = estimator.mean("share", (PAIRS, RIGHT, NAME, TARGET, split, bin_), label, blind, note, units)
        (others,) = estimator.mean("share", (PAIRS, RIGHT, SHUFFLED, TARGET, split, bin_), chance, blind, note, units)
        yield from (own, others)
        key = (PAIRS, RIGHT, PAIRED, TARGET, split, bin_)
        (more,) = estimator.mean("difference", key, label - chance, 0.0, note, units)
        if own.value in (0.0, 1.0):  # without spread among the patients, so their number has to give the width
            found = difference_interval(_interval(more), _interval(own), _interval(others))
            more = replace(more, low=found.low, high=found.high)
        yield more


def _interval(figure: Figure) -> Interval:
    """A figure's interval; its value alone where nothing varies."""
    return Interval(figure.value, *(figure.value if np.isnan(end) else end for end in (figure.low, figure.high)))


def _names(rows: pd.DataFrame, pool: Mapping[str, int]) -> Iterator[Figure]:
    """Shares of the top 100 names, and of all names, that belong to members and to held-out patients (scaled)."""
    count = len(rows)
    for measure, k in ((TOP100, min(TOP_NAMES, count)), (ALL_NAMES, count)):
        for split in [split for split in JUDGED_SPLITS if pool.get(split)]:
            value, low, high = astuple(share_of_names(rows, split, pool, k))
            note = "names" if split == "member" else f"names; scaled from {pool[split]} patients to {pool['member']}"
            yield Figure(NAMES, measure, NAME, TARGET, split, "all", value, low, high, k, np.nan, note)


def share_of_names(rows: pd.DataFrame, split: str, pool: Mapping[str, int], k: int) -> Interval:
    """Share of the `k` highest-ranked names that patients of `split` have, scaled to as many patients as members.

    The interval is Wilson's, with names as independent trials.

    Args:
        rows: The written names with their `score` and their patients' `split`; 1 ≤ k ≤ rows.
        split: `member` or `heldout`.
        pool: Number of patients with a name in both splits.
        k: Number of names that count.
    """
    share = ranking.top_share(rows["score"].to_numpy(), (rows["split"] == split).to_numpy(), k)
    ratio = pool["member"] / pool[split]
    return Interval(*(scale_to_pool(one, ratio) for one in (share, *proportion_interval(share * k, k))))


def _texts(rows: pd.DataFrame) -> Iterator[Figure]:
    """Share of the generated texts that contain a full name. Texts are independent samples: Wilson's interval."""
    count, n = int(rows["label"].sum()), len(rows)
    low, high = proportion_interval(count, n)
    by = rows["method"].iloc[0]
    note = "texts" if by == COMPARATOR else f"texts; names found by {by}"
    yield Figure(TEXTS, WITH_NAME, NAME, TARGET, "", "all", count / n, low, high, n, np.nan, note)


def of_own_names(probes: pd.DataFrame, shared: Shared) -> pd.DataFrame:
    """The rows about patients with a full name of their own, and those about no patient.

    Held-out patients are the control because no model read their names. A name that a member has, too, was read. A
    probe that would be left without members or without held-out patients has no rows, for there is nothing to compare.

    Args:
        probes: The table `probes` of an audit.
        shared: The values that several patients have (`Corpus.shared_values`).
    """
    people = {patient_id for patient_id, field in shared if field == "full_name"}
    if not people:
        return probes
    kept = probes[~probes["patient_id"].isin(people)]
    for probe, rows in probes.groupby("probe", sort=False):
        left = kept.loc[kept["probe"] == probe, "split"]
        asked = [split for split in JUDGED_SPLITS if (rows["split"] == split).any()]
        if probe not in (NAMES, PAIRS, TEXTS) and not set(asked) <= set(left):
            kept = kept[kept["probe"] != probe]
    return kept


def _summary(audited: Audited) -> pd.DataFrame:
    named = pools(audited.corpus, ("full_name",))
    pool = {"member": named["run"], "heldout": named["heldout"]}
    audit = audited.run.spec.audit
    probes = of_own_names(audited.audit.table("probes"), audited.corpus.shared_values)
    return figures(probes, pool, resamples=audit.bootstrap, seed=audit.seed)


PROBE_FIGURES = Summary(
    name=FIGURES,
    columns=COLUMNS,
    needs=("probes",),
    make=_summary,
    headline="bin == 'all' and model == 'target' and split != 'heldout'",
    version=3,
    version_imported=5,  # names that several patients have do not count
)
