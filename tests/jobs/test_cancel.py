"""Whatever was cancelled ends, at whichever moment: between hand-over and the worker's lock, too.

A stand-in for a scheduler runs the worker's own code in threads; the windows between its steps are widened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.common.errors import Cancelled
from core.jobs import task
from core.jobs.engine import Engine
from core.jobs.work import Work
from core.pipeline import full_audit as auditing
from core.pipeline import training_run
from core.runs.events import CANCEL_FILE, read_events
from core.runs.lock import held
from core.runs.run import RunNotFound
from core.runs.store import Workspace
from core.spec import RunSpec

pytestmark = pytest.mark.slow

WINDOW = 0.06  # seconds before the lock is taken, and again before anything is written
NOTHING_MORE = threading.Event()  # is cancelled from here on: work that is under way comes to its end
MOMENTS = [step * 0.015 for step in range(16)]  # after the job was asked for: from before hand-over to its training


class _Future:
    """A task in a thread."""

    def __init__(self, call: Callable[..., str], arguments: tuple) -> None:
        self.status, self._told, self._ended = "pending", [], threading.Event()
        self._thread = threading.Thread(target=self._run, args=(call, arguments), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[..., str], arguments: tuple) -> None:
        self._answer = call(*arguments)
        self.status = "finished"
        self._ended.set()
        for told in self._told:
            told(self)

    def add_done_callback(self, told: Callable) -> None:
        self._told.append(told)

    def done(self) -> bool:
        return self._ended.is_set()

    def result(self, timeout: float) -> str:
        assert self._ended.wait(timeout)
        return self._answer


class _Client:
    status = "running"

    def submit(self, call: Callable, *arguments: object, **options: object) -> _Future:
        return _Future(call, arguments) if call.__name__ == "call" else SimpleNamespace()

    def close(self, timeout: float) -> None:
        """Nothing to end."""


def _goes_on_until_settled(submit: Callable[..., object]) -> Callable[..., object]:
    def submitted(engine: Engine, what: object) -> object:
        NOTHING_MORE.clear()
        return submit(engine, what)

    return submitted


@pytest.fixture
def went_on(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs that were done to their end, in the worker's code with its windows widened."""
    ended: list[str] = []
    monkeypatch.setattr("core.runs.events.LOOK_SECONDS", 0.0)
    for module in (training_run, auditing):

        def late(path: Path, *, should_stop: Callable[[], bool]) -> held:
            time.sleep(WINDOW)
            return held(path, should_stop=should_stop)

        monkeypatch.setattr(module, "held", late)

    def work(check: Callable[[], None], name: str) -> None:
        """Ends only some time after the test has cancelled what it wants to, however slow the machine is."""
        time.sleep(WINDOW)
        left = 20
        while left:
            check()
            time.sleep(0.005)
            left -= NOTHING_MORE.is_set()
        ended.append(name)
        raise Cancelled("the end of the work")

    for name in ("submit", "submit_audit"):
        monkeypatch.setattr(Engine, name, _goes_on_until_settled(getattr(Engine, name)))
    monkeypatch.setattr(training_run.RunBuilder, "_stages", lambda line, *_: work(line._check_stop, line.spec.run_id))
    monkeypatch.setattr(auditing._Battery, "go", lambda battery, *_: work(battery._check_stop, battery.run.id))
    return ended


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr("core.jobs.connection.Connection._start_cluster", lambda self: ("tcp://here", None))
    monkeypatch.setattr("core.jobs.connection.Client", lambda address, **options: _Client())
    engine = Engine(Workspace(tmp_path, shared=()))
    yield engine
    engine.close()


def settled(engine: Engine) -> None:
    """Cancel nothing more, and wait until no worker has anything in hand."""
    NOTHING_MORE.set()
    for _ in range(2_000):
        with engine._lock:  # or a job that has left the queue may not be cleared up yet
            if engine._queue.in_hand() == 0 and not engine._queue.live() and not engine._queue.leaving():
                return
        time.sleep(0.005)
    raise AssertionError("a worker is still at a job")


