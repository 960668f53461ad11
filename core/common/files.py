"""Files that survive a power failure, and files and folders that only their owner can open.

A folder's mode says whether it is private (0700), and everything written into it follows: files are 0600 and folders
0700, whatever the umask is. Privacy is thus decided once, where a folder is created.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PRIVATE_FOLDER, PRIVATE_FILE = 0o700, 0o600
OTHERS = 0o077


def is_private(folder: Path) -> bool:
    """True if no other account can open `folder`."""
    return not stat.S_IMODE(folder.stat().st_mode) & OTHERS


def make_folder(folder: Path, *, private: bool | None = None) -> Path:
    """Create `folder` with its parents, unless it exists.

    Args:
        folder: the path.
        private: if True, only the owner may open it, and an existing folder is tightened. None: as private as the
            nearest existing parent.
    """
    if private is None and not folder.exists():
        existing = next(parent for parent in folder.absolute().parents if parent.exists())
        private = is_private(existing)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=PRIVATE_FOLDER if private else 0o777, exist_ok=True)
    if private and not is_private(folder):
        folder.chmod(PRIVATE_FOLDER)
    return folder


def file_mode(folder: Path) -> int:
    """The mode (before the umask) of a new file in `folder`."""
    return PRIVATE_FILE if is_private(folder) else 0o666


def follow_folder(path: Path) -> None:
    """Open a file to those who may open its folder: safetensors writes files that only their owner can read."""
    path.chmod(stat.S_IMODE(path.parent.stat().st_mode) & 0o666)


def create(path: Path, *, private: bool = False) -> Path:
    """Create an empty file for a library to write into, private if its folder is or if requested.

    Libraries open files by name with the umask's mode, but an existing file keeps its own.
    """
    mode = PRIVATE_FILE if private else file_mode(path.parent)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode))
    if mode == PRIVATE_FILE:
        path.chmod(mode)  # the file may have existed already
    return path


@contextmanager
def replaced(path: Path, *, durable: bool = True, private: bool = False) -> Iterator[Path]:
    """Yield a new file next to `path` to write to. If the block ends without an error, the file replaces `path`.

    Readers see the old file or the new one. With `durable`, the new file is on disk before it is renamed, and its name
    is on disk when this returns, so a power failure cannot leave an empty file under the name.
    """
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        create(unfinished, private=private)
        yield unfinished
        if durable:
            sync(unfinished)
        os.replace(unfinished, path)
        if durable:
            sync(path.parent)
    finally:
        unfinished.unlink(missing_ok=True)


def replace_text(path: Path, text: str, *, durable: bool = True, private: bool = False) -> None:
    """Write `text` to `path`, replacing its content (`replaced`)."""
    with replaced(path, durable=durable, private=private) as unfinished:
        unfinished.write_text(text, encoding="utf-8")


def sync(path: Path) -> None:
    """Force a file, or a folder's list of files, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def settle(folder: Path) -> None:
    """Force everything in `folder` to disk, and make it as private as the folder is."""
    if is_private(folder):
        tighten(folder)
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            sync(path)


def tighten(path: Path) -> None:
    """Remove all permissions of other accounts from a file, or from a folder (first) and everything in it."""
    if path.is_symlink():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OTHERS:
        path.chmod(mode & ~OTHERS)
    if path.is_dir():
        for inside in path.iterdir():
            tighten(inside)
