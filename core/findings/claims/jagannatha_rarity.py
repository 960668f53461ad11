"""Claims of Jagannatha 2021 about rarity: under which attacks it raises leakage, and why its sign changes."""

from __future__ import annotations

from core.attacks.membership.decision import LOSS
from core.demo import SEEDS
from core.findings.claim import Claim, Figure
from core.findings.experiments import CLASSROOM, FEW, SYNTHETIC, TWELVE, gpt2_after, of, plain, seeded, twelve
from core.findings.from_weights.population_sizes import NAME as POPULATION_SIZES
from core.findings.from_weights.population_sizes import SIZES
from core.findings.measures.rarity import slopes, turn, turn_by_reference
from core.findings.measures.tables import labelled
from core.findings.needs import Need
from core.findings.rules import Above, Below, Within
from core.findings.stored_runs import StoredRuns

RARITY_ATTACKS = (LOSS, "ratio base", "ratio population")
_FIRST_EPOCHS = (1, 2, 3, 4)  # the paper's


_ATTACKED = (plain("gpt2"), *(plain("distilbert", seed) for seed in SEEDS))  # by all three


def _rarity(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(f"{of(spec)}, {attack}", found)
        for spec in _ATTACKED
        for attack, found in slopes(runs, spec, RARITY_ATTACKS).items()
    ]


def _rarity_by_epoch(runs: StoredRuns) -> list[Figure]:
    """By the quick audit's loss, the one attack that these runs have."""
    return [
        labelled(f"{seeded('gpt2', seed)}, epoch {epochs}", slopes(runs, gpt2_after(epochs, seed), (LOSS,))[LOSS])
        for seed in SEEDS
        for epochs in _FIRST_EPOCHS
    ]


def _rarity_twelve(runs: StoredRuns) -> list[Figure]:
    return [labelled(f"GPT-2, {name}", found) for name, found in slopes(runs, twelve(None), RARITY_ATTACKS).items()]


_TURNING = ("ratio population", LOSS)


def _turn(runs: StoredRuns) -> list[Figure]:
    return [labelled("GPT-2, ratio population − loss", turn(runs, twelve(None), *_TURNING))]


def _turn_explained(runs: StoredRuns) -> list[Figure]:
    return [labelled("GPT-2, ratio population − loss", turn(runs, twelve(None), *_TURNING, ("codes", "tokens")))]


def _turn_public(runs: StoredRuns) -> list[Figure]:
    return [labelled("GPT-2, ratio base − loss", turn(runs, twelve(None), "ratio base", LOSS))]


def _turn_unknown(runs: StoredRuns) -> list[Figure]:
    return [labelled("GPT-2, ratio population − loss", turn(runs, twelve(None), *_TURNING, ("unknown",)))]


_FEW, _MANY = min(SIZES), max(SIZES)


def _turn_by_reference(runs: StoredRuns) -> list[Figure]:
    label = f"GPT-2, reference of {_MANY} patients − of {_FEW}"
    return [labelled(label, turn_by_reference(runs, twelve(None), _FEW, _MANY))]


