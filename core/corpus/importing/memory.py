"""How much memory an import takes: told while its file is read, before the time is spent.

Texts wait on disk (`core.corpus.importing.spool`). What grows in memory is what is compared between all notes: hashes
and shingles of possible copies, ids, and the index of the patients' identifiers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import psutil

from core.corpus.importing.files import BadNotes

# Measured as peak above the idle process (docs/methods/imports.md), and rounded up.
AT_LEAST = 60_000_000  # bytes: one batch of notes, and the libraries' buffers
PER_NOTE = 1_200  # hashes for copies, ids, what its patient's record is read from
PER_CHARACTER = 1.2  # shingles, where every note might be a near copy; else nothing
PER_PATIENT = 8_000  # the index, with ten fields known of everybody; a third of it when notes alone must tell
CGROUP = Path("/sys/fs/cgroup")


def memory_needed(notes: float, characters: float, patients: float) -> float:
    """Bytes that so many notes with so many characters, of so many patients, take at the peak of an import."""
    return AT_LEAST + PER_NOTE * notes + PER_CHARACTER * characters + PER_PATIENT * patients


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
        self._patients: set[str] = set()
        self._share = 0.0  # of the file that was read

    def read(self, done: int, total: int) -> None:
        """So much of the file was read (`ReadProgress`)."""
        self._share = done / max(1, total)

    def add(self, texts: Iterable[str], patients: Iterable[str]) -> None:
        """These notes of these patients were read.

        Raises BadNotes when as many notes again as the file still holds would be too many; of patients only those that
        were seen count, since the next notes may be theirs.
        """
        for text in texts:
            self._notes += 1
            self._characters += len(text)
        self._patients.update(patients)
        if not self._share:
            return
        notes, characters = self._notes / self._share, self._characters / self._share
        if (needed := memory_needed(notes, characters, len(self._patients))) > self._free:
            raise BadNotes(
                f"{self._file}: its about {notes:,.0f} notes need {_gigabytes(needed)} of memory while they are "
                f"checked, and {_gigabytes(self._free)} are free here. Bring a part of them, or use a computer with "
                "more memory."
            )


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
