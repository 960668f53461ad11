"""What a claim is: a paper's sentence, the runs that test it, a statistic, and the rule for the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns

Verdict = Literal["holds", "does not hold", "cannot tell"]
Unit = Literal["points", "share", "ratio", "number"]  # how a figure is written: 0.12 as 12 points, 12 %, 0.12×, 0.12

PAPERS: Mapping[str, str] = {
    "J": "Jagannatha 2021",
    "H": "Hoory 2021",
    "P": "PrivAI-Leak report",
    "M": "Mireshghallah 2022",
    "L": "Lehman 2021",
}


@dataclass(frozen=True)
class Figure:
    """One figure of the evidence, for example of one model and seed, with its interval.

    Both ends are NaN where there is no interval, and equal to the value where it was computed exactly. `degrees` are
    the degrees of freedom of an interval by Student's t: with few units it grows more where several have to hold
    together. `most` is the largest size that the figure can have: no end lies beyond. The intervals of figures
    that are `joint` hold together already.
    """

    label: str
    value: float
    low: float
    high: float
    degrees: float = field(default=math.inf, compare=False)
    most: float = field(default=math.inf, compare=False)
    joint: bool = field(default=False, compare=False)

    @property
    def has_interval(self) -> bool:
        """Whether a rule may use this figure."""
        return math.isfinite(self.value) and math.isfinite(self.low) and math.isfinite(self.high)


@dataclass(frozen=True)
class Evidence:
    """Everything that a rule may read: figures whose intervals hold together in 95 % of cases."""

    figures: tuple[Figure, ...]


class Rule(Protocol):
    """A rule for the verdict (`core.findings.rules`)."""

    def __call__(self, evidence: Evidence) -> Verdict: ...  # noqa: D102 — described by the class

    def sentence(self, write: Callable[[float], str]) -> str: ...  # noqa: D102


@dataclass(frozen=True)
class Claim:
    """A paper's claim and how it is tested here.

    Attributes:
        id: `J-c1`: the paper's letter and a number.
        title: The claim in a few words.
        says: The paper's sentence in our words.
        figure: The paper's figure.
        place: Where it is in the paper.
        quantity: What is measured here, so that the sign of a figure can be read.
        unit: How the figures are written.
        needs: The runs.
        measure: Computes one figure a model and seed from stored runs, each with its own 95 % interval. None if this
            project cannot measure it yet; the claim then counts as not run.
        rule: Turns the evidence into a verdict; an instance of `core.findings.rules`.
        sizes: At which sizes it was run.
        differs: What differs from the paper.
        why: A sentence for each verdict that needs an explanation.
        page: The page that shows such figures, by its short name.
        again: The claim that this one asks again elsewhere, by its id.
    """

    id: str
    title: str
    says: str
    figure: str
    place: str
    quantity: str
    unit: Unit
    measure: Callable[[StoredRuns], list[Figure]] | None
    rule: Rule
    sizes: str
    differs: str
    needs: tuple[Need, ...] = ()
    why: Mapping[Verdict, str] = field(default_factory=dict)
    page: str = ""
    again: str = ""

    @property
    def paper(self) -> str:
        """The paper's name."""
        return PAPERS[self.id[0]]
