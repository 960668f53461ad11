"""Requirements on the workers of an existing cluster before they get a job, and calls that any worker can unpickle.

A worker that is sent a function from a module that it cannot import shuts down while it reads the message. So functions
for such a cluster are defined inside another function: cloudpickle then sends their code, not their module's name.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client

from core.common.program import PROGRAM
from core.models.shipped_bases import BASE_MODELS
from core.runs.remote.store import Store

MEMORY_NEEDED = 1 << 30  # bytes that must be free on a worker; a run of the shipped size takes about that
MOST_NAMED = 3  # workers named in one error message
Facts = dict[str, Any]


def fact_finder() -> Callable[..., Facts]:
    """A function with all imports inside: it reports what a worker is and what it sees of this program and its data.

    Without `data`, it looks for the token in the worker's store, and at the worker's own data folder.
    """

    def facts(data: str | None, token_file: str, dask_worker: Any = None) -> Facts:
        import hashlib
        import os
        import socket
        from importlib import import_module
        from importlib.util import find_spec
        from pathlib import Path

        import psutil

        package = find_spec("core")
        folder = Path(package.origin).parent if package is not None and package.origin else None
        code = hashlib.sha256()
        kinds = (".py", ".toml", ".csv", ".gz")
        for path in sorted(folder.rglob("*")) if folder else ():
            if folder and path.suffix in kinds and path.is_file():
                code.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
        token, problem, bases = None, "", None
        try:
            if folder is not None:  # a run's id names its base model; other weights under that name would fit it, too
                place = Path(import_module("core.models.shipped_bases").BASE_MODELS)
                read = hashlib.sha256()
                for path in sorted(place.rglob("*")):
                    if path.is_file():
                        read.update(path.relative_to(place).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
                bases = read.hexdigest()
            if data is not None:
                token = (Path(data) / token_file).read_text()
            elif folder is not None:
                store = import_module("core.runs.remote.store").Store.of_environment()
                token = None if store is None else (store.read(token_file) or b"").decode()
                data = str(import_module("core.runs.store").data_folder())
                Path(data).mkdir(parents=True, exist_ok=True)
        except Exception as error:
            problem = str(error)
        memory = psutil.virtual_memory().available
        limit = None if dask_worker is None else dask_worker.memory_manager.memory_limit
        return {
            "host": socket.gethostname(),
            "package": None if folder is None else str(folder),
            "code": None if folder is None else code.hexdigest(),
            "bases": bases,
            "token": token,
            "problem": problem,
            "data": data,
            "writable": data is not None and os.access(data, os.W_OK),
            "memory": min(memory, limit) if limit else memory,
            "threads": 1 if dask_worker is None else dask_worker.state.nthreads,
        }

    return facts


def task_caller() -> Callable[..., tuple[str, str]]:
    """A function that looks up a task of `core.jobs.task` where it runs; a worker without the package just fails it."""

    def call(name: str, *arguments: Any) -> tuple[str, str]:
        from importlib import import_module

        return getattr(import_module("core.jobs.task"), name)(*arguments)

    return call


@dataclass(frozen=True)
class Fit:
    """Workers that can take jobs, how many jobs they take at once, and a sentence for each of the others."""

    workers: tuple[str, ...]
    threads: int
    refusals: tuple[str, ...]


def fit_workers(client: Client, shared: Path | Store) -> Fit:
    """Ask every worker of a cluster what it sees of this program, and of the data folder or the store in `shared`."""
    data = None if isinstance(shared, Store) else str(shared)
    with _token_in_store(shared) if isinstance(shared, Store) else _token(shared) as (file, token):
        refusals = _other_pythons(client)
        asked = [address for address in client.scheduler_info(n_workers=-1)["workers"] if address not in refusals]
        facts = fact_finder()
        answers = client.run(facts, data, file, workers=asked, on_error="return") if asked else {}
        expected = facts(os.devnull, file) | {"token": token}
    fit = {}
    for address, found in answers.items():
        refusal = _refusal(found, expected, shared)
        if refusal is None:
            fit[address] = found["threads"]
        else:
            host = f" on {found['host']}" if isinstance(found, Mapping) else ""
            refusals[address] = f"The worker {address}{host} {refusal}"
    return Fit(tuple(fit), sum(fit.values()), tuple(refusals.values()))


@contextlib.contextmanager
def _token(data: Path) -> Iterator[tuple[str, str]]:
    """(name, text) of a file in the data folder: only a worker that sees this same folder can read its random text."""
    data.mkdir(parents=True, exist_ok=True)
    token = secrets.token_hex(16)
    with tempfile.NamedTemporaryFile("w", prefix=".seen-by-workers-", dir=data) as file:
        Path(file.name).chmod(0o644)  # a worker may run as another user
        file.write(token)
        file.flush()
        yield Path(file.name).name, token


@contextlib.contextmanager
def _token_in_store(store: Store) -> Iterator[tuple[str, str]]:
    """As `_token`, in the store: only a worker with this same store can read it."""
    token, path = secrets.token_hex(16), f"seen/{secrets.token_hex(8)}"
    store.write(path, token.encode())
    try:
        yield path, token
    finally:
        store.remove(path)


def _other_pythons(client: Client) -> dict[str, str]:
    """A sentence for every worker whose Python cannot read this one's code objects."""
    versions = client.get_versions()
    assert isinstance(versions, dict)  # an asynchronous client alone would give a coroutine
    mine = _python(versions["client"])
    found = {"": versions["scheduler"], **versions["workers"]}
    return {
        address: f"The worker {address} runs Python {_python(version)}, this program {mine}. Start it with {mine}."
        for address, version in found.items()
        if address and _python(version) != mine
    }


def _python(version: Any) -> str:
    """`3.11`, from what a node reports about itself."""
    full = dict(version["host"]).get("python", "?") if isinstance(version, Mapping) else "?"
    return ".".join(str(full).split(".")[:2])


def _refusal(found: Facts | Exception, expected: Facts, shared: Path | Store) -> str | None:
    """Why a worker cannot take a job and what to do, as the end of a sentence; None if it can."""
    if isinstance(found, Exception):
        return f"could not be checked ({type(found).__name__}: {found}). Look into its log, then start it again."
    if found["package"] is None:
        return f"cannot import this program's package `core`. Start it in {PROGRAM}, or with PYTHONPATH={PROGRAM}."
    if found["code"] != expected["code"]:
        return f"has another version of this program in {found['package']}. Give it the code of {PROGRAM}."
    if found["bases"] != expected["bases"]:
        return f"has other base models than {BASE_MODELS}: give it the same files. {found['problem']}".strip()
    if found["token"] != expected["token"]:
        if isinstance(shared, Store):
            return f"does not see the store {shared.address}: give it the same PHILAB_STORE. {found['problem']}".strip()
        return f"does not see this data folder: share {shared} with it under the same path."
    if not found["writable"]:
        return f"may not write to the data folder {found['data']}. Give its user permission to write there."
    if found["memory"] < MEMORY_NEEDED:
        left, needed = found["memory"] / (1 << 30), MEMORY_NEEDED / (1 << 30)
        return (
            f"has {left:.1f} GiB of free memory, but a job needs about {needed:.0f} GiB. Free some, or raise its limit."
        )
    return None
