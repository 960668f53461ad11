"""Further claims of the PrivAI-Leak report: its prompts, its score, its intervals and its number of attempts."""

from __future__ import annotations

from core.attacks.prompts import ASKED
from core.demo import SEEDS
from core.evaluation.memorisation.risk import CALIBRATED, OLD, SCORE
from core.evaluation.stats import intervals
from core.findings.claim import Claim, Figure
from core.findings.claims.privai import ATTEMPTS, LEAKED, SAME
from core.findings.experiments import CLASSROOM, FEW, TWELVE, plain, private, seeded, twelve
from core.findings.measures.accounting import exact
from core.findings.measures.prompts import design_effect, excess_by_opening, excess_by_style
from core.findings.measures.tables import labelled, part_of_risk
from core.findings.needs import Need
from core.findings.rules import Above, Within
from core.findings.stored_runs import StoredRuns


def _styles(runs: StoredRuns, prompts: tuple[int, ...] | None = None) -> list[Figure]:
    found = []
    for seed in SEEDS:
        by_style = excess_by_style(runs, plain("gpt2", seed), prompts)
        found.append(labelled(seeded("gpt2", seed), intervals.difference(by_style["structured"], by_style["open"])))
    return found


def _styles_of_names(runs: StoredRuns) -> list[Figure]:
    return _styles(runs, ASKED["full_name"])


def _openings(runs: StoredRuns) -> list[Figure]:
    found = []
    for seed in SEEDS:
        by_opening = excess_by_opening(runs, plain("gpt2", seed), ASKED["full_name"])
        found.append(labelled(seeded("gpt2", seed), intervals.difference(by_opening[True], by_opening[False])))
    return found


_SCORED = {
    "3,000 notes, ε = 8": private("gpt2", 8.0),
    "12,000 notes, ε = 8": twelve(8.0),
    "12,000 notes, ε = 1": twelve(1.0),
}


def _uncontrolled(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(
            name, intervals.difference(*(part_of_risk(runs, spec, version, SCORE) for version in (OLD, CALIBRATED)))
        )
        for name, spec in _SCORED.items()
    ]


PRINTED_ENDS = {"without privacy": (0.1579, 0.1979), "ε = 10": (0.0005, 0.0067)}  # §18.3


def _printed_intervals(runs: StoredRuns) -> list[Figure]:
    return [
        exact(f"{name}, {end} end", printed / right)
        for name, ends in PRINTED_ENDS.items()
        for end, printed, right in zip(
            ("lower", "upper"), ends, intervals.proportion_interval(LEAKED[name], ATTEMPTS), strict=True
        )
    ]


def _independent(runs: StoredRuns) -> list[Figure]:
    return [labelled(seeded("gpt2", seed), design_effect(runs, plain("gpt2", seed))) for seed in SEEDS]


