"""Checks whether a stored file is complete, once, and again when the file changes.

A damaged file must not break a page for all users, so a run, a cohort or an audit is opened only if its files can be
read: tables to their last row, JSON parsed, weights as long as their header says. Results are cached by the file's
identity, size and time of change, so opening a run again costs one `stat` per file. These checks detect truncated,
empty and overwritten files; a changed bit that still reads as a number is detected by the checksums
(`core.runs.integrity.checksums`).
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

MOST_BYTES = 8 << 20  # larger tables are not read to their end when they are opened; `verify` does that
MECHANISM = {"unit", "noise_multiplier", "sample_rate", "steps", "delta", "max_grad_norm"}

FolderIdentity = tuple[int, tuple[tuple[str, int, int, int], ...]]

_seen: dict[tuple[Path, tuple[str, ...]], tuple[tuple[int, ...], str | None]] = {}
_noted = 0  # damage that readers have reported so far
_lock = threading.Lock()


def table_problem(path: Path, columns: Iterable[str] = (), *, to_the_end: bool = False) -> str | None:
    """Why a Parquet file cannot be used, or None. It must have these columns."""
    wanted = tuple(columns)
    if to_the_end:
        return _table(path, wanted, None)
    return _remembered(path, wanted, lambda: _table(path, wanted, MOST_BYTES))


def json_problem(path: Path, keys: Iterable[str] = ()) -> str | None:
    """Why a JSON file cannot be used, or None. With `keys` it must be an object that has them."""
    wanted = tuple(keys)
    return _remembered(path, ("json", *wanted), lambda: _json(path, wanted))


def weights_problem(path: Path) -> str | None:
    """Why a safetensors file cannot be used, or None: its header must parse and match the file's length."""
    return _remembered(path, ("safetensors",), lambda: _weights(path))


def model_problems(model: Path) -> list[tuple[str, str]]:
    """(`model/<file>`, what is wrong with it) for the files in a run's folder of weights; none if there is no folder.

    None either if the weights are pruned while this looks at them: a run without weights is whole.
    """
    try:
        names = sorted(os.listdir(model))
    except (FileNotFoundError, NotADirectoryError):
        return []
    checks = {".json": json_problem, ".safetensors": weights_problem}
    found = [
        (f"{model.name}/{name}", problem)
        for suffix, check in checks.items()
        for name in names
        if name.endswith(suffix) and (problem := check(model / name)) is not None
    ]
    return found if model.is_dir() else []


def note_damage(path: Path, columns: Iterable[str], problem: str) -> None:
    """Remember a problem that a reader found in a file that had passed its check, until the file changes.

    A file that is gone leaves nothing to remember; the next listing looks at all runs all the same.
    """
    global _noted
    with _lock:
        with contextlib.suppress(FileNotFoundError):
            _seen[path, tuple(columns)] = (_identity(path), problem)
        _noted += 1


def damage_noted() -> int:
    """How often readers have reported damage so far: what was opened before the last time has to be checked again."""
    return _noted


def folder_identity(folder: Path) -> FolderIdentity:
    """What stays the same while nothing in `folder` changes: name, inode, size and time of each file, two levels deep.

    It also changes when a reader reports damage. One call lists the folders, so it costs a fraction of checking the
    files one by one: what was read from the folder can be kept as long as this is the same.

    Raises:
        OSError: The folder is not there or cannot be listed.
    """
    return _noted, tuple(sorted(_files(os.fspath(folder), levels=2)))


def _files(folder: str, levels: int) -> Iterator[tuple[str, int, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if levels > 1 and entry.is_dir():
                yield from _files(entry.path, levels - 1)
            there = entry.stat()
            yield entry.path, there.st_ino, there.st_size, there.st_mtime_ns


def _remembered(path: Path, what: tuple[str, ...], look: Callable[[], str | None]) -> str | None:
    try:
        identity = _identity(path)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    with _lock:
        known = _seen.get((path, what))
    if known is not None and known[0] == identity:
        return known[1]
    found = look()
    with _lock:
        _seen[path, what] = (identity, found)
    return found


def _identity(path: Path) -> tuple[int, ...]:
    there = path.stat()
    return there.st_dev, there.st_ino, there.st_size, there.st_mtime_ns


def _table(path: Path, columns: tuple[str, ...], most_bytes: int | None) -> str | None:
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            if most_bytes is None or path.stat().st_size <= most_bytes:
                file.read(use_threads=False)
    except FileNotFoundError:
        return "is missing"
    except (OSError, pa.ArrowException, ValueError) as error:
        return f"is damaged ({_first_line(error)})"
    lacking = [column for column in columns if column not in names]
    return f"has no column {lacking[0]}" if lacking else None


def _json(path: Path, keys: tuple[str, ...]) -> str | None:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return f"is damaged ({_first_line(error)})"
    if keys and not (isinstance(content, dict) and set(keys) <= content.keys()):
        return "is damaged (settings are missing)"
    return None


def _weights(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            size = path.stat().st_size
            if not 0 < length <= size:
                return "is damaged"
            header = json.loads(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        whole = size == 8 + length + max(ends, default=0)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        whole = False
    return None if whole else "is damaged"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
