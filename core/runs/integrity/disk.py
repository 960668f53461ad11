"""Errors of the operating system about files and folders, as sentences."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class DiskFull(OSError):
    """The disk filled up while a run or cohort was written. The message is a sentence; no partial files are left."""


@contextmanager
def full_disk_as_sentence(what: str, folder: Path) -> Iterator[None]:
    """Turn "no space left", whichever library reports it, into DiskFull."""
    try:
        yield
    except Exception as error:
        if not _says_full(error):
            raise
        raise DiskFull(
            f"The disk is full: {what} could not be written to {folder}. Free some space, or set PHILAB_DATA to a "
            "folder on another disk; then start it again."
        ) from error


def error_sentence(error: Exception) -> str:
    """What is wrong with which file or folder, and what to do; an error that is a sentence already stays as it is."""
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
            return f"{file} is a file, but a folder is needed there. Choose another name, or move the file away."
        case errno.EISDIR:
            return f"{where} is a folder, but a file is needed there. Choose another name."
        case errno.ENOENT:
            return f"{where} does not exist."
        case errno.ENAMETOOLONG:
            return f"The name of {where[:100]} … is too long for this disk. Choose a shorter one."
        case errno.ENOSPC | errno.EDQUOT:
            return f"The disk is full: {where} could not be written. Free some space and start again."
    return f"{error.strerror or 'The system reported an error'}{'' if path is None else f': {path}'}."


def _file_in_the_way(path: Path | None) -> Path | None:
    """The file at `path` or above it that is in the place of a folder."""
    return None if path is None else next((one for one in (path, *path.parents) if one.is_file()), None)


def _says_full(error: BaseException) -> bool:
    """Whether the error means a full disk; the writers of weights report the system's error as text only."""
    full = (errno.ENOSPC, errno.EDQUOT)
    return getattr(error, "errno", None) in full or any(os.strerror(code) in str(error) for code in full)
