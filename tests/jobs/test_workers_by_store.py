"""Workers that share only a store with the app (PHILAB_STORE): own data folders and addresses, the same runs."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.jobs import task
from core.jobs.by_store import mirror
from core.jobs.by_store.mirror import Mirror, bring, check_for_store
from core.jobs.engine import Engine
from core.jobs.limits import Refused
from core.jobs.outcome import outcome
from core.jobs.queues.own import Ticket
from core.jobs.work import Work
from core.jobs.workers import _refusal, fact_finder
from core.runs.events import Status, read_events, read_status, write_status
from core.runs.lock import in_use
from core.runs.remote.sharing import publish
from core.runs.remote.store import Store
from core.runs.run import RunUnread
from core.runs.store import Workspace
from core.spec import ModelSpec, RunSpec
from tests import few_claims
from tests.held_work import Held
from tests.jobs.dask_processes import ROOT, scheduler_process, until, worker_process

WEIGHTS = "model/model.safetensors"
# A lost worker's lease ends after seconds instead of a minute and a half.
SHORT_LEASES = """
from core.runs.remote import lease, sharing
lease.LEASE_SECONDS, sharing.RENEW_SECONDS, sharing.LOOK_SECONDS = 5.0, 0.25, 0.25
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """What all hosts of a test share: a folder that stands for a bucket."""
    address = (tmp_path / "store").as_uri()
    monkeypatch.setenv("PHILAB_STORE", address)
    return Store(address)


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """All events that reach the engine, in their order."""
    events: list[dict[str, Any]] = []
    hear = Mirror.hear

    def note(self: Mirror, event: dict[str, Any]) -> bool:
        events.append(event)
        return hear(self, event)

    monkeypatch.setattr(Mirror, "hear", note)
    return events


@contextlib.contextmanager
def host(scheduler: str, tmp_path: Path, number: int) -> Iterator[tuple[Workspace, subprocess.Popen]]:
    """A worker with an address, a working folder and a data folder of its own: that data folder, and its process."""
    home = tmp_path / f"host-{number}"
    home.mkdir()
    (home / "short_leases.py").write_text(SHORT_LEASES)
    options = ["--host", f"127.0.0.{number + 1}", "--preload", str(home / "short_leases.py")]
    options += ["--preload", few_claims.__name__]  # as the run that theirs is compared with
    options += ["--preload", Held.__module__]
    own = {"PHILAB_DATA": str(home / "data")}
    with worker_process(scheduler, f"host-{number}", home, str(ROOT), options, own) as (address, process):
        assert f"127.0.0.{number + 1}:" in address
        yield Workspace(home / "data", shared=()), process


