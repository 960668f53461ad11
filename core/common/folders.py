"""Folders that exist completely or not at all, even if several processes write them at once or one is killed.

A folder is built next to its final place under a unique name and renamed when it is complete. The first one stays: a
complete folder is never replaced, so a reader who has seen a name finds it there. What a killed process leaves begins
with one of LEFTOVERS. `sweep` removes it when the lock of its maker is free, which the operating system releases.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from core.common.files import make_folder, settle, sync

BUILDING, OLD = ".building-", ".old-"
LEFTOVERS = (BUILDING, OLD, ".training-")  # the last one: reference models of earlier versions
NEW_SECONDS = 60.0  # a folder exists for a moment before it is locked


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`, which must exist; waits for its holder. One thread must not enter it twice.

    The lock is on the folder itself, so no lock file is left behind, and it ends with the process.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def building(parent: Path, *, private: bool) -> Iterator[Path]:
    """A new folder in `parent` (created if missing) to fill and publish. Whatever is left at the end is removed."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = make_folder(parent / f"{BUILDING}{secrets.token_hex(6)}", private=private)
    try:
        with locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(made: Path, final: Path, whole: Callable[[Path], bool]) -> bool:
    """Force `made` to disk and rename it to `final`, unless there is a complete folder already.

    Args:
        made: a complete folder on the same disk as `final`, as private as it should stay.
        final: its final place. An incomplete folder there is replaced.
        whole: returns whether the folder at `final` is complete.

    Returns:
        True if `made` was renamed. False if there was a complete folder first; `made` is then still in its old place.
    """
    settle(made)
    final.parent.mkdir(parents=True, exist_ok=True)
    with locked(final.parent):  # only one process publishes at a time; readers need no lock
        if final.exists() and whole(final):
            return False
        old = _set_aside(final)
        os.rename(made, final)
        sync(final.parent)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def folders_in(place: Path) -> list[Path]:
    """The folders in `place` by name, without hidden ones (unfinished or set aside); empty if there is no `place`."""
    return sorted(path for path in place.glob("*/") if not path.name.startswith("."))


def remove(folder: Path) -> None:
    """Remove a folder: a reader finds all of it or nothing. Never raises; what could not be removed stays hidden."""
    with contextlib.suppress(OSError):
        old = _set_aside(folder)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)


def _set_aside(folder: Path) -> Path | None:
    """Rename a folder to a name that `sweep` removes. Returns None if there is no folder."""
    old = folder.with_name(f"{OLD}{secrets.token_hex(6)}")
    try:
        os.rename(folder, old)
    except FileNotFoundError:
        return None
    return old


def sweep(parent: Path, now: float | None = None) -> None:
    """Remove what processes that have ended left in `parent`."""
    now = time.time() if now is None else now
    for folder in parent.glob(".*/"):
        if folder.name.startswith(LEFTOVERS):
            with contextlib.suppress(OSError):  # it may disappear meanwhile
                if now - folder.stat().st_mtime > NEW_SECONDS and _free(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _free(folder: Path) -> bool:
    """False while a running process holds the lock of `folder`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
