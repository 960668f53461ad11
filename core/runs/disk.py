"""A full disk is a sentence, whoever reports it."""

from __future__ import annotations

import errno
import os
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
