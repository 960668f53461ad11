"""Folders that are there whole or not at all: written by several processes at once, or by one that dies.

A folder is made beside its place under a name of its own and renamed when it is complete. The first one stays: a whole
folder is never replaced, so a reader who has seen a name finds it there. What a killed process leaves begins with one
of LEFTOVERS, and `sweep` removes it when the lock of its maker, which the operating system drops, is free.
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
LEFTOVERS = (BUILDING, OLD, ".training-")  # the last: reference models of earlier versions
NEW_SECONDS = 60.0  # a folder is there a moment before it is locked


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`, which is there; waits for its holder. Not to be entered twice by one thread.

    The lock belongs to the folder itself, so no file is left behind, and it ends with the process.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def building(parent: Path, *, private: bool) -> Iterator[Path]:
    """A new folder in `parent` (made too) to be filled and published. What is left of it at the end is removed."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = make_folder(parent / f"{BUILDING}{secrets.token_hex(6)}", private=private)
    try:
        with locked(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(made: Path, final: Path, whole: Callable[[Path], bool]) -> bool:
    """Bring `made` to the disk and rename it to `final`, unless something whole is there already.

    Args:
        made: a complete folder on the disk of `final`, as private as it shall stay.
        final: its place. Whatever is there and not whole gives way.
        whole: says of the folder at `final` whether it is complete.

    Returns:
        True when `made` was renamed; False when a whole folder was there first, and `made` is still where it was.

    """
    settle(made)
    final.parent.mkdir(parents=True, exist_ok=True)
    with locked(final.parent):  # those who publish, one at a time; readers need no lock
        if final.exists() and whole(final):
            return False
        old = _set_aside(final)
        os.rename(made, final)
        sync(final.parent)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)
    return True


def remove(folder: Path) -> None:
    """Remove a folder: a reader finds all of it or nothing. Never raises; what could not be removed stays hidden."""
    with contextlib.suppress(OSError):
        old = _set_aside(folder)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)


def _set_aside(folder: Path) -> Path | None:
    """Rename a folder to a name that `sweep` removes; None where there is none."""
    old = folder.with_name(f"{OLD}{secrets.token_hex(6)}")
    try:
        os.rename(folder, old)
    except FileNotFoundError:
        return None
    return old


def sweep(parent: Path, now: float | None = None) -> None:
    """Remove what processes that are gone have left in `parent`."""
    now = time.time() if now is None else now
    for folder in parent.glob(".*/"):
        if folder.name.startswith(LEFTOVERS):
            with contextlib.suppress(OSError):  # it goes while it is looked at
                if now - folder.stat().st_mtime > NEW_SECONDS and _free(folder):
                    shutil.rmtree(folder, ignore_errors=True)


def _free(folder: Path) -> bool:
    """False while a living process holds the lock of `folder`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
