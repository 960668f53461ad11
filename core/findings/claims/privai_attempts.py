"""Further claims of the PrivAI-Leak report: its prompts, score, intervals and number of attempts, and its own noise."""

from __future__ import annotations

from core.attacks.prompts import ASKED
from core.demo import SEEDS
from core.evaluation.memorisation.risk import CALIBRATED, OLD, SCORE
from core.evaluation.stats import intervals
from core.findings.claim import Claim, Figure
from core.findings.claims.privai import ATTEMPTS, LEAKED, NOT_NOISE_ALONE, SAME, WEIGHTS, reduction
from core.findings.experiments import (
    CLASSROOM,
    FEW,
    LATER_SEEDS,
    REPORT_NOISE,
    TWELVE,
    at_report_noise,
    plain,
    private,
    seeded,
    twelve,
)
from core.findings.measures.accounting import exact
from core.findings.measures.prompts import design_effect, excess_by_opening, excess_by_style
from core.findings.measures.tables import labelled, part_of_risk, perplexity_ratio
from core.findings.needs import Need
from core.findings.rules import Above, Below, Within
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec


def _styles(runs: StoredRuns, prompts: tuple[int, ...] | None = None) -> list[Figure]:
    found = []
    for seed in SEEDS:
        by_style = excess_by_style(runs, plain("gpt2", seed), prompts, figures=len(SEEDS))
        apart = intervals.difference(by_style["structured"], by_style["open"])
        found.append(labelled(seeded("gpt2", seed), apart, joint=True))
    return found


def _styles_of_names(runs: StoredRuns) -> list[Figure]:
    return _styles(runs, ASKED["full_name"])


def _openings(runs: StoredRuns) -> list[Figure]:
    found = []
    for seed in SEEDS:
        by_opening = excess_by_opening(runs, plain("gpt2", seed), ASKED["full_name"], figures=len(SEEDS))
        apart = intervals.difference(by_opening[True], by_opening[False])
        found.append(labelled(seeded("gpt2", seed), apart, joint=True))
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
    return [
        labelled(seeded("gpt2", seed), design_effect(runs, plain("gpt2", seed), figures=len(SEEDS)), joint=True)
        for seed in SEEDS
    ]


_NOISE = (
    "Noise by the report's formula for 46 steps of 256 of 2,925 notes (σ = 27.5, 13.9, 2.99 and 1.61 for its ε = 0.5, "
    "1, 5 and 10), on the sum of the clipped gradients. The formula is read from its printed ε, which it gives for "
    "3,000 steps. It trained 1,875. If its printed ε were those of 1,875 steps, its formula would count 1.6 times as "
    "much a step, and ask for 1.26 times as much noise here. Its code adds σ to the mean of four gradients, so noise "
    "of 38.3 on a mean at its ε = 0.5, where it is 0.11 here. One learning rate for every ε, as there. "
)


def _with_its_noise(printed: float, *, lower_rate: bool = False) -> list[tuple[str, RunSpec, RunSpec]]:
    """For each seed a label, the training with the noise of an ε that the report prints, and that without privacy."""
    return [
        (
            f"its ε = {printed:g}, seed {seed}",
            at_report_noise(printed, seed, lower_rate=lower_rate),
            plain("gpt2", seed),
        )
        for seed in SEEDS
    ]


def _times_plain(runs: StoredRuns, printed: float) -> list[Figure]:
    return [
        labelled(label, perplexity_ratio(runs, noisy, without)) for label, noisy, without in _with_its_noise(printed)
    ]


def _destroyed(runs: StoredRuns) -> list[Figure]:
    return _times_plain(runs, 0.5)


def _twentyfold(runs: StoredRuns) -> list[Figure]:
    return _times_plain(runs, 10.0)


def _whatever_the_rate(runs: StoredRuns) -> list[Figure]:
    return [
        labelled(label, perplexity_ratio(runs, lower, at_report_noise(0.5, lower.training.seed)))
        for label, lower, _ in _with_its_noise(0.5, lower_rate=True)
    ]


def _leaks(runs: StoredRuns) -> list[Figure]:
    """Rate with its noise − (1 − LEAST_REDUCTION) · rate without privacy, for each ε that it prints."""
    pairs = [one for printed in REPORT_NOISE for one in _with_its_noise(printed)]
    return [reduction(runs, label, noisy, without, len(pairs)) for label, noisy, without in pairs]


