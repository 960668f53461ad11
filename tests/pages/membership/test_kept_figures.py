"""When the Membership page computes a figure again that it has kept."""

from __future__ import annotations

import shutil

from core.runs.store import Workspace
from core.spec import schema
from pages.parts.membership import data


def test_stability_is_computed_again_once_another_seed_is_there(smoke_workspace, smoke_specs, monkeypatch, tmp_path):
    root = shutil.copytree(smoke_workspace, tmp_path / "data")
    monkeypatch.setenv("PHILAB_DATA", str(root))
    computed: list[str] = []
    monkeypatch.setattr(data.shadows, "lira_stability", lambda run, workspace: computed.append(run.id))
    run = Workspace(root, shared=()).run(smoke_specs["plain"].run_id)
    data.stability_of(run)
    data.stability_of(run)
    assert computed == [run.id]
    other = run.spec.model_copy(update={"training": run.spec.training.model_copy(update={"seed": 77})})
    folder = shutil.copytree(run.folder, root / "runs" / other.run_id)
    (folder / "spec.json").write_text(schema.written(other), encoding="utf-8")
    data.stability_of(run)
    assert computed == [run.id] * 2
