"""The app on an existing scheduler (PHILAB_SCHEDULER): jobs wait for it, survive its workers, and are the same runs."""

from __future__ import annotations

import logging
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from distributed import Client

from core.jobs.connection import Connection, server_scheduler
from core.jobs.engine import Engine
from core.runs.store import Workspace
from core.spec import RunSpec
from tests.held_work import Held
from tests.jobs.dask_processes import ROOT, scheduler_process, until, worker_process

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("asks_few_claims")]

WEIGHTS = "model/model.safetensors"


@pytest.fixture
def port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture
def server(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> Iterator[Engine]:
    """The engine of an app server that was given a scheduler's address, in a data folder with cohort and control."""
    monkeypatch.setenv("PHILAB_SCHEDULER", f" tcp://127.0.0.1:{port} ")
    monkeypatch.setattr("core.jobs.engine.LOOK_SECONDS", 0.5)
    root, base = tmp_path / "data", smoke_specs["base"].run_id
    shutil.copytree(smoke_workspace / "corpora", root / "corpora")
    shutil.copytree(smoke_workspace / "runs" / base, root / "runs" / base)
    engine = Engine.of_server(Workspace(root, shared=()))
    assert Engine.of_server(Workspace(root, shared=())) is engine and engine.patient
    yield engine
    engine.close()


def test_blank_means_the_local_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHILAB_SCHEDULER", " ")
    engine = Engine.of_server(Workspace(tmp_path, shared=()))
    assert server_scheduler() is None and engine.scheduler_address is None and not engine.patient


def test_an_address_that_is_none_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHILAB_SCHEDULER", "nonsense")
    engine = Engine.of_server(Workspace(tmp_path, shared=()))
    engine.warm()
    until(lambda: engine.problem)
    assert engine.problem.startswith("The job scheduler at nonsense does not answer")
    engine.close()


def test_jobs_wait_for_the_scheduler_and_survive_a_worker(
    server: Engine,
    port: int,
    tmp_path: Path,
    smoke_workspace: Path,
    smoke_spec: Callable[..., RunSpec],
    smoke_specs: dict[str, RunSpec],
    held_work: Held,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Unreachable, then there, then without its worker and without itself: the run is the one made on one machine."""
    spec, other = smoke_specs["dp"], smoke_spec(epochs=1, seed=5)
    tries: list[int] = []

    def counted() -> Client:
        tries.append(1)
        return Connection.open(server._connection)

    monkeypatch.setattr(server._connection, "open", counted)
    with caplog.at_level(logging.WARNING, "core"):
        assert server.submit(spec).state == "queued" and server.submit(other).position == 1
        until(lambda: server.problem)
        assert server.problem.startswith(f"The job scheduler at tcp://127.0.0.1:{port} does not answer")
        until(lambda: len(tries) > 1)
        until(lambda: server._look is not None)
    assert server.status(spec.run_id).state == "queued"
    assert [record.getMessage() for record in caplog.records] == [server.problem], "said once"
    assert server.cancel(other.run_id).state == "cancelled", "without a scheduler"
    with scheduler_process(tmp_path, port=port) as (address, scheduler):
        with held_work.at(spec.run_id), worker_process(address, "first", tmp_path, str(ROOT)) as (_, process):
            until(lambda: not server.problem)
            until(lambda: server.progress(spec.run_id).step > 0)
            assert server.status(spec.run_id).state == "running"
            process.send_signal(signal.SIGKILL)
        with worker_process(address, "second", tmp_path, str(ROOT)) as (_, process):
            until(lambda: server.status(spec.run_id).state == "done")
            with held_work.at(other.run_id):
                server.submit(other)
                until(lambda: server.progress(other.run_id).step > 0)
                server.cancel(other.run_id)
                until(lambda: server.status(other.run_id).state == "cancelled")
                until(lambda: not server.workspace.work(other.run_id).exists())
                server.submit(other)
                until(lambda: server.progress(other.run_id).step > 0)
                process.send_signal(signal.SIGKILL)
                scheduler.send_signal(signal.SIGKILL)
    until(lambda: server.status(other.run_id).state == "interrupted")
    assert server.status(other.run_id).message.endswith("was lost. Submit the job again: it resumes where it was.")
    server.submit(other)
    with scheduler_process(tmp_path, port=port) as (address, _), worker_process(address, "third", tmp_path, str(ROOT)):
        until(lambda: server.status(other.run_id).state == "done")
    here, there = Workspace(smoke_workspace, shared=()).run(spec.run_id), server.workspace.run(spec.run_id)
    assert (here.folder / WEIGHTS).read_bytes() == (there.folder / WEIGHTS).read_bytes()
    assert here.privacy is not None and here.privacy == there.privacy
    told = capfd.readouterr()
    assert "Traceback" not in told.out + told.err
