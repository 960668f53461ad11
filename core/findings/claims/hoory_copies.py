"""Further claims of Hoory 2021: exposure by the number of copies, with canaries of up to 64 copies (§5.2, figure 2)."""

from __future__ import annotations

from core.corpus.canary_forms import FORMS
from core.demo import SEEDS
from core.findings.claim import Claim, Figure
from core.findings.experiments import SYNTHETIC, many_copies, seeded
from core.findings.measures.canaries import (
    BITS,
    copies_apart,
    exposure_difference,
    losses_apart,
    planted_minus_left_out,
    pooled_copies_apart,
    pooled_exposure_difference,
    pooled_losses_apart,
)
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above, Below
from core.findings.stored_runs import StoredRuns

MOST_COPIES, OFTEN = 64, 16  # copies of a canary: the most, and those that count as often
MANY = (
    f"hospitals of as many patients as `classroom`, with 84 canaries of 1 to {MOST_COPIES} copies: 3,606 to 3,685 "
    "training notes; each seed has its own patients and canaries"
)
NO_SECRET = 1.0  # bits above canaries never planted that still count as not memorised
_WITH_DP = tuple(Need(many_copies(8.0, seed), canaries=True) for seed in SEEDS)
WEAK = 30.0  # ε at which the recipe's training has far less noise than at 8
_NO_CONTROL = (
    "Private training also has more epochs (12 instead of 8), larger batches and clipping. The same training without "
    "noise was not run, so the noise's part is not known."
)
_WITHOUT = tuple(Need(many_copies(None, seed), canaries=True) for seed in SEEDS)
_AT_WEAK = tuple(Need(many_copies(WEAK, seed), canaries=True) for seed in SEEDS)


def _memorised(runs: StoredRuns) -> list[Figure]:
    found = []
    for seed in SEEDS:
        rise, canaries = planted_minus_left_out(runs, many_copies(8.0, seed), MOST_COPIES)
        found.append(labelled(seeded("gpt2", seed), rise, units=canaries, most=BITS))
    return found


def _often(runs: StoredRuns) -> list[Figure]:
    found = []
    for seed in SEEDS:
        sides = many_copies(8.0, seed), many_copies(None, seed)
        difference, canaries = exposure_difference(runs, *sides, least=OFTEN)
        found.append(labelled(seeded("gpt2", seed), difference, units=canaries, most=BITS))
    return found


def _at_weak(runs: StoredRuns, least: int, most: int) -> list[Figure]:
    found = []
    for seed in SEEDS:
        sides = many_copies(WEAK, seed), many_copies(None, seed)
        difference, canaries = exposure_difference(runs, *sides, least=least, most=most)
        found.append(labelled(seeded("gpt2", seed), difference, units=canaries, most=BITS))
    return found


def _once_at_weak(runs: StoredRuns) -> list[Figure]:
    return _at_weak(runs, 1, 1)


def _often_at_weak(runs: StoredRuns) -> list[Figure]:
    return _at_weak(runs, OFTEN, MOST_COPIES)


def _by_copies(runs: StoredRuns, epsilon: float | None) -> list[Figure]:
    found = []
    for seed in SEEDS:
        rise, canaries = copies_apart(runs, many_copies(epsilon, seed), MOST_COPIES, 1)
        found.append(labelled(seeded("gpt2", seed), rise, units=canaries, most=BITS))
    return found


def _rises(runs: StoredRuns) -> list[Figure]:
    return _by_copies(runs, None)


def _flat(runs: StoredRuns) -> list[Figure]:
    return _by_copies(runs, 8.0)


def _forms(runs: StoredRuns) -> list[Figure]:
    found = []
    for form in FORMS:
        for seed in SEEDS:
            sides = many_copies(8.0, seed), many_copies(None, seed)
            difference, canaries = exposure_difference(runs, *sides, form=form, least=OFTEN)
            found.append(labelled(f"{form}, {seeded('gpt2', seed)}", difference, units=canaries, most=BITS))
    return found


def _losses(runs: StoredRuns) -> list[Figure]:
    found = []
    for seed in SEEDS:
        fall, canaries = losses_apart(runs, many_copies(None, seed), MOST_COPIES, 1)
        found.append(labelled(seeded("gpt2", seed), fall, units=canaries))
    return found


def _pooled_forms(runs: StoredRuns) -> list[Figure]:
    pairs = [(many_copies(8.0, seed), many_copies(None, seed)) for seed in SEEDS]
    found = []
    for form in FORMS:
        difference, canaries = pooled_exposure_difference(runs, pairs, form=form, least=OFTEN)
        found.append(labelled(f"{form}, GPT-2, {len(SEEDS)} seeds", difference, units=canaries, most=BITS))
    return found


