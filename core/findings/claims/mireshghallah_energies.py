"""Claims on the energy of masked models: how many random masks, or one token at a time (Mireshghallah 2022)."""

from __future__ import annotations

from collections.abc import Iterable

from core.findings.claim import Claim, Figure
from core.findings.experiments import FEW, SYNTHETIC, plain
from core.findings.from_weights.energies import EVERY_TOKEN, NAME, NOTES_A_PATIENT
from core.findings.measures.energies import ATTACKS, energies_apart
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above, Below, Within
from core.findings.stored_runs import StoredRuns

USUAL = 10  # masks in the paper, and in the battery
NEGLIGIBLE = 0.02  # a difference of AUC that counts as none
_NEEDS = (Need(plain("distilbert"), measured=(NAME,)),)
_SIZES = f"851 notes of the 430 patients of `classroom`, at most {NOTES_A_PATIENT} of each"
_DIFFERS = f"The public base model is the reference. {FEW} {SYNTHETIC}"


def _against_usual(runs: StoredRuns, every: Iterable[tuple[int, str]]) -> list[Figure]:
    spec = plain("distilbert")
    return [
        labelled(f"DistilBERT, {attack}, {text} − {USUAL}", energies_apart(runs, spec, attack, masks, USUAL))
        for attack in ATTACKS
        for masks, text in every
    ]


def _fewer(runs: StoredRuns) -> list[Figure]:
    return _against_usual(runs, [(1, "1 mask"), (2, "2 masks"), (5, "5 masks")])


def _more(runs: StoredRuns) -> list[Figure]:
    return _against_usual(runs, [(20, "20 masks")])


def _every_token(runs: StoredRuns) -> list[Figure]:
    return _against_usual(runs, [(EVERY_TOKEN, "every token in turn")])


CLAIMS = (
    Claim(
        id="M-c12",
        title="Fewer than ten masks weaken the attack",
        says="The mean over all possible masks is approximated by K random ones. With fewer of them the energy is less "
        "certain, and the attack weaker.",
        figure="none; K = 10, far fewer than all masks",
        place="§2.3, eq. 2; appendix A.3.2",
        quantity="AUC, in points: K random masks − ten, the same notes",
        unit="points",
        measure=_fewer,
        rule=Below(),
        needs=_NEEDS,
        sizes=_SIZES,
        differs=f"The paper does not vary K. {_DIFFERS}",
        why={
            "cannot tell": "One mask is clearly worse than ten. With two and five the intervals reach across 0, so "
            "from there on the attacks differ by less than can be measured here."
        },
        page="membership",
    ),
    Claim(
        id="M-c13",
        title="Ten random masks are enough",
        says="Ten random masks stand for all of them.",
        figure="none; K = 10 throughout",
        place="§2.3, eq. 2; appendix A.3.2",
        quantity="AUC, in points: twenty random masks − the first ten of them, the same notes",
        unit="points",
        measure=_more,
        rule=Within(-NEGLIGIBLE, NEGLIGIBLE),
        needs=_NEEDS,
        sizes=_SIZES,
        differs=f"The paper does not vary K. The margin of {100 * NEGLIGIBLE:g} points is ours. {_DIFFERS}",
        why={"cannot tell": "Ten more masks add 1 to 2 points, and both intervals reach just beyond the margin."},
        page="membership",
    ),
    Claim(
        id="M-c14",
        title="Normalised energy is stronger, for every patient",
        says="Hiding one token at a time gives a stronger attack than random masks. M-c10 asks this about 15 patients.",
        figure="AUC .900 → .916 (ratio), .662 → .685 (loss); for short samples, and of another model, the loss falls "
        "(.516 → .487, .561 → .547)",
        place="appendix A.3.2, tables 9 and 11",
        quantity="AUC, in points: every token hidden in turn − ten random masks, the same notes",
        unit="points",
        measure=_every_token,
        rule=Above(),
        needs=_NEEDS,
        sizes=_SIZES,
        differs=f"The figure of M-c10, about 15 of these patients, was known. {_DIFFERS}",
        page="membership",
    ),
)
