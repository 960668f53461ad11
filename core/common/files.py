"""Files that survive a power cut, and files and folders that only their owner can open.

A folder's own mode says whether it is private (0700), and whatever is written into it follows: files are 0600, folders
0700, whatever the umask is. So privacy is decided once, where a folder is made.
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
    """True when no other account may open `folder`."""
    return not stat.S_IMODE(folder.stat().st_mode) & OTHERS


def make_folder(folder: Path, *, private: bool | None = None) -> Path:
    """Make `folder` with its parents, unless it is there.

    Args:
        folder: where.
        private: only the owner may open it; an existing folder is tightened. None: as private as the folder around it.

    """
    if private is None and not folder.exists():
        around = next(parent for parent in folder.absolute().parents if parent.exists())
        private = is_private(around)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=PRIVATE_FOLDER if private else 0o777, exist_ok=True)
    if private and not is_private(folder):
        folder.chmod(PRIVATE_FOLDER)
    return folder


def file_mode(folder: Path) -> int:
    """The mode (before the umask) of a new file in `folder`."""
    return PRIVATE_FILE if is_private(folder) else 0o666


def create(path: Path, *, private: bool = False) -> Path:
    """Make an empty file for a library to write into, as private as its folder, or private anyhow.

    Libraries open files by name with the umask's mode; a file that is there keeps its own.
    """
    mode = PRIVATE_FILE if private else file_mode(path.parent)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode))
    if mode == PRIVATE_FILE:
        path.chmod(mode)  # it may have been there
    return path


@contextmanager
def replaced(path: Path, *, durable: bool = True, private: bool = False) -> Iterator[Path]:
    """Yield a new file beside `path` to write to; when the block ends without an error it takes the place of `path`.

    Readers see the old file or the new one. With `durable` the new one is on the disk before it is renamed, and its
    name when this returns: after a power cut there is no empty file under the name.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        create(beside, private=private)
        yield beside
        if durable:
            sync(beside)
        os.replace(beside, path)
        if durable:
            sync(path.parent)
    finally:
        beside.unlink(missing_ok=True)


def replace_text(path: Path, text: str, *, durable: bool = True, private: bool = False) -> None:
    """Put `text` in the place of `path` (`replaced`)."""
    with replaced(path, durable=durable, private=private) as beside:
        beside.write_text(text, encoding="utf-8")


def sync(path: Path) -> None:
    """Have the system write a file, or a folder's list of files, to the disk now."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def settle(folder: Path) -> None:
    """Bring all that is in `folder` to the disk, and make it as private as the folder is."""
    if is_private(folder):
        tighten(folder)
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            sync(path)


def tighten(path: Path) -> None:
    """Take every other account's permissions from a file, or from a folder (first) and all that is in it."""
    if path.is_symlink():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OTHERS:
        path.chmod(mode & ~OTHERS)
    if path.is_dir():
        for inside in path.iterdir():
            tighten(inside)
