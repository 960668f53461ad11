"""Claims on the ratio against the loss: with more notes, and among equally hard ones (Mireshghallah 2022)."""

from __future__ import annotations

from core.attacks.membership.decision import LOSS, RATIO
from core.demo import SEEDS
from core.findings.claim import Claim, Figure
from core.findings.claims.mireshghallah import AUC, DOMAIN, LATER, MASKED, SEEDS_ADDED, SHADOWS, side
from core.findings.experiments import CLASSROOM, FEW, SYNTHETIC, TWELVE, plain, twelve
from core.findings.measures.attacks import Measure, Side, auc, caught_at, difference
from core.findings.measures.difficulty import BINS, advantage_by_difficulty, shadow_spread_left, spread_left
from core.findings.measures.tables import labelled
from core.findings.measures.weights import ratio_with_reference_of, weighted_minus_loss, weighted_sides
from core.findings.needs import Need
from core.findings.rules import Above, Below
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

_REFERENCES = {"same hospital": DOMAIN, "public model": RATIO}
_LEVELS = {"notes": "sample", "patients": "patient"}
_MORE_NOTES = (Need(twelve(None), audit=(LOSS, *_REFERENCES.values())),)
_OTHER_REFERENCES = (
    "GPT-2 instead of a masked model. The references differ: a model of 240 other patients of the same hospital, and "
    "the public model, instead of PubMedBERT. "
)
_REFERENCES_OF_PATIENTS = (
    "The references differ: models of 90 and of 240 other patients of the same hospital instead of PubMedBERT. "
)


def _ratio_minus_loss(measure: Measure, runs: StoredRuns) -> list[Figure]:
    spec, found = twelve(None), []
    for name, attack in _REFERENCES.items():
        for units, level in _LEVELS.items():
            ratio, loss = (Side(runs.scores(spec, one), one, level) for one in (attack, LOSS))
            found.append(labelled(f"GPT-2, {name}, {units}", difference(ratio, loss, measure)))
    return found


def _areas(runs: StoredRuns) -> list[Figure]:
    return _ratio_minus_loss(auc, runs)


def _low_rate(runs: StoredRuns) -> list[Figure]:
    return _ratio_minus_loss(caught_at(0.01), runs)


def _by_difficulty(runs: StoredRuns) -> list[Figure]:
    return [labelled(f"GPT-2, seed {seed}", advantage_by_difficulty(runs, plain("gpt2", seed))) for seed in SEEDS]


def _left_by_shadows(runs: StoredRuns) -> list[Figure]:
    return [labelled(f"GPT-2, seed {seed}", shadow_spread_left(runs, plain("gpt2", seed))) for seed in SEEDS]


_LATER = {f"3,000 notes, seed {spec.training.seed}": spec for spec in LATER}
_SIZES = {"3,000 notes, seed 0": plain("gpt2"), **_LATER, "12,000 notes": twelve(None)}


def _left_by_others(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"GPT-2, {name}, {size}", spread_left(side(runs, spec, attack).scores, side(runs, spec, LOSS).scores))
        for size, spec in _SIZES.items()
        for name, attack in _REFERENCES.items()
    ]


_MORE_SEEDS = (
    f"{SEEDS_ADDED}There the loss is the score of the ratio to the public model plus that model's own. The larger "
    "hospital has one training. "
)
HALF = 0.5  # of the reference, tried after full weight had failed
_MODELS = {
    **{f"DistilBERT, 3,000 notes, seed {spec.training.seed}": spec for spec in MASKED},
    **{f"GPT-2, {size}": spec for size, spec in _SIZES.items()},
}
_WEIGHED = (
    *(Need(spec, audit=(LOSS, DOMAIN)) for spec in (*MASKED, twelve(None))),
    Need(plain("gpt2"), audit=(LOSS, RATIO, DOMAIN)),
    *(Need(spec, audit=(RATIO,)) for spec in LATER),
)


def _audited(spec: RunSpec) -> RunSpec | None:
    """Where the reference is from, if not from the run's own audit."""
    return plain("gpt2") if spec in LATER else None


