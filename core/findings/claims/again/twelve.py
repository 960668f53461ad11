"""Claims of four papers asked again in the hospital of 12,000 notes, which has four times as many patients."""

from __future__ import annotations

from core.attacks.membership.decision import ATTENTION, GRADIENTS, LOSS, RATIO
from core.attacks.probes.fill_in import FREQUENCY
from core.evaluation.memorisation.risk import CALIBRATED, SCORE
from core.findings.claim import Claim, Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.jagannatha import LEVEL_NAMES, PL, by_loss
from core.findings.claims.lehman import FILL
from core.findings.claims.mireshghallah import DOMAIN, by_length, by_level, by_reference, side
from core.findings.claims.privai import SAME, WEIGHTS
from core.findings.experiments import FEW, SYNTHETIC, TWELVE, TWELVE_QUICK, twelve
from core.findings.measures.attacks import difference, leakage
from core.findings.measures.tables import labelled, part_of_risk, ranking_difference
from core.findings.needs import Need
from core.findings.rules import Above
from core.findings.stored_runs import StoredRuns

MORE = (
    "four times as many patients",
    "in a smaller hospital, with another public model and recipe",
)  # of the title and of what was asked before
KNOWN = "The figures were known when this rule was chosen, which is that of"
_GROUPED = (("patient", "admission"), ("admission", "sample"))


def _white_box(runs: StoredRuns, attack: str, epsilon: float | None) -> list[Figure]:
    spec = twelve(epsilon)
    label = "GPT-2" if epsilon is None else f"GPT-2 at ε = {epsilon:g}"
    return [labelled(label, difference(side(runs, spec, attack), side(runs, spec, LOSS), leakage))]


def _gradients(runs: StoredRuns) -> list[Figure]:
    return _white_box(runs, GRADIENTS, None)


def _gradients_private(runs: StoredRuns) -> list[Figure]:
    return _white_box(runs, GRADIENTS, 8.0)


def _attention(runs: StoredRuns) -> list[Figure]:
    return _white_box(runs, ATTENTION, None)


def _attention_private(runs: StoredRuns) -> list[Figure]:
    return _white_box(runs, ATTENTION, 8.0)


def _cut(runs: StoredRuns) -> list[Figure]:
    return [labelled("GPT-2", difference(by_loss(runs, twelve(8.0)), by_loss(runs, twelve(None)), leakage))]


def _group(runs: StoredRuns) -> list[Figure]:
    spec = twelve(None)
    return [
        labelled(
            f"GPT-2, {LEVEL_NAMES[larger]} − {LEVEL_NAMES[smaller]}",
            difference(by_loss(runs, spec, larger), by_loss(runs, spec, smaller), leakage),
        )
        for larger, smaller in _GROUPED
    ]


def _lengths(runs: StoredRuns) -> list[Figure]:
    return by_length(runs, twelve(None))


def _levels(runs: StoredRuns) -> list[Figure]:
    return by_level(runs, twelve(None))


def _references(runs: StoredRuns) -> list[Figure]:
    return [by_reference(runs, twelve(None))]


def _fill(runs: StoredRuns) -> list[Figure]:
    return [labelled("GPT-2", ranking_difference(runs, twelve(None), FILL, FREQUENCY))]


def _risk(runs: StoredRuns) -> list[Figure]:
    return [labelled("GPT-2 at ε = 8", part_of_risk(runs, twelve(8.0), CALIBRATED, SCORE))]


def _attacked(epsilon: float | None, *attacks: str) -> tuple[Need, ...]:
    return (Need(twelve(epsilon), audit=attacks),)


