"""What DP cuts, asked again against the same training without noise: the noise's part of each difference.

A private training differs from a usual one in more than its noise: it clips, and it takes fewer and larger batches at
another learning rate. So a difference between the two is not what noise does. Each control here has the notes, batches,
steps, learning rate and clipping of its private run: `RunSpec.clipped_spec`, or a run with σ = 1e-20.
"""

from __future__ import annotations

from core.corpus.canary_forms import FORMS
from core.demo import SEEDS
from core.findings.claim import Claim, Figure
from core.findings.claims.again.asking import asked_again
from core.findings.claims.jagannatha import LEVEL_NAMES, PL, by_loss
from core.findings.claims.jagannatha_noise import EVERY_SIGMA, NO_NOISE, noisy
from core.findings.claims.privai import SAME, leaks_apart, reduction
from core.findings.experiments import (
    CLASSROOM,
    FEW,
    LARGE,
    LATER_SEEDS,
    REPORT_NOISE,
    SYNTHETIC,
    TWELVE_QUICK,
    at_report_noise,
    large,
    plain,
    private,
    seeded,
    twelve,
)
from core.findings.measures.attacks import difference, leakage
from core.findings.measures.canaries import BITS, exposure_difference
from core.findings.measures.tables import labelled, perplexity_ratio
from core.findings.needs import Need
from core.findings.stored_runs import StoredRuns
from core.spec import USUAL_COPIES, ModelKind, RunSpec
from core.spec.model_names import MODEL_NAMES

WHERE = (
    "the noise alone",
    "against a training without privacy that also differs in epochs, batches, learning rate and clipping",
)  # of the title and of what was asked before
CONTROL = "σ = 1e-20, which gives the weights of a training without noise"  # a test of `clipped_spec`
KNOWN = "The figures were known when this was asked, and the rule is that of"
_GROUPS = ("admission", "patient")
_PLANTED: tuple[tuple[ModelKind, float], ...] = (("distilbert", 1.0), ("distilbert", 3.0), ("gpt2", 8.0), ("gpt2", 1.0))


def without_noise(seed: int) -> RunSpec:
    """The control of `private("gpt2", 8.0, seed)`, which ε = 10 and the report's noise share."""
    return noisy(NO_NOISE, seed)


def _both(epsilon: float, *, scores: bool = False, canaries: bool = False) -> tuple[Need, ...]:
    """A private training of each seed and its control."""
    return tuple(
        Need(spec, scores=scores, canaries=canaries)
        for seed in SEEDS
        for spec in (private("gpt2", epsilon, seed), without_noise(seed))
    )


# Membership ----------------------------------------------------------------------------------------------------------


def _cut(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            seeded("gpt2", seed),
            difference(by_loss(runs, private("gpt2", 8.0, seed)), by_loss(runs, without_noise(seed)), leakage),
        )
        for seed in SEEDS
    ]


def _cut_groups(runs: StoredRuns) -> list[Figure]:
    found = []
    for seed in SEEDS:
        for level in _GROUPS:
            one, other = (by_loss(runs, spec, level) for spec in (private("gpt2", 8.0, seed), without_noise(seed)))
            found.append(labelled(f"{seeded('gpt2', seed)}, {LEVEL_NAMES[level]}", difference(one, other, leakage)))
    return found


def _cut_twelve(runs: StoredRuns) -> list[Figure]:
    spec = twelve(8.0)
    return [labelled("GPT-2", difference(by_loss(runs, spec), by_loss(runs, spec.clipped_spec()), leakage))]


def _cut_by_sigma(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            f"{seeded('gpt2', seed)}, σ = {sigma:g}",
            difference(by_loss(runs, noisy(sigma, seed)), by_loss(runs, plain("gpt2", seed)), leakage),
        )
        for seed in SEEDS
        for sigma in EVERY_SIGMA
    ]


# Exposure ------------------------------------------------------------------------------------------------------------


def _exposure(runs: StoredRuns) -> list[Figure]:
    found = []
    for kind, epsilon in _PLANTED:
        spec = large(kind, epsilon)
        apart, canaries = exposure_difference(runs, spec, spec.clipped_spec(), least=USUAL_COPIES)
        found.append(
            labelled(f"{MODEL_NAMES[kind]} at ε = {epsilon:g} − without noise", apart, units=canaries, most=BITS)
        )
    return found


