"""One process at a time works on a run: an advisory lock, which the operating system releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from core.common.files import file_mode

POLL_SECONDS = 0.2
GLANCE_SECONDS, GLANCE_POLL_SECONDS = 10.0, 0.005  # how long looks of `in_use` may be in the way; between two tries
NOT_OTHERS = 0o660  # whoever may open the file may hold the lock: the group if the umask says so (a shared data folder)


def _try_lock(path: Path) -> int | None:
    """Descriptor of the locked file, or None while another process holds it (or has just removed it, or its folder)."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, file_mode(path.parent) & NOT_OTHERS)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        current = _is_at(path, descriptor)
    except BlockingIOError:
        current = False
    if current:
        return descriptor
    os.close(descriptor)
    return None


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the open file is still the one under this name."""
    try:
        return os.fstat(descriptor).st_ino == os.stat(path).st_ino
    except FileNotFoundError:
        return False


def _lock(path: Path) -> int | None:
    """As `_try_lock`. Tries again while others only look: a look shares the lock, briefly unless its process waits."""
    until = time.monotonic() + GLANCE_SECONDS
    while (descriptor := _try_lock(path)) is None and path.parent.exists() and not in_use(path):
        if time.monotonic() > until:
            break
        time.sleep(GLANCE_POLL_SECONDS)
    return descriptor


@contextmanager
def held(path: Path, *, should_stop: Callable[[], bool], begin: Callable[[], object] | None = None) -> Iterator[bool]:
    """Hold the lock file `path`, waiting for its holder. Yields False, holding nothing, if `should_stop()` says so.

    `begin` makes the folder of `path`: at first, and again if the holder removes it.
    """
    make = begin or partial(path.parent.mkdir, parents=True, exist_ok=True)
    make()
    while (descriptor := _lock(path)) is None:
        if should_stop():
            yield False
            return
        if path.parent.exists():
            time.sleep(POLL_SECONDS)
        else:
            make()
    try:
        yield True
    finally:
        if _is_at(path, descriptor):  # else its folder is gone, and the name may be another holder's
            path.unlink(missing_ok=True)
        os.close(descriptor)


def in_use(path: Path) -> bool:
    """Whether a living process holds the lock file `path`. For this moment, `held` has to try again."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def inner_work(audit: Path) -> list[Path]:
    """Folders within a run's audit in which a process works at this moment, under a lock of their own.

    There patients are taken out of the run (`core.pipeline.forgetting`), or it is trained again with planted gradients
    (`core.pipeline.planted_gradients`).
    """
    return [lock.parent for place in ("forget/*", "prove") for lock in audit.glob(f"{place}/.lock") if in_use(lock)]
