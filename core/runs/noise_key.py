"""The secret key of a run's noise: a file in the run's work folder, readable by its owner alone, during training.

The file is needed only to resume training after an interruption. It is destroyed as soon as training ends and when the
work folder is discarded, so it never reaches the finished run.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from core.common.files import sync
from core.common.randomness import KEY_BYTES, SecretKey, new_key

FILE = "noise.key"


def obtain(work: Path) -> SecretKey:
    """The key of the run that is made in `work`; a new one, already written to disk, if there is none.

    A checkpoint without a complete key belongs to other randomness: it is removed, and training starts again. Raises
    OSError.
    """
    kept = _read(work)
    if kept is not None:
        return kept
    destroy(work)  # a key that is too short was never used
    shutil.rmtree(work / "checkpoint", ignore_errors=True)
    key = new_key()
    descriptor = os.open(work / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.write(descriptor, key)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync(work)
    return SecretKey(key)


def destroy(work: Path) -> None:
    """Overwrite and remove the key in `work`, if there is one.

    A disk may keep old blocks even after a program overwrites them; a file system offers no more than this.
    """
    path = work / FILE
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        try:
            os.write(descriptor, bytes(KEY_BYTES))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    path.unlink(missing_ok=True)


def _read(work: Path) -> SecretKey | None:
    try:
        descriptor = os.open(work / FILE, os.O_RDONLY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        key = os.read(descriptor, KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    return SecretKey(key) if len(key) == KEY_BYTES and any(key) else None