def _exposure_by_form(runs: StoredRuns) -> list[Figure]:
    found = []
    for form in FORMS:
        for seed in SEEDS:
            apart, canaries = exposure_difference(runs, private("gpt2", 8.0, seed), without_noise(seed), form=form)
            found.append(labelled(f"{form}, {seeded('gpt2', seed)}", apart, units=canaries, most=BITS))
    return found


# Leaks and perplexity ------------------------------------------------------------------------------------------------


def _reduction(runs: StoredRuns) -> list[Figure]:
    return [
        reduction(runs, seeded("gpt2", seed), private("gpt2", 10.0, seed), without_noise(seed), len(SEEDS))
        for seed in SEEDS
    ]


def _reduction_by_its_noise(runs: StoredRuns) -> list[Figure]:
    pairs = [(printed, seed) for printed in REPORT_NOISE for seed in SEEDS]
    return [
        reduction(
            runs, f"its ε = {printed:g}, seed {seed}", at_report_noise(printed, seed), without_noise(seed), len(pairs)
        )
        for printed, seed in pairs
    ]


def _unchanged(runs: StoredRuns) -> list[Figure]:
    return [
        leaks_apart(
            runs, f"ε = 10 − without noise, seed {seed}", private("gpt2", 10.0, seed), without_noise(seed), len(SEEDS)
        )
        for seed in SEEDS
    ]


def _twentyfold(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(seeded("gpt2", seed), perplexity_ratio(runs, private("gpt2", 10.0, seed), without_noise(seed)))
        for seed in SEEDS
    ]


def _twentyfold_by_its_noise(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"its ε = 10, seed {seed}", perplexity_ratio(runs, at_report_noise(10.0, seed), without_noise(seed)))
        for seed in SEEDS
    ]


def _with_its_noise(*printed: float) -> tuple[Need, ...]:
    """The trainings with the noise of these ε that the report prints, and their controls."""
    return tuple(
        Need(spec) for seed in SEEDS for spec in (without_noise(seed), *(at_report_noise(one, seed) for one in printed))
    )


_NOTHING_TO_REMOVE = (
    "There is nothing to remove: without noise, the same training (46 steps from the base of abstracts) leaks in none "
    "of 1,400 texts on {}. So the other settings remove what usual training leaks. "
)

