"""Counts how often this process found other files under the id of a run that it had already opened.

A run is complete when it is stored, but its id does not fix what is read under it: a run with figures only is trained
again, one with secret noise gets other weights, `refresh` computes figures again, and a run in the data folder hides a
shipped one or stops hiding it. A cache whose key has a run's id needs this count in its key, too.
"""

from __future__ import annotations

import threading

_count = 0
_lock = threading.Lock()


def replacements() -> int:
    """How many so far. If two answers are equal, no run was seen to change in between."""
    return _count


def note_replacement() -> None:
    """Count one more: files of a run have changed, or another folder has its id now."""
    global _count
    with _lock:
        _count += 1
