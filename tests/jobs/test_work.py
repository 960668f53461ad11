"""The files of one job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

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


def test_what_runs_is_asked_to_stop_at_once(tmp_path: Path, smoke_spec: Callable[..., RunSpec]) -> None:
    workspace, spec = Workspace(tmp_path, shared=()), smoke_spec()
    work = Work(workspace, spec.run_id)
    folder = workspace.begin(spec)
    write_status(folder, Status(state="running", submitted=1.0))
    with held(work.lock_file, should_stop=lambda: True):
        work.withdraw()
        assert work.asked_to_stop and folder.exists()
