"""A claim of Lehman 2021 about half a name, asked again about notes that rarely name their patient."""

from __future__ import annotations

from core.demo import SEEDS
from core.findings.claim import Claim, Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.lehman import HALF, HALVES, KINDS, half_a_name, need
from core.findings.experiments import FEW, LATER_SEEDS, SYNTHETIC, of, plain, rarely_named
from core.findings.measures.names import half_names_apart
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Below
from core.findings.stored_runs import StoredRuns
from core.spec import ModelKind

# a causal model sees only what comes before
_ASKED: tuple[tuple[ModelKind, str], ...] = (*(("distilbert", half) for half in HALVES), ("gpt2", HALVES[0]))


def _halves(runs: StoredRuns) -> list[Figure]:
    return [half_a_name(runs, rarely_named(kind, seed), half) for seed in SEEDS for kind, half in _ASKED]


def _fewer(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"{of(plain(kind))}, {half} hidden", half_names_apart(runs, rarely_named(kind), plain(kind), half))
        for kind, half in _ASKED
    ]


_PEOPLE = "the 175 members whom a training note names where a tenth of the notes do, and all 129 others"
_RARELY = "about 3,000 notes of 301 patients, and 129 others, as `classroom` but with the name in a tenth of the notes"

CLAIMS = (
    asked_again(
        "L-c7",
        "L-c17",
        "names in a tenth of the notes",
        "about notes of which half name their patient",
        measure=_halves,
        needs=tuple(need(rarely_named(kind, seed), HALF) for kind in KINDS for seed in SEEDS),
        sizes=f"{_RARELY}; the 175 members whom a training note names, and all 129 others",
        differs="Our experiment, to explain L-c7. Full names are in about a tenth of the notes, where MIMIC has them "
        f"in 0.013 % of its sentences. The rule and the line of .6 are those of L-c7. {LATER_SEEDS} {SYNTHETIC}",
        why={
            "does not hold": "Fewer names are part of the reason: with a fifth as many, all three figures of seed 0 "
            "are lower for the same patients (L-c29). GPT-2's stay above the line, but mostly by the last name itself: "
            "after another patient's first name the figure is .802 on seed 0. The own first name adds .059 (.018 to "
            ".103) where, for the same patients, it added .159 (.113 to .208; both computed afterwards). "
            "DistilBERT's are near the line, .58 to .61."
        },
    ),
    Claim(
        id="L-c29",
        title="Half a name reveals less where fewer notes name their patient",
        says="Our experiment to explain L-c7: if half a name reveals the rest because notes name their "
        "patients often, it reveals less where a tenth of them do and not half.",
        figure="none by number of names in regular notes",
        place="§6.5, table 8",
        quantity="AUC of the hidden half's likelihood, seen against unseen patients, in points: names in a tenth of "
        "the notes − in half, the same patients",
        unit="points",
        measure=_fewer,
        rule=Below(),
        needs=tuple(Need(spec, audit=(HALF,)) for kind in KINDS for spec in (rarely_named(kind), plain(kind))),
        sizes=f"{_RARELY}, and with it in half of them (`classroom`); {_PEOPLE}",
        differs="Our question. The figures were known when this rule was written. Before, L-c17 set these 175 members "
        "against all 292 who are named in `classroom`, without an interval. Both trainings have the same patients "
        f"and settings. {FEW} {SYNTHETIC}",
        why={
            "holds": "For the same patients DistilBERT's figures fall from .725 and .731 to .593 and .584, and GPT-2's "
            "from .978 to .861. The 175 members have 11.5 notes each, the other 117 whom half of the notes name 6.7, "
            "so the 175 are better known: for all 292 the first figures are .675, .717 and .964 (L-c7)."
        },
        page="probes",
    ),
)
