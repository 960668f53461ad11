"""Queries over all runs at once: DuckDB over the runs' Parquet files, each row with the settings of its run."""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path

import duckdb
import pandas as pd

from core.common.in_memory_duckdb import cursor
from core.runs.figures_only import LEFT_OUT
from core.runs.integrity.whole import note_damage, table_problem
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.tables import SCHEMAS

SETTINGS = (
    *("run_id", "shipped", "is_base", "kind", "size", "base", "epsilon", "sigma", "delta", "unit"),
    *("epochs", "seed", "corpus", "finished"),
)


def settings(runs: list[Run]) -> pd.DataFrame:
    """One row per run, with the columns of SETTINGS.

    `epsilon` is the target ε: ∞ for training without privacy, 0 for the public base model (which contains nothing of
    the notes). It is missing (NaN) for a run that was given σ instead, or whose guarantee is another
    (`Run.keeps_target`): planned by GDP, with a vocabulary from its notes, or with a cap on notes. `corpus` is the
    cohort's digest.
    """
    return pd.DataFrame([_row(run) for run in runs], columns=list(SETTINGS))


def _row(run: Run) -> tuple:
    spec, privacy = run.spec, run.spec.privacy
    if spec.is_base:
        epsilon = 0.0
    elif not privacy.private:
        epsilon = math.inf
    else:
        epsilon = privacy.target_epsilon if privacy.target_epsilon is not None and run.keeps_target else math.nan
    return (
        run.id,
        run.shipped,
        spec.is_base,
        spec.model.kind,
        spec.model.size,
        spec.model.base,
        epsilon,
        privacy.noise_multiplier,
        privacy.delta,
        privacy.unit,
        spec.training.epochs,
        spec.training.seed,
        spec.corpus.digest(),
        run.status.finished,
    )


def table(workspace: Workspace, name: str, *, run_ids: Collection[str] | None = None) -> pd.DataFrame:
    """Table `name` of every usable run, with the run's settings before its columns.

    Args:
        workspace: Where the runs are.
        name: One of core.runs.tables.SCHEMAS.
        run_ids: Read the tables of these runs only; None: of all.

    Returns:
        The rows; without runs, an empty frame with all columns. Runs with figures only have no rows in the tables that
        were left out of them. Nor have runs that were damaged or removed since they were listed.

    Raises:
        duckdb.Error: No table of a run that is there can be read.
    """
    schema = SCHEMAS[name]
    runs = [run for run in workspace.runs() if name not in LEFT_OUT or not run.figures_only]
    runs = runs if run_ids is None else [run for run in runs if run.id in run_ids]
    if not runs:
        return pd.DataFrame(columns=[*SETTINGS, *schema.names])
    files = [str(run.folder / "tables" / f"{name}.parquet") for run in runs]
    frame = settings(runs).assign(file=files)
    columns = ", ".join(f't."{column}"' for column in schema.names)
    chosen = ", ".join(f's."{column}"' for column in SETTINGS)
    query = (
        f"SELECT {chosen}, {columns} FROM read_parquet(?, filename = true) t "  # noqa: S608 — names from our schemas
        "JOIN settings_of_runs s ON s.file = t.filename"
    )
    with cursor() as database:
        database.register("settings_of_runs", frame)
        try:
            return database.execute(query, [files]).df()
        except duckdb.Error:
            whole = _whole(files, schema.names)
            if not whole and not any(run.folder.is_dir() for run in runs):
                return pd.DataFrame(columns=[*SETTINGS, *schema.names])
            if not whole or len(whole) == len(files):
                raise
            return database.execute(query, [whole]).df()


def _whole(files: list[str], columns: list[str]) -> list[str]:
    """The files that can be read to their end. The others are noted, so that their runs are left out and reported."""
    whole = []
    for file in files:
        problem = table_problem(Path(file), columns, to_the_end=True)
        if problem is None:
            whole.append(file)
        else:
            note_damage(Path(file), columns, problem)
    return whole


def metrics(workspace: Workspace, run_ids: Collection[str] | None = None) -> pd.DataFrame:
    """The metrics (metric, arm, value, low, high, n, note) of these runs, or of all, with each run's settings."""
    return table(workspace, "metrics", run_ids=run_ids)