CLAIMS = (
    Claim(
        id="J-c10",
        title="Rarer patients leak more",
        says="Patients with rarer disease profiles tend to leak more.",
        figure="a bucket's probability and its PL are inversely correlated, in most models after epoch 1",
        place="§1, finding 5; §6, discussion",
        quantity="change of the AUC by patient from the most common to the rarest profiles, corrected for what rarity, "
        "number of codes and length say about any note, in points",
        unit="points",
        measure=_rarity,
        rule=Above(),
        needs=tuple(Need(spec, audit=RARITY_ATTACKS) for spec in _ATTACKED),
        sizes=CLASSROOM,
        differs="AUC instead of PL, and a test over patients instead of a correlation over buckets. Two trainings of "
        f"DistilBERT were added when the figures of the first were known; GPT-2 has one. {SYNTHETIC}",
        why={
            "cannot tell": "GPT-2 recognises nearly every patient under two of the attacks, so nothing is left for "
            "rarity to change. J-c49 asks after fewer epochs, where something is left. No interval of DistilBERT "
            "excludes 0."
        },
        page="patients",
    ),
    Claim(
        id="J-c49",
        title="Rarer patients leak more (after one to four epochs)",
        says="Patients with rarer disease profiles tend to leak more. J-c10 asks this of longer trainings, in which "
        "the loss recognises nearly every patient.",
        figure="a bucket's probability and its PL are inversely correlated, in most models after epoch 1",
        place="§1, finding 5; §6, discussion",
        quantity="change of the AUC by patient from the most common to the rarest profiles, corrected for what rarity, "
        "number of codes and length say about any note, in points, the loss attack",
        unit="points",
        measure=_rarity_by_epoch,
        rule=Above(),
        needs=tuple(Need(gpt2_after(epochs, seed)) for seed in SEEDS for epochs in _FIRST_EPOCHS),
        sizes=CLASSROOM,
        differs="AUC instead of PL, and a test over patients instead of a correlation over buckets. The loss attack on "
        "GPT-2 alone. Each number of epochs is a separate training. That J-c10 and J-c13 found no trend under the loss "
        f"was known, and the figures were when this was written; the rule is that of J-c10. {SYNTHETIC}",
        why={
            "cannot tell": "The AUC by patient is .72 to .93 here, so it has room to rise, and still no trend shows. "
            "All twelve changes are below 0, by 4 to 6 points, and every interval includes 0. Without the correction "
            "they are −0.6 to +1.7. The seeds have the same patients, so their agreement says little."
        },
        page="patients",
    ),
    Claim(
        id="J-c13",
        title="Rarer patients leak more (four times as many patients)",
        says="The same question as J-c10, in a hospital with more patients, where a trend would show more clearly.",
        figure="a bucket's probability and its PL are inversely correlated, in most models after epoch 1",
        place="§1, finding 5; §6, discussion",
        quantity="change of the AUC by patient from the most common to the rarest profiles, corrected for what rarity, "
        "number of codes and length say about any note, in points",
        unit="points",
        measure=_rarity_twelve,
        rule=Above(),
        needs=(Need(twelve(None), audit=RARITY_ATTACKS),),
        sizes=TWELVE,
        differs="AUC instead of PL, and a test over patients instead of a correlation over buckets. GPT-2 "
        f"alone. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Rarer patients leak more under the ratio to the public model, corrected for these three "
            "attacks, and on the Patients page for all six that were tested (p .04). The loss shows "
            "no trend, and a trend of the ratio to a population model is within several points of 0 either way."
        },
        page="patients",
    ),
    Claim(
        id="J-c14",
        title="Rarity's correlation changes sign without any leak",
        says="Our experiment: earlier, rarity seemed to lower leakage under the loss and to raise it under the "
        "ratio. If this is not leakage, the correlation changes sign in the same way among patients whom the model "
        "never read.",
        figure="none; the paper's threshold of S-BBA, over ranges of rarity, gives both signs here",
        place="§6, discussion of patients with rare diseases",
        quantity="ρ of rarity and score over patients never read: ratio to a population model − loss",
        unit="number",
        measure=_turn,
        rule=Above(),
        needs=(Need(twelve(None), audit=_TURNING),),
        sizes=TWELVE + "; only the others count, whom the model never read",
        differs="Our question. The same change of sign was known from `classroom` (ρ −.28 and +.05), not from these "
        f"runs. GPT-2 alone. {FEW} {SYNTHETIC}",
        why={
            "holds": "Rarer patients score lower under the loss (ρ −.30) and higher under the ratio (ρ +.18), "
            "although the model read none of their notes. A sign of rarity without held-out patients of the same "
            "rarity beside it therefore shows how predictable notes are, not what leaked."
        },
        page="patients",
    ),
    Claim(
        id="J-c15",
        title="Number of codes and length explain the change of sign",
        says="Our experiment to explain J-c14: rare profiles are long ones. At the same number of codes and "
        "length of notes, rarity and score go together equally under both attacks.",
        figure="none",
        place="§6, discussion of patients with rare diseases",
        quantity="partial ρ of rarity and score over patients never read: ratio to a population model − loss",
        unit="number",
        measure=_turn_explained,
        rule=Within(-0.1, 0.1),
        needs=(Need(twelve(None), audit=_TURNING),),
        sizes=TWELVE + "; only the others count, whom the model never read",
        differs="Our question. Ranks are held constant by least squares; the margin of 0.1 is ours. GPT-2 "
        f"alone. {FEW} {SYNTHETIC}",
        why={
            "does not hold": "The opposite: at the same number of codes and length the two attacks are further apart "
            "(0.47 without, J-c14). So long profiles are not the reason. J-c16 and J-c17 try the reference model "
            "instead."
        },
        page="patients",
    ),
    Claim(
        id="J-c16",
        title="With the public model as reference the sign does not change",
        says="Our experiment: if the reference of few patients makes the sign change, a reference that read no "
        "patient does not.",
        figure="none",
        place="§6, discussion of patients with rare diseases",
        quantity="ρ of rarity and score over patients never read: ratio to the public model − loss",
        unit="number",
        measure=_turn_public,
        rule=Within(-0.1, 0.1),
        needs=(Need(twelve(None), audit=("ratio base", LOSS)),),
        sizes=TWELVE + "; only the others count, whom the model never read",
        differs="Our question, asked after J-c15. The margin of 0.1 is ours. On `classroom` both ρ were known to be "
        f"−.28. GPT-2 alone. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "Most of the difference disappears: 0.13 instead of 0.47 (J-c14). But the interval of what "
            "is left includes one end of the margin. ρ has the same sign under both attacks (−.30 and −.16)."
        },
        page="patients",
    ),
    Claim(
        id="J-c17",
        title="Diseases that the reference never saw explain the change of sign",
        says="Our experiment: a reference of few patients has not seen rare diseases. Among patients with as "
        "many diseases unknown to it, rarity and score go together equally under both attacks.",
        figure="none",
        place="§6, discussion of patients with rare diseases",
        quantity="partial ρ of rarity and score over patients never read: ratio to a population model − loss",
        unit="number",
        measure=_turn_unknown,
        rule=Within(-0.1, 0.1),
        needs=(Need(twelve(None), audit=_TURNING),),
        sizes=TWELVE + "; only the others count, whom the model never read",
        differs="Our question, asked after J-c15. The number of unknown codes is held constant by ranks; the margin of "
        f"0.1 is ours. GPT-2 alone. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "The difference is smaller: 0.17 instead of 0.47 (J-c14). But the number of unknown "
            "diseases is itself a measure of rarity, so holding it constant takes some of the difference away whatever "
            "the reference read. Half of these patients have a "
            "disease that no patient of the reference has, and the more such diseases, the lower their score under "
            "the loss (ρ −.30) and the higher under the ratio (+.22). Whether anything is left to explain "
            "remains open. J-c50 varies the reference."
        },
        page="patients",
    ),
    Claim(
        id="J-c50",
        title="A reference of more patients turns the sign less",
        says="Our experiment: if a reference of few patients makes the sign change, one of more patients does "
        "so less. J-c17 holds the diseases constant that the reference never saw; this varies the reference.",
        figure="none",
        place="§6, discussion of patients with rare diseases",
        quantity=f"ρ of rarity and score over patients never read: ratio to a reference of {_MANY} patients − to one "
        f"of {_FEW}",
        unit="number",
        measure=_turn_by_reference,
        rule=Below(),
        needs=(Need(twelve(None), audit=(LOSS,)), Need(twelve(None), measured=(POPULATION_SIZES,))),
        sizes=TWELVE + "; only the others count, whom the model never read",
        differs="Our question, asked after J-c17; the rule was written before the references were trained. The smaller "
        f"reference's patients are among the larger one's. GPT-2 alone. {FEW} {SYNTHETIC}",
        why={
            "cannot tell": "No difference shows. Under the ratio to references of 60, 240 and 400 patients ρ is .16, "
            ".18 and .16, under the loss −.30, though 72, 51 and 42 % of these patients have a disease that no patient "
            "of the reference has. If the turn of .46 were in proportion to that share, it would shrink by about .19; "
            "the interval allows .10 at most. So these diseases are a part of the reason at most, against what J-c17 "
            "suggested. What the rest is, is not known."
        },
        page="patients",
    ),
)
