"""The job engine with a real cluster and a real worker process, which one of the tests kills."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.demo.export import copy_run
from core.jobs.engine import Engine, Job
from core.jobs.queues.own import Ticket
from core.jobs.task import make_run
from core.jobs.work import Work
from core.jobs.workers import Fit
from core.pipeline.full_audit import chosen_attacks
from core.pipeline.training_run import execute
from core.runs.audits import Outcome
from core.runs.events import Status, read_events, write_status
from core.runs.lock import held
from core.runs.run import RunNotFound
from core.runs.store import Workspace
from core.spec import AuditSpec, RunSpec
from tests.held_work import Held

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("asks_few_claims")]

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 240  # patience of a test on a slow, busy machine; nothing here waits for it when all is well


@pytest.fixture(scope="module")
def engine(
    smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path_factory: pytest.TempPathFactory, held_work: Held
) -> Iterator[Engine]:
    root = tmp_path_factory.mktemp("jobs")
    shutil.copytree(smoke_workspace / "corpora", root / "corpora")
    base = smoke_specs["base"].run_id
    shutil.copytree(smoke_workspace / "runs" / base, root / "runs" / base)
    engine = Engine.connect(workspace=Workspace(root, shared=()))
    yield engine
    engine.close()


def wait_for(engine: Engine, run_id: str, good: Callable[[Job], bool]) -> Job:
    """Poll until `good`, as a page does."""
    pause = threading.Event()
    for _ in range(SECONDS * 10):
        job = engine.status(run_id)
        if good(job):
            return job
        assert job.state != "failed", job.message
        pause.wait(0.1)
    raise AssertionError(f"{run_id} is still {job.state} after {SECONDS} s: {engine.progress(run_id)}")


def test_one_engine_serves_all_sessions(engine: Engine) -> None:
    assert Engine.connect(workspace=Workspace(engine.workspace.root, shared=())) is engine


def test_queue_positions_cancel_and_a_killed_worker(
    engine: Engine, smoke_spec: Callable[..., RunSpec], smoke_workspace: Path, held_work: Held
) -> None:
    first, second, third = smoke_spec(epsilon=8.0), smoke_spec(seed=1), smoke_spec(seed=2)
    with held_work.at(first.run_id, 2):
        for spec in (first, second, third):
            assert engine.submit(spec).active
        again = engine.submit(second)
        assert again.state == "queued" and again.position == 1
        jobs = engine.jobs()
        assert [job.run_id for job in jobs] == [first.run_id, second.run_id, third.run_id]
        assert [job.position for job in jobs] == [0, 1, 2]

        assert engine.cancel(second.run_id).state == "cancelled"  # it waits: it is taken out at once
        assert not engine.workspace.work(second.run_id).exists()
        assert engine.status(third.run_id).position == 1

        wait_for(engine, first.run_id, lambda job: engine.progress(first.run_id).epoch >= 2)
        (pid,) = engine._connection.client.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)
    with held_work.at(third.run_id):
        and_the_rest(engine, first, third, smoke_workspace)


def and_the_rest(engine: Engine, first: RunSpec, third: RunSpec, smoke_workspace: Path) -> None:
    """The killed one goes on from its checkpoint, and the one after it is cancelled while it is trained."""
    assert wait_for(engine, first.run_id, lambda job: not job.active).state == "done"
    events = read_events(engine.run(first.run_id).folder)
    assert [e["stage"] for e in events if e["event"] == "stage"].count("training") == 2, "it was not killed in training"
    assert [e["step"] for e in events if e["event"] == "step"].count(1) == 1, "it went on from its checkpoint"
    whole = Workspace(smoke_workspace, shared=()).run(first.run_id)
    assert engine.run(first.run_id).privacy.epsilon() == whole.privacy.epsilon()
    progress = engine.progress(first.run_id)
    assert progress.steps_taken == list(range(1, progress.steps + 1))

    wait_for(engine, third.run_id, lambda job: engine.progress(third.run_id).step > 0)
    assert engine.cancel(third.run_id).active in (True, False)
    assert wait_for(engine, third.run_id, lambda job: not job.active).state == "cancelled"
    left = engine.workspace.work(third.run_id)
    wait_for(engine, third.run_id, lambda job: not left.exists())  # the worker tells of it and then clears up
    assert engine.submit(first).state == "done"


def all_but(workspace: Workspace, run_id: str, left: set[str]) -> None:
    """Mark every attack of the battery as done, but for those in `left`."""
    stored = workspace.audit(run_id)
    for attack in chosen_attacks(workspace.run(run_id), None):
        if attack.name not in left:
            stored.record(Outcome(attack.name, "done", 0.0, "", (), attack.version, 1.0), {})


def test_a_full_audit_is_a_job_that_outlives_its_worker_and_is_not_done_twice(
    engine: Engine, smoke_workspace: Path, smoke_specs: dict[str, RunSpec], held_work: Held
) -> None:
    run_id, job_id = smoke_specs["plain"].run_id, f"audit-{smoke_specs['plain'].run_id}"
    shutil.copytree(smoke_workspace / "runs" / run_id, engine.workspace.root / "runs" / run_id, dirs_exist_ok=True)
    all_but(engine.workspace, run_id, {"loss", "canary exposure", "prefix"})
    with pytest.raises(RunNotFound, match="a full audit of run"):
        engine.status(job_id)
    other = Engine(engine.workspace)  # another server on the same folder, that never starts a worker
    with held_work.at(job_id, "prefix"):
        job = engine.submit_audit(run_id)
        assert (job.id, job.active, job.is_audit) == (job_id, True, True)
        assert engine.submit_audit(run_id).active and [one.id for one in engine.jobs()].count(job_id) == 1
        wait_for(engine, job_id, lambda job: engine.progress(job_id).part > 1)
        assert other.status(job_id).state == "running" and other.progress(job_id).parts == 3
        first = engine.workspace.audit(run_id).outcomes()["loss"].finished
        (pid,) = engine._connection.client.run(os.getpid).values()
        os.kill(pid, signal.SIGKILL)
    assert wait_for(engine, job_id, lambda job: not job.active).state == "done"
    outcomes = engine.workspace.audit(run_id).outcomes()
    assert all(outcomes[name].state == "done" for name in ("loss", "canary exposure", "prefix"))
    assert outcomes["loss"].finished == first, "what was done before its worker died is not done again"
    assert engine.submit_audit(run_id).state == "done"
    assert job_id not in [one.id for one in engine.jobs()]
    assert [event["event"] for event in read_events(engine.workspace.audit(run_id).folder)].count("done") == 1


def test_a_full_audit_waits_its_turn_and_can_be_cancelled(
    engine: Engine, smoke_workspace: Path, smoke_specs: dict[str, RunSpec], held_work: Held
) -> None:
    plain, dp = smoke_specs["plain"].run_id, smoke_specs["dp"].run_id
    for run_id in (plain, dp):
        shutil.copytree(smoke_workspace / "runs" / run_id, engine.workspace.root / "runs" / run_id, dirs_exist_ok=True)
        shutil.rmtree(engine.workspace.audit(run_id).folder, ignore_errors=True)
        all_but(engine.workspace, run_id, {"loss", "canary exposure"})
    with held_work.at(f"audit-{plain}", "loss"):
        first, second = engine.submit_audit(plain), engine.submit_audit(dp)
        assert second.position == 1
        assert engine.cancel(second.id).state == "cancelled" and engine.status(second.id).state == "cancelled"
        assert engine.submit_audit(dp).active, "it can be asked for again"
        engine.cancel(second.id)
        wait_for(engine, first.id, lambda job: engine.progress(first.id).part > 0)
        engine.cancel(first.id)
        assert wait_for(engine, first.id, lambda job: not job.active).state == "cancelled"
    assert not any(job.active for job in engine.jobs())


def test_what_cannot_be_attacked_is_refused_with_a_sentence(
    engine: Engine, smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    with pytest.raises(RunNotFound):
        engine.submit_audit("gpt2-000000000000")
    run_id = smoke_specs["dp"].run_id
    shutil.copytree(smoke_workspace / "runs" / run_id, tmp_path / "runs" / run_id)
    shutil.rmtree(tmp_path / "runs" / run_id / "model")
    with pytest.raises(ValueError, match="has no weights"):
        Engine(Workspace(tmp_path, shared=())).submit_audit(run_id)


def test_a_failure_is_a_sentence_and_can_be_removed(engine: Engine, smoke_spec: Callable[..., RunSpec]) -> None:
    spec = smoke_spec(seed=5)
    spec = spec.model_copy(update={"training": spec.training.model_copy(update={"batch_size": 9_999})})
    engine.submit(spec)
    pause = threading.Event()
    while engine.status(spec.run_id).active:
        pause.wait(0.1)
    job = engine.status(spec.run_id)
    assert job.state == "failed" and "9999" in job.message.replace(",", "")
    assert engine.cancel(spec.run_id).state == "cancelled"
    assert not engine.workspace.work(spec.run_id).exists()


def test_what_a_dead_server_left_is_interrupted(tmp_path: Path, smoke_spec: Callable[..., RunSpec]) -> None:
    engine = Engine(Workspace(tmp_path, shared=()))  # never started: looking needs no worker
    spec = smoke_spec()
    work = engine.workspace.begin(spec)
    write_status(work, Status(state="running", submitted=1.0, started=2.0))
    assert engine.status(spec.run_id).state == "interrupted"
    with held(engine.workspace.lock_file(spec.run_id), should_stop=lambda: False):
        assert engine.status(spec.run_id).state == "running", "another living process makes it"
    assert [job.state for job in engine.jobs()] == ["interrupted"]
    assert engine.cancel(spec.run_id).state == "cancelled" and not work.exists()


def test_a_run_that_is_shipped_with_figures_only_can_be_trained_again(
    smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `execute` does; one with all its tables is done, and so is the new one when it is there."""
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    small, whole = smoke_specs["plain"], smoke_specs["dp"]
    full, shipped = Workspace(smoke_workspace, shared=()), tmp_path / "shipped"
    for spec in (small, whole):
        copy_run(full.run(spec.run_id), shipped / "runs" / spec.run_id, weights=False, tables=spec is whole)
    engine = Engine(Workspace(tmp_path / "data", shared=(shipped,)))
    assert engine.submit(whole).state == "done"
    assert engine.submit(small).state == "queued" and engine.status(small.run_id).active
    engine.cancel(small.run_id)
    shutil.copytree(smoke_workspace / "runs" / small.run_id, engine.workspace.root / "runs" / small.run_id)
    assert engine.status(small.run_id).state == "done" and not engine.run(small.run_id).figures_only
    engine.close()


