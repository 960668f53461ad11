"""What becomes of jobs whose end a full disk does not take."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from core.jobs.engine import Engine
from core.jobs.queues.own import Ticket
from core.jobs.work import Work
from core.runs.events import Status, write_status
from core.runs.store import Workspace
from core.spec import RunSpec

WHY = "The worker process could not be started."


def test_no_job_waits_on_for_a_worker_that_cannot_start(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the first failed cannot be written: the reason is shown all the same, and the second one fails, too."""
    engine, specs = Engine(Workspace(tmp_path, shared=())), [smoke_spec(seed=seed) for seed in (1, 2)]
    for spec in specs:
        engine._queue.add(Ticket(spec.run_id, spec, Work(engine.workspace, spec.run_id).queue(spec)))

    def full(folder: Path, status: Status) -> None:
        if folder.name == specs[0].run_id:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))
        write_status(folder, status)

    monkeypatch.setattr("core.jobs.work.write_status", full)
    engine._give_up(WHY)
    jobs = [engine.status(spec.run_id) for spec in specs]
    assert [job.state for job in jobs] == ["interrupted", "failed"] and engine._queue.live() == []
    assert jobs[0].message.startswith(f"{WHY} ") and jobs[1].message == WHY