def test_two_hosts_that_share_only_a_store(
    store: Store,
    tmp_path: Path,
    smoke_workspace: Path,
    smoke_spec: Callable[..., RunSpec],
    smoke_specs: dict[str, RunSpec],
    heard: list[dict[str, Any]],
    held_work: Held,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """One host dies in training, and the other resumes from the store: the run is the one made on one machine."""
    monkeypatch.setattr("core.jobs.engine.LOOK_SECONDS", 0.5)
    one_machine = Workspace(smoke_workspace, shared=())
    publish(store, one_machine.run(smoke_specs["base"].run_id), one_machine)  # the control and the cohort
    spec, other = smoke_specs["dp"], smoke_spec(seed=5)
    app = Workspace(tmp_path / "app", shared=())
    with scheduler_process(tmp_path) as (address, _), contextlib.closing(Engine(app, address, patient=True)) as engine:
        with held_work.at(spec.run_id, 2), host(address, tmp_path, 1) as (first, process):
            engine.submit(spec)
            until(lambda: spec.run_id in store.names("checkpoints"))
            assert in_use(first.lock_file(spec.run_id)) and not (app.root / "runs").exists()
            assert engine.status(spec.run_id).state == "running" and engine.progress(spec.run_id).epoch >= 1
            process.send_signal(signal.SIGKILL)
            process.wait()
            seen = len(heard)
        with host(address, tmp_path, 2) as (second, _):
            until(lambda: engine.status(spec.run_id).state == "done")
            steps = [event["step"] for event in heard[seen:] if event["event"] == "step"]
            assert steps and min(steps) > 1, "it went on from the checkpoint in the store"
            until(lambda: not app.work(spec.run_id).exists())  # it goes just after the run is in its place
            assert second.run(spec.run_id).id == spec.run_id

            with held_work.at(other.run_id):
                engine.submit(other)
                until(lambda: engine.progress(other.run_id).step > 0)
                assert second.work(other.run_id).exists()
                engine.cancel(other.run_id)
                assert engine.status(other.run_id).state == "cancelled" and not app.work(other.run_id).exists()
                until(lambda: not second.work(other.run_id).exists())
            until(lambda: not engine._queue.leaving())
    here, there = one_machine.run(spec.run_id), app.run(spec.run_id)
    assert (here.folder / WEIGHTS).read_bytes() == (there.folder / WEIGHTS).read_bytes()
    assert here.privacy is not None and here.privacy == there.privacy
    assert here.metrics.equals(there.metrics)
    assert app.find(spec.base_spec()) is not None and app.corpus_folder(spec.corpus) is not None
    assert sorted(store.names("runs")) == sorted([spec.run_id, smoke_specs["base"].run_id]), "each run once"
    assert store.list("leases") == store.list("seen") == store.names("checkpoints") == []
    told = capfd.readouterr()
    assert "Traceback" not in told.out + told.err


def test_what_only_this_machine_has_is_refused(
    store: Store, tmp_path: Path, smoke_specs: dict[str, RunSpec], smoke_workspace: Path
) -> None:
    spec = smoke_specs["dp"]
    secret = spec.model_copy(update={"privacy": spec.privacy.model_copy(update={"noise_source": "secret"})})
    imported = spec.model_copy(update={"corpus": spec.corpus.model_copy(update={"imported": "0" * 64})})
    own_base = spec.model_copy(update={"model": ModelSpec(base=str(tmp_path))})
    engine = Engine(Workspace(tmp_path / "app", shared=()), "tcp://127.0.0.1:9", patient=True)
    for refused, sentence in (
        (secret, "secret noise never goes to a store"),
        (imported, "Imported notes never go to a store"),
        (own_base, f"The base model is in the folder {tmp_path} of this machine"),
    ):
        with pytest.raises(Refused, match=sentence):
            engine.submit(refused)
        assert not engine.workspace.work(refused.run_id).exists(), "nothing is left behind"
    with_run = Engine(Workspace(smoke_workspace, shared=()), "tcp://127.0.0.1:9", patient=True)
    with pytest.raises(Refused, match="make no full audits"):
        with_run.submit_audit(spec.run_id)
    check_for_store(spec, is_audit=False)


def test_a_job_that_another_server_cancelled_is_stopped_and_not_fetched(
    store: Store, tmp_path: Path, smoke_specs: dict[str, RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    spec, app = smoke_specs["dp"], Workspace(tmp_path / "app", shared=())
    engine, other = Engine(app, "tcp://127.0.0.1:9", patient=True), Engine(app)
    asked: list[str] = []
    monkeypatch.setattr(engine._connection, "ask_to_stop", asked.append)
    engine.submit(spec)
    ticket = engine._queue.get(spec.run_id)
    assert ticket is not None and engine._mirror is not None
    ticket.key, ticket.future, ticket.arriving = "key", SimpleNamespace(done=lambda: False), True
    engine._mirror.begin("key", engine._work(spec.run_id), ticket.submitted)
    engine._hear({"event": "step", "step": 1, "key": "key"})
    assert other.status(spec.run_id).state == "running" and asked == []
    other.cancel(spec.run_id)
    engine._hear({"event": "step", "step": 2, "key": "key"})
    until(lambda: asked == ["key"])
    until(lambda: engine._queue.live() == [])
    monkeypatch.setattr("core.jobs.engine.bring", lambda work, spec: pytest.fail("a cancelled run was fetched"))
    assert engine._bring(ticket) == "" and engine.jobs() == []
    for one in (engine, other):
        one.close()


def test_without_a_store_or_a_scheduler_workers_share_the_folder(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(tmp_path, shared=())
    assert Engine(workspace, "tcp://127.0.0.1:9")._for_workers().address == store.address
    assert Engine(workspace)._for_workers() == tmp_path, "the local worker has the folder"
    monkeypatch.setenv("PHILAB_STORE", " ")
    assert Engine(workspace, "tcp://127.0.0.1:9")._for_workers() == tmp_path


def test_a_worker_is_asked_about_its_own_store_and_folder(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write("seen/token", b"right")
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "own" / "data"))
    expected = fact_finder()("/dev/null", "seen/token") | {"token": "right"}
    found = fact_finder()(None, "seen/token")
    assert (
        found["data"] == str(tmp_path / "own" / "data")
        and _refusal(found | {"memory": 1 << 40}, expected, store) is None
    )
    monkeypatch.setenv("PHILAB_STORE", (tmp_path / "another").as_uri())
    assert f"does not see the store {store.address}" in _refusal(fact_finder()(None, "seen/token"), expected, store)
    monkeypatch.setenv("PHILAB_STORE", "nowhere://x")
    assert "nowhere://x cannot be used" in _refusal(fact_finder()(None, "seen/token"), expected, store)
    monkeypatch.delenv("PHILAB_STORE")
    assert "give it the same PHILAB_STORE." in _refusal(fact_finder()(None, "seen/token"), expected, store)
    assert f"data folder {tmp_path}/own" in _refusal(found | {"writable": False}, expected, store)


def test_events_of_an_earlier_or_cancelled_submission_are_not_written(
    tmp_path: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    work, told = Work(Workspace(tmp_path, shared=()), smoke_specs["dp"].run_id), Mirror()
    first = work.queue(smoke_specs["dp"])
    told.begin("one", work, first)
    event = {"key": "one", "event": "stage", "time": 0.0, "stage": "training", "message": "Training"}
    told.hear(event | {"worker": "tcp://10.0.0.1:1"})
    (record,) = read_events(work.folder)
    assert record["message"] == "Training" and record["time"] > 0.0
    assert set(record) == {"time", "event", "stage", "message"}
    status = read_status(work.folder)
    assert status.state == "running" and status.submitted == first and status.started is not None
    told.hear(event | {"key": "unknown"})
    work.queue(smoke_specs["dp"])
    told.hear(event)
    assert len(read_events(work.folder)) == 1 and work.status().state == "queued"
    told.begin("two", work, work.status().submitted)
    told.end("two")
    told.hear(event | {"key": "two"})
    work.withdraw()
    told.hear(event)
    assert not work.folder.exists()


def test_a_run_that_cannot_be_fetched_is_a_sentence(
    store: Store,
    tmp_path: Path,
    smoke_workspace: Path,
    smoke_specs: dict[str, RunSpec],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spec, here = smoke_specs["plain"], Workspace(smoke_workspace, shared=())
    work = Work(Workspace(tmp_path / "app", shared=()), spec.run_id)
    work.queue(spec)
    assert f"There is no run {spec.run_id}" in bring(work, spec)
    publish(store, here.run(spec.run_id), here)
    weights = store.manifest("runs", spec.run_id)[WEIGHTS]["sha256"]
    content = store.read(f"objects/{weights}")
    store.write(f"objects/{weights}", b"damaged")
    assert "the checksum of model.safetensors differs" in bring(work, spec) and work.folder.exists()
    monkeypatch.setattr(mirror.Store, "of_environment", lambda: None)
    assert "PHILAB_STORE is no longer set" in bring(work, spec)
    monkeypatch.undo()
    monkeypatch.setenv("PHILAB_STORE", store.address)
    store.write(f"objects/{weights}", content)
    assert bring(work, spec) == "" and not work.folder.exists() and work.finished().state == "done"


def test_a_fetched_run_that_cannot_be_read_at_the_moment_is_tried_again(
    store: Store, tmp_path: Path, smoke_specs: dict[str, RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, tried = smoke_specs["plain"], []
    work = Work(Workspace(tmp_path / "app", shared=()), spec.run_id)
    work.queue(spec)

    def brought(*_: object) -> None:
        tried.append(1)
        if len(tried) == 1:
            raise RunUnread("The run cannot be read at the moment. Too many open files.")

    monkeypatch.setattr(mirror, "brought", brought)
    monkeypatch.setattr(mirror, "PAUSE_SECONDS", 0.0)
    assert bring(work, spec) == "" and len(tried) == 2


def test_a_worker_that_sees_the_jobs_folder_uses_it(
    store: Store, tmp_path: Path, smoke_specs: dict[str, RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "data"))
    spec = smoke_specs["dp"]
    given: list[tuple] = []
    monkeypatch.setattr(task, "make_run", lambda *arguments: given.append(arguments) or ("done", ""))
    submitted = Work(Workspace(), spec.run_id).queue(spec)
    assert task.make_run_by_store(spec.model_dump_json(), submitted, "topic", "key") == ("done", "")
    assert given == [(spec.model_dump_json(), str(tmp_path / "data"), ("/dev/null",), submitted)]
    monkeypatch.delenv("PHILAB_STORE")
    ended, why = task.make_run_by_store(spec.model_dump_json(), 0.0, "topic", "key")
    assert ended == "failed" and "start it with the same PHILAB_STORE" in why


def test_why_a_job_failed_elsewhere_is_said_here(tmp_path: Path, smoke_specs: dict[str, RunSpec], store: Store) -> None:
    future = SimpleNamespace(status="finished", result=lambda timeout: ("failed", "The disk is full."), key="one")
    assert outcome(future) == ("failed", "The disk is full.")
    engine = Engine(Workspace(tmp_path / "app", shared=()), "tcp://127.0.0.1:9", patient=True)
    spec = smoke_specs["dp"]
    work = Work(engine.workspace, spec.run_id)
    ticket = begun(work, spec)
    engine._queue.add(ticket)
    ticket.future, ticket.arriving = future, True
    assert engine.status(spec.run_id).state == "running"
    engine._note_end(ticket, future)
    job = engine.status(spec.run_id)
    assert (job.state, job.message) == ("failed", "The disk is full.")


def begun(work: Work, spec: RunSpec) -> Ticket:
    """A submission that a worker has begun."""
    submitted = work.queue(spec)
    write_status(work.folder, Status(state="running", submitted=submitted))
    return Ticket(work.id, spec, submitted)
