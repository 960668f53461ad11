"""The local cluster runs any code it is sent, so it must answer its own server alone: no other account, no HTTP."""

from __future__ import annotations

import http.client
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from distributed import Client, LocalCluster, Security

from core.jobs import connection as connection_module
from core.jobs.connection import Connection, EngineFailed

pytestmark = pytest.mark.slow

# For each port: what a dask node answers without the cluster's certificate, and HTTP. As another user, where it can.
INTRUDER = """
import asyncio, http.client, json, os, ssl, sys
from distributed import Security
from distributed.comm import connect
from distributed.core import send_recv
ports, own = json.loads(sys.argv[1]), Security.temporary()
bare, made = ssl.create_default_context(), own.get_connection_args("client")["ssl_context"]
for context in (bare, made):
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
async def told(address, options):
    comm = await connect(address, timeout=20, **options)
    return str(await send_recv(comm, op="identity", reply=True))
async def asked(address, **options):
    try:
        return await asyncio.wait_for(told(address, options), 20)
    except Exception:
        return None
def page(port, path):
    try:
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        line.request("GET", path)
        return line.getresponse().status
    except Exception:
        return None
async def main():
    for port in ports:
        secure = [asked(f"tls://127.0.0.1:{port}", ssl_context=context) for context in (bare, made)]
        answers = await asyncio.gather(asked(f"tcp://127.0.0.1:{port}"), *secure)
        pages = [page(port, path) for path in ("/", "/health", "/metrics")]
        print(os.getuid(), json.dumps({"port": port, "answers": answers, "pages": pages}))
asyncio.run(main())
"""


def visited(ports: list[int]) -> list[dict]:
    """What an intruder gets from these ports of 127.0.0.1."""
    command = [sys.executable, "-c", INTRUDER, json.dumps(ports)]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)  # noqa: S603
    lines = [line.split(" ", 1) for line in said.stdout.splitlines()]
    assert {uid for uid, _ in lines} == {str(os.getuid() or 65_534)}
    return [json.loads(found) for _, found in lines]


def listening(process: psutil.Process) -> list[int]:
    """Every TCP port on which a process or one of its descendants listens."""
    family = [process, *process.children(recursive=True)]
    lines = [line for one in family for line in one.net_connections("tcp")]
    return sorted({line.laddr.port for line in lines if line.status == psutil.CONN_LISTEN})


@pytest.fixture(scope="module")
def started() -> Iterator[tuple[Connection, str, Security]]:
    """A local cluster as the engine starts it, without the training libraries."""
    connection = Connection(None)
    address, security = connection._start_cluster()
    yield connection, address, security
    connection.close()


def test_no_other_account_gets_an_answer(started: tuple[Connection, str, Security]) -> None:
    connection, address, security = started
    ports = listening(psutil.Process(connection._process.pid))
    assert len(ports) == 3, "scheduler, nanny and worker: an HTTP server would listen besides"
    for found in visited(ports):
        assert found["answers"] == [None, None, None] and set(found["pages"]) == {None}, found
    with Client(address, security=security, set_as_default=False, timeout=60) as client:
        assert list(client.run(os.getuid).values()) == [os.getuid()], "its own server is answered"


def test_the_intruder_would_get_into_a_cluster_without_certificates() -> None:
    """The intruder above is one that can be refused: it gets in where nothing stops it."""
    with LocalCluster(n_workers=0, processes=False, protocol="tcp", host="127.0.0.1", dashboard_address=None) as bare:
        (found,) = visited([int(bare.scheduler_address.rsplit(":", 1)[1])])
        page = http.client.HTTPConnection("127.0.0.1", bare.scheduler.http_server.port, timeout=60)
        page.request("GET", "/health")
        assert page.getresponse().status == 200, "it is there even without a dashboard"
    assert "Scheduler" in found["answers"][0], found


def test_the_key_is_in_no_command_line_environment_or_lasting_file(started: tuple[Connection, str, Security]) -> None:
    connection, _, security = started
    main = psutil.Process(connection._process.pid)
    for process in (main, *main.children(recursive=True)):
        told = " ".join([*process.cmdline(), *process.environ().values()])
        assert "PRIVATE KEY" not in told
        for file in process.open_files():
            assert security.tls_client_key not in Path(file.path).read_text(errors="replace")


def test_a_worker_is_never_given_up(started: tuple[Connection, str, Security]) -> None:
    """By default dask drops a worker that dies again 15 s after it died, while the nanny starts the next one."""
    _, address, security = started

    def seconds() -> float:
        import dask
        from dask.utils import parse_timedelta

        return parse_timedelta(dask.config.get("distributed.deploy.lost-worker-timeout"))

    with Client(address, security=security, set_as_default=False, timeout=60) as client:
        assert client.run_on_scheduler(seconds) > 365 * 24 * 3_600


def test_files_of_the_worker_are_its_owners_alone(started: tuple[Connection, str, Security]) -> None:
    _, address, security = started
    with Client(address, security=security, set_as_default=False, timeout=60) as client:
        (place,) = client.run(lambda dask_worker: dask_worker.local_directory).values()
    folders = [parent for parent in Path(place).parents if parent.name.startswith("phi-leak-lab-")]
    assert len(folders) == 1, "it writes into the cluster's own folder, and nothing into the working directory"
    assert stat.S_IMODE(folders[0].stat().st_mode) == 0o700 and folders[0].stat().st_uid == os.getuid()


def test_a_worker_process_that_says_nothing_is_ended_and_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs wait for the cluster: a process that hangs in its imports must not let them wait for ever."""
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]  # ends in order, as a cluster does
    monkeypatch.setattr(connection_module, "CLUSTER_SECONDS", 0.2)
    monkeypatch.setattr(connection_module, "COMMAND", silent)
    connection = Connection(None)
    with pytest.raises(EngineFailed, match=r"could not start its worker process within 0\.2 s"):
        connection.open()
    assert connection._process is None
