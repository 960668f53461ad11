"""Folders for what is only looked at: for their owner's eyes alone, and gone with whoever made them.

A scratch folder goes when `cleanup` is called, with the object, or when its process ends in order. What a killed
process left is told by its lock, which the operating system drops, and removed by the next `sweep`.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import time
from pathlib import Path

from core.runs.lock import held, in_use
from core.runs.store import full_disk_as_sentence
from core.runs.uploads import FOLDER, hours_kept

PREFIX = ".brought-"
LOCK_FILE = ".lock"
NEW_SECONDS = 60.0  # a folder is there a moment before it is locked


class Scratch(tempfile.TemporaryDirectory):
    """A new folder among the uploads of the data folder `root`, which only the user of this process can open."""

    def __init__(self, root: Path) -> None:
        """Raises DiskFull, a sentence, when there is no room for a folder."""
        with full_disk_as_sentence("what was brought", root):
            (root / FOLDER).mkdir(parents=True, exist_ok=True)
            super().__init__(prefix=PREFIX, dir=root / FOLDER, ignore_cleanup_errors=True)
            self._held = contextlib.ExitStack()
            self._held.enter_context(held(self.path / LOCK_FILE, should_stop=lambda: True))

    @property
    def path(self) -> Path:
        """Where it is."""
        return Path(self.name)

    def cleanup(self) -> None:
        """Remove it with everything in it; any number of times."""
        self._held.close()
        super().cleanup()


def sweep(root: Path, now: float | None = None) -> None:
    """Remove scratch folders whose process is gone, and those that are older than an upload may become."""
    now = time.time() if now is None else now
    for folder in (root / FOLDER).glob(f"{PREFIX}*/"):
        with contextlib.suppress(FileNotFoundError):  # it goes while it is looked at
            age = now - folder.stat().st_mtime
            if age > 3600 * hours_kept() or (age > NEW_SECONDS and not in_use(folder / LOCK_FILE)):
                shutil.rmtree(folder, ignore_errors=True)
