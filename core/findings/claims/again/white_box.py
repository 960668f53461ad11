"""Claims of Jagannatha 2021 about white-box attacks, asked again with other features than the battery's."""

from __future__ import annotations

from core.attacks.membership.decision import ATTENTION, GRADIENTS, LOSS
from core.findings.claim import Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.jagannatha import KINDS, PL
from core.findings.experiments import ATTENTION_JUDGED, CLASSROOM, FEW, GRADIENTS_JUDGED, SYNTHETIC, plain, seeded
from core.findings.from_weights.white_box import BESIDE_PUBLIC, DETAILED, NAME, ONE_MASK
from core.findings.measures.attacks import Side, difference, leakage
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec


def _features(runs: StoredRuns, spec: RunSpec, attack: str, way: str) -> Side:
    rows = runs.measured(spec, NAME)
    return Side(rows[(rows["attack"] == attack) & (rows["way"] == way)], attack)


def _masks(runs: StoredRuns) -> list[Figure]:
    spec = plain("distilbert")
    ten = Side(runs.scores(spec, GRADIENTS), GRADIENTS)
    found = difference(ten, _features(runs, spec, GRADIENTS, ONE_MASK), leakage)
    return [labelled(f"{seeded('distilbert', 0)}, ten masks − one", found)]


def _attention(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            f"{seeded(kind, 0)}, {way}",
            difference(
                _features(runs, plain(kind), ATTENTION, way), Side(runs.scores(plain(kind), LOSS), LOSS), leakage
            ),
        )
        for kind in KINDS
        for way in (DETAILED, BESIDE_PUBLIC)
    ]


CLAIMS = (
    asked_again(
        "J-c3",
        "J-c40",
        "one random mask",
        "with ten masks; with one it did not hold for DistilBERT",
        title="One random mask hides what gradients reveal",
        says="A random mask is an obstacle to an attacker who sees the gradients of a masked model. So gradients under "
        "ten masks reveal more than under one.",
        figure="a random mask adds a layer of obfuscation and so reduces leakage; without a figure",
        place="§6",
        quantity=f"{PL}: gradient norms under ten masks, as the mean of their squares, − under one, the same notes",
        measure=_masks,
        needs=(Need(plain("distilbert"), audit=(GRADIENTS,), measured=(NAME,)),),
        sizes=f"{CLASSROOM}; {GRADIENTS_JUDGED}",
        differs="One norm for each layer; 20 % of the patients used for one fit. The one mask is the first of the ten. "
        f"The figures were known when this rule was written. {FEW} {SYNTHETIC}",
        why={
            "holds": "Under one mask the gradient sees 15 % of a note's tokens, and the loss that it is compared with "
            "is a mean over ten masks. J-c3 was judged in this way first, and the PL of DistilBERT was 11.2 points "
            "lower by gradients than by the loss. The attack now averages ten masks as well."
        },
    ),
    asked_again(
        "J-c4",
        "J-c41",
        "more features",
        "with four features a head",
        measure=_attention,
        needs=tuple(Need(plain(kind), audit=(LOSS,), measured=(NAME,)) for kind in KINDS),
        sizes=f"{CLASSROOM}; {ATTENTION_JUDGED}",
        differs="Ten features a head, with and without their differences from the public model's. The paper does not "
        f"compare with another model. What J-c4 found was known. {FEW} {SYNTHETIC}",
        why={
            "does not hold": "More features do not help, and neither do differences from the public model: attention "
            "finds almost nothing."
        },
    ),
)
