"""Estimate how much memory an import takes while its file is read, before the time is spent.

Texts are kept on disk (`core.corpus.importing.spool`). What grows in memory is what is compared between all notes:
hashes and shingles of possible copies, ids, and the index of the patients' identifiers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import psutil

from core.corpus.importing.files import BadNotes
from core.phi.detector import tagger
from core.phi.detector.engine import Detector, best, rules

# Measured as the peak above the idle process (docs/methods/imports.md), and rounded up.
AT_LEAST = 60_000_000  # bytes: one batch of notes, and the libraries' buffers
PER_NOTE = 1_200  # hashes for copies, ids, evidence for the patient's record
PER_CHARACTER = 1.2  # shingles if every note might be a near copy; otherwise nothing
PER_PATIENT = 8_000  # the index with ten known fields each; a third of it without a table of identifiers
TAGGER = 450_000_000  # spaCy, torch and the model that finds names (docs/methods/detector.md)
CGROUP = Path("/sys/fs/cgroup")


def memory_needed(notes: float, characters: float, patients: float) -> float:
    """Peak memory in bytes of an import of this many notes, characters and patients."""
    return AT_LEAST + PER_NOTE * notes + PER_CHARACTER * characters + PER_PATIENT * patients


def free_memory() -> int:
    """Bytes of memory still available: the machine's free memory, or what is left of a container's limit."""
    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError):  # no such files, or "max": there is no other limit
        limit = int((CGROUP / "memory.max").read_text())
        free = min(free, limit - int((CGROUP / "memory.current").read_text()))
    return max(0, free)


def best_that_fits() -> Detector:
    """The best detector that can be used here: without the tagger of names if its memory is not free."""
    found = best()
    if found.tags and not tagger.loaded() and free_memory() < TAGGER:
        return rules(
            f"The tagger of names is not used: it needs {_gigabytes(TAGGER)} of memory, and "
            f"{_gigabytes(free_memory())} are free here."
        )
    return found


class MemoryWatch:
    """Counts the notes of one file while it is read, and stops the import if the whole file would not fit in memory."""

    def __init__(self, file: str) -> None:
        self._file, self._free = file, free_memory()
        self._notes = self._characters = 0
        self._patients: set[str] = set()
        self._share = 0.0  # of the file that has been read

    def read(self, done: int, total: int) -> None:
        """Report how much of the file has been read (`ReadProgress`)."""
        self._share = done / max(1, total)

    def add(self, texts: Iterable[str], patients: Iterable[str]) -> None:
        """Report notes that were read, and their patients.

        Raises:
            BadNotes: if the file's notes, extrapolated from those read so far, would need too much memory. Patients are
                not extrapolated, since the remaining notes may be theirs.
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
                f"{self._file}: checking its approximately {notes:,.0f} notes needs {_gigabytes(needed)} of memory, "
                f"and {_gigabytes(self._free)} are free here. Import a part of them, or use a computer with more "
                "memory."
            )


def _gigabytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
