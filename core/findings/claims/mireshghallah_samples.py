"""Claims on what is attacked: samples of the paper's lengths (Mireshghallah 2022)."""

from __future__ import annotations

from core.findings.claim import Claim, Figure
from core.findings.experiments import CLASSROOM, FEW, NAMES, SYNTHETIC, plain
from core.findings.from_weights.samples import NAME as SAMPLES
from core.findings.from_weights.samples import NOTES_A_PATIENT
from core.findings.measures.energies import ATTACKS
from core.findings.measures.samples import lengths_apart
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above
from core.findings.stored_runs import StoredRuns
from core.spec import ModelKind

KINDS: tuple[ModelKind, ...] = ("distilbert", "gpt2")


def _lengths(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"{NAMES[kind]}, {attack}", lengths_apart(runs, plain(kind), attack))
        for kind in KINDS
        for attack in ATTACKS
    ]


CLAIMS = (
    Claim(
        id="M-c15",
        title="Samples of 10 to 20 tokens leak less",
        says="Both attacks find samples of 20 to 60 tokens more easily than those of 10 to 20.",
        figure="ratio .900 long against .830 short; loss .662 against .516",
        place="§4.2, table 3",
        quantity="AUC, in points: samples of 21 to 60 tokens − samples of 10 to 20 tokens of the same notes, the same "
        "attack",
        unit="points",
        measure=_lengths,
        rule=Above(),
        needs=tuple(Need(plain(kind), measured=(SAMPLES,)) for kind in KINDS),
        sizes=f"{CLASSROOM}; runs of sentences from at most {NOTES_A_PATIENT} notes of each",
        differs="The models read whole notes, and a sample is a part of one without its context. GPT-2 is added. The "
        f"figures of M-c4, for whole notes, were known. The public base model is the reference. {FEW} {SYNTHETIC}",
        page="membership",
    ),
)
