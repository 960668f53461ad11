"""Shipped runs keep their ids and figures: those of version 0.1 against what was recorded before the code moved."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from core.__main__ import main
from core.runs.store import Workspace

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).parent / "recorded"
SHIPPED = ROOT / "assets" / "demo"


@pytest.fixture(autouse=True)
def _shipped(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_SHIPPED", str(SHIPPED))
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))


def test_the_command_lists_the_recorded_runs(capsys):
    assert main(["runs", "--json"]) == 0
    told, recorded = json.loads(capsys.readouterr().out), json.loads((RECORDED / "runs.json").read_text())
    assert len(recorded["runs"]) > 40
    ids = {run["run_id"] for run in recorded["runs"]}
    assert {**told, "runs": [run for run in told["runs"] if run["run_id"] in ids]} == recorded


def test_every_figure_of_every_shipped_run_is_the_recorded_one(tmp_path):
    recorded = pd.read_csv(RECORDED / "metrics.csv.gz", keep_default_na=False, na_values=[""])
    runs = sorted(Workspace(tmp_path, shared=(SHIPPED,)).runs(), key=lambda run: run.id)
    ids = set(recorded["run_id"])
    now = pd.concat([run.metrics.assign(run_id=run.id) for run in runs if run.id in ids])[recorded.columns]
    assert len(recorded) > 3_000
    keys = ["run_id", "metric", "arm"]
    pd.testing.assert_frame_equal(
        now.set_index(keys).sort_index(), recorded.set_index(keys).sort_index(), check_dtype=False, check_exact=True
    )
