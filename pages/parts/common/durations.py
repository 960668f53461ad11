"""How long something will take, in words: of jobs and of imports, and so below both."""

from __future__ import annotations


def time_left(seconds: float | None) -> str:
    """What is left of something, as the end of a sentence; empty while nobody knows."""
    if seconds is None:
        return ""
    return f" · {seconds / 60:.0f} min left" if seconds >= 90 else f" · {max(1, seconds):.0f} s left"
