"""Remaining time in words, for jobs and for imports."""

from __future__ import annotations

from core.common.formatting import duration_text


def time_left(seconds: float | None) -> str:
    """The remaining time as the end of a sentence; empty while it is not known."""
    if seconds is None:
        return ""
    return f" · {seconds / 60:.0f} min left" if seconds >= 90 else f" · {max(1, seconds):.0f} s left"


def whole_left(seconds: float | None) -> str:
    """The time left of a whole job as the end of a sentence, rounded as an estimate is; empty while it is not known."""
    if seconds is None:
        return ""
    return " · nearly done" if seconds < 3 else f" · about {duration_text(seconds)} left"