def _weighted(weight: float | None, runs: StoredRuns) -> list[Figure]:
    return [
        labelled(name, weighted_minus_loss(runs, spec, DOMAIN, weight, audited=_audited(spec)))
        for name, spec in _MODELS.items()
    ]


def _half(runs: StoredRuns) -> list[Figure]:
    return _weighted(HALF, runs)


def _estimated(runs: StoredRuns) -> list[Figure]:
    return _weighted(None, runs)


def _left_by_part(runs: StoredRuns) -> list[Figure]:
    found = []
    for text, weight in ((f"weight {HALF:g}", HALF), ("estimated weight", None)):
        for name, spec in _MODELS.items():
            loss, subtracted = weighted_sides(runs, spec, DOMAIN, weight, audited=_audited(spec))
            found.append(labelled(f"{name}, {text}", spread_left(subtracted, loss)))
    return found


def _same_reference(runs: StoredRuns) -> list[Figure]:
    audited = plain("gpt2")
    return [
        labelled(f"GPT-2, seed {seed}", ratio_with_reference_of(runs, plain("gpt2", seed), audited, DOMAIN))
        for seed in SEEDS
    ]


_SHADOWED = tuple(Need(plain("gpt2", seed), scores=True, shadows=SHADOWS) for seed in SEEDS)
_EXPLAINED_AWAY = "standard deviation of the ratio / of the loss, over notes that the model never read"

