"""One question to all runs: DuckDB gives what reading each run's tables gives."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from core.runs.queries import SETTINGS, metrics, settings
from core.runs.store import Workspace
from core.runs.tables import SCHEMAS
from core.spec import RunSpec


def test_metrics_of_all_runs(smoke_workspace: Path, smoke_specs: dict[str, RunSpec]) -> None:
    workspace = Workspace(smoke_workspace, shared=())
    frame = metrics(workspace)
    assert list(frame.columns) == [*SETTINGS, *SCHEMAS["metrics"].names]
    epsilon = frame.groupby("run_id")["epsilon"].first()
    assert epsilon[smoke_specs["base"].run_id] == 0.0
    assert epsilon[smoke_specs["plain"].run_id] == math.inf
    assert epsilon[smoke_specs["dp"].run_id] == 8.0
    for run in workspace.runs():
        mine = frame[frame["run_id"] == run.id].sort_values(["metric", "arm"])
        own = run.metrics.sort_values(["metric", "arm"])
        for column in SCHEMAS["metrics"].names:
            pd.testing.assert_series_equal(
                mine[column].reset_index(drop=True), own[column].reset_index(drop=True), check_dtype=False
            )


def test_no_runs_give_empty_tables_with_columns(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, shared=())
    assert metrics(workspace).empty and list(metrics(workspace).columns) == [*SETTINGS, *SCHEMAS["metrics"].names]
    assert settings([]).empty
