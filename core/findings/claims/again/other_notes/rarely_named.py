"""A claim of Lehman 2021 about half a name, asked again about notes that rarely name their patient."""

from __future__ import annotations

from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.lehman import HALF, HALVES, KINDS, half_a_name
from core.findings.experiments import FEW, SYNTHETIC, rarely_named
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns


def _halves(runs: StoredRuns) -> list[Figure]:
    last = half_a_name(runs, rarely_named("gpt2"), HALVES[0])  # a causal model sees only what comes before
    return [*(half_a_name(runs, rarely_named("distilbert"), half) for half in HALVES), last]


CLAIMS = (
    asked_again(
        "L-c7",
        "L-c17",
        "names in a tenth of the notes",
        "about notes of which half name their patient",
        measure=_halves,
        needs=tuple(Need(rarely_named(kind), audit=(HALF, "summary: probe_figures")) for kind in KINDS),
        sizes="about 3,000 notes of 301 patients, and 129 others, as `classroom` but with the name in a tenth of the "
        "notes; the 175 members whom a training note names, and all 129 others",
        differs="Our experiment, to explain L-c7. Full names are in about a tenth of the notes, where MIMIC has them "
        f"in 0.013 % of its sentences. The rule and the line of .6 are those of L-c7. {FEW} {SYNTHETIC}",
        why={
            "does not hold": "Fewer names are part of the reason: with a fifth as many, DistilBERT's figures fall from "
            ".675 and .717 to .593 and .584, and GPT-2's from .964 to .861. GPT-2's stays above the line, but nearly "
            "all of it is the last name itself: after another patient's first name it is .802, so the own first name "
            "adds .059 where it added .157 (computed afterwards, without an interval)."
        },
    ),
)
