"""Counts how often this process met other files under the id of a run that it had already opened.

A run is complete when it is stored, but an id alone does not fix what is read under it: a run with figures only is
trained again, one with secret noise gets other weights, `refresh` computes figures again, and a run in the data folder
hides a shipped one or stops hiding it. Whoever keeps something that was made from a run by its id keeps it by this
count, too.
"""

from __future__ import annotations

import threading

_count = 0
_lock = threading.Lock()


def replaced() -> int:
    """How often so far. Two equal answers mean that no run was seen to change in between."""
    return _count


def note_replaced() -> None:
    """Count once more: files of a run are others than before, or another folder has its id now."""
    global _count
    with _lock:
        _count += 1
