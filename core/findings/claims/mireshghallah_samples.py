"""Claims on what is attacked: samples of the paper's lengths, and names in members' notes (Mireshghallah 2022)."""

from __future__ import annotations

from core.attacks.membership.decision import LOSS, RATIO
from core.findings.claim import Claim, Figure
from core.findings.experiments import CLASSROOM, FEW, SYNTHETIC, plain, with_variant
from core.findings.from_weights.samples import NAME as SAMPLES
from core.findings.from_weights.samples import NOTES_A_PATIENT
from core.findings.from_weights.unnamed_others import NAME as UNNAMED_OTHERS
from core.findings.measures.energies import ATTACKS
from core.findings.measures.samples import lengths_apart
from core.findings.measures.tables import labelled
from core.findings.measures.unnamed_others import insertion_minus_regular
from core.findings.needs import Need
from core.findings.rules import Above, Below
from core.findings.stored_runs import StoredRuns
from core.spec import ModelKind
from core.spec.model_names import MODEL_NAMES

KINDS: tuple[ModelKind, ...] = ("distilbert", "gpt2")


def _lengths(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"{MODEL_NAMES[kind]}, {attack}", lengths_apart(runs, plain(kind), attack))
        for kind in KINDS
        for attack in ATTACKS
    ]


_INSERTED = with_variant(plain("distilbert"), "name-insertion")
_BARE = "Only members' notes have the inserted name, as in the paper; in M-c8 and M-c9 all have it."


def _inserted(attack: str, runs: StoredRuns) -> list[Figure]:
    return [labelled(f"DistilBERT, {attack}", insertion_minus_regular(runs, _INSERTED, plain("distilbert"), attack))]


def _inserted_ratio(runs: StoredRuns) -> list[Figure]:
    return _inserted(RATIO, runs)


def _inserted_loss(runs: StoredRuns) -> list[Figure]:
    return _inserted(LOSS, runs)


def _insertion_needs(attack: str) -> tuple[Need, ...]:
    return (Need(_INSERTED, measured=(UNNAMED_OTHERS,)), Need(plain("distilbert"), scores=True, audit=(attack,)))


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
    Claim(
        id="M-c16",
        title="Names in members' notes alone raise the ratio",
        says="If the trained notes name their patient and the others do not, the ratio attack becomes stronger.",
        figure="AUC .900 → .960",
        place="§4.3.1, table 6",
        quantity="AUC of the ratio, in points: members' notes with inserted names − regular notes, others' notes "
        "regular both times",
        unit="points",
        measure=_inserted_ratio,
        rule=Above(),
        needs=_insertion_needs(RATIO),
        sizes=CLASSROOM,
        differs=f"{_BARE} The public base model is the reference. {FEW} {SYNTHETIC}",
        page="membership",
    ),
    Claim(
        id="M-c17",
        title="Names in members' notes alone weaken the loss",
        says="If the trained notes name their patient and the others do not, the loss attack becomes weaker, because "
        "names are hard to predict.",
        figure="AUC .662 → .561",
        place="§4.3.1, table 6",
        quantity="AUC of the loss, in points: members' notes with inserted names − regular notes, others' notes "
        "regular both times",
        unit="points",
        measure=_inserted_loss,
        rule=Below(),
        needs=_insertion_needs(LOSS),
        sizes=CLASSROOM,
        differs=f"{_BARE} {FEW} {SYNTHETIC}",
        page="membership",
    ),
)
