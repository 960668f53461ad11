"""A real server to measure: `streamlit run app.py` on a free port, and the memory of its processes."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
START, STOP = 180.0, 20.0  # seconds
MIB = 1 << 20


@dataclass(frozen=True)
class Served:
    """A running server."""

    address: str
    process: subprocess.Popen[bytes]
    log: Path
    data: Path

    def memory(self) -> float:
        """Resident memory of the server's own process, without workers, in MiB."""
        return psutil.Process(self.process.pid).memory_info().rss / MIB

    def seconds(self) -> float:
        """Processor seconds of the server's own process so far."""
        spent = psutil.Process(self.process.pid).cpu_times()
        return spent.user + spent.system

    def tracebacks(self) -> int:
        """How many errors with a traceback are in its log."""
        return self.log.read_text(errors="replace").count("Traceback")


@contextlib.contextmanager
def serving(data: Path, log: Path, shipped: Path | None = None) -> Iterator[Served]:
    """The app with `data` as its data folder, and the shipped runs or those in `shipped`; ended afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    more = {} if shipped is None else {"PHILAB_SHIPPED": str(shipped)}
    environment = {**os.environ, "PHILAB_DATA": str(data), "OMP_NUM_THREADS": "1", **more}
    command = [sys.executable, "-m", "streamlit", "run", "app.py", "--server.port", str(port)]
    with log.open("wb") as output:
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603
    try:
        _wait(port, server, log)
        yield Served(f"http://localhost:{port}", server, log, data)
    finally:
        server.terminate()
        try:
            server.wait(STOP)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
            return
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text(errors='replace')[-2000:]}")
