"""How long a list of trainings will still take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence


class WorkLeft:
    """Estimated seconds of work that is left, corrected by how long the finished part of it took.

    Until something is finished the estimates are taken as they are.
    """

    def __init__(self, estimates: Sequence[float], clock: Callable[[], float] = time.monotonic) -> None:
        self._all, self._done, self._spent, self._clock = sum(estimates), 0.0, 0.0, clock
        self._since = clock()

    def finish(self, estimate: float) -> None:
        """Work with this estimate is done."""
        now = self._clock()
        self._spent, self._since = self._spent + now - self._since, now
        self._done += estimate

    def drop(self, estimate: float) -> None:
        """Work with this estimate is not going to be done here."""
        self._all -= estimate
        self._since = self._clock()

    @property
    def seconds(self) -> float:
        """Seconds until everything is done, counted from the last finished work."""
        slowness = self._spent / self._done if self._done else 1.0
        return max(0.0, self._all - self._done) * slowness

    def __str__(self) -> str:
        """`about 2.1 hours left`, or in minutes under one hour."""
        minutes = self.seconds / 60
        return f"about {minutes / 60:.1f} hours left" if minutes >= 60 else f"about {minutes:.0f} minutes left"
