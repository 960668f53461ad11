"""How much memory an import takes: told while its file is read, before the time is spent.

Copies, splits and whose identifier stands where are questions about all notes at once, so a cohort is held in memory
while it is checked, and whoever trains on it holds it too. Reading is in chunks, and the first chunk already tells
about how large the whole will be.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import psutil

from core.corpus.import_files import BadNotes

# Measured as peak above the idle process, with identifiers read from the notes (docs/METHODS.md): 6.5 KB for a note of
# 760 characters and 24 KB for one of 3,300. Notes that hold fewer identifiers need less.
PER_CHARACTER = 7  # bytes
PER_NOTE = 1_500  # bytes
CGROUP = Path("/sys/fs/cgroup")


def memory_needed(notes: float, characters: float) -> float:
    """Bytes that so many notes with so many characters take at the peak of an import."""
    return PER_NOTE * notes + PER_CHARACTER * characters


def free_memory() -> int:
    """Bytes that can still be had here: what the machine has free, or what is left of a container's limit."""
    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError):  # no such files, or "max": there is no other limit
        limit = int((CGROUP / "memory.max").read_text())
        free = min(free, limit - int((CGROUP / "memory.current").read_text()))
    return max(0, free)


class MemoryWatch:
    """Counts the notes of one file while it is read, and stops the import when the whole would not fit into memory."""

    def __init__(self, file: str) -> None:
        self._file, self._free = file, free_memory()
        self._notes = self._characters = 0
        self._share = 0.0  # of the file that was read

    def read(self, done: int, total: int) -> None:
        """So much of the file was read (`ReadProgress`)."""
        self._share = done / max(1, total)

    def add(self, texts: Iterable[str]) -> None:
        """These notes were read. Raises BadNotes when as many again as the file still holds would be too many."""
        for text in texts:
            self._notes += 1
            self._characters += len(text)
        if not self._share:
            return
        notes, characters = self._notes / self._share, self._characters / self._share
        if (needed := memory_needed(notes, characters)) > self._free:
            raise BadNotes(
                f"{self._file}: its about {notes:,.0f} notes need {_gigabytes(needed)} of memory while they are "
                f"checked, and {_gigabytes(self._free)} are free here. Bring a part of them, or use a computer with "
                "more memory."
            )


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
