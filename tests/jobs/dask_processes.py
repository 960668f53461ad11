"""`dask scheduler` and `dask worker` as processes of their own, which tests start, kill and start again."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from distributed import Client

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120


def until(good: Callable[[], object], seconds: int = SECONDS) -> None:
    """Poll until `good()`."""
    pause = threading.Event()
    for _ in range(seconds * 10):
        if good():
            return
        pause.wait(0.1)
    raise AssertionError("it did not come about")


@contextlib.contextmanager
def dask_process(
    module: str, *options: str, cwd: Path, path: str = "", more: dict[str, str] | None = None
) -> Iterator[subprocess.Popen]:
    """`dask scheduler` or `dask worker`; it finds this program's package only by `path`. `more`: of its environment."""
    environment = {**os.environ, "PYTHONPATH": path, **(more or {})}
    command = [sys.executable, "-P", "-m", f"distributed.cli.dask_{module}", *options]
    process = subprocess.Popen(command, cwd=cwd, env=environment, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def scheduler_process(
    cwd: Path, *options: str, protocol: str = "tcp", port: int = 0
) -> Iterator[tuple[str, subprocess.Popen]]:
    """A scheduler on this machine: its address and its process."""
    file = cwd / "scheduler.json"
    file.unlink(missing_ok=True)
    place = ["--host", f"{protocol}://127.0.0.1", "--port", str(port), "--no-dashboard", "--scheduler-file", str(file)]
    with dask_process("scheduler", *place, *options, cwd=cwd) as process:
        until(lambda: file.exists() and file.read_text().endswith("}"))
        yield json.loads(file.read_text())["address"], process


@contextlib.contextmanager
def worker_process(
    scheduler: str,
    name: str,
    cwd: Path,
    path: str = "",
    options: list[str] | None = None,
    more: dict[str, str] | None = None,
) -> Iterator[tuple[str, subprocess.Popen]]:
    """A worker without a nanny: its address and its process."""
    own = ["--name", name, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(cwd)]
    with (
        Client(scheduler, set_as_default=False, timeout=SECONDS) as client,
        dask_process("worker", scheduler, *own, *(options or []), cwd=cwd, path=path, more=more) as process,
    ):
        found: dict[str, str] = {}

        def there() -> bool:
            every = client.scheduler_info(n_workers=-1)["workers"]
            found.update({each["name"]: address for address, each in every.items()})
            return name in found

        until(there)
        yield found[name], process
