"""What a claim reads: a run, and which of its results."""

from __future__ import annotations

from dataclasses import dataclass

from core.spec import RunSpec


@dataclass(frozen=True)
class Need:
    """A run that a claim needs, and what the claim reads from it.

    Attributes:
        spec: The run.
        scores: Whether scores of single notes are read, or another table that runs with figures only lack.
        texts: Whether the texts that the model wrote are read, or what was found in them.
        audit: Results of these attacks of the full audit.
        shadows: Number of shadow models that were trained as the run was (`core.pipeline.shadows`).
        measured: Tables that are made from the run's weights (`core.findings.from_weights`).
    """

    spec: RunSpec
    scores: bool = False
    audit: tuple[str, ...] = ()
    shadows: int = 0
    measured: tuple[str, ...] = ()
    texts: bool = False

    def of_the_run(self) -> Need:
        """The same need without what is made after the run and its audit."""
        return Need(self.spec, self.scores, self.audit, texts=self.texts)
