"""The error of the time left, on logs whose estimate is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from bench import time_left
from core.jobs.times.costs import Stage
from core.runs.store import Workspace


def log(seconds: float) -> list[dict]:
    """A job of one stage, counted in hundredths, that takes so many seconds."""
    begun = {"event": "stage", "time": 0.0, "stage": "saving", "message": ""}
    counted = [
        {"event": "progress", "time": seconds * done / 100, "done": done, "total": 100} for done in range(1, 101)
    ]
    return [begun, *counted, {"event": "done", "time": seconds, "message": ""}]


def test_an_exact_expectation_has_no_error_and_a_wrong_one_has() -> None:
    exact = time_left.replayed(log(100.0), [Stage("saving", 100.0)])
    assert exact == pytest.approx({0.25: 75.0, 0.5: 50.0, 0.75: 25.0}, abs=1.0)
    wrong = time_left.replayed(log(100.0), [Stage("saving", 500.0)])
    assert wrong[0.25] > 80.0 and abs(wrong[0.75] - 25.0) < abs(wrong[0.25] - 75.0), "its own pace corrects it"


def test_runs_that_were_too_short_or_interrupted_are_left_out(smoke_workspace: Path, monkeypatch, capsys) -> None:
    workspace = Workspace(smoke_workspace, shared=())
    monkeypatch.setattr(time_left, "SHORTEST", math.inf)
    assert time_left.measure(workspace) == {"runs": 0}
    monkeypatch.setattr(time_left, "SHORTEST", 0.0)
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    time_left.main(json=True)
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == 3 and len(found) == 7
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    monkeypatch.setattr(time_left, "LONGEST_GAP", -1.0)
    assert time_left.measure(workspace) == {"runs": 0}
