"""Claims asked both of synthetic notes and of text that was not generated here, and whether the verdict is the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.findings.claim import Claim
from core.findings.from_weights.tables import MEASUREMENTS
from core.findings.judging import Finding

OPPOSITE = {"holds", "does not hold"}
Pair = tuple[Finding, Finding]  # the same claim about synthetic notes, and about text that was not generated here


def of_other_text(claim: Claim) -> bool:
    """Whether a claim reads runs on public reports, or what was measured on abstracts with labels."""
    measured = (MEASUREMENTS[name] for need in claim.needs for name in need.measured)
    return any(need.spec.corpus.is_public_text for need in claim.needs) or any(one.of_abstracts for one in measured)


def asked_of_both(found: Iterable[Finding]) -> list[Pair]:
    """Every claim about other text beside the claim about synthetic notes that it asks again under its title."""
    by_id = {one.claim.id: one for one in found}
    pairs = []
    for one in by_id.values():
        first = by_id.get(one.claim.again)
        if first is None or not one.claim.title.startswith(first.claim.title):
            continue
        if of_other_text(one.claim) and not of_other_text(first.claim):
            pairs.append((first, one))
    return pairs


def agreement(pairs: Sequence[Pair]) -> str:
    """How many verdicts are the same on such text, in two or three sentences."""
    same = [there.claim.id for first, there in pairs if first.verdict == there.verdict]
    turned = [there.claim.id for first, there in pairs if {first.verdict, there.verdict} == OPPOSITE]
    decided = [there.claim.id for first, there in pairs if first.verdict == "cannot tell" and there.verdict in OPPOSITE]
    said = (
        f"{len(pairs)} claims were asked of synthetic notes and of such text. The verdict is the same for {len(same)}"
    )
    said += f" and the opposite for {len(turned)} ({', '.join(turned)})." if turned else "."
    if decided:
        said += f" {len(decided)} more could be decided on such text alone ({', '.join(decided)})."
    return said
