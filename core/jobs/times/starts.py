"""When waiting jobs should start: after what runs now, and what waits before them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def seconds_to_starts(left: Sequence[float], expected: Sequence[float]) -> list[float]:
    """Seconds until each waiting job starts, if as many jobs run at once as now.

    Args:
        left: Seconds that each running job still needs, at least one.
        expected: Seconds that each waiting job should take, in the order of the queue.
    """
    free = list(left)
    heapq.heapify(free)
    starts = []
    for seconds in expected:
        starts.append(free[0])
        heapq.heapreplace(free, free[0] + seconds)
    return starts
