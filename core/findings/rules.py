"""Rules from evidence to a verdict. Each is fixed with its claim, before the claim's figures are computed.

A rule reads nothing but the evidence: figures whose intervals hold together. A claim is about every model and seed that
it was run on, so it holds only if every interval supports it, and one interval that contradicts it is enough to refute
it. Since the intervals hold together in 95 % of cases, a wrong verdict comes up in at most 5 % of cases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from core.findings.claim import Evidence, Verdict

Write = Callable[[float], str]  # a number in the claim's unit


@dataclass(frozen=True)
class Above:
    """The claim: every figure is above `line`."""

    line: float = 0.0

    def __call__(self, evidence: Evidence) -> Verdict:
        """The verdict."""
        return _verdict(evidence, lambda low, high: low > self.line, lambda low, high: high < self.line)

    def sentence(self, write: Write) -> str:
        """The rule in words."""
        return (
            f"Holds if every interval lies above {write(self.line)}. Does not hold if one lies below. Otherwise the "
            "data cannot tell."
        )


@dataclass(frozen=True)
class Below:
    """The claim: every figure is below `line`."""

    line: float = 0.0

    def __call__(self, evidence: Evidence) -> Verdict:
        """The verdict."""
        return _verdict(evidence, lambda low, high: high < self.line, lambda low, high: low > self.line)

    def sentence(self, write: Write) -> str:
        """The rule in words."""
        return (
            f"Holds if every interval lies below {write(self.line)}. Does not hold if one lies above. Otherwise the "
            "data cannot tell."
        )


@dataclass(frozen=True)
class Within:
    """The claim: every figure equals a value up to a margin, so it is from `low` to `high`."""

    low: float
    high: float

    def __call__(self, evidence: Evidence) -> Verdict:
        """The verdict."""
        return _verdict(
            evidence,
            lambda low, high: self.low <= low and high <= self.high,
            lambda low, high: high < self.low or low > self.high,
        )

    def sentence(self, write: Write) -> str:
        """The rule in words."""
        return (
            f"Holds if every interval lies between {write(self.low)} and {write(self.high)}. Does not hold if one lies "
            "wholly outside. Otherwise the data cannot tell."
        )


Test = Callable[[float, float], bool]  # of an interval's ends


def _verdict(evidence: Evidence, supports: Test, contradicts: Test) -> Verdict:
    """All figures must have an interval that supports the claim; one interval that contradicts it refutes it."""
    known = [one for one in evidence.figures if one.has_interval]
    if any(contradicts(one.low, one.high) for one in known):
        return "does not hold"
    if known and len(known) == len(evidence.figures) and all(supports(one.low, one.high) for one in known):
        return "holds"
    return "cannot tell"
