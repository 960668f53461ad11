"""The files of one job."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from core.jobs.engine import Engine
from core.jobs.work import Work
from core.runs.events import Status, read_events, read_status, write_status
from core.runs.lock import held
from core.runs.store import Workspace
from core.spec import RunSpec


def test_a_job_that_fails_keeps_the_times_of_its_submission_and_its_start(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec]
) -> None:
    workspace, spec = Workspace(tmp_path, shared=()), smoke_spec()
    folder = workspace.begin(spec)
    write_status(folder, Status(state="running", submitted=1.0, started=2.0))
    Work(workspace, spec.run_id).fail("Its worker is gone.")
    status = read_status(folder)
    assert status.finished > 2.0
    assert status == Status(
        state="failed", message="Its worker is gone.", submitted=1.0, started=2.0, finished=status.finished
    )
    assert [event["event"] for event in read_events(folder)] == ["failed"]


def test_nothing_is_recorded_of_a_failure_that_nobody_waits_for(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec]
) -> None:
    work = Work(Workspace(tmp_path, shared=()), smoke_spec().run_id)
    work.fail("Its worker is gone.")
    assert not work.folder.exists()


def test_what_has_failed_is_forgotten_although_its_worker_still_has_it(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec]
) -> None:
    """A worker records a failure before it releases the run, and would overlook a request to stop in between."""
    workspace, spec = Workspace(tmp_path, shared=()), smoke_spec()
    work = Work(workspace, spec.run_id)
    folder = workspace.begin(spec)
    write_status(folder, Status(state="failed", submitted=1.0))
    forgets = threading.Thread(target=work.withdraw)
    with held(work.lock_file, should_stop=lambda: True):
        forgets.start()
        forgets.join(0.5)
        assert forgets.is_alive() and not work.asked_to_stop
    forgets.join(30)
    assert not forgets.is_alive() and not folder.exists()


def test_nobody_waits_while_a_failed_job_that_its_worker_still_has_is_forgotten(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec]
) -> None:
    """Every page asks the engine about jobs, which takes its lock."""
    engine, spec = Engine(Workspace(tmp_path, shared=())), smoke_spec()
    work = Work(engine.workspace, spec.run_id)
    write_status(engine.workspace.begin(spec), Status(state="failed", submitted=1.0))
    forgets = threading.Thread(target=engine.cancel, args=[spec.run_id])
    with held(work.lock_file, should_stop=lambda: True):
        forgets.start()
        forgets.join(0.5)
        assert forgets.is_alive() and engine._lock.acquire(timeout=2.0)
        engine._lock.release()
    forgets.join(30)
    assert not work.folder.exists() and engine.status(spec.run_id).state == "cancelled"


def test_what_runs_is_asked_to_stop_at_once(tmp_path: Path, smoke_spec: Callable[..., RunSpec]) -> None:
    workspace, spec = Workspace(tmp_path, shared=()), smoke_spec()
    work = Work(workspace, spec.run_id)
    folder = workspace.begin(spec)
    write_status(folder, Status(state="running", submitted=1.0))
    with held(work.lock_file, should_stop=lambda: True):
        work.withdraw()
        assert work.asked_to_stop and folder.exists()


def test_a_run_that_is_submitted_while_its_folder_is_removed_keeps_what_was_submitted(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its worker has just been cancelled, and removes the folder file by file."""
    workspace, spec = Workspace(tmp_path, shared=()), smoke_spec()
    work, removed = Work(workspace, spec.run_id), shutil.rmtree
    submitted: list[float] = []

    def meanwhile(folder: Path, *, ignore_errors: bool) -> None:
        submitted.append(work.queue(spec))
        removed(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", meanwhile)
    workspace.discard(workspace.begin(spec))
    assert work.status() == Status(state="queued", submitted=submitted[0]) and work.spec() == spec
    assert [path.name for path in work.folder.parent.iterdir()] == [spec.run_id], "nothing is left of the earlier one"


def test_a_run_is_submitted_although_its_folder_disappears(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, spec = Workspace(tmp_path, shared=()), smoke_spec()
    work, begin, times = Work(workspace, spec.run_id), workspace.begin, iter(range(9))

    def begun(spec: RunSpec) -> Path:
        folder = begin(spec)
        if next(times) == 0:
            workspace.discard(folder)
        return folder

    monkeypatch.setattr(workspace, "begin", begun)
    submitted = work.queue(spec)
    assert work.status() == Status(state="queued", submitted=submitted) and work.spec() == spec
