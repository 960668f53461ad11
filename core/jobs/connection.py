"""The engine's scheduler: an existing one, by its address, or a local cluster in a separate process."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import secrets
import select
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from distributed import Client, Future, Security
from distributed.client import ClosedClientError
from distributed.comm import get_address_host_port

from core.common.program import PROGRAM
from core.jobs.by_store.messages import Message, ask_to_stop, listen
from core.jobs.task import get_ready
from core.jobs.workers import MOST_NAMED, Fit, fit_workers, task_caller
from core.runs.remote.store import Store

START_SECONDS, END_SECONDS = 60, 60
COMMAND = [sys.executable, "-m", "core.jobs.cluster"]  # a module of this program
CLUSTER_SECONDS = 120  # for a local cluster to say where it listens: it imports dask first
CONNECTION_ENDED = (OSError, RuntimeError, AttributeError, ClosedClientError)  # a closed client has lost attributes
logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a lost scheduler is reported once, in a sentence

log = logging.getLogger(__name__)


class EngineFailed(RuntimeError):
    """The worker process or the scheduler could not be reached. The message is a sentence."""


def server_scheduler() -> str | None:
    """The address in $PHILAB_SCHEDULER of an existing scheduler; None, also for blanks, means a local cluster."""
    return os.environ.get("PHILAB_SCHEDULER", "").strip() or None


class Connection:
    """A client, and a local cluster if no address was given. Only one thread at a time may open or close it.

    `listener`, if given, gets what workers without the data folder send under `topic` (core.jobs.by_store.messages).
    """

    def __init__(self, address: str | None, listener: Callable[[Message], None] | None = None) -> None:
        self.address = address
        self.listener = listener
        self.topic = f"phi-leak-lab-{secrets.token_hex(8)}"
        self.client: Client | None = None
        self._process: subprocess.Popen | None = None
        self._ready: Future | None = None

    @property
    def alive(self) -> bool:
        """Whether the local cluster's process is running, or the existing scheduler is still connected."""
        if self.client is None or self.client.status == "closed":
            return False
        return self._process is None or self._process.poll() is None

    def connected(self) -> Client:
        """The client. Raises RuntimeError, which is among `CONNECTION_ENDED`, when the connection is not open."""
        if self.client is None:
            raise RuntimeError("the connection is closed")
        return self.client

    def open(self) -> Client:
        """Connect again, starting a local cluster if no address was given. Raises EngineFailed."""
        self._end_cluster()
        # Without `security`, dask uses the certificates in its own configuration (distributed.comm.tls).
        address, security = (self.address, None) if self.address else self._start_cluster()
        # A client that failed to connect closes itself when it is collected, and needs a lock that a new client's start
        # holds. If the collector happened to run in the thread that this start waits for, neither would go on.
        gc.collect()
        try:
            if self.address is not None:
                _knock(address)
            self.client = Client(address, security=security, set_as_default=False, timeout=START_SECONDS)
        except (OSError, TimeoutError, RuntimeError, ValueError, TypeError) as error:
            # The last three mean an address that cannot be parsed, or one with tls:// but without certificates.
            raise EngineFailed(
                f"The job scheduler at {address} does not answer ({error}). Check its address, that it is running, "
                "and, if it uses TLS, that dask's configuration names its certificates."
            ) from error
        if self.listener is not None:
            listen(self.client, self.topic, self.listener)
        if self.address is None:  # workers of an existing cluster are checked before they get anything
            self._ready = self.client.submit(
                get_ready, key="get-ready", priority=1_000_000
            )  # keep a reference: dask drops tasks without one
        return self.client

    def fit(self, shared: Path | Store) -> Fit | None:
        """The workers of an existing cluster that can take jobs; None for the local one, whose worker always can.

        `shared` is what they must see: the data folder, or only the store.

        Raises:
            EngineFailed: No worker can take jobs, with a sentence for each, or the workers do not answer.
        """
        if self.address is None:
            return None
        try:
            self.connected().wait_for_workers(1, timeout=START_SECONDS)
        except TimeoutError:
            raise EngineFailed(
                f"The job scheduler at {self.address} has no workers. Start one in {PROGRAM}: "
                f"dask worker {self.address}"
            ) from None
        except CONNECTION_ENDED as error:
            raise self._failed() from error
        try:
            found = fit_workers(self.connected(), shared)
        except CONNECTION_ENDED as error:  # a timeout among them: there were workers, so it is not the case above
            raise self._failed() from error
        if not found.workers:
            named = " ".join(found.refusals[:MOST_NAMED])
            more = len(found.refusals) - MOST_NAMED
            others = f" {more} more cannot either." if more > 0 else ""
            raise EngineFailed(f"No worker of the scheduler at {self.address} can take a job. {named}{others}")
        for refusal in found.refusals:
            log.warning("%s It gets no jobs.", refusal)
        return found

    def submit(self, task: Sequence[Any], fit: Fit | None, *, key: str, priority: int) -> Future:
        """Hand a job (`Work.task`) to the scheduler, for the workers that can take it. Raises EngineFailed."""
        # Where every worker can take jobs, none is named: a job whose named workers all died would never go to one that
        # starts later, although others are allowed (dask looks only at the names while a task has no worker).
        named = {} if fit is None or not fit.refusals else {"workers": list(fit.workers), "allow_other_workers": True}
        try:
            return self.connected().submit(task_caller(), *task, key=key, pure=False, priority=priority, **named)
        except (RuntimeError, ClosedClientError) as error:
            raise self._failed() from error

    def ask_to_stop(self, key: str) -> None:
        """Ask the worker that has the task `key`, and no folder of the job, to stop."""
        with contextlib.suppress(*CONNECTION_ENDED):
            ask_to_stop(self.connected(), key)

    def lost(self) -> str:
        """A sentence that says that the connection ended."""
        who = "its worker process" if self.address is None else f"the job scheduler at {self.address}"
        return f"The connection to {who} was lost."

    def _failed(self) -> EngineFailed:
        return EngineFailed(f"{self.lost()} Check that it is running.")

    def close(self) -> None:
        """Close the client and end the local cluster."""
        if self.client is not None:
            self.client.close(timeout=5)
        self._end_cluster()
        self.client = self._ready = None

    def _start_cluster(self) -> tuple[str, Security]:
        """Start the local cluster and return its scheduler's address and the credentials for it."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAM), os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(  # noqa: S603
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C in the terminal is for the server, which ends the cluster in order
        )
        assert self._process.stdout is not None  # a pipe
        answered, _, _ = select.select([self._process.stdout], [], [], CLUSTER_SECONDS)
        line = self._process.stdout.readline() if answered else b""  # it writes its one line at once, or nothing
        if not line:
            self._end_cluster()
            within = "" if answered else f" within {CLUSTER_SECONDS} s"
            raise EngineFailed(f"The job engine could not start its worker process{within}; the server's log says why.")
        connection = json.loads(line)
        certificate, key = connection["certificate"], connection["key"]
        security = Security(
            require_encryption=True, tls_ca_file=certificate, tls_client_cert=certificate, tls_client_key=key
        )
        return connection["scheduler"], security

    def _end_cluster(self) -> None:
        """End the local cluster, if one was started, and close its pipes."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None and process.stdout is not None  # pipes
        process.stdin.close()
        try:
            process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def _knock(address: str) -> None:
    """Raise OSError or ValueError if nothing listens there: a dask client that fails to start prints tracebacks."""
    with socket.create_connection(get_address_host_port(address, strict=True), timeout=START_SECONDS):
        pass