@pytest.mark.parametrize("place", ["shipped", "data"])
def test_an_interrupted_run_that_comes_from_elsewhere_is_done_when_it_is_submitted_again(
    place: str, smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    """An import or an update brought the finished run: what was begun here is removed by whoever makes the run."""
    spec = smoke_specs["plain"]
    engine = Engine(Workspace(tmp_path / "data", shared=(tmp_path / "shipped",)))  # never started
    work = Work(engine.workspace, spec.run_id)
    work.queue(spec)
    shutil.copytree(smoke_workspace / "runs" / spec.run_id, tmp_path / place / "runs" / spec.run_id)
    execute(spec, engine.workspace, asked_again=lambda: True)
    assert work.folder.exists(), "it is left to the new submission"
    with held(work.lock_file, should_stop=lambda: False):
        execute(spec, engine.workspace)
        assert work.folder.exists(), "it is left to who works in it"
    places = (str(engine.workspace.root), (str(tmp_path / "shipped"),))
    assert make_run(spec.model_dump_json(), *places, work.queue(spec)) == ("done", "")
    assert engine.status(spec.run_id).state == "done" and engine.jobs() == []
    assert not work.folder.exists() and not work.lock_file.exists()


@pytest.mark.parametrize("place", ["shipped", "data"])
def test_an_interrupted_run_that_comes_from_elsewhere_is_done_as_soon_as_somebody_looks(
    place: str, smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    """Nobody has to resume it; what another process works on stays, and so does a run that came with figures only."""
    spec, other = smoke_specs["plain"], smoke_specs["dp"]
    engine = Engine(Workspace(tmp_path / "data", shared=(tmp_path / "shipped",)))  # never started
    for one in (spec, other):
        Work(engine.workspace, one.run_id).queue(one)
    work = Work(engine.workspace, spec.run_id)
    assert {job.state for job in engine.jobs()} == {"interrupted"}
    shutil.copytree(smoke_workspace / "runs" / spec.run_id, tmp_path / place / "runs" / spec.run_id)
    with held(work.lock_file, should_stop=lambda: False):
        assert engine.status(spec.run_id).state == "queued" and work.folder.exists()
    assert [job.run_id for job in engine.jobs()] == [other.run_id]
    assert engine.status(spec.run_id).state == "done"
    assert not work.folder.exists() and not work.lock_file.exists()
    full = Workspace(smoke_workspace, shared=())
    copy_run(full.run(other.run_id), tmp_path / "shipped" / "runs" / other.run_id, weights=False, tables=False)
    assert engine.status(other.run_id).state == "interrupted", "it can be made again with all its tables"


def test_unknown_and_unsafe_names(tmp_path: Path) -> None:
    engine = Engine(Workspace(tmp_path, shared=()))
    for name in ("gpt2-000000000000", "../../etc/passwd", ""):
        with pytest.raises(RunNotFound):
            engine.status(name)


def test_a_copy_of_a_jobs_folder_is_no_job(tmp_path: Path, smoke_spec: Callable[..., RunSpec]) -> None:
    engine, spec = Engine(Workspace(tmp_path, shared=())), smoke_spec()
    run, audit = Work(engine.workspace, spec.run_id), Work(engine.workspace, spec.run_id, is_audit=True)
    run.queue(spec)
    audit.queue(spec)
    for folder in (run.folder, audit.folder):
        shutil.copytree(folder, folder.with_suffix(".bak"))
    assert [job.id for job in engine.jobs()] == [spec.run_id]
    assert [one.id for one in Work.asked_for(engine.workspace)] == [run.id, audit.id]


def test_a_cluster_that_cannot_be_reached_fails_the_job_with_a_sentence(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.jobs.connection.START_SECONDS", 1)
    engine = Engine(Workspace(tmp_path, shared=()), scheduler_address="tcp://127.0.0.1:9")
    spec = smoke_spec().model_copy(update={"audit": AuditSpec(seed=9)})
    engine.submit(spec)
    pause = threading.Event()
    while engine.status(spec.run_id).active:
        pause.wait(0.1)
    assert "tcp://127.0.0.1:9" in engine.status(spec.run_id).message


class _Client:
    """Somebody else's scheduler as the engine sees it: takes jobs until the connection is lost for good."""

    def __init__(self, address: str, **options: object) -> None:
        self.status, self.taken = "running", []

    def wait_for_workers(self, count: int, timeout: float) -> None:
        """There is one."""

    def submit(self, call: Callable, *arguments: object, **options: object) -> SimpleNamespace:
        assert self.status == "running", "a closed client takes nothing"
        self.taken.append(arguments)
        return SimpleNamespace(status="pending", done=lambda: False, add_done_callback=lambda told: None)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else's scheduler, with one worker that can take a job."""
    monkeypatch.setattr("core.jobs.connection.Client", _Client)
    monkeypatch.setattr("core.jobs.connection._knock", lambda address: None)
    monkeypatch.setattr("core.jobs.connection.fit_workers", lambda client, data: Fit(("tcp://elsewhere:2",), 1, ()))


def waiting(engine: Engine, spec: RunSpec) -> None:
    """Put a run into an engine's queue without starting anything."""
    engine._queue.add(Ticket(spec.run_id, spec, Work(engine.workspace, spec.run_id).queue(spec)))


def test_a_scheduler_that_was_lost_is_asked_anew(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], elsewhere: None
) -> None:
    engine = Engine(Workspace(tmp_path, shared=()), scheduler_address="tcp://elsewhere:1")
    engine._start()
    first = engine._connection.client
    engine._start()
    assert engine._connection.client is first
    first.status = "closed"
    waiting(engine, smoke_spec())
    engine._hand_over()
    assert (
        engine._connection.client is not first
        and engine._waits(smoke_spec().run_id)
        and len(engine._connection.client.taken) == 1
    )


def test_a_job_whose_folder_is_gone_does_not_hold_up_the_others(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], elsewhere: None
) -> None:
    engine = Engine(Workspace(tmp_path, shared=()), scheduler_address="tcp://elsewhere:1")
    gone, there = smoke_spec(seed=7), smoke_spec(seed=8)
    waiting(engine, gone)
    waiting(engine, there)
    shutil.rmtree(engine.workspace.work(gone.run_id))
    engine._hand_over()
    assert [ticket.job_id for ticket in engine._queue.live()] == [there.run_id]


def test_a_job_that_is_asked_for_again_waits_while_its_worker_removes_the_folder(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], elsewhere: None
) -> None:
    engine, spec = Engine(Workspace(tmp_path, shared=()), scheduler_address="tcp://elsewhere:1"), smoke_spec()
    waiting(engine, spec)
    engine._hand_over()
    engine.cancel(spec.run_id)
    assert [ticket.job_id for ticket in engine._queue.leaving()] == [spec.run_id]
    waiting(engine, spec)
    shutil.rmtree(engine.workspace.work(spec.run_id))
    engine._hand_over()
    assert [ticket.job_id for ticket in engine._queue.waiting()] == [spec.run_id]
    assert engine.status(spec.run_id).state == "queued"


def test_no_worker_outlives_its_server(tmp_path: Path) -> None:
    code = (
        "import os, sys\nfrom core.jobs.engine import Engine\nfrom core.runs.store import Workspace\n"
        "engine = Engine(Workspace(sys.argv[1]))\n"
        "engine._start()\nprint(*engine._connection.client.run(os.getpid).values(), flush=True)\nsys.stdin.read()"
    )
    server = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    worker = int(server.stdout.readline())
    assert Path(f"/proc/{worker}").exists()
    server.kill()
    server.wait()
    pause = threading.Event()
    for _ in range(SECONDS * 10):
        if not Path(f"/proc/{worker}").exists():
            return
        pause.wait(0.1)
    raise AssertionError(f"the worker process is still there {SECONDS} s after its server was killed")
