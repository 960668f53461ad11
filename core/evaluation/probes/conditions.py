"""Evaluates the probes that rank conditions (Lehman 2021): AUC, A@10 and correlation with frequency, with controls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from core.attacks.probes.fill_in import CONDITION_ONLY, FREQUENCY, NAME, OTHER_NAME
from core.attacks.probes.per_condition import PROBE as PER_CONDITION
from core.attacks.probes.table import TARGET
from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.probes import ranking
from core.evaluation.probes.interval_estimator import IntervalEstimator
from core.evaluation.probes.tables import (
    AUC,
    OWN_MINUS_FREQUENCY,
    OWN_MINUS_OTHER,
    RHO,
    TOP10,
    Figure,
    Matrices,
    matrices,
)
from core.evaluation.stats.bootstrap import weighted_auc


def rankings(estimator: IntervalEstimator, rows: pd.DataFrame, probe: str) -> Iterator[Figure]:
    """AUC and A@10 per patient for every method, differences to the controls, and the correlation with frequency."""
    tables = matrices(rows)
    base = tables.named[NAME, TARGET]
    for split in JUDGED_SPLITS:
        inside = base.splits == split
        if not inside.any():
            continue
        has = base.labels[inside]
        aucs: dict[tuple[str, str], np.ndarray] = {}
        for method, model in tables.methods():
            scores = tables.scores(method, model)[inside]
            aucs[method, model] = ranking.patient_aucs(scores, has, tables.bins)
            key = (probe, AUC, method, model, split, "all")
            yield from estimator.mean("share", key, aucs[method, model], 0.5, "patients")
            top, blind = ranking.patient_precisions(scores, has, tables.bins)
            if np.isfinite(blind).any():
                key = (probe, TOP10, method, model, split, "all")
                yield from estimator.mean("share", key, top, float(np.nanmean(blind)), "patients")
        for control, name in ((OTHER_NAME, OWN_MINUS_OTHER), (FREQUENCY, OWN_MINUS_FREQUENCY)):
            paired = aucs[NAME, TARGET] - aucs[control, TARGET]
            key = (probe, AUC, name, TARGET, split, "all")
            yield from estimator.mean("difference", key, paired, 0.0, "patients, paired")
        if len(set(tables.bins)) > 1:
            yield from _by_bin(estimator, tables, inside, probe, split)
        yield from _correlations(estimator, tables, inside, probe, split)


def _by_bin(
    estimator: IntervalEstimator, tables: Matrices, inside: np.ndarray, probe: str, split: str
) -> Iterator[Figure]:
    """AUC and A@10 of every method, and the correlation with frequency, separately for each number of tokens."""
    has, note = tables.named[NAME, TARGET].labels[inside], "patients with such a condition"
    for name in sorted(set(tables.bins), key=int):
        places = tables.bins == name
        bins = tables.bins[places]
        for method in (NAME, OTHER_NAME, CONDITION_ONLY, FREQUENCY):
            scores = tables.scores(method, TARGET)[inside][:, places]
            found = ranking.patient_aucs(scores, has[:, places], bins)
            yield from estimator.mean("share", (probe, AUC, method, TARGET, split, str(name)), found, 0.5, note)
            top, blind = ranking.patient_precisions(scores, has[:, places], bins)
            if np.isfinite(blind).any():
                key = (probe, TOP10, method, TARGET, split, str(name))
                yield from estimator.mean("share", key, top, float(np.nanmean(blind)), note)
        own = tables.scores(NAME, TARGET)[inside][:, places]
        rho = ranking.patient_correlations(own, tables.once[FREQUENCY, TARGET][places], bins)
        yield from estimator.mean("correlation", (probe, RHO, NAME, TARGET, split, str(name)), rho, 0.0, "patients")


def _correlations(
    estimator: IntervalEstimator, tables: Matrices, inside: np.ndarray, probe: str, split: str
) -> Iterator[Figure]:
    frequency = tables.once[FREQUENCY, TARGET]
    own = ranking.patient_correlations(tables.scores(NAME, TARGET)[inside], frequency, tables.bins)
    yield from estimator.mean("correlation", (probe, RHO, NAME, TARGET, split, "all"), own, 0.0, "patients")
    if split == "member":
        left, right, bins = ranking.condition_correlation(tables.once[CONDITION_ONLY, TARGET], frequency, tables.bins)
        if len(left):
            found = estimator.interval(ranking.weighted_correlation(left, right, bins), np.arange(len(left)), bins)
            yield Figure(
                probe,
                RHO,
                CONDITION_ONLY,
                TARGET,
                split,
                "all",
                found.value,
                found.low,
                found.high,
                len(left),
                0.0,
                "conditions",
            )


def single_conditions(estimator: IntervalEstimator, rows: pd.DataFrame) -> Iterator[Figure]:
    """Mean over conditions of the AUC that each condition's own probe reaches, by bin of frequency."""
    for split in JUDGED_SPLITS:
        found: dict[str, list[float]] = {"all": []}
        for (bin_, _), one in rows[rows["split"] == split].groupby(["bin", "target"], sort=False):
            label = one["label"].to_numpy(dtype=bool)
            if label.any() and not label.all():
                auc = float(weighted_auc(one["score"], label)(np.ones((1, len(one))))[0])
                found["all"].append(auc)
                found.setdefault(bin_, []).append(auc)
        for bin_, aucs in found.items():
            key = (PER_CONDITION, AUC, NAME, TARGET, split, bin_)
            yield from estimator.mean("share", key, np.array(aucs), 0.5, "conditions")
