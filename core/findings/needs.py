"""What a claim reads: a run, and which of its results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from core.spec import RunSpec


@dataclass(frozen=True)
class Need:
    """A run that a claim needs, and what the claim reads from it in addition to the run's `metrics`.

    Attributes:
        spec: The run.
        scores: Whether scores of single notes are read.
        utility: Whether answers to tasks are read, patient by patient.
        canaries: Whether the losses of canaries are read.
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
    utility: bool = False
    canaries: bool = False

    def of_the_run(self) -> Need:
        """The same need without what is made after the run and its audit."""
        return replace(self, shadows=0, measured=())

    def with_all_of(self, other: Need) -> Need:
        """What this and another need of the same run read together."""
        return Need(
            self.spec,
            self.scores or other.scores,
            tuple(dict.fromkeys((*self.audit, *other.audit))),
            max(self.shadows, other.shadows),
            tuple(dict.fromkeys((*self.measured, *other.measured))),
            self.texts or other.texts,
            self.utility or other.utility,
            self.canaries or other.canaries,
        )


def together(needs: Iterable[Need]) -> list[Need]:
    """One need for each run, in the order of the first of each, with all that any of these reads from it."""
    found: dict[str, Need] = {}
    for need in needs:
        found[need.spec.run_id] = found.get(need.spec.run_id, Need(need.spec)).with_all_of(need)
    return list(found.values())