def _losses_by_form(runs: StoredRuns) -> list[Figure]:
    specs = [many_copies(None, seed) for seed in SEEDS]
    found = []
    for form in FORMS:
        fall, canaries = pooled_losses_apart(runs, specs, MOST_COPIES, 1, form=form)
        found.append(labelled(f"{form}, GPT-2, {len(SEEDS)} seeds", fall, units=canaries))
    return found


def _flat_by_form(runs: StoredRuns) -> list[Figure]:
    specs = [many_copies(8.0, seed) for seed in SEEDS]
    found = []
    for form in FORMS:
        rise, canaries = pooled_copies_apart(runs, specs, MOST_COPIES, 1, form=form)
        found.append(labelled(f"{form}, GPT-2, {len(SEEDS)} seeds", rise, units=canaries, most=BITS))
    return found


CLAIMS = (
    Claim(
        id="H-c11",
        title="With DP no secret is memorised",
        says="A model trained with DP does not memorise planted secrets, however often they occur.",
        figure="black curves (ε = 0.58) far below the red ones, up to 100,000 occurrences",
        place="§2, last paragraph; §5.2, figure 2",
        quantity=f"mean exposure of canaries planted {MOST_COPIES} times − never planted, at ε = 8, in bits",
        unit="number",
        measure=_memorised,
        rule=Below(NO_SECRET),
        needs=tuple(Need(many_copies(8.0, seed), canaries=True) for seed in SEEDS),
        sizes=MANY,
        why={
            "does not hold": "ε = 8 is promised for one note. For the 64 notes that hold one canary, exact accounting "
            "gives ε = 3,312 to 3,343, which promises nothing in practice. These canaries rank first among all "
            "candidates, as they do without privacy. Canaries that occur up to 16 times reach 1 to 5 bits on average, "
            "and 10 without privacy."
        },
        differs=f"ε = 8 instead of 0.58, {MOST_COPIES} copies instead of up to 100,000, and the margin of "
        f"{NO_SECRET:g} bit is ours. {SYNTHETIC}",
        page="canaries",
    ),
    Claim(
        id="H-c12",
        title="Private training hides even what is often repeated",
        says="A secret that occurs often is known less well to a model trained with DP than to one without.",
        figure="black curves (ε = 0.58) far below the red ones, up to 100,000 occurrences",
        place="§5.2, figure 2",
        quantity=f"mean exposure of canaries planted {OFTEN} to {MOST_COPIES} times, at ε = 8 − without privacy, in "
        "bits",
        unit="number",
        measure=_often,
        rule=Below(),
        needs=tuple(Need(many_copies(epsilon, seed), canaries=True) for seed in SEEDS for epsilon in (8.0, None)),
        sizes=MANY,
        differs=f"ε = 8 instead of 0.58, and {MOST_COPIES} copies instead of up to 100,000. {_NO_CONTROL} {SYNTHETIC}",
        why={
            "holds": "The canaries of 16 and of 32 copies make the difference: they have 5.7 to 6.8 and 1.8 to 3.5 "
            "bits less with DP. Those of 64 copies rank first with and without it (H-c11)."
        },
        page="canaries",
    ),
    Claim(
        id="H-c13",
        title="Without DP, exposure grows up to 64 copies",
        says="Without DP, the more often a secret is in the notes, the better the model knows it. H-c8 asks this about "
        "8 copies and one training.",
        figure="red curves rise with the number of occurrences",
        place="§5.2, figure 2",
        quantity=f"mean exposure of canaries planted {MOST_COPIES} times − planted once, without privacy, in bits",
        unit="number",
        measure=_rises,
        rule=Above(),
        needs=_WITHOUT,
        sizes=MANY,
        differs=f"{MOST_COPIES} copies instead of up to 100,000, all three forms together. That canaries of 16 and of "
        "64 copies rank first was known (H-c11), and that in another cohort those of 1 copy do as well "
        f"(docs/methods/exposure.md), so little was left to grow. {SYNTHETIC}",
        why={
            "cannot tell": "Without privacy a single copy is enough: nearly every planted canary ranks first "
            "among all candidates, whatever its number of copies, so its rank has nothing left to grow. "
            "Equal ranks of 5 to 7 canaries still leave wide intervals. The loss, which has no such end, is "
            "lower with 64 copies than with one, though mostly by the words around the secret (H-c16)."
        },
        page="canaries",
    ),
    Claim(
        id="H-c14",
        title="With DP, exposure does not grow with copies",
        says="With DP, a secret that is in the notes many times is known no better than one that is there once.",
        figure="black curves (ε = 0.58) far below the red ones, up to 100,000 occurrences; the text says nothing of "
        "their slope",
        place="§5.2, figure 2",
        quantity=f"mean exposure of canaries planted {MOST_COPIES} times − planted once, at ε = 8, in bits",
        unit="number",
        measure=_flat,
        rule=Below(NO_SECRET),
        needs=_WITH_DP,
        sizes=MANY,
        differs=f"Our question. ε = 8 instead of 0.58, {MOST_COPIES} copies instead of up to 100,000, all three forms "
        f"together, and the margin of {NO_SECRET:g} bit is that of H-c11. That canaries of 64 copies rank first at "
        f"this ε, and that those of at most 16 have 1 to 5 bits, was known (H-c11), so the verdict was "
        f"likely. {SYNTHETIC}",
        why={
            "does not hold": "Canaries planted once have 1 to 3 bits on average at ε = 8, those of 64 copies rank "
            "first (10 bits). On two seeds of three the interval lies above the margin of "
            f"{NO_SECRET:g} bit; on the third it includes it. ε = 8 is promised for one note, not for the 64 "
            "notes that hold one canary (H-c11)."
        },
        page="canaries",
    ),
    Claim(
        id="H-c15",
        title="Private training hides repeated secrets of every form",
        says="Whatever words surround a secret that occurs often, a model trained with DP knows it less well than one "
        "without. H-c10 asks this about 1 to 8 copies.",
        figure="black curves below the red ones for HS, HSH and HHSHH",
        place="§5.2, figure 2",
        quantity=f"mean exposure of canaries of a form planted {OFTEN} to {MOST_COPIES} times: at ε = 8 − without "
        "privacy, in bits",
        unit="number",
        measure=_forms,
        rule=Below(),
        needs=(*_WITH_DP, *_WITHOUT),
        sizes=MANY,
        differs=f"ε = 8 instead of 0.58, and {MOST_COPIES} copies instead of up to 100,000. The difference over all "
        f"forms was known (H-c12), by form it was not. {_NO_CONTROL} {SYNTHETIC}",
        why={
            "cannot tell": "Every mean is 2 to 4 bits lower with DP, but 4 to 9 canaries of a form are too few: "
            "one interval of nine excludes 0. With the canaries of three hospitals together it holds (H-c17). Canaries "
            "of 64 copies rank first with and without DP."
        },
        page="canaries",
    ),
    Claim(
        id="H-c16",
        title="Without DP, a canary's loss is lower with 64 copies than with one",
        says="Without DP, the more often a secret is in the notes, the better the model knows it. H-c13 asks this by "
        "rank, which ends at the first one; this experiment of our own uses the loss, which does not end.",
        figure="red curves rise with the number of occurrences (exposure)",
        place="§5.2, figure 2",
        quantity=f"mean loss of canaries planted {MOST_COPIES} times − planted once, without privacy, in nats a canary",
        unit="number",
        measure=_losses,
        rule=Below(),
        needs=_WITHOUT,
        sizes=MANY,
        differs=f"The loss of the whole planted sentence instead of the secret's exposure, and {MOST_COPIES} copies "
        "instead of up to 100,000, all three forms together. The three means were known when this rule was written, "
        "their intervals were not. The two groups are different canaries, and differ a little in their forms. "
        f"{SYNTHETIC}",
        why={
            "holds": "Hardly any of it is the secret. The model begins a sentence that fills 64 notes more often than "
            "one that fills a single note (ln 64 = 4.2 nats). So the words around the secret are 4.7 to 4.9 of the 5 "
            "nats on seeds 0 and 1. But the secret is known better, too: among the 1,000 that it could be, its mean "
            "loss is .21 nats after one copy and .004 after 64 on both seeds. Every secret with 64 copies has a lower "
            "loss than every one with a single copy (exact rank test: p .001 and .008; both trained again, computed "
            "afterwards)."
        },
        page="canaries",
    ),
    Claim(
        id="H-c17",
        title="Private training hides repeated secrets of every form (three hospitals together)",
        says="The same question as H-c15, with the canaries of the three hospitals together, so that each form has "
        "more of them.",
        figure="black curves below the red ones for HS, HSH and HHSHH",
        place="§5.2, figure 2",
        quantity=f"mean exposure of canaries of a form planted {OFTEN} to {MOST_COPIES} times: at ε = 8 − without "
        "privacy, in bits",
        unit="number",
        measure=_pooled_forms,
        rule=Below(),
        needs=(*_WITH_DP, *_WITHOUT),
        sizes=MANY,
        differs=f"ε = 8 instead of 0.58, and {MOST_COPIES} copies instead of up to 100,000. Canaries of three "
        "trainings count as independent. The figures were known when this rule was written: H-c15 had each seed's by "
        f"form, and the pooled means had been computed. {_NO_CONTROL} {SYNTHETIC}",
        page="canaries",
    ),
    Claim(
        id="H-c26",
        title="Weakly private training hides a secret that occurs once",
        says="A secret that occurs once is known less well to a model trained with DP than to one without, at an ε far "
        "above the paper's, too.",
        figure="black curves (ε = 0.58) far below the red ones; no larger ε",
        place="§5.2, figure 2",
        quantity=f"mean exposure of canaries planted once: at ε = {WEAK:g} − without privacy, in bits",
        unit="number",
        measure=_once_at_weak,
        rule=Below(),
        needs=(*_AT_WEAK, *_WITHOUT),
        sizes=MANY,
        differs="Our question, about canaries planted once or, in H-c27, often. The figures at ε = 8 were known "
        f"(H-c14), those at this ε were not. {_NO_CONTROL} {SYNTHETIC}",
        why={
            "holds": "Canaries planted once have 1.5 to 3.0 bits on average, about as many as at ε = 8 (0.9 to 2.8), "
            "and 9.8 to 10 without privacy."
        },
        page="canaries",
    ),
    Claim(
        id="H-c27",
        title="Weakly private training hides even what is often repeated",
        says="A secret that occurs often is known less well to a model trained with DP than to one without, at an ε "
        "far above the paper's, too. H-c12 asks this at ε = 8.",
        figure="black curves (ε = 0.58) far below the red ones; no larger ε",
        place="§5.2, figure 2",
        quantity=f"mean exposure of canaries planted {OFTEN} to {MOST_COPIES} times: at ε = {WEAK:g} − without "
        "privacy, in bits",
        unit="number",
        measure=_often_at_weak,
        rule=Below(),
        needs=(*_AT_WEAK, *_WITHOUT),
        sizes=MANY,
        differs=f"Our question. {MOST_COPIES} copies instead of up to 100,000. The figures at ε = 8 were known "
        f"(H-c12), those at this ε were not. {_NO_CONTROL} {SYNTHETIC}",
        why={
            "holds": "The canaries of 16 copies make the difference: they have 5.8 to 7.0 bits instead of 9.97, which "
            "is 3.0 to 4.2 less. Those of 32 and of 64 copies rank first or nearly so (9.8 to 10 bits), as they do "
            "without privacy."
        },
        page="canaries",
    ),
    Claim(
        id="H-c34",
        title="Without DP, the loss falls with copies in every form (three hospitals together)",
        says="Without DP, the more often a secret is in the notes, the better the model knows it, whatever words "
        "surround it. H-c16 asks this about all forms together.",
        figure="red curves rise for HS, HSH and HHSHH (exposure)",
        place="§5.2, figure 2",
        quantity=f"mean loss of canaries of a form planted {MOST_COPIES} times − planted once, without privacy, in "
        "nats a canary",
        unit="number",
        measure=_losses_by_form,
        rule=Below(),
        needs=_WITHOUT,
        sizes=f"{MANY}; 4 to 7 canaries of a form planted {MOST_COPIES} times, 5 to 7 planted once",
        differs="The loss instead of the exposure, which cannot grow here (H-c13). Canaries of three trainings count "
        "as independent, and the two groups are different canaries. The means by form and seed were known when this "
        f"was asked, their intervals were not; the rule is that of H-c16. {SYNTHETIC}",
        why={"holds": "Most of it is not the secret but the words around it, as in H-c16."},
        page="canaries",
    ),
    Claim(
        id="H-c35",
        title="With DP, exposure does not grow with copies in any form (three hospitals together)",
        says="With DP, a secret that is in the notes many times is known no better than one that is there once, "
        "whatever words surround it. H-c14 asks this about all forms together.",
        figure="black curves (ε = 0.58) far below the red ones for HS, HSH and HHSHH; the text says nothing of their "
        "slope",
        place="§5.2, figure 2",
        quantity=f"mean exposure of canaries of a form planted {MOST_COPIES} times − planted once, at ε = 8, in bits",
        unit="number",
        measure=_flat_by_form,
        rule=Below(NO_SECRET),
        needs=_WITH_DP,
        sizes=f"{MANY}; 4 to 7 canaries of a form planted {MOST_COPIES} times, 5 to 7 planted once",
        differs=f"Our question. ε = 8 instead of 0.58, and {MOST_COPIES} copies instead of up to 100,000. Canaries of "
        "three trainings count as independent. The means by form and seed were known when this was asked, their "
        f"intervals were not; the rule is that of H-c14. {SYNTHETIC}",
        why={
            "does not hold": "Canaries planted once have 1.4 (HS), 3.6 (HSH) and 1.0 bits (HHSHH), those of 64 copies "
            f"rank first in every form (10 bits). For HS and HHSHH the interval lies above {NO_SECRET:g} bit. ε = 8 is "
            "promised for one note, not for the 64 notes that hold one canary (H-c11)."
        },
        page="canaries",
    ),
)