CLAIMS = (
    asked_again(
        "J-c3",
        "J-c25",
        *MORE,
        measure=_gradients,
        needs=_attacked(None, LOSS, GRADIENTS),
        sizes=f"{TWELVE} (by gradients 88 and 80)",
        differs=f"GPT-2 alone. One norm for each layer. {KNOWN} J-c3. {FEW} {SYNTHETIC}",
    ),
    asked_again(
        "J-c4",
        "J-c26",
        *MORE,
        measure=_attention,
        needs=_attacked(None, LOSS, ATTENTION),
        sizes=f"{TWELVE} (by attention 464 and 396)",
        differs=f"GPT-2 alone, with few heads. {KNOWN} J-c4. {FEW} {SYNTHETIC}",
        why={
            "does not hold": "With four times as many patients, and four times as many to learn from, attention finds "
            "little, while the loss reveals much. More features did not help with fewer patients (J-c41)."
        },
    ),
    Claim(
        id="J-c27",
        title="With DP, attention reveals more than the loss",
        says="Also of a model trained with DP, an attacker who sees attention weights finds more members than one who "
        "sees the loss alone.",
        figure="S-AWBA .009 to .018 for GPT-2, S-BBA 0 to .008, at σ from 2 to 1e-20",
        place="§5.2, table 2",
        quantity=f"{PL} at ε = 8 per note: attention − loss, the same notes",
        unit="points",
        measure=_attention_private,
        rule=Above(),
        needs=_attacked(8.0, LOSS, ATTENTION),
        sizes=f"{TWELVE} (by attention 464 and 396)",
        differs=f"ε is set, not σ. GPT-2 alone, with few heads. {KNOWN} J-c4. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Neither attack finds much at ε = 8, and the interval is 4 points wide to either side. The "
            "paper's own differences are at most 1.7 points (GPT-2)."
        },
        page="membership",
    ),
    Claim(
        id="J-c28",
        title="With DP, gradients reveal more than the loss",
        says="Also of a model trained with DP, an attacker who sees gradients finds more members than one who sees the "
        "loss alone.",
        figure="more than 1 % PL by gradients at σ of .001 and below, up to 5 % by group; S-BBA at most .008 (GPT-2)",
        place="§5.2, with table 2",
        quantity=f"{PL} at ε = 8 per note: gradient norms − loss, on the notes that both attacks scored",
        unit="points",
        measure=_gradients_private,
        rule=Above(),
        needs=_attacked(8.0, LOSS, GRADIENTS),
        sizes=f"{TWELVE} (by gradients 88 and 80)",
        differs="ε is set, not σ, and its σ is far above those for which the paper reports a leak. GPT-2 alone. "
        f"{KNOWN} J-c3. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Neither attack finds much at ε = 8, and the 168 patients that gradients are judged on "
            "leave an interval of 7 points to either side."
        },
        page="membership",
    ),
    asked_again(
        "J-c6",
        "J-c29",
        *MORE,
        measure=_cut,
        needs=tuple(Need(twelve(epsilon), scores=True) for epsilon in (8.0, None)),
        sizes=TWELVE_QUICK,
        differs="The loss attack on notes alone, GPT-2 alone. ε is set, not σ. With DP, training also takes 12 epochs "
        f"in batches of 1,024 and clips. Without, it takes 8 in batches of 16. Each has its own learning rate. "
        f"{KNOWN} J-c6. {FEW} {SYNTHETIC}",
        why={
            "holds": "Over half of this cut is not due to noise: 14.0 of 22.9 points are gone in the same training "
            "without noise, and the noise takes 9.0 (J-c46)."
        },
    ),
    asked_again(
        "J-c9",
        "J-c30",
        *MORE,
        measure=_group,
        needs=(Need(twelve(None), scores=True),),
        sizes=TWELVE_QUICK,
        differs=f"About ten notes a patient, two an admission. GPT-2 alone. {KNOWN} J-c9. {FEW} {SYNTHETIC}",
    ),
    asked_again(
        "P-c6",
        "P-c18",
        *MORE,
        measure=_risk,
        needs=(Need(twelve(8.0), audit=("summary: risk",)),),
        sizes=TWELVE,
        differs="Each part has its control subtracted. Half of the report's score is the line. "
        f"{KNOWN} P-c6. {WEIGHTS} {FEW} {SAME}",
        why={
            "does not hold": "Without controls the score counts what a model scores on patients it never read (P-c13). "
            "With the controls subtracted, hardly anything is left."
        },
    ),
    asked_again(
        "M-c4",
        "M-c24",
        *MORE,
        measure=_lengths,
        needs=_attacked(None, LOSS, DOMAIN),
        sizes=TWELVE,
        differs="Short is up to the median length of the notes, not 10 to 20 tokens. GPT-2 instead of a masked model. "
        f"{KNOWN} M-c4. {FEW} {SYNTHETIC}",
    ),
    asked_again(
        "M-c5",
        "M-c25",
        *MORE,
        measure=_levels,
        needs=_attacked(None, LOSS, DOMAIN),
        sizes=TWELVE,
        differs=f"About ten notes a patient. GPT-2 instead of a masked model. {KNOWN} M-c5. {FEW} {SYNTHETIC}",
    ),
    asked_again(
        "M-c6",
        "M-c26",
        *MORE,
        measure=_references,
        needs=_attacked(None, RATIO, DOMAIN),
        sizes=TWELVE,
        differs="The references here differ: a model of 240 other patients of the same hospital instead of PubMedBERT. "
        f"GPT-2 instead of a masked model. {KNOWN} M-c6. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "A reference of 240 patients is not clearly better than the general one either. At full "
            "weight both are worse than no reference (M-c19). With a part of the reference of the same hospital the "
            "attack beats the loss (M-c28)."
        },
    ),
    asked_again(
        "L-c1",
        "L-c13",
        *MORE,
        title="Filling blanks does not beat frequency (GPT-2, four times as many patients)",
        measure=_fill,
        needs=(Need(twelve(None), audit=(FILL,)),),
        sizes=f"{TWELVE}; 44 patients asked about",
        differs="GPT-2 instead of a masked model. Names are in about half of the notes, and ages are kept in the "
        f"template. {KNOWN} L-c1. {FEW} {SYNTHETIC}",
    ),
)