def _needs(*printed: float) -> tuple[Need, ...]:
    found = (Need(spec) for one in printed for _, *both in _with_its_noise(one) for spec in both)
    return tuple(dict.fromkeys(found))


CLAIMS = (
    Claim(
        id="P-c12",
        title="Structured prompts leak more than open ones",
        says="A prompt that is the label of a field (“Patient:”) makes the model write more identifiers than an "
        "opening to be continued (“Progress note for”).",
        figure="none by style: half of its 14 prompts are labels, half are openings",
        place="§4.2.4, the attack prompts",
        quantity="texts with a member's identifier − the held-out control: structured − open prompts, in points",
        unit="points",
        measure=_styles,
        rule=Above(),
        needs=tuple(Need(plain("gpt2", seed), texts=True) for seed in SEEDS),
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
        figure="30.14 % to 30.43 % with DP, of which 30 points are canaries at 100 % for every ε; by its printed "
        "weights it would be 15.2 to 15.5 %, of which 15 are canaries",
        place="§5.4; §7.1.1; §7.2.2",
        quantity="its score as it computes it − with the controls subtracted, in points",
        unit="points",
        measure=_uncontrolled,
        rule=Within(-0.05, 0.05),
        needs=tuple(Need(spec, audit=("summary: risk",)) for spec in _SCORED.values()),
        sizes=f"{CLASSROOM}, and {TWELVE}",
        differs="The margin of 5 points is ours. The scores of 3,000 notes were known "
        "(docs/methods/extraction.md), those of 12,000 were not. The old score cannot be near the other one while no "
        "canary is ranked first: 15 points are its own by definition. Both are of the same texts and patients, and "
        "are combined as independent ones, which makes the intervals wider. "
        f"{WEIGHTS} {FEW} {SAME}",
        why={
            "does not hold": "About 26 points of the score are there without any leak. 15 of them are canaries, all "
            "of which count as extracted at every ε, as in the report, and 10 are notes called members: the attack "
            "calls 52 % of the notes that the model never read so, and 55 % of the members' (3,000 notes, ε = 8)."
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
        needs=tuple(Need(plain("gpt2", seed), texts=True) for seed in SEEDS),
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
        says="Our experiment to explain P-c12: openings ask for a name, and most labels for something else. "
        "Among prompts that ask for a name the style makes no difference.",
        figure="none by style",
        place="§4.2.4, the attack prompts",
        quantity="texts with a member's identifier − the held-out control: structured − open prompts, in points",
        unit="points",
        measure=_styles_of_names,
        rule=Within(-0.05, 0.05),
        needs=tuple(Need(plain("gpt2", seed), texts=True) for seed in SEEDS),
        sizes=CLASSROOM + "; 5 labels and 3 openings that ask for a name, 100 texts each",
        differs="Our question, asked after P-c12. The prompts are fixed. The margin of 5 points is ours. " + SAME,
        why={
            "does not hold": "Labels that ask for a name leak less on two seeds of three. Whether notes begin with "
            "the prompt matters more than its style: the six prompts that open notes leak 25 to 45 points more "
            "(P-c19), and the two others are labels. With seed 0 the prompts that open a note, labels such as "
            "“Patient:” among them, give 29 to 70 %. “Prescription slip. Patient:”, which opens none, gives 8, 11 and "
            "10 % with seeds 0, 1 and 2, but “Next patient:” 6, 51 and 12 %."
        },
        page="canaries",
    ),
    Claim(
        id="P-c19",
        title="Prompts that open a note leak more than others",
        says="Our experiment to explain P-c16: among prompts that ask for a name, those with which notes "
        "begin lead the model to more identifiers than the others do.",
        figure="none by place",
        place="§4.2.4, the attack prompts",
        quantity="texts with a member's identifier − the held-out control: prompts with which a member's note begins − "
        "the others, in points",
        unit="points",
        measure=_openings,
        rule=Above(),
        needs=tuple(Need(plain("gpt2", seed), texts=True) for seed in SEEDS),
        sizes=CLASSROOM + "; 6 prompts that open a note, and 2 that do not, 100 texts each",
        differs="Our question, asked after P-c16, whose figures by prompt were known when this rule was written, as "
        "were those by place. The prompts are fixed, and only two open no note, so other prompts could differ. " + SAME,
        page="canaries",
    ),
    Claim(
        id="P-c20",
        title="The noise of its ε = 0.5 destroys the model",
        says="P-c4 with the noise of the report's formula: at what it prints as ε = 0.5, perplexity is thousands of "
        "times that of the model without privacy.",
        figure="9,643.91 against 1.14, 8,459 times as high",
        place="§7.1; §7.3.2",
        quantity="perplexity of held-out notes with the noise of its ε = 0.5 / without privacy",
        unit="ratio",
        measure=_destroyed,
        rule=Above(1_000.0),
        needs=_needs(0.5),
        sizes=CLASSROOM,
        differs="Held-out patients' notes. " + _NOISE + f"{NOT_NOISE_ALONE} {LATER_SEEDS} {SAME}",
        why={
            "does not hold": "That noise leaves the model worse than the public one it started from (perplexity 146 to "
            "151 against 112), so nothing was learned, but not thousands of times worse. It is the noise that the "
            "formula asks for. What the report's code adds to its mean of four is hundreds of times as much and was "
            "not tried."
        },
        page="tradeoff",
    ),
    Claim(
        id="P-c21",
        title="The noise of its ε = 10 makes perplexity twenty times as high",
        says="P-c10 with the noise of the report's formula: at what it prints as ε = 10, perplexity is twenty times "
        "that of the model without privacy.",
        figure="22.70 against 1.14, 20 times as high",
        place="§7.3.1; §9.1, finding 3",
        quantity="perplexity of held-out notes with the noise of its ε = 10 / without privacy",
        unit="ratio",
        measure=_twentyfold,
        rule=Above(10.0),
        needs=_needs(10.0),
        sizes=CLASSROOM,
        differs="Held-out patients' notes. Half of the report's factor is the line, as in P-c10. "
        + _NOISE
        + f"{NOT_NOISE_ALONE} {LATER_SEEDS} {SAME}",
        why={
            "holds": "What the report prints as ε = 10 is ε = 1.9 by exact accounting of this training. With the noise "
            "that ε = 10 needs the factor is below 10 (P-c10). The noise alone is a factor of 3.6 to 3.7 of the 12.7 "
            "to 13.2 (P-c28)."
        },
        page="tradeoff",
    ),
    Claim(
        id="P-c22",
        title="A lower learning rate does not halve the perplexity at that noise",
        says="Our experiment to go with P-c20: a learning rate that falls with the noise leaves more than half of "
        "the perplexity.",
        figure="one rate for every ε",
        place="§6.2.2",
        quantity="perplexity with the noise of its ε = 0.5: rate lowered for the noise / rate of ε = 10",
        unit="ratio",
        measure=_whatever_the_rate,
        rule=Above(0.5),
        needs=tuple(Need(at_report_noise(0.5, seed, lower_rate=lower)) for seed in SEEDS for lower in (True, False)),
        sizes=CLASSROOM,
        differs="Our question. A factor of two is the line. The lowered rate is the recipe's, 1.4e-4 instead of 5e-3. "
        + LATER_SEEDS
        + " "
        + SAME,
        why={
            "holds": "With the lowered rate the perplexity is 110, close to the 112 of the public model. So hardly "
            "anything is learned at either rate, and the high rate also harms what the model knew."
        },
        page="tradeoff",
    ),
    Claim(
        id="P-c23",
        title="With its noise nearly all leaks are gone",
        says="P-c3 with the noise of the report's formula: at none of the four ε that it prints does a model leak "
        "more than a tenth of what the model without privacy leaks.",
        figure="1.00, 1.07, .93 and .36 % against 17.79 %",
        place="§7.1.1; §7.3.2",
        quantity="leak rate with its noise − a tenth of that without privacy, in points",
        unit="points",
        measure=_leaks,
        rule=Below(0.0),
        needs=_needs(*REPORT_NOISE),
        sizes=CLASSROOM + "; 1,400 texts a model",
        differs="Leaks are matched by value. " + _NOISE + f"{NOT_NOISE_ALONE} {LATER_SEEDS} {SAME}",
        why={
            "holds": "No noise is needed for that: without any, the same training leaks in none of 4,200 texts either "
            "(P-c26)."
        },
        page="tradeoff",
    ),
)
