"""What the page Findings shows, and its sentences."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from core.findings.claims import CLAIMS
from core.findings.judging import Finding, stored_findings
from pages.parts.session import classroom, owner

HOW = """
A claim is a paper's sentence in our words, with the runs that test it, a statistic, and a rule for the verdict. The
rule is code that reads nothing but the figures and intervals you see.

- **Holds**: every interval supports the claim, on every model and seed that it was run on.
- **Does not hold**: an interval contradicts the claim.
- **Cannot tell**: neither. Usually there are too few patients.
- **Not run yet**: its runs are not here. The command under the claim trains them, and then this page shows the verdict.

Several intervals of one claim are widened so that all hold together in 95 % of cases (Bonferroni). Each seed has
to support the claim, unless the claim says that seeds are averaged or pooled. Differences resample the patients for
both sides together; where tables are not shipped, the runs are combined as independent ones, which makes the intervals
wider.

The verdicts are about this project's small models, and most are about synthetic notes. They do not say that a paper is
wrong. `docs/findings.md` has the same as a document.
"""


def findings() -> list[Finding]:
    """Every claim with the stored evidence, from the shipped runs or from this data folder."""
    return stored_findings(CLAIMS, owner.workspace().root)


def headline(found: Sequence[Finding], hidden: Collection[str]) -> str:
    """How many claims hold, or that they are to be guessed, or wait for the presenter."""
    if classroom.verdicts() == "hidden":
        return f"{len(found)} claims. Choose one and say what you expect. The presenter will show the verdicts."
    if hidden:
        return f"{len(found)} claims. Choose one, say what you expect, and its verdict appears."
    numbers = {verdict: sum(one.verdict == verdict for one in found) for verdict in {one.verdict for one in found}}
    left = numbers.get("not run", 0)
    more = {0: "", 1: "One more has not been run yet. "}.get(left, f"{left} more have not been run yet. ")
    return (
        f"Of {len(found) - left} claims that were tested, **{numbers.get('holds', 0)} hold**, "
        f"**{numbers.get('does not hold', 0)} do not**, and for {numbers.get('cannot tell', 0)} the data cannot tell. "
        f"{more}Click a tile to see why."
    )
