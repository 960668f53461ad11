"""Folders for what is only looked at: for their owner's eyes alone, and gone with whoever made them.

A scratch folder goes when `cleanup` is called, when nobody needs it any more, with the object, or when its process ends
in order. What a killed process left is told by its lock, which the operating system drops, and removed by `sweep`.
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
from core.runs.lock import held, in_use
from core.runs.store import full_disk_as_sentence
from core.runs.uploads.records import FOLDER, seconds_kept

log = logging.getLogger(__name__)

PREFIX = ".brought-"
LOCK_FILE = ".lock"
GRACE_SECONDS = 120.0  # for which a browser may be out of reach and find everything again
LOOK_SECONDS = 0.5
NEW_SECONDS = 60.0  # a folder is there a moment before it is locked


class Scratch(tempfile.TemporaryDirectory):
    """A new folder among the uploads of the data folder `root`, which only the user of this process can open.

    `alive` tells, from any thread, whether anybody still needs it; when it has not for GRACE_SECONDS, the folder goes.
    """

    def __init__(self, root: Path, alive: Callable[[], bool] = lambda: True) -> None:
        """Raises DiskFull, a sentence, when there is no room for a folder."""
        with full_disk_as_sentence("what was brought", root):
            make_folder(root / FOLDER, private=True)
            super().__init__(prefix=PREFIX, dir=root / FOLDER, ignore_cleanup_errors=True)
            self._held = contextlib.ExitStack()
            self._held.enter_context(held(self.path / LOCK_FILE, should_stop=lambda: True))
        self.gone = False  # whoever still writes into it should stop
        self._alive, self._seen = alive, time.monotonic()
        _watch(self)

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.name)

    def cleanup(self) -> None:
        """Remove it with everything in it; any number of times."""
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
    """Have a thread look at it now and then; there is one while there is anything to look at."""
    with _watching:
        _watched.append(weakref.ref(scratch))
        if len(_watched) == 1:
            threading.Thread(target=_look, name="scratch folders", daemon=True).start()


def _look() -> None:
    """Look until there is nothing to look at. It holds on to no folder while it sleeps: they go with their owners."""
    while True:
        time.sleep(LOOK_SECONDS)
        if not _look_once():
            return


def _look_once() -> bool:
    """Look at every folder that is still there; whether any is left. If none is, the thread is over."""
    with _watching:
        there = [scratch for seen in _watched if (scratch := seen()) is not None and not scratch.gone]
        for scratch in there:
            try:
                scratch.look()
            except Exception:  # the thread that clears up after everybody must outlive one that cannot be asked
                log.exception("it is not known whether %s is still needed; it is asked again", scratch.name)
        _watched[:] = [weakref.ref(scratch) for scratch in there if not scratch.gone]
        return bool(_watched)


def sweep(root: Path, now: float | None = None) -> None:
    """Remove scratch folders whose process is gone, and those that are older than an upload may become."""
    now = time.time() if now is None else now
    longest = seconds_kept()
    for folder in (root / FOLDER).glob(f"{PREFIX}*/"):
        with contextlib.suppress(FileNotFoundError):  # it goes while it is looked at
            age = now - folder.stat().st_mtime
            if age > longest or (age > NEW_SECONDS and not in_use(folder / LOCK_FILE)):
                shutil.rmtree(folder, ignore_errors=True)
