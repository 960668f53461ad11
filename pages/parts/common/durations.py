"""Remaining time in words, for jobs and for imports."""

from __future__ import annotations


def time_left(seconds: float | None) -> str:
    """The remaining time as the end of a sentence; empty while it is not known."""
    if seconds is None:
        return ""
    return f" · {seconds / 60:.0f} min left" if seconds >= 90 else f" · {max(1, seconds):.0f} s left"


def whole_left(seconds: float | None) -> str:
    """The time left of a whole job as the end of a sentence, rounded as an estimate is; empty while it is not known."""
    if seconds is None:
        return ""
    return " · nearly done" if seconds < 3 else f" · {about(seconds)} left"


def about(seconds: float) -> str:
    """`about 40 s`, `about 4 min`, `about 2.5 h`."""
    if seconds < 90:
        return f"about {max(5, 5 * round(seconds / 5))} s"
    return f"about {round(seconds / 60)} min" if seconds < 90 * 60 else f"about {seconds / 3600:.1f} h"
