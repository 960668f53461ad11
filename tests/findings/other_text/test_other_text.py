"""Verdicts on text that was not generated here stand beside those on synthetic notes that ask the same."""

from __future__ import annotations

from dataclasses import replace

from core.findings.claim import Claim, Evidence, Figure
from core.findings.claims import CLAIMS
from core.findings.experiments import of_public_notes, plain
from core.findings.from_weights.abstract_entities import NAME as ABSTRACTS
from core.findings.judging import Finding
from core.findings.needs import Need
from core.findings.other_text import agreement, asked_of_both, of_other_text
from core.findings.rules import Above

TEXTS = dict.fromkeys(("title", "says", "figure", "place", "quantity", "sizes", "differs"), "text")
HOLDS, NOT, UNCLEAR = (1.0, 0.5, 1.5), (-1.0, -1.5, -0.5), (0.0, -1.0, 1.0)


def found(name: str, interval: tuple[float, float, float], spec, again: str = "", **more) -> Finding:
    claim = Claim(
        name, unit="number", measure=None, rule=Above(), needs=(Need(spec),), again=again, **{**TEXTS, **more}
    )
    return Finding(claim, Evidence((Figure("one", *interval),)))


def test_claims_on_both_are_compared_and_others_are_not() -> None:
    synthetic, public = plain("gpt2"), of_public_notes("gpt2")
    every = [
        found("J-c1", HOLDS, synthetic),
        found("J-c2", NOT, synthetic),
        found("J-c3", UNCLEAR, synthetic),
        found("J-c4", HOLDS, public, "J-c1"),
        found("J-c5", HOLDS, public, "J-c2"),
        found("J-c6", NOT, public, "J-c3"),
        found("J-c7", UNCLEAR, public, "J-c1"),
        found("J-c8", HOLDS, synthetic, "J-c1"),
        found("J-c9", HOLDS, public, "J-c1", title="another title"),
        found("J-c10", HOLDS, public),
        found("J-c11", HOLDS, public, "J-c10"),
    ]
    pairs = asked_of_both(every)
    assert [(first.claim.id, there.claim.id) for first, there in pairs] == [
        ("J-c1", "J-c4"),
        ("J-c2", "J-c5"),
        ("J-c3", "J-c6"),
        ("J-c1", "J-c7"),
    ]
    assert agreement(pairs) == (
        "4 claims were asked of synthetic notes and of such text. The verdict is the same for 1 and the opposite for 1 "
        "(J-c5). 1 more could be decided on such text alone (J-c6)."
    )


def test_other_text_is_public_reports_or_abstracts() -> None:
    claim = found("J-c1", HOLDS, plain("gpt2")).claim
    assert not of_other_text(claim) and of_other_text(replace(claim, needs=(Need(of_public_notes("gpt2")),)))
    assert of_other_text(replace(claim, needs=(Need(plain("gpt2"), measured=(ABSTRACTS,)),)))


def test_a_claim_that_is_asked_again_names_the_first() -> None:
    ids = {claim.id for claim in CLAIMS}
    again = {claim.id: claim.again for claim in CLAIMS if claim.again}
    assert ids.issuperset(again.values()) and again["J-c33"] == "J-c2" and "J-c2" not in again
