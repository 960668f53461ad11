"""The engine's scheduler: somebody else's by its address, else a local cluster in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from distributed import Client, Future

from core.jobs.task import get_ready

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS, END_SECONDS = 60, 60


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

    def open(self) -> Client:
        """Connect anew, to a cluster that is started where there is none. Raises EngineFailed."""
        self._end_cluster()
        address = self.address or self._start_cluster()
        try:
            self.client = Client(address, set_as_default=False, timeout=START_SECONDS)
        except (OSError, TimeoutError) as error:
            raise EngineFailed(f"The job scheduler at {address} does not answer ({error}).") from error
        self._ready = self.client.submit(get_ready, key="get-ready", priority=1_000_000)  # dropped, it would not run
        return self.client

    def close(self) -> None:
        """End the client and the local cluster."""
        if self.client is not None:
            self.client.close(timeout=5)
        self._end_cluster()
        self.client = self._ready = None

    def _start_cluster(self) -> str:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(  # noqa: S603 — our own module
            [sys.executable, "-m", "core.jobs.cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C in the terminal is for the server; the cluster ends with it, in order
        )
        line = self._process.stdout.readline()
        if not line:
            raise EngineFailed("The job engine could not start its worker process; the server's log says why.")
        return json.loads(line)["scheduler"]

    def _end_cluster(self) -> None:
        """End the local cluster, if one was started, and let go of its pipes."""
        process, self._process = self._process, None
        if process is None:
            return
        process.stdin.close()
        try:
            process.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
