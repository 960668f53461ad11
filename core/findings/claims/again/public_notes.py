"""Claims of Jagannatha 2021 and Hoory 2021 asked again about public reports, which were not generated here.

The reports have no table of identifiers, so claims about names and conditions cannot be asked of them.
"""

from __future__ import annotations

from core.attacks.membership.decision import LOSS
from core.evaluation.stats import intervals
from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.jagannatha import PL
from core.findings.claims.mireshghallah import side
from core.findings.experiments import FEW, of_public_notes, with_epochs
from core.findings.measures.attacks import difference, leakage
from core.findings.measures.canaries import copies_apart, exposure_difference
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Below
from core.findings.stored_runs import StoredRuns
from core.spec import ModelKind, RunSpec
from core.spec.model_names import MODEL_NAMES

REPORTS = ("public reports", "about synthetic notes")  # of the title and of what was asked before
KINDS: tuple[ModelKind, ...] = ("distilbert", "gpt2")
SIZES = (
    "about 6,800 notes of 1,175 public reports, and 3,000 notes of 504 others (mtsamples); each report is a patient, "
    "its pieces of at most 100 words are the notes"
)
DIFFERS = (
    "The public base model of abstracts, which has not read such reports. Some reports resemble each other, on both "
    "sides of the split."
)
_BITS = "bits_per_character"
_EARLY, _LATE = 2, 8


def attacked(*specs: RunSpec, attacks: tuple[str, ...] = (LOSS,)) -> tuple[Need, ...]:
    """These runs with these attacks of the full audit. Their scores are ids and numbers, so they can be shipped."""
    return tuple(Need(spec, audit=attacks) for spec in specs)


BOTH = tuple(map(of_public_notes, KINDS))
_PLAIN, _PRIVATE = of_public_notes("gpt2"), of_public_notes("gpt2", 8.0)
_STOPPED = with_epochs(_PLAIN, _EARLY)


def _causal(runs: StoredRuns) -> list[Figure]:
    sides = [side(runs, of_public_notes(kind), LOSS) for kind in ("gpt2", "distilbert")]
    return [labelled("GPT-2 − DistilBERT", difference(sides[0], sides[1], leakage))]


def _epochs(runs: StoredRuns) -> list[Figure]:
    label = f"GPT-2, epoch {_LATE} − epoch {_EARLY}"
    return [labelled(label, difference(side(runs, _PLAIN, LOSS), side(runs, _STOPPED, LOSS), leakage))]


def _cut(runs: StoredRuns) -> list[Figure]:
    return [labelled("GPT-2", difference(side(runs, _PRIVATE, LOSS), side(runs, _PLAIN, LOSS), leakage))]


def _group(runs: StoredRuns) -> list[Figure]:
    found = []
    for kind in KINDS:
        report, note = (side(runs, of_public_notes(kind), LOSS, level) for level in ("patient", "sample"))
        found.append(labelled(f"{MODEL_NAMES[kind]}, reports − notes", difference(report, note, leakage)))
    return found


def _better_than_public(runs: StoredRuns) -> list[Figure]:
    trained, base = (runs.metric(_PRIVATE, _BITS, arm) for arm in ("run", "base"))
    return [labelled("GPT-2", intervals.difference(trained, base))]


def _grows(runs: StoredRuns) -> list[Figure]:
    apart, count = copies_apart(runs, _PLAIN, 8, 1)
    return [labelled("GPT-2", apart, units=count)]


def _low(runs: StoredRuns) -> list[Figure]:
    apart, count = exposure_difference(runs, _PRIVATE, _PLAIN, least=8)
    return [labelled("GPT-2", apart, units=count)]


CLAIMS = (
    asked_again(
        "J-c2",
        "J-c33",
        *REPORTS,
        measure=_causal,
        needs=attacked(*BOTH),
        sizes=SIZES,
        differs=f"GPT-2 reads the notes 8 times and DistilBERT 16 times, each by its own recipe. {DIFFERS} {FEW}",
    ),
    asked_again(
        "J-c5",
        "J-c34",
        *REPORTS,
        measure=_epochs,
        needs=attacked(_PLAIN, _STOPPED),
        sizes=SIZES,
        differs=f"Separate trainings, each with its own schedule, instead of one stopped early. {DIFFERS} {FEW}",
    ),
    asked_again(
        "J-c6",
        "J-c35",
        *REPORTS,
        measure=_cut,
        needs=attacked(_PRIVATE, _PLAIN),
        sizes=SIZES,
        differs="The private training reads each note 3 times, the other one 8 times; what training less saves is not "
        f"separated from what noise saves. ε is set, not σ. {DIFFERS} {FEW}",
    ),
    asked_again(
        "J-c9",
        "J-c36",
        *REPORTS,
        quantity=f"{PL}: by report − by note, the loss attack at the same threshold",
        measure=_group,
        needs=attacked(*BOTH),
        sizes=SIZES,
        differs=f"About six notes a report, and no admissions between the two. {DIFFERS} {FEW}",
    ),
    asked_again(
        "J-c11",
        "J-c37",
        *REPORTS,
        quantity="bits a character of held-out reports: at ε = 8 − the public base model",
        unit="number",
        measure=_better_than_public,
        rule=Below(),
        needs=(Need(_PRIVATE),),
        sizes=SIZES,
        differs=f"The two intervals are combined as independent ones, which is too wide. {DIFFERS} {FEW}",
    ),
    asked_again(
        "H-c8",
        "H-c22",
        *REPORTS,
        measure=_grows,
        needs=(Need(_PLAIN, canaries=True),),
        sizes=SIZES + "; 3 canaries planted once, 4 planted 8 times",
        differs=f"At most 8 copies, all three forms together. {DIFFERS} {FEW}",
        why={
            "cannot tell": "Each of these canaries, also those planted once, ranks first of 1,000 sequences, so "
            "nothing is left to grow. H-c16 asks by loss, which has no end."
        },
    ),
    asked_again(
        "H-c9",
        "H-c23",
        *REPORTS,
        quantity="mean exposure of canaries planted 8 times: at ε = 8 − without privacy, in bits",
        measure=_low,
        needs=(Need(_PRIVATE, canaries=True), Need(_PLAIN, canaries=True)),
        sizes=SIZES + "; 4 canaries planted 8 times",
        differs="ε = 8 instead of 0.58, and at most 8 copies. The private training reads each note 3 times, the other "
        f"one 8 times. {DIFFERS} {FEW}",
    ),
)
