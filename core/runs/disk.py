"""What a disk must do for everything that is kept: say in a sentence that it is full, and hold a folder whole or not.

A folder is written beside its place, synced, and renamed: what stands under a final name is complete.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DiskFull(OSError):
    """The disk filled up while a run or cohort was written. The text is a sentence; nothing half-written is left."""


@contextmanager
def full_disk_as_sentence(what: str, folder: Path) -> Iterator[None]:
    """Turn "no space left", whoever reports it, into DiskFull."""
    try:
        yield
    except Exception as error:
        if not _says_full(error):
            raise
        raise DiskFull(
            f"The disk is full: {what} could not be written to {folder}. Free some space (or set PHILAB_DATA to a "
            "folder on another disk) and start it again."
        ) from error


def _says_full(error: BaseException) -> bool:
    """The writers of weights report the system's error as text alone."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "errno", None) in full or any(os.strerror(code) in str(error) for code in full)


def publish(made: Path, final: Path) -> None:
    """Sync every file of `made`, then rename it to `final`; what stood there (broken, or made meanwhile) gives way."""
    for path in [*made.rglob("*"), made]:
        sync(path)
    made.chmod(0o755)
    if final.exists():
        old = Path(tempfile.mkdtemp(prefix=".old-", dir=final.parent))
        os.rename(final, old / final.name)
        os.rename(made, final)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(made, final)
    sync(final.parent)


def sync(path: Path) -> None:
    """Have the system write a file, or a folder's list of files, to the disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
