"""The engine's scheduler: somebody else's by its address, else a local cluster in a process of its own."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
from pathlib import Path

from distributed import Client, Future, Security
from distributed.comm import get_address_host_port

from core.jobs.task import get_ready
from core.jobs.workers import MOST_NAMED, ROOT, Fit, fit_workers

START_SECONDS, END_SECONDS = 60, 60
CONNECTION_ENDED = (OSError, RuntimeError, AttributeError)  # dask's ways to say so: a closed client has lost its parts
logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # a lost scheduler is told in a sentence, once

log = logging.getLogger(__name__)


class EngineFailed(RuntimeError):
    """The worker process or the scheduler could not be reached. The text is a sentence."""


class Connection:
    """A client, and the local cluster behind it where no address was given. One thread at a time opens or closes it."""

    def __init__(self, address: str | None) -> None:
        self.address = address
        self.client: Client | None = None
        self._process: subprocess.Popen | None = None
        self._ready: Future | None = None

    @property
    def alive(self) -> bool:
        """Is the local cluster's process there, or somebody else's scheduler still connected?"""
        if self.client is None or self.client.status == "closed":
            return False
        return self._process is None or self._process.poll() is None

    def connected(self) -> Client:
        """The client. Raises RuntimeError, which is among `CONNECTION_ENDED`, when the connection is not open."""
        if self.client is None:
            raise RuntimeError("the connection is closed")
        return self.client

    def open(self) -> Client:
        """Connect anew, to a cluster that is started where there is none. Raises EngineFailed."""
        self._end_cluster()
        # Without `security`, dask takes the certificates that its own configuration names (distributed.comm.tls).
        address, security = (self.address, None) if self.address else self._start_cluster()
        try:
            if self.address is not None:
                _knock(address)
            self.client = Client(address, security=security, set_as_default=False, timeout=START_SECONDS)
        except (OSError, TimeoutError, RuntimeError, ValueError, TypeError) as error:
            # The last three: an address that cannot be read, or one of tls:// without certificates.
            raise EngineFailed(
                f"The job scheduler at {address} does not answer ({error}). Check its address, that it runs, and that "
                "dask's configuration names its certificates where it uses TLS."
            ) from error
        if self.address is None:  # others' workers are checked before they get anything
            self._ready = self.client.submit(
                get_ready, key="get-ready", priority=1_000_000
            )  # dropped, it would not run
        return self.client

    def fit(self, data: Path) -> Fit | None:
        """The workers of somebody else's cluster that can take jobs; None for the local one, whose worker can.

        Raises EngineFailed when there are none, with a sentence for each that cannot, and when they do not answer.
        """
        if self.address is None:
            return None
        try:
            self.connected().wait_for_workers(1, timeout=START_SECONDS)
        except TimeoutError:
            raise EngineFailed(
                f"The job scheduler at {self.address} has no workers. Start one in {ROOT}: dask worker {self.address}"
            ) from None
        except CONNECTION_ENDED as error:
            raise EngineFailed(self.lost()) from error
        try:
            found = fit_workers(self.connected(), data)
        except CONNECTION_ENDED as error:
            raise EngineFailed(self.lost()) from error
        if not found.workers:
            named = " ".join(found.refusals[:MOST_NAMED])
            more = len(found.refusals) - MOST_NAMED
            others = f" {more} more cannot either." if more > 0 else ""
            raise EngineFailed(f"No worker of the scheduler at {self.address} can take a job. {named}{others}")
        for refusal in found.refusals:
            log.warning("%s It gets no jobs.", refusal)
        return found

    def lost(self) -> str:
        """That the connection ended, in a sentence."""
        who = "its worker process" if self.address is None else f"the job scheduler at {self.address}"
        return f"The connection to {who} was lost. Ask for the job again: it goes on from where it was."

    def close(self) -> None:
        """End the client and the local cluster."""
        if self.client is not None:
            self.client.close(timeout=5)
        self._end_cluster()
        self.client = self._ready = None

    def _start_cluster(self) -> tuple[str, Security]:
        """Start the local cluster; returns its scheduler's address and the credentials for it."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(  # noqa: S603 — our own module
            [sys.executable, "-m", "core.jobs.cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C in the terminal is for the server; the cluster ends with it, in order
        )
        assert self._process.stdout is not None  # a pipe
        line = self._process.stdout.readline()
        if not line:
            raise EngineFailed("The job engine could not start its worker process; the server's log says why.")
        said = json.loads(line)
        certificate, key = said["certificate"], said["key"]
        security = Security(
            require_encryption=True, tls_ca_file=certificate, tls_client_cert=certificate, tls_client_key=key
        )
        return said["scheduler"], security

    def _end_cluster(self) -> None:
        """End the local cluster, if one was started, and let go of its pipes."""
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
    """Raise OSError or ValueError where nobody listens: a client that fails to start prints tracebacks as it ends."""
    with socket.create_connection(get_address_host_port(address, strict=True), timeout=START_SECONDS):
        pass