@pytest.mark.parametrize("by_another_server", [False, True], ids=["same server", "another server"])
def test_a_cancelled_run_never_goes_on(
    engine: Engine, went_on: list[str], smoke_spec: Callable[..., RunSpec], by_another_server: bool
) -> None:
    specs = [smoke_spec(seed=seed) for seed in range(len(MOMENTS))]
    for spec, moment in zip(specs, MOMENTS, strict=True):
        engine.submit(spec)
        time.sleep(moment)
        asked = Engine(engine.workspace) if by_another_server else engine
        asked.cancel(spec.run_id)
        settled(engine)
    assert went_on == []
    for spec in specs:
        assert not engine.workspace.work(spec.run_id).exists(), "nothing is left of it"
        assert not engine.workspace.lock_file(spec.run_id).exists()


def test_a_cancelled_audit_never_goes_on(
    engine: Engine, went_on: list[str], smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = smoke_spec()
    run = SimpleNamespace(id=spec.run_id, spec=spec, has_model=True)
    monkeypatch.setattr(Workspace, "run", lambda workspace, run_id: run)
    monkeypatch.setattr("core.jobs.work.open_attacks", lambda run, workspace: ["some"])
    monkeypatch.setattr(auditing, "chosen_attacks", lambda run, names: [])
    for moment in MOMENTS:
        job = engine.submit_audit(spec.run_id)
        time.sleep(moment)
        engine.cancel(job.id)
        settled(engine)
        folder = engine.workspace.audit(spec.run_id).folder
        assert not (folder / "status.json").exists() and not (folder / CANCEL_FILE).exists()
    assert went_on == []


def test_a_run_that_was_cancelled_can_be_asked_for_again_at_once(
    engine: Engine, went_on: list[str], smoke_spec: Callable[..., RunSpec]
) -> None:
    """The earlier submission, which a worker may still have, neither makes it twice nor takes it away."""
    for seed, moment in enumerate(MOMENTS[::3]):
        spec = smoke_spec(seed=100 + seed)
        engine.submit(spec)
        time.sleep(moment)
        engine.cancel(spec.run_id)
        assert engine.submit(spec).state == "queued", f"cancelled after {moment} s"
        settled(engine)
        assert went_on.count(spec.run_id) == 1, f"cancelled after {moment} s"


def test_what_waits_is_cancelled_without_a_worker(engine: Engine, smoke_spec: Callable[..., RunSpec]) -> None:
    with engine._starting:  # nothing is handed over
        engine.submit(smoke_spec(seed=1))
        assert engine.cancel(smoke_spec(seed=1).run_id).state == "cancelled"
        assert not engine.workspace.work(smoke_spec(seed=1).run_id).exists()
    with pytest.raises(RunNotFound):
        engine.status(smoke_spec(seed=2).run_id)


@pytest.mark.parametrize("is_audit", [False, True], ids=["run", "audit"])
def test_a_worker_that_outlives_its_scheduler_leaves_the_job_to_the_next_submission(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch, is_audit: bool
) -> None:
    """Its job was shown as interrupted and submitted again: what it has done so far and the new request both stay."""
    spec, workspace = smoke_spec(), Workspace(tmp_path, shared=())
    work = Work(workspace, spec.run_id, is_audit)
    if is_audit:
        run = SimpleNamespace(id=spec.run_id, spec=spec, has_model=True)
        monkeypatch.setattr(Workspace, "run", lambda workspace, run_id: run)
        monkeypatch.setattr(auditing, "chosen_attacks", lambda run, names: [])
    monkeypatch.setattr("core.runs.events.LOOK_SECONDS", -1.0)
    again: list[float] = []

    def submitted_again(check: Callable[[], None]) -> None:
        (work.folder / "checkpoint").mkdir()
        again.append(work.queue(spec))
        check()

    monkeypatch.setattr(training_run.RunBuilder, "_stages", lambda builder, *_: submitted_again(builder._check_stop))
    monkeypatch.setattr(auditing._Battery, "go", lambda battery, *_: submitted_again(battery._check_stop))
    name, *arguments = ("attack_run", spec.run_id) if is_audit else ("make_run", spec.model_dump_json())
    first = work.queue(spec)
    assert getattr(task, name)(*arguments, str(tmp_path), (), first) == ("cancelled", "")
    status = work.status()
    assert status is not None and (status.state, status.submitted) == ("queued", again[0])
    assert (work.folder / "checkpoint").exists() and not work.in_hand
    assert "cancelled" not in [event["event"] for event in read_events(work.folder)]
