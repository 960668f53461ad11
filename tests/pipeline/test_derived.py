"""Metrics and card of a stored run, made again from its other files."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from core.pipeline import derived
from core.runs.run import RunNotFound
from core.runs.store import Workspace
from core.spec import RunSpec


def test_a_control_that_an_older_version_named_is_found(
    monkeypatch: pytest.MonkeyPatch, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    older = SimpleNamespace(id="gpt2-0123456789ab", folder=tmp_path / "runs" / "gpt2-0123456789ab")
    workspace = Workspace(tmp_path, shared=())
    made: list[object] = []

    def by_name(run_id: str) -> None:
        raise RunNotFound(run_id)

    monkeypatch.setattr(workspace, "run", by_name)  # there is none of today's name
    monkeypatch.setattr(workspace, "find", {smoke_specs["base"]: older}.get)
    monkeypatch.setattr(workspace, "corpus", lambda spec, store: "cohort")
    monkeypatch.setattr(derived, "read_stored_spec", lambda folder: SimpleNamespace(spec=smoke_specs["dp"]))
    monkeypatch.setattr(derived, "file_problems", lambda folder, spec: [])
    monkeypatch.setattr(derived, "run_problems", lambda folder: {})
    monkeypatch.setattr(derived, "control_tables", lambda run: run)
    monkeypatch.setattr(derived, "write_derived", lambda folder, cohort, control: made.append(control))
    derived.rebuild(tmp_path / "runs" / smoke_specs["dp"].run_id, workspace)
    assert made == [older]
