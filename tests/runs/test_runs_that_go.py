"""Runs, weights and cohorts that another process removes while they are looked at: no listing breaks, none lies."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb
import pytest

from core.pipeline.prune import plan, prune
from core.runs import queries, run, store
from core.runs.integrity import whole
from core.runs.run import Run, RunNotFound
from core.runs.store import CohortGone, Workspace
from core.runs.tables import SCHEMAS
from core.spec import CORPUS_PRESETS, RunSpec

SMOKE = CORPUS_PRESETS["smoke"]


@pytest.fixture
def workspace(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    """The smoke runs, of which some may go."""
    return Workspace(shutil.copytree(smoke_workspace, tmp_path / "data"), shared=())


def at_first(monkeypatch: pytest.MonkeyPatch, module, name: str, act) -> None:
    """Have `act` happen when `module.name` is called for the first time, before its own work."""
    real, due = getattr(module, name), [act]

    def hooked(*arguments, **named):
        while due:
            due.pop()()
        return real(*arguments, **named)

    monkeypatch.setattr(module, name, hooked)


@pytest.mark.parametrize(("module", "moment"), [(run, "read_status"), (whole, "_json"), (whole, "_weights")])
def test_weights_that_go_while_a_run_is_opened_cost_the_run_nothing(
    workspace, smoke_specs, monkeypatch, module, moment
):
    run_id = smoke_specs["plain"].run_id
    (planned,) = (one for one in plan(workspace, ["weights"], days=0) if one.name == run_id)
    for file in planned.folder.iterdir():
        file.touch()  # so that the run and this file are read again
    at_first(monkeypatch, module, moment, lambda: prune(workspace, [planned]))
    assert Run.open(workspace.root / "runs" / run_id).id == run_id
    assert not planned.folder.exists() and not workspace.run(run_id).has_model


def test_a_run_that_goes_while_runs_are_listed_is_in_no_list_of_runs_or_problems(workspace, smoke_specs, monkeypatch):
    gone = workspace.root / "runs" / smoke_specs["plain"].run_id
    kept = {one.id for one in workspace.runs()} - {gone.name}
    (gone / "status.json").touch()  # so that it is read again
    at_first(monkeypatch, run, "read_stored_spec", lambda: shutil.rmtree(gone))
    assert workspace.problems() == [] and not gone.exists()
    assert {one.id for one in workspace.runs()} == kept


def test_a_run_that_goes_while_it_is_opened_was_not_found(workspace, smoke_specs, monkeypatch):
    gone = workspace.root / "runs" / smoke_specs["plain"].run_id
    at_first(monkeypatch, run, "read_stored_spec", lambda: shutil.rmtree(gone))
    with pytest.raises(RunNotFound):
        workspace.run(gone.name)
    assert not gone.exists()


def test_a_query_over_runs_leaves_out_what_has_just_gone(workspace, smoke_specs, monkeypatch):
    gone = workspace.run(smoke_specs["plain"].run_id)
    every = set(queries.metrics(workspace)["run_id"])
    at_first(monkeypatch, queries, "settings", lambda: shutil.rmtree(gone.folder))
    assert set(queries.metrics(workspace)["run_id"]) == every - {gone.id} != every


def test_a_query_over_runs_that_have_all_gone_has_no_rows(workspace, monkeypatch):
    at_first(monkeypatch, queries, "settings", lambda: shutil.rmtree(workspace.root / "runs"))
    frame = queries.metrics(workspace)
    assert frame.empty and list(frame.columns) == [*queries.SETTINGS, *SCHEMAS["metrics"].names]


def test_a_query_over_damaged_runs_alone_still_fails(workspace, monkeypatch):
    def damage() -> None:
        for table in workspace.root.glob("runs/*/tables/metrics.parquet"):
            table.write_bytes(b"PAR1 nonsense")

    at_first(monkeypatch, queries, "settings", damage)
    with pytest.raises(duckdb.Error):
        queries.metrics(workspace)


def test_a_synthetic_cohort_that_goes_while_it_is_read_is_built_again(workspace, monkeypatch):
    notes = workspace.corpus(SMOKE).notes
    workspace.forget(SMOKE.digest())
    folder = workspace.corpus_folder(SMOKE)
    at_first(monkeypatch, store, "_read", lambda: shutil.rmtree(folder))
    assert workspace.corpus(SMOKE).notes.equals(notes) and not folder.exists()


def test_a_cohort_that_is_damaged_while_it_is_read_is_not_built_over(workspace, monkeypatch):
    workspace.forget(SMOKE.digest())
    folder = workspace.corpus_folder(SMOKE)
    at_first(monkeypatch, store, "_read", lambda: (folder / "notes.parquet").write_bytes(b"PAR1 nonsense"))
    with pytest.raises(CohortGone, match="damaged"):
        workspace.corpus(SMOKE)


def test_a_work_folder_that_its_cancelled_worker_removes_meanwhile_is_begun_again(tmp_path, monkeypatch):
    workspace, spec = Workspace(tmp_path, shared=()), RunSpec(corpus=SMOKE)
    work, gone = workspace.work(spec.run_id), []
    at_first(monkeypatch, store, "write_status", lambda: gone.append(shutil.rmtree(work)))
    assert workspace.begin(spec) == work and gone and workspace.works() == [work]


def test_a_work_folder_that_cannot_be_begun_is_no_endless_loop(tmp_path, monkeypatch):
    workspace, spec = Workspace(tmp_path, shared=()), RunSpec(corpus=SMOKE)
    monkeypatch.setattr(store, "write_status", lambda work, status: (work / "nowhere" / "x").touch())
    with pytest.raises(FileNotFoundError):
        workspace.begin(spec)
    assert not workspace.work(spec.run_id).exists()
