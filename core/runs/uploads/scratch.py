"""Temporary folders for notes under review: readable by their owner alone, and removed with the object that made them.

A scratch folder is removed when `cleanup` is called, when nobody needs it any more, with the object, or when its
process exits normally. Folders of a killed process are recognised by their lock, which the operating system releases,
and removed by `sweep`.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from core.common.files import make_folder
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.lock import held, in_use
from core.runs.uploads.records import FOLDER, seconds_kept

log = logging.getLogger(__name__)

PREFIX = ".brought-"
LOCK_FILE = ".lock"
GRACE_SECONDS = 120.0  # time for which a browser may be disconnected without losing anything
LOOK_SECONDS = 0.5
NEW_SECONDS = 60.0  # a folder exists a moment before it is locked


class Scratch(tempfile.TemporaryDirectory):
    """A new folder among the uploads of the data folder `root`, which only the user of this process can open.

    `alive` returns, in any thread, whether the folder is still needed. The folder is removed after it has returned
    False for GRACE_SECONDS.
    """

    def __init__(self, root: Path, alive: Callable[[], bool] = lambda: True) -> None:
        """Raises DiskFull, with a sentence, if there is no room for a folder."""
        with full_disk_as_sentence("the uploaded notes", root):
            make_folder(root / FOLDER, private=True)
            super().__init__(prefix=PREFIX, dir=root / FOLDER, ignore_cleanup_errors=True)
            self._held = contextlib.ExitStack()
            self._held.enter_context(held(self.path / LOCK_FILE, should_stop=lambda: True))
        self.gone = False  # True means that anything still writing to the folder should stop
        self._alive, self._seen = alive, time.monotonic()
        _watch(self)

    @property
    def path(self) -> Path:
        """The folder's path."""
        return Path(self.name)

    def cleanup(self) -> None:
        """Remove the folder with everything in it; safe to call more than once."""
        self.gone = True
        self._held.close()
        super().cleanup()

    def look(self) -> None:
        """Clean up if nobody has needed it for a while."""
        now = time.monotonic()
        if self._alive():
            self._seen = now
        elif now - self._seen > GRACE_SECONDS:
            self.cleanup()


_watched: list[weakref.ref[Scratch]] = []
_watching = threading.Lock()


def _watch(scratch: Scratch) -> None:
    """Have a background thread check the folder regularly; the thread runs while there are folders to check."""
    with _watching:
        _watched.append(weakref.ref(scratch))
        if len(_watched) == 1:
            threading.Thread(target=_look, name="scratch folders", daemon=True).start()


def _look() -> None:
    """Check folders until none is left. While it sleeps it keeps no reference, so folders go with their owners."""
    while True:
        time.sleep(LOOK_SECONDS)
        if not _look_once():
            return


def _look_once() -> bool:
    """Check every folder that still exists, and return whether any is left; if not, the thread ends."""
    with _watching:
        there = [scratch for seen in _watched if (scratch := seen()) is not None and not scratch.gone]
        for scratch in there:
            try:
                scratch.look()
            except Exception:  # one folder that cannot be checked must not end the thread that cleans up the others
                log.exception("cannot tell whether %s is still needed; checking again", scratch.name)
        _watched[:] = [weakref.ref(scratch) for scratch in there if not scratch.gone]
        return bool(_watched)


def sweep(root: Path, now: float | None = None) -> None:
    """Remove scratch folders whose process is gone, and those that are older than an upload may become."""
    now = time.time() if now is None else now
    longest = seconds_kept()
    for folder in (root / FOLDER).glob(f"{PREFIX}*/"):
        with contextlib.suppress(FileNotFoundError):  # it was removed in the meantime
            age = now - folder.stat().st_mtime
            if age > longest or (age > NEW_SECONDS and not in_use(folder / LOCK_FILE)):
                shutil.rmtree(folder, ignore_errors=True)
