"""The files of one job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.jobs.work import Work
from core.runs.events import Status, read_events, read_status, write_status
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