CLAIMS = (
    Claim(
        id="P-c12",
        title="Structured prompts leak more than open ones",
        says="A prompt that is the label of a field (“Patient:”) makes the model write more identifiers than an "
        "opening to be continued (“Progress note for”).",
        figure="none by style: half of its 14 prompts are labels, half are openings",
        place="§5.4.1 and §6.3, the attack prompts",
        quantity="texts with a member's identifier − the held-out control: structured − open prompts, in points",
        unit="points",
        measure=_styles,
        rule=Above(),
        needs=tuple(Need(plain("gpt2", seed), scores=True) for seed in SEEDS),
        sizes=CLASSROOM + "; 11 labels and 3 openings, 100 texts each",
        differs="Our question on its attack. The prompts are reworded to this hospital's notes, and they are fixed: "
        "other prompts of a style could differ. " + SAME,
        why={
            "does not hold": "Openings leak far more. They ask for a name, which these models know best, and most "
            "labels ask for something else. P-c16 compares prompts that ask for a name alone."
        },
        page="canaries",
    ),
    Claim(
        id="P-c13",
        title="The report's score needs no controls",
        says="The weighted score measures what the model gave away, without anything to compare it with.",
        figure="30.14 % to 30.43 % with DP, of which 15 points are canaries at 100 % for every ε",
        place="§5.4; §7.1.1; §7.2.2",
        quantity="its score as it computes it − with the controls subtracted, in points",
        unit="points",
        measure=_uncontrolled,
        rule=Within(-0.05, 0.05),
        needs=tuple(Need(spec, audit=("summary: risk",)) for spec in _SCORED.values()),
        sizes=f"{CLASSROOM}, and {TWELVE}",
        differs="The margin of 5 points is ours. The scores of 3,000 notes were known "
        "(docs/methods/extraction.md), those of 12,000 were not. The old score cannot be near the other one while no "
        "canary is ranked first: 15 points are its own by definition. " + FEW,
        why={
            "does not hold": "About 26 points of the score are there without any leak. 15 of them are canaries that "
            "count as extracted because the prompt contains them, and 10 are notes called members: the attack calls "
            "52 % of the notes that the model never read so, and 55 % of the members' (3,000 notes, ε = 8)."
        },
        page="canaries",
    ),
    Claim(
        id="P-c14",
        title="The report's 95 % intervals are right",
        says="At 1,400 attempts a model the leak rates are known up to 2.0 and 0.31 points.",
        figure="15.79 to 19.79 % without privacy, 0.05 to 0.67 % at ε = 10",
        place="§6.3.2; §7.4.1; §18.3",
        quantity="the printed end / that of Wilson's interval of the printed counts",
        unit="ratio",
        measure=_printed_intervals,
        rule=Within(0.9, 1.1),
        sizes="256 and 5 of 1,400 attempts each, as printed",
        differs="Wilson's interval instead of a normal one, which fails for 5 of 1,400. The margin of 10 % is ours.",
        why={
            "does not hold": "Those of the model without privacy are right up to 3.5 %, although they are around 17.79 "
            "% and not around the 18.29 % of its own counts. At ε = 10 the normal interval is wrong: 5 of 1,400 "
            "leave 0.15 to 0.83 %."
        },
        page="tradeoff",
    ),
    Claim(
        id="P-c15",
        title="1,400 attempts are 1,400 independent ones",
        says="Its intervals and its χ² count each of 1,400 attempts as independent, though only 14 prompts were asked.",
        figure="n = 50 × 14 × 2 = 1,400",
        place="§6.3.2; §18.1; §18.3",
        quantity="variance of the leak rate between prompts / that of independent attempts",
        unit="ratio",
        measure=_independent,
        rule=Within(0.5, 2.0),
        needs=tuple(Need(plain("gpt2", seed), scores=True) for seed in SEEDS),
        sizes=CLASSROOM + "; 14 prompts, 100 texts each",
        differs="Our 14 prompts, each asked 100 times, as often as the report asks each of its own. The factor of two "
        "is ours. The intervals take the prompts' rates as normal, which they are not: the largest value that there "
        "can be is 108. " + SAME,
        why={
            "does not hold": "Prompts differ so much that 1,400 attempts say as much about other prompts as a few "
            "dozen independent ones would. Its intervals hold for these 14 prompts alone."
        },
        page="canaries",
    ),
    Claim(
        id="P-c16",
        title="Asked for a name, both styles leak alike",
        says="An experiment of ours that explains P-c12: openings ask for a name, and most labels for something else. "
        "Among prompts that ask for a name the style makes no difference.",
        figure="none by style",
        place="§5.4.1 and §6.3, the attack prompts",
        quantity="texts with a member's identifier − the held-out control: structured − open prompts, in points",
        unit="points",
        measure=_styles_of_names,
        rule=Within(-0.05, 0.05),
        needs=tuple(Need(plain("gpt2", seed), scores=True) for seed in SEEDS),
        sizes=CLASSROOM + "; 5 labels and 3 openings that ask for a name, 100 texts each",
        differs="Our question, asked after P-c12. The prompts are fixed. The margin of 5 points is ours. " + SAME,
        why={
            "does not hold": "Labels that ask for a name leak less on two seeds of three. Whether notes begin with the "
            "prompt matters more than its style: the six with which they do leak 25 to 45 points more (P-c19), and "
            "both others are labels. With seed 0 the prompts that open a note, labels such as “Patient:” among them, "
            "give 29 to 70 %. “Prescription slip. Patient:”, which opens none, gives 8, 11 and 10 % with seeds 0, 1 "
            "and 2, but “Next patient:” 6, 51 and 12 %."
        },
        page="canaries",
    ),
    Claim(
        id="P-c19",
        title="Prompts that open a note leak more than others",
        says="An experiment of ours that explains P-c16: among prompts that ask for a name, those with which notes "
        "begin make the model write more identifiers than those that stand in no note.",
        figure="none by place",
        place="§5.4.1 and §6.3, the attack prompts",
        quantity="texts with a member's identifier − the held-out control: prompts with which a member's note begins − "
        "the others, in points",
        unit="points",
        measure=_openings,
        rule=Above(),
        needs=tuple(Need(plain("gpt2", seed), scores=True) for seed in SEEDS),
        sizes=CLASSROOM + "; 6 prompts that open a note, and 2 that do not, 100 texts each",
        differs="Our question, asked after P-c16, whose figures by prompt were known when this rule was written, as "
        "were those by place. The prompts are fixed, and only two open no note, so other prompts could differ. " + SAME,
        page="canaries",
    ),
)