CLAIMS = (
    Claim(
        id="M-c19",
        title="Ratio beats loss (four times as many patients)",
        says="The ratio beats the loss, by note and by patient. M-c2 asks this in a smaller hospital, by note alone.",
        figure="AUC .662 → .900 by sample, .915 → .992 by patient",
        place="§4.1, table 2",
        quantity=f"{AUC}: ratio − loss, the same notes or patients, for each of two references",
        unit="points",
        measure=_areas,
        rule=Above(),
        needs=_MORE_NOTES,
        sizes=TWELVE,
        differs=f"{_OTHER_REFERENCES}The AUCs of the three attacks were known (docs/methods/membership.md), so the "
        f"verdict was likely; the intervals of the differences were not. {FEW} {SYNTHETIC}",
        why={
            "does not hold": "The loss is ahead with both references and at both levels: AUC .78 by note and .98 "
            "by patient, against .70 and .85 to .87 for the ratio. M-c23 shows a reason: at full "
            "weight these references take no variation out. At half weight, tried afterwards, the one of the same "
            "hospital has an AUC of .85 by note (M-c27), and at a weight estimated without members .86 (M-c28)."
        },
        page="membership",
    ),
    Claim(
        id="M-c20",
        title="At 1 % false alarms the ratio wins clearly (four times as many patients)",
        says="Where few may be accused by mistake, the ratio finds far more members than the loss. M-c3 asks this in a "
        "smaller hospital, where 1 % are about 14 notes.",
        figure="recall .604 against .011 at a false-positive rate of 1 %, by sample",
        place="§1; appendix A.3.1, table 10",
        quantity="share of members found at 1 % of the others accused: ratio − loss, in points, for each of two "
        "references, by note and by patient",
        unit="points",
        measure=_low_rate,
        rule=Above(),
        needs=_MORE_NOTES,
        sizes=f"{TWELVE}; 1 % are 48 notes of others, or 4 of 496 patients",
        differs=f"The threshold is set on the evaluated others. {_OTHER_REFERENCES}By patient is our question. The "
        "AUCs of the three attacks were known (M-c19), the shares at 1 % were not, nor were the intervals. "
        f"{FEW} {SYNTHETIC}",
        why={
            "does not hold": "The ratio to the public model finds 1.6 % of the members' notes at 1 % false alarms, "
            "the loss 6.4 %. With the other reference, and by patient, the intervals include 0."
        },
        page="membership",
    ),
    Claim(
        id="M-c21",
        title="The ratio gains from notes of different difficulty for the public model",
        says="The loss fails because some samples are harder than others; the reference takes that out. So the ratio's "
        "advantage over the loss is smaller among equally hard notes.",
        figure="the reason the paper gives, without a figure",
        place="§1; §4.1; appendix A.3.4",
        quantity=f"{AUC}: ratio − loss over all pairs of notes, − the same over pairs of equally hard notes; hard is "
        f"what the public model predicts badly, in {BINS} equally large groups",
        unit="points",
        measure=_by_difficulty,
        rule=Above(),
        needs=(*_SHADOWED, Need(plain("gpt2").base_spec(), scores=True)),
        sizes=CLASSROOM + f"; {SHADOWS} shadow models, each on about 301 of the 430 patients",
        differs="Our test of the paper's explanation, on the attack of M-c7, whose advantage over the loss was known; "
        "among equally hard notes it was not. That the public model hardly knows which notes are hard for the shadow "
        "models (a correlation of .10, docs/methods/membership.md) was known, too, so a small figure was likely. "
        "Shadow models as reference and GPT-2 as target, neither of which the paper uses. The three seeds share the "
        f"shadow models. {SYNTHETIC}",
        why={
            "cannot tell": "Less than one point of the advantage comes from how hard notes are for the public model. "
            "By the shadow models' own difficulty nearly all of it does (6.0 to 6.2 of 6.3 to 6.6 points), as it "
            "must when they are subtracted."
        },
        page="membership",
    ),
    Claim(
        id="M-c22",
        title="A good reference takes variation out of the loss",
        says="The reference explains away that some samples are harder than others, so among samples that were not in "
        "the training data the ratio varies less than the loss.",
        figure="the reason the paper gives, without a figure",
        place="§1; §4.1; appendix A.3.4",
        quantity=f"{_EXPLAINED_AWAY}; the reference are shadow models that did not read the note",
        unit="ratio",
        measure=_left_by_shadows,
        rule=Below(1.0),
        needs=_SHADOWED,
        sizes=CLASSROOM + f"; {SHADOWS} shadow models, each on about 301 of the 430 patients",
        differs="Our test of the paper's explanation, asked after M-c21. That notes differ much in difficulty under "
        "the shadow models was known (docs/methods/membership.md), the ratio of the spreads was not. Shadow models as "
        "reference and GPT-2 as target, neither of which the paper uses. The three seeds share the shadow models. "
        f"{SYNTHETIC}",
        page="membership",
    ),
    Claim(
        id="M-c23",
        title="References that do not help take variation out of the loss",
        says="The same question for the references with which the ratio does not beat the loss (M-c2, M-c19).",
        figure="none; of a reference from another domain the paper says that it scores easy and difficult samples "
        "alike (§4.3)",
        place="§1; §4.1; appendix A.3.4",
        quantity=f"{_EXPLAINED_AWAY}, for each of two references",
        unit="ratio",
        measure=_left_by_others,
        rule=Below(1.0),
        needs=(
            *(Need(spec, audit=(LOSS, *_REFERENCES.values())) for spec in (plain("gpt2"), twelve(None))),
            *(Need(spec, scores=True) for spec in LATER),
        ),
        sizes=f"{CLASSROOM}, and {TWELVE}",
        differs="Our test of the paper's explanation, asked after M-c21. That over the notes of 3,000 the two "
        "references correlate with the shadow models by .10 and .50 was known (docs/methods/membership.md), the ratios "
        "of the spreads were not. GPT-2 instead of a masked model. The "
        "references differ: models of 90 and of 240 other patients of the same hospital, and the public model, instead "
        "of PubMedBERT. So for the public model the paper expects this result. "
        f"{SEEDS_ADDED}The larger hospital has one training. {SYNTHETIC}",
        why={
            "does not hold": "Subtracting the public model makes the scores of notes that were never read vary more, "
            "not less. For the models of the same hospital the intervals include 1. Their order is partly right "
            "(correlation with the loss .54 and .74 over held-out notes); their scale is not (1.4 and 1.5 times the "
            "loss's standard deviation). Shadow models leave a third of the spread (M-c22)."
        },
        page="membership",
    ),
    Claim(
        id="M-c27",
        title="Half of the reference beats the loss",
        says="Comparing with a reference model finds members better than the loss alone, if half of the reference's "
        "log-likelihood is subtracted instead of all: our experiment to explain M-c1, M-c2 and M-c19.",
        figure="AUC .662 → .900, at full weight",
        place="§2.2, eq. 1; §4.1, table 2",
        quantity=f"{AUC}: loss − {HALF:g} · that of the reference of the same hospital − loss alone, the same notes",
        unit="points",
        measure=_half,
        rule=Above(),
        needs=_WEIGHED,
        sizes=f"{CLASSROOM}, and {TWELVE}",
        differs=f"The paper subtracts all of the reference. The weight of {HALF:g} was chosen afterwards, and the "
        "figures were known when this rule was written, so the verdict was, too. M-c28 estimates the weight without "
        f"looking at members. {_REFERENCES_OF_PATIENTS}{_MORE_SEEDS}{SYNTHETIC}",
        page="membership",
    ),
    Claim(
        id="M-c28",
        title="A weight that the attacker estimates beats the loss",
        says="Comparing with a part of the reference beats the loss also at a weight that needs no members: the slope "
        "of the model's log-likelihood on the reference's over notes of other patients of the hospital, whom neither "
        "model read.",
        figure="AUC .662 → .900, at full weight",
        place="§2.2, eq. 1; §4.1, table 2",
        quantity=f"{AUC}: loss − w · that of the reference of the same hospital − loss alone, the same notes; w by "
        "least squares over the population's notes, which set thresholds otherwise",
        unit="points",
        measure=_estimated,
        rule=Above(),
        needs=_WEIGHED,
        sizes=f"{CLASSROOM}, and {TWELVE}; w from the notes of 60 and of 156 other patients",
        differs="The paper subtracts all of the reference. Asked after M-c27; that about half of the reference is a "
        "good weight was known when this rule was written, the estimated weights and their figures were not. "
        f"Intervals take w as fixed. {_REFERENCES_OF_PATIENTS}{_MORE_SEEDS}{SYNTHETIC}",
        page="membership",
    ),
    Claim(
        id="M-c29",
        title="A part of the reference takes variation out of the loss",
        says="The reference explains away that some samples are harder than others, so among samples that were not in "
        "the training data the loss less a part of the reference varies less than the loss. M-c23 asks this at full "
        "weight.",
        figure="the reason the paper gives, without a figure",
        place="§1; §4.1; appendix A.3.4",
        quantity=f"standard deviation of loss − w · reference / of the loss, over held-out notes that the model never "
        f"read; w = {HALF:g}, and w as in M-c28",
        unit="ratio",
        measure=_left_by_part,
        rule=Below(1.0),
        needs=_WEIGHED,
        sizes=f"{CLASSROOM}, and {TWELVE}",
        differs="Our test of the paper's explanation. The estimated weight is the one that leaves the least variation "
        f"among the population's notes, so less than 1 was likely on others. The figures at weight {HALF:g} were known "
        "when this rule was written, those at the estimated weight were not. "
        f"{_REFERENCES_OF_PATIENTS}{_MORE_SEEDS}{SYNTHETIC}",
        page="membership",
    ),
    Claim(
        id="M-c30",
        title="Ratio beats loss on causal models, on three seeds",
        says="The ratio beats the loss on GPT-2. M-c2 asks this about one training; here three trainings are attacked "
        "with the reference of the first one's audit.",
        figure="none for causal models; .662 → .900 for masked ones",
        place="§4.1, table 2",
        quantity=f"{AUC}: ratio to the same reference − loss, the same notes",
        unit="points",
        measure=_same_reference,
        rule=Above(),
        needs=(
            Need(plain("gpt2"), scores=True, audit=(LOSS, DOMAIN)),
            *(Need(plain("gpt2", seed), scores=True) for seed in SEEDS[1:]),
        ),
        sizes=CLASSROOM,
        differs="GPT-2 instead of a masked model. The reference is the same model for all three, of 90 other patients "
        "of the same hospital; its log-likelihoods are the loss attack's less the ratio's of the first seed. The "
        f"figures were known when this rule was written. {SYNTHETIC}",
        why={
            "does not hold": "All three seeds agree with M-c2: at full weight this reference leaves 1.20 to 1.21 times "
            "the spread (intervals .94 to 1.47, M-c23). At a weight that an attacker can estimate it beats the loss "
            "on all three (M-c28)."
        },
        page="membership",
    ),
)
