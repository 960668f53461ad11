"""Somebody else's cluster, with TLS by dask's own configuration: what its workers need, and what is said if not."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import dask
import pytest
from distributed import Client, Security
from distributed.scheduler import KilledWorker

from core.__main__ import main
from core.jobs import workers
from core.jobs.connection import Connection, EngineFailed
from core.jobs.engine import Engine
from core.jobs.outcome import outcome
from core.jobs.workers import fit_workers
from core.runs.store import Workspace
from core.spec import RunSpec
from tests.few_claims import IN_WORKERS
from tests.jobs.dask_processes import ROOT, SECONDS, scheduler_process, until, worker_process

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Credentials in files, named by dask's configuration here; the options that name them to others."""
    folder, made = tmp_path_factory.mktemp("tls"), Security.temporary()
    certificate, key = folder / "dask.crt", folder / "dask.pem"
    certificate.write_text(made.tls_client_cert)
    key.write_text(made.tls_client_key)
    client = {"cert": str(certificate), "key": str(key)}
    with dask.config.set({"distributed.comm.tls.ca-file": str(certificate), "distributed.comm.tls.client": client}):
        yield ["--tls-ca-file", str(certificate), "--tls-cert", str(certificate), "--tls-key", str(key)]


@pytest.fixture(scope="module")
def scheduler(certificates: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a scheduler that takes certificates only."""
    with scheduler_process(tmp_path_factory.mktemp("scheduler"), *certificates, protocol="tls") as (address, _):
        yield address


@contextlib.contextmanager
def worker(
    scheduler: str, certificates: list[str], name: str, cwd: Path, path: str = "", more: dict[str, str] | None = None
) -> Iterator[str]:
    """A worker process without a nanny; its address. `more`: of its environment."""
    with worker_process(scheduler, name, cwd, path, certificates, more) as (address, _):
        yield address


def test_dasks_own_configuration_names_the_certificates(scheduler: str) -> None:
    connection = Connection(scheduler)
    assert connection.open().status == "running" and scheduler.startswith("tls://")
    connection.close()
    with dask.config.set({"distributed.comm.tls.ca-file": None}), pytest.raises(EngineFailed, match="certificates"):
        Connection(scheduler).open()


def test_a_scheduler_that_is_gone_is_told_in_a_sentence_without_tracebacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with scheduler_process(tmp_path) as (address, process):
        connection = Connection(address)
        connection.open()
        assert connection.client is not None
        connection.client._timeout = 5  # for connecting again, which is in vain
        process.kill()
        process.wait()
    monkeypatch.setattr("core.jobs.connection.START_SECONDS", 5)
    until(lambda: not connection.alive)
    with pytest.raises(EngineFailed, match=f"The connection to the job scheduler at {address} was lost"):
        connection.fit(tmp_path)
    connection.close()
    with pytest.raises(EngineFailed, match=f"The job scheduler at {address} does not answer"):
        Connection(address).open()
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err


def test_a_worker_without_the_package_is_refused_and_lives(
    scheduler: str, certificates: list[str], tmp_path: Path, smoke_spec: Callable[..., RunSpec]
) -> None:
    engine = Engine(Workspace(tmp_path / "data", shared=()), scheduler)
    spec = smoke_spec()
    with worker(scheduler, certificates, "bare", tmp_path) as address:
        engine.submit(spec)
        until(lambda: not engine.status(spec.run_id).active)
        job = engine.status(spec.run_id)
        assert job.state == "failed"
        assert f"No worker of the scheduler at {scheduler} can take a job. The worker {address} on " in job.message
        assert f"cannot import this program's package `core`. Start it in {ROOT}" in job.message
        pid = engine._connection.client.run(os.getpid)[address]
        future = engine._connection.client.submit(workers.task_caller(), "get_ready", pure=False)
        with pytest.raises(ModuleNotFoundError):
            future.result(timeout=SECONDS)
        assert engine._connection.client.run(os.getpid) == {address: pid}, "even a job that got there does not end it"
    assert not list((tmp_path / "data").glob(".seen-by-workers-*"))
    engine.close()


def test_a_worker_with_another_data_folder_is_refused(
    scheduler: str, certificates: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same path, and another folder behind it: here that of each process' own working directory."""
    for name in ("here", "there"):
        (tmp_path / name / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    data = Path("/proc/self/cwd/data")
    with (
        worker(scheduler, certificates, "elsewhere", tmp_path / "there", str(ROOT)) as away,
        worker(scheduler, certificates, "same place", tmp_path / "here", str(ROOT)) as near,
        Client(scheduler, set_as_default=False, timeout=SECONDS) as client,
    ):
        found = fit_workers(client, data)
        assert (found.workers, found.threads) == ((near,), 1)
        (refusal,) = found.refusals
        assert refusal.startswith(f"The worker {away} on ") and f"share {data} with it" in refusal
        monkeypatch.setattr(workers, "MEMORY_NEEDED", 1 << 60)
        assert all("of free memory" in refusal for refusal in fit_workers(client, tmp_path / "here").refusals)


def test_a_sweep_takes_the_worker_that_can(
    scheduler: str, certificates: list[str], smoke_workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(smoke_workspace / "corpora", tmp_path / "corpora")
    options = ["--corpus", "smoke", "--epochs", "1", "--samples-per-prompt", "1", "--data", str(tmp_path), "--json"]
    with (
        worker(scheduler, certificates, "bare one", tmp_path) as bare,
        worker(scheduler, certificates, "able one", tmp_path, str(ROOT), IN_WORKERS),
    ):
        assert main(["sweep", "--epsilon", "inf", "--scheduler", scheduler, *options]) == 0
        with Client(scheduler, set_as_default=False, timeout=SECONDS) as client:
            assert bare in client.run(os.getpid), "the other worker is left alone"
    (made,) = json.loads(capsys.readouterr().out)
    assert Workspace(tmp_path).run(made["run"]).folder == Path(made["folder"])
    assert main(["sweep", "--epsilon", "inf", *options]) == 0, "here it is found, not made again"
    assert json.loads(capsys.readouterr().out) == [made]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"package": None}, "cannot import this program's package"),
        ({"code": "other"}, "another version of this program"),
        ({"bases": "other"}, "has other base models than"),
        ({"token": None}, "does not see this data folder"),
        ({"writable": False}, "may not write"),
        ({"memory": 1 << 20}, "0.0 GiB of free memory, but a job needs about 1 GiB"),
    ],
)
def test_every_fact_that_is_missing_has_its_sentence(tmp_path: Path, change: dict, sentence: str) -> None:
    facts = workers.fact_finder()(str(tmp_path), "none") | {"memory": 1 << 40, "token": "right"}
    assert workers._refusal(facts, facts, tmp_path) is None
    assert sentence in workers._refusal(facts | change, facts, tmp_path)


def test_an_answer_that_is_an_exception_is_named(tmp_path: Path) -> None:
    assert "(ValueError: odd)" in workers._refusal(ValueError("odd"), {}, tmp_path)


def test_a_futures_own_exception_is_told() -> None:
    def failed(error: Exception) -> SimpleNamespace:
        return SimpleNamespace(status="error", exception=lambda: error)

    ended, why = outcome(failed(ModuleNotFoundError("No module named 'core'")))
    assert ended == "error" and "No module named 'core'" in why and "memory" not in why
    assert "TypeError: odd" in outcome(failed(TypeError("odd")))[1]
    assert "died repeatedly" in outcome(failed(KilledWorker("job", None, 3)))[1]
    assert outcome(SimpleNamespace(status="cancelled")) == ("lost", "")
