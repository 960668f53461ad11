"""Finds runs with a promise per note that read only the first notes of a patient: those of an older version.

Up to schema 1 (`core.spec.schema`) the cap on a patient's notes (Jagannatha 2021) also applied to private training per
note. There it breaks the promise: if one of the notes that were read is removed, the next one is read instead, so the
sum of clipped gradients changes by up to 2C while the noise is scaled to C. Such a run is recognised by its own table
of scores, which lists every note of a member that was read. Today there is no such cap (`RunSpec.note_cap`), so newer
runs need no check.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.spec import RunSpec
from core.spec.schema import ALL_NOTES_READ


def was_capped(folder: Path, spec: RunSpec, schema: int) -> bool:
    """Whether the cap left out notes that the promise of this run's folder covers.

    True if some member has exactly as many scored notes as the cap allows: the run's folder does not say whether there
    were more. Also True if the scores cannot be read. A cap that no patient reached changed nothing.
    """
    if schema >= ALL_NOTES_READ or not (spec.privacy.private and spec.privacy.unit == "note"):
        return False
    path = folder / "tables" / "scores.parquet"
    try:
        stat = path.stat()
    except OSError:
        return True
    most = _most_read(path, stat.st_mtime_ns, stat.st_size)
    return most is None or most == spec.training.max_notes_per_patient


@lru_cache(maxsize=20_000)  # of fewer than the runs in a store, each listing would read all tables again
def _most_read(path: Path, changed: int, size: int) -> int | None:
    """Largest number of notes of one member in a table of scores; None if it has none or cannot be read."""
    try:
        scores = pq.read_table(path, columns=["patient_id", "note_id"], filters=[("split", "==", "member")])
    except (pa.ArrowInvalid, OSError):
        return None
    notes = scores.group_by(["patient_id", "note_id"]).aggregate([])
    return pc.max(notes.group_by("patient_id").aggregate([("note_id", "count")])["note_id_count"]).as_py()
