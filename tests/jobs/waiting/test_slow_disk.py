"""Looking at jobs while files are slow or change: a page waits for its own reads alone, and sees what is true."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

import pytest

from core.jobs.engine import Engine, Job
from core.jobs.work import Work
from core.runs.events import Status, write_status
from core.runs.lock import held
from core.runs.run import RunNotFound
from core.spec import RunSpec

PATIENCE = 30.0  # seconds that a thread gets on a busy machine; nothing here waits for it when all is well


def at_first(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]) -> None:
    """Have `act` happen when a method of `Work` is called for the first time, after its own reading."""
    real, due = getattr(Work, name), [act]

    def hooked(work: Work):
        read = real(work)
        while due:
            due.pop()()
        return read

    monkeypatch.setattr(Work, name, hooked)


LOOKS: dict[str, tuple[str, Callable[[Engine, RunSpec], object]]] = {
    "a list, by the states": ("status", lambda engine, spec: engine.jobs()),
    "a list, by the settings": ("spec", lambda engine, spec: engine.jobs()),
    "a waiting job": ("spec", lambda engine, spec: engine.status(spec.run_id)),
    "a run that nobody submitted": ("finished", lambda engine, spec: engine.status(spec.base_spec().run_id)),
    "a submission": ("finished", lambda engine, spec: engine.submit(spec.base_spec())),
}


@pytest.mark.parametrize("look", LOOKS)
def test_who_waits_for_the_disk_keeps_nobody_else_waiting(
    engine: Engine, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    first, second, third = (smoke_spec(seed=seed) for seed in (1, 2, 3))
    engine.submit(first)
    engine.submit(second)
    method, read = LOOKS[look]
    reading, disk = threading.Event(), threading.Event()

    def stuck() -> None:
        reading.set()
        assert disk.wait(4 * PATIENCE)

    def slowly() -> None:
        with suppress(RunNotFound):
            read(engine, first)

    at_first(monkeypatch, method, stuck)
    slow = threading.Thread(target=slowly, daemon=True)
    slow.start()
    assert reading.wait(PATIENCE)
    seen: list[Job] = []

    def others() -> None:
        engine.progress(second.run_id)
        engine.submit(third)
        engine.move(third.run_id, 0)
        engine.cancel(second.run_id)
        seen.extend(engine.jobs())

    page = threading.Thread(target=others, daemon=True)
    page.start()
    page.join(PATIENCE)
    blocked = page.is_alive()
    disk.set()
    slow.join(PATIENCE)
    assert not blocked and not slow.is_alive()
    assert [(job.id, job.state, job.position) for job in seen] == [
        (third.run_id, "queued", 0),
        (first.run_id, "queued", 1),
        (second.run_id, "cancelled", None),
    ]


def test_a_job_that_is_submitted_while_its_files_are_looked_for_is_found(
    engine: Engine, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = smoke_spec()
    engine.submit(spec)
    engine.cancel(spec.run_id)
    at_first(monkeypatch, "status", lambda: engine.submit(spec))
    assert engine.status(spec.run_id).state == "queued", "no longer cancelled, and its folder was not there"


@pytest.mark.parametrize("method", ["status", "spec"])
def test_a_job_that_ends_while_it_is_looked_at_is_not_interrupted(
    engine: Engine, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Another process has it, gives a reason why it failed, and goes."""
    spec = smoke_spec()
    work = engine.workspace.begin(spec)
    write_status(work, Status(state="running", submitted=1.0, started=2.0))
    process = ExitStack()
    process.enter_context(held(engine.workspace.lock_file(spec.run_id), should_stop=lambda: False))

    def end() -> None:
        write_status(work, Status(state="failed", message="no weights", submitted=1.0))
        process.close()

    at_first(monkeypatch, method, end)
    (job,) = engine.jobs()
    assert (job.state, job.message) == ("failed", "no weights")


def test_a_job_that_is_cancelled_elsewhere_while_it_is_looked_at_is_gone(
    engine: Engine, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    work = engine.workspace.begin(smoke_spec())
    write_status(work, Status(state="running", submitted=1.0, started=2.0))
    at_first(monkeypatch, "spec", lambda: shutil.rmtree(work))
    assert engine.jobs() == []


def test_positions_in_a_list_are_those_of_one_moment(
    engine: Engine, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [smoke_spec(seed=seed) for seed in range(3)]
    for spec in specs:
        engine.submit(spec)
    read: list[str] = []
    real = Work.spec

    def moved(work: Work) -> RunSpec | None:
        read.append(work.id)
        if len(read) == len(specs):  # the others have been read
            engine.move(specs[2].run_id, 0)
        return real(work)

    monkeypatch.setattr(Work, "spec", moved)
    assert [(job.id, job.position) for job in engine.jobs()] == [
        (specs[2].run_id, 0),
        (specs[0].run_id, 1),
        (specs[1].run_id, 2),
    ]
