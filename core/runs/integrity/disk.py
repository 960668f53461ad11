"""What the system says about files and folders, as sentences."""

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


def error_sentence(error: Exception) -> str:
    """What went wrong with which file or folder, and what to do; the text of errors that are sentences already."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    path = None if error.filename is None else Path(os.fsdecode(error.filename))
    where = "a file" if path is None else str(path)
    elsewhere = "Choose another folder (--data or PHILAB_DATA for runs and cohorts), or change"
    match error.errno:
        case errno.EROFS:
            return f"{where} cannot be written: its disk is read-only. {elsewhere} how the disk is mounted."
        case errno.EACCES | errno.EPERM:
            return f"This account may not use {where}: permission denied. {elsewhere} its permissions."
        case errno.ENOTDIR | errno.EEXIST if (file := _file_in_the_way(path)) is not None:
            return f"{file} is a file, and a folder is needed there. Choose another name, or move the file away."
        case errno.EISDIR:
            return f"{where} is a folder, and a file is needed there. Choose another name."
        case errno.ENOENT:
            return f"There is no {where}."
        case errno.ENAMETOOLONG:
            return f"The name of {where[:100]} … is too long for the disk. Choose a shorter one."
        case errno.ENOSPC | errno.EDQUOT:
            return f"The disk is full: {where} could not be written. Free some space and start again."
    return f"{error.strerror or 'The system reports an error'}{'' if path is None else f': {path}'}."


def _file_in_the_way(path: Path | None) -> Path | None:
    """The file at `path` or above it, where a folder would have to be."""
    return None if path is None else next((one for one in (path, *path.parents) if one.is_file()), None)


def _says_full(error: BaseException) -> bool:
    """The writers of weights report the system's error as text alone."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "errno", None) in full or any(os.strerror(code) in str(error) for code in full)
