"""The report's section on rare diseases (Jagannatha 2021, appendix A): leakage at each rarity, and the trend.

Buckets, test and sentences are those of the Patients page (`core.evaluation.rarity`).
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from pathlib import Path

import pandas as pd

from core.attacks.membership.decision import LOSS
from core.corpus.tables import Corpus
from core.evaluation.rarity.leakage import leakage
from core.evaluation.rarity.profiles import bucket_edges
from core.evaluation.rarity.trend import (
    Trend,
    adjusted_sentence,
    corrected_over,
    figures_sentence,
    headline,
    slopes_sentence,
    trend,
    verdict_of,
)
from core.runs.audits import StoredAudit
from core.runs.patients.queries import PatientTables, Scored, judges
from core.runs.run import Run
from core.runs.store import Workspace

BUCKET_COLUMNS = (
    *("run", "attack", "bucket", "log_probability", "members", "heldout", "auc", "low", "high"),
    *("members_percentile", "heldout_percentile", "base_auc", "base_low", "base_high", "kept"),
)
TREND_COLUMNS = (
    *("run", "attack", "rarity", "buckets", "members", "heldout", "auc", "change", "low", "high", "p_value"),
    *("p_corrected", "attacks_tested", "adjusted", "adjusted_low", "adjusted_high", "members_rho", "heldout_rho"),
)


FIGURES_ONLY = (
    "This run has figures only: the scores of single patients were left out, so rare and common diseases cannot be "
    "compared."
)


def coded(corpus: Corpus) -> bool:
    """Whether any patient has a diagnosis code; without codes no patient is rarer than another."""
    return bool((corpus.patients["icd_codes"].map(len) > 0).any())


def rarity(
    workspace: Workspace, runs: Sequence[Run], audits: Mapping[str, StoredAudit], corpus: Corpus
) -> tuple[pd.DataFrame, pd.DataFrame, dict[str, list[str]]]:
    """Tables with `BUCKET_COLUMNS` and `TREND_COLUMNS`, and their sentences: a few per attack, by run id.

    Buckets: one row per run and bucket (1 holds the rarest profiles) under the run's first attack, which is the ratio
    to the public model if it is available; `base_auc` is the loss attack on the public model. Trends: one row per run
    and attack, with signs above 0 where rarer patients leak (or score) more. Nothing is written to disk; both tables
    are empty without codes.
    """
    frames, rows = [], []
    said: dict[str, list[str]] = {run.id: [] for run in runs}
    with tempfile.TemporaryDirectory() as beside:
        tables = _patient_tables(workspace, runs[0], corpus, Path(beside)) if coded(corpus) else None
        for run in runs:
            if tables is None:
                break
            if run.figures_only:
                said[run.id] = [FIGURES_ONLY]
                continue
            base = None if run.spec.is_base else workspace.find(run.spec.base_spec())
            made = {name: _judged(tables, one) for name, one in judges(run, audits[run.id], base).items()}
            first = next(iter(made))
            frames.append(made[first][0].assign(run=run.id, attack=first, **_beside(tables, base, made[first][0])))
            trends = corrected_over({name: found for name, (_, found) in made.items()})
            rows += [(run.id, *_row(name, found)) for name, found in trends.items()]
            said[run.id] = [sentence(name, found) for name, found in trends.items()]
    buckets = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(BUCKET_COLUMNS))
    return buckets[list(BUCKET_COLUMNS)], pd.DataFrame(rows, columns=list(TREND_COLUMNS)), said


def sentence(attack: str, one: Trend) -> str:
    """Everything the report says about one attack: the answer, its figures, the model's estimate, the slopes."""
    parts = (headline(attack, one), figures_sentence(one), adjusted_sentence(one), slopes_sentence(one))
    return " ".join(filter(None, parts))


def _judged(tables: PatientTables, scored: Scored) -> tuple[pd.DataFrame, Trend]:
    tables.profile("patient")
    found = tables.judged(scored, "patient")
    edges = bucket_edges(found["log_probability"].to_numpy(), found["member"].to_numpy(), found["patient"].to_numpy())
    buckets = leakage(found, edges)
    return buckets.assign(bucket=buckets["bucket"] + 1), trend(found, edges)


def _patient_tables(workspace: Workspace, run: Run, corpus: Corpus, beside: Path) -> PatientTables:
    """The cohort's files; a cohort that is not on disk is written to the folder `beside` for the time being."""
    folder = workspace.corpus_folder(run.spec.corpus)
    if folder is None:
        corpus.write(beside)
        folder = beside
    return PatientTables(folder / "patients.parquet", folder / "notes.parquet")


def _beside(tables: PatientTables, base: Run | None, found: pd.DataFrame) -> dict[str, pd.Series | float]:
    """The loss attack on the public model in the same buckets; NaN without one, or if it scored other patients."""
    names = {"base_auc": "auc", "base_low": "low", "base_high": "high"}
    if base is not None:
        control, _ = _judged(tables, Scored(LOSS, base.folder / "tables" / "scores.parquet"))
        if control[["members", "heldout"]].equals(found[["members", "heldout"]]):
            return {name: control[column] for name, column in names.items()}
    return dict.fromkeys(names, math.nan)


def _row(attack: str, one: Trend) -> tuple:
    figures = (one.buckets, one.members, one.heldout, one.auc, *astuple(one.slope), one.p_value, one.corrected)
    return (attack, verdict_of(one), *figures, one.tested, *astuple(one.adjusted), one.members_rho, one.heldout_rho)
