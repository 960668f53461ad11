"""Jobs at their end: a process that dies, a folder that moves, and a disk that takes no more at that moment."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

import pytest

from core.jobs.engine import Engine
from core.jobs.task import make_run
from core.jobs.work import Job, Work
from core.pipeline.training_run import RunBusy
from core.runs.events import Status, read_events, write_status
from core.runs.lock import held
from core.spec import RunSpec


def test_a_complete_run_that_was_not_moved_is_interrupted_and_moved_when_it_is_submitted_again(
    engine: Engine, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    """Its process was killed after the status `done`, before the folder had its final place."""
    spec, workspace = smoke_specs["plain"], engine.workspace
    shutil.copytree(smoke_workspace, workspace.root)
    work = workspace.work(spec.run_id)
    work.parent.mkdir(exist_ok=True)
    (workspace.root / "runs" / spec.run_id).rename(work)
    write_status(work, Status(state="done", submitted=1.0))
    with held(workspace.lock_file(spec.run_id), should_stop=lambda: False):
        assert engine.status(spec.run_id).state == "running", "its process moves it"
    assert engine.status(spec.run_id).state == "interrupted"
    steps = [event for event in read_events(work) if event["event"] == "step"]
    job = engine.submit(spec)
    assert job.state == "queued" and job.submitted is not None
    make_run(spec.model_dump_json(), str(workspace.root), (), job.submitted)
    assert engine.status(spec.run_id).state == "done" and not work.exists()
    run = workspace.run(spec.run_id)
    assert [event for event in run.events() if event["event"] == "step"] == steps, "nothing was trained again"


def full(*_: object, **__: object) -> NoReturn:
    """What a full disk answers."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_run_that_is_moved_while_it_is_cancelled_is_done(
    engine: Engine, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = smoke_spec()
    done = Job(spec.run_id, spec, "done", "", 1.0, None)
    work, final = engine.workspace.work(spec.run_id), engine.workspace.root / "runs" / spec.run_id
    engine.submit(spec)

    @contextmanager
    def moved(path: Path, *, should_stop: Callable[[], bool]) -> Iterator[bool]:
        """The worker has the lock, and renames the folder at this moment."""
        final.parent.mkdir()
        work.rename(final)
        yield False

    monkeypatch.setattr("core.jobs.work.held", moved)
    monkeypatch.setattr(Work, "finished", lambda asked: done if final.exists() else None)
    assert engine.cancel(spec.run_id) == done and not (final / "cancel").exists()
    assert engine.jobs() == [], "it is not shown as cancelled beside the finished run"


def test_a_job_whose_worker_cannot_be_asked_to_stop_goes_on(
    engine: Engine, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = engine.submit(smoke_spec())
    with held(engine.workspace.lock_file(job.id), should_stop=lambda: False):
        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
            patch.setattr(Path, "touch", full)
            engine.cancel(job.id)
        assert engine.status(job.id).state == "queued" and job.id in engine._queue


def test_why_a_job_could_not_begin_is_its_message(
    engine: Engine, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker gives it back: where nothing of the run was begun, the run's own files say nothing."""
    spec = smoke_spec()
    job = engine.submit(spec)
    assert job.submitted is not None

    def busy(*_: object, **__: object) -> NoReturn:
        raise RunBusy("Run x is being made by another machine.")

    monkeypatch.setattr("core.jobs.task.execute", busy)
    told = make_run(spec.model_dump_json(), str(engine.workspace.root), (), job.submitted)
    ticket = engine._queue.get(job.id)
    assert ticket is not None
    ticket.future = SimpleNamespace(status="finished", done=lambda: True, result=lambda timeout: told)
    engine._note_end(ticket, ticket.future)
    job = engine.status(job.id)
    assert (job.state, job.message) == ("failed", "Run x is being made by another machine.")


def test_a_job_whose_end_cannot_be_recorded_does_not_stop_the_others(
    engine: Engine, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended, waiting = (engine.submit(smoke_spec(seed=seed)).id for seed in (1, 2))
    handed_over: list[str] = []
    monkeypatch.setattr(Engine, "warm", lambda one: handed_over.extend(t.job_id for t in one._queue.ready()))
    monkeypatch.setattr(Work, "fail", full)
    ticket = engine._queue.get(ended)
    assert ticket is not None
    ticket.future = SimpleNamespace(status="error", done=lambda: True, exception=lambda: ValueError("no weights"))
    engine._note_end(ticket, ticket.future)
    assert handed_over == [waiting] and set(engine._shared._published or []) == {(waiting, None)}
    job = engine.status(ended)
    assert job.state == "interrupted" and "no weights" in job.message and "The disk is full" in job.message


def test_an_engine_that_was_closed_opens_no_cluster_for_what_was_asked_before(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, smoke_spec: Callable[..., RunSpec]
) -> None:
    """The thread that `warm` starts, or a timer, may begin only after `close`."""
    opened: list[str] = []
    monkeypatch.setattr(engine._connection, "open", lambda: opened.append("cluster"))
    engine.submit(smoke_spec())
    engine.close()
    engine._hand_over()
    engine._note_problem("no scheduler")
    engine._look_later()
    assert opened == [] and engine._look is None
