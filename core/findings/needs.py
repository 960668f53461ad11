"""What a claim reads: a run, and which of its results."""

from __future__ import annotations

from dataclasses import dataclass

from core.spec import RunSpec


@dataclass(frozen=True)
class Need:
    """A run that a claim needs: `scores` of single notes, and results of these attacks of the full audit."""

    spec: RunSpec
    scores: bool = False
    audit: tuple[str, ...] = ()