CLAIMS: tuple[Claim, ...] = (
    asked_again(
        "J-c6",
        "J-c44",
        *WHERE,
        quantity=f"{PL}: at ε = 8 per note − in the same training without noise, the same notes by the loss attack",
        measure=_cut,
        needs=_both(8.0, scores=True),
        sizes=CLASSROOM,
        differs=f"The loss attack on notes alone, and GPT-2 alone. The control has {CONTROL}. ε is set, not σ. "
        f"{KNOWN} J-c6. {SYNTHETIC}",
        why={
            "holds": "But the noise takes the smaller part. PL is 40 to 41 points in the usual training and 15 to 16 "
            "in the clipped one without noise, which is 25 to 26 points less, and 4 with the noise, another 11 to 12 "
            "less. These are 46 steps from the base of abstracts. After 138 from the clinical base the noise takes the "
            "larger part: 44.5 points, 34.7 and 3.9 (one seed, computed afterwards)."
        },
    ),
    asked_again(
        "J-c20",
        "J-c45",
        *WHERE,
        quantity=f"{PL}: at ε = 8 per note − in the same training without noise, the same admissions or patients by "
        "the loss attack",
        measure=_cut_groups,
        needs=_both(8.0, scores=True),
        sizes=CLASSROOM,
        differs="The paper's 5 % is of gradients on groups (S-GWBA), its “negligible” of every attack on groups; "
        f"here it is the loss, and GPT-2 alone. The control has {CONTROL}. ε is set, not σ. {KNOWN} J-c20. {SYNTHETIC}",
        why={
            "holds": "By admission, training in this way cuts 26 to 29 points without any noise, and the noise 12 to "
            "15 more. By patient it is 22 to 27, and 21 to 31."
        },
    ),
    asked_again(
        "J-c6",
        "J-c46",
        "four times as many patients, the noise alone",
        WHERE[1],
        says="DP-SGD lowers privacy leakage for every model and attack. J-c29 asks this of these patients against a "
        "training without privacy that also differs in epochs, batches, learning rate and clipping.",
        quantity=f"{PL}: at ε = 8 per note − in the same training without noise, the same notes by the loss attack",
        measure=_cut_twelve,
        needs=tuple(Need(spec, scores=True) for spec in (twelve(8.0), twelve(8.0).clipped_spec())),
        sizes=TWELVE_QUICK,
        differs=f"The loss attack on notes alone, GPT-2 alone. ε is set, not σ. {KNOWN} J-c6. {FEW} {SYNTHETIC}",
        why={
            "holds": "Of the 22.9 points between usual training and ε = 8 (J-c29), 14.0 are gone without any noise, "
            "and the noise takes 9.0."
        },
    ),
    asked_again(
        "J-c6",
        "J-c47",
        "at each σ of the paper",
        "at ε = 8",
        quantity=f"{PL}: at a σ − without privacy, the same notes by the loss attack",
        measure=_cut_by_sigma,
        needs=tuple(
            Need(spec, scores=True)
            for seed in SEEDS
            for spec in (plain("gpt2", seed), *(noisy(sigma, seed) for sigma in EVERY_SIGMA))
        ),
        sizes=CLASSROOM,
        differs="The loss attack on notes alone, and GPT-2 alone. At each σ, training takes 4 epochs in batches of 256 "
        "and clips, and without privacy 8 epochs in batches of 16. The learning rate is that of ε = 8. "
        f"{KNOWN} J-c6. {SYNTHETIC}",
        why={
            "holds": "But it also holds at σ = 1e-20, where there is no noise, by 25 to 26 points. So this cut comes "
            "from the other settings. At σ = 2 it is 38 to 39 points. J-c44 asks what the noise of ε = 8 cuts."
        },
    ),
    asked_again(
        "H-c9",
        "H-c28",
        *WHERE,
        quantity="mean exposure of canaries planted 8 times, at ε − in the same training without noise, in bits",
        measure=_exposure,
        needs=tuple(
            Need(spec, canaries=True)
            for kind, epsilon in _PLANTED
            for spec in (large(kind, epsilon), large(kind, epsilon).clipped_spec())
        ),
        sizes=LARGE + "; 4 canaries planted 8 times",
        differs=f"ε = 1, 3 and 8 instead of 0.58, and at most 8 copies; all three forms together. {KNOWN} H-c9. {FEW} "
        f"{SYNTHETIC}",
        why={
            "cannot tell": "DistilBERT hardly knows these secrets without noise either: 1.9 bits, where usual training "
            "gives 9.7 and ε = 1 and 3 give 1.4 and 1.2. GPT-2 knows them without noise (8.4 bits as at ε = 8, 6.2 as "
            "at ε = 1), and noise takes 7.0 and 3.7 bits of that. With four canaries, and four intervals that have to "
            "hold together, only that of GPT-2 at ε = 1 excludes 0."
        },
    ),
    asked_again(
        "H-c10",
        "H-c29",
        *WHERE,
        quantity="mean exposure of planted canaries of a form: at ε = 8 − in the same training without noise, in bits",
        measure=_exposure_by_form,
        needs=_both(8.0, canaries=True),
        sizes=CLASSROOM + "; 8 or 9 canaries of each form, planted 1 to 8 times",
        differs=f"ε = 8 instead of 0.58, and at most 8 copies. The control has {CONTROL}. The three seeds have the "
        f"same canaries. {KNOWN} H-c10. {SYNTHETIC}",
        why={
            "cannot tell": "Without any noise, exposure is already 7.0 to 8.6 bits lower than in usual training: it is "
            "1.4 to 2.9 bits, where canaries of the same form that were left out have 0.7 to 2.5. The noise changes it "
            "by −1.1 to +0.4 bits, and every interval includes 0. These are 46 steps from the base of abstracts. After "
            "138 from the clinical base, 7.5 to 9.6 bits are left without noise, and 1.7 to 2.0 at ε = 8 (one seed, "
            "computed afterwards)."
        },
    ),
    asked_again(
        "P-c3",
        "P-c24",
        *WHERE,
        quantity="leak rate at ε = 10 − a tenth of that in the same training without noise, in points",
        measure=_reduction,
        needs=_both(10.0),
        sizes=CLASSROOM + "; 1,400 texts a model",
        differs=f"Leaks are matched by value. The control has {CONTROL}. {KNOWN} P-c3. {SAME}",
        why={
            "cannot tell": _NOTHING_TO_REMOVE.format("each of three seeds") + "With today's recipe, 138 steps from the "
            "clinical base, 14.9 % (13.2 to 16.9) of the texts leak without noise and none at ε = 8; .2 % have a "
            "held-out patient's identifier, at equal pools (one seed). With 12,000 notes, 1.8 to 2.5 % of the texts of "
            "training without noise have a member's identifier, but 1.3 to 2.2 % have a held-out patient's (the "
            "controls of ε = 8, 3 and 1; all of this was computed afterwards)."
        },
    ),
    asked_again(
        "P-c11",
        "P-c25",
        *WHERE,
        title="Leaks hardly change at ε = 10 either (the noise alone)",
        says="A smaller ε than 10 costs much and hardly lowers the leak rate. P-c11 asks this against ε = 10. Here "
        "ε = 10 is compared with no noise.",
        quantity="leak rate at ε = 10 − in the same training without noise, in points",
        measure=_unchanged,
        needs=_both(10.0),
        sizes=CLASSROOM + "; 1,400 texts a model",
        differs=f"Leaks are matched by value. The margin of 1 point is ours. The control has {CONTROL}. Controls of "
        f"smaller ε, which have lower learning rates, were not trained. {KNOWN} P-c11. {SAME}",
        why={"holds": "Without noise no text leaks on any of three seeds, and at ε = 10 one of 4,200 does."},
    ),
    asked_again(
        "P-c23",
        "P-c26",
        *WHERE,
        quantity="leak rate with its noise − a tenth of that in the same training without noise, in points",
        measure=_reduction_by_its_noise,
        needs=_with_its_noise(*REPORT_NOISE),
        sizes=CLASSROOM + "; 1,400 texts a model",
        differs="Leaks are matched by value. Noise by the report's formula, as in P-c23. The control has "
        f"{CONTROL}. {KNOWN} P-c23. {LATER_SEEDS} {SAME}",
        why={"cannot tell": _NOTHING_TO_REMOVE.format("each of three seeds").rstrip()},
    ),
    asked_again(
        "P-c10",
        "P-c27",
        *WHERE,
        quantity="perplexity of held-out notes at ε = 10 / in the same training without noise",
        measure=_twentyfold,
        needs=_both(10.0),
        sizes=CLASSROOM,
        differs=f"Held-out patients' notes, and noise as exact accounting asks for. The control has {CONTROL}. Half of "
        f"the report's factor is the line. {KNOWN} P-c10. {SAME}",
        why={
            "does not hold": "Of the factor of 8.5 to 8.7 (P-c10), the noise is 2.4 to 2.5. The other settings of "
            "the training are 3.4 to 3.6."
        },
    ),
    asked_again(
        "P-c21",
        "P-c28",
        *WHERE,
        quantity="perplexity of held-out notes with the noise of its ε = 10 / in the same training without noise",
        measure=_twentyfold_by_its_noise,
        needs=_with_its_noise(10.0),
        sizes=CLASSROOM,
        differs="Held-out patients' notes. Noise by the report's formula, as in P-c21. The control has "
        f"{CONTROL}. Half of the report's factor is the line. {KNOWN} P-c21. {LATER_SEEDS} {SAME}",
        why={
            "does not hold": "Of the factor of 12.7 to 13.2 (P-c21), the noise is 3.6 to 3.7. The other settings of "
            "the training are 3.4 to 3.6. With the noise of its ε = 0.5 the factor is 31.7 to 32.8 (P-c20), of which "
            "the noise is 8.9 to 9.3."
        },
    ),
)
