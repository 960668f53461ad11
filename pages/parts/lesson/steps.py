"""The lesson's five steps: what is asked, where to look, and what the runs of this server answer.

No result is written here. Every answer is computed from `Figures`, so the lesson is right for whatever runs there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from core.attacks.prompts import PROMPTS
from core.evaluation import wording
from core.phi.fields import DIRECT, FIELD
from pages.parts.common.chart_style import MODEL_NAMES
from pages.parts.common.public_noise import SENTENCE
from pages.parts.lesson.figures import ATTEMPTS, AUC, NAMES, PERPLEXITY, Figures, Value
from pages.parts.tradeoff.charts import epsilon_label

SHARES = (  # answers that are shares: up to and including this one
    ("nobody", 0.0),
    ("up to 10 in 100", 0.10),
    ("10 to 25 in 100", 0.25),
    ("25 to 50 in 100", 0.50),
    ("more than half", 1.0),
)
PAIRS = (("about 50: a coin toss", 55), ("56 to 70", 70), ("71 to 85", 85), ("86 to 95", 95), ("more than 95", 100))
COINCIDENCE = ("clearly fewer", "about as many", "clearly more")
NO_EPSILON = "none of these"


@dataclass(frozen=True)
class Look:
    """A page with settings of its own."""

    page: str
    label: str
    query: dict[str, str]
    task: str  # what to do there


@dataclass(frozen=True)
class Step:
    """One question of the lesson with its answer.

    `right` is the answer that the runs give; None where it is a choice or cannot be judged. `looks` are pages where it
    can be seen. `picture` has the columns what, value, low, high and arm (`run`, `private` or `control`); `table` more
    figures, where there are some.
    """

    title: str
    question: str
    answers: tuple[str, ...]
    right: str | None
    looks: tuple[Look, ...]
    reveal: str
    point: str
    why: str
    picture: pd.DataFrame
    axis: str
    shares: bool = True
    table: pd.DataFrame = field(default_factory=pd.DataFrame)


def steps(figures: Figures, choice: str | None = None) -> tuple[Step, ...]:
    """The five steps. `choice` is the ε (as the last step names it) that somebody has chosen there."""
    made: tuple[Callable[[Figures], Step], ...] = (_repeats, _coincidence, _privacy, _membership)
    return (*(make(figures) for make in made), _decision(figures, choice))


def _repeats(figures: Figures) -> Step:
    named, patients = figures.measured(NAMES), figures.counted(NAMES)
    model = MODEL_NAMES[figures.sweep.model.kind]
    return Step(
        title="A model read patients' notes. Will it repeat them?",
        question=f"A small {model} was trained on the notes of {_people(patients)}, without privacy. Then it went on "
        f"{figures.counted(ATTEMPTS):,} times after {len(PROMPTS)} ordinary openings such as “{PROMPTS[0].text}”. "
        "Of how many of 100 patients did it write the full name?",
        answers=tuple(name for name, _ in SHARES),
        right=_bin(named.value, SHARES),
        looks=(
            Look(
                "playground",
                "Ask it yourself",
                {**_pair(figures), "samples": "8"},
                f"Press “{PROMPTS[0].text}” and read what both models write.",
            ),
        ),
        reveal=f"Of **{wording.percent(named.value)}** of them ({_interval(named)}; {_trainings(figures)}).",
        point="Whoever may ask a model trained as usual gets patients out of it."
        if figures.exceeds(NAMES)
        else "This model gives away no more names than chance would; others do.",
        why="Nobody asked for a certain patient: the openings are those of any note. Training makes likely what stands "
        "in the notes, and a name that stands in several notes of one person becomes likely too. Only full names of "
        "patients whose notes it read are counted. Could it have guessed them? That is the next question.",
        picture=_picture([("patients it was trained on", named, "run")]),
        axis="patients whose full name it wrote",
    )


def _coincidence(figures: Figures) -> Step:
    name = figures.coincidental_field
    metric, label = f"field_patients:{name}", FIELD[name].label
    read, control = figures.measured(metric), figures.measured(metric, "heldout")
    rows = []
    for each in DIRECT:
        run, held = figures.at(f"field_patients:{each}"), figures.at(f"field_patients:{each}", "heldout")
        if run and held:
            more = figures.exceeds(f"field_patients:{each}")
            verdict = "not known" if more is None else "leaked" if more else "no more than chance"
            verdict = verdict if run.value > 0 else "not written"
            rows.append((FIELD[each].label, wording.percent(run.value), wording.percent(held.value), verdict))
    names, held = figures.measured(NAMES), figures.measured(NAMES, "heldout")
    more = figures.exceeds(metric)
    right = None if more is None else COINCIDENCE[0] if more else COINCIDENCE[1]
    if more is False and _below(read, control):
        right = COINCIDENCE[2]
    return Step(
        title="Whose values are they, and what is a coincidence?",
        question=f"The same texts hold the {label} of {wording.percent(read.value)} of the patients it read. "
        f"{_held_out(figures.counted(NAMES, 'heldout'))} held out: it never saw a note of theirs. Of how "
        f"many of those do the texts hold the {label}, in comparison?",
        answers=COINCIDENCE,
        right=right,
        looks=(
            Look(
                "canaries",
                "See what controls change",
                {**_pair(figures), "view": "Risk score"},
                "Compare the old score with the one from which its controls were subtracted.",
            ),
        ),
        reveal=f"{label.capitalize()}: **{wording.percent(read.value)}** of those it read, "
        f"**{wording.percent(control.value)}** of those it never saw. Full name: {wording.percent(names.value)} "
        f"against {wording.percent(held.value)}.",
        point="A leak is what exceeds its control.",
        why="Some values are shared by many people or are easily hit by chance: a model that writes many dates hits "
        "some birthdays. So the same count is made for people it cannot know. Where both agree, nothing was "
        "remembered; where members stand out, it was. A report without a control may call chance a leak.",
        picture=_picture(
            [
                (f"{label}: patients it read", read, "run"),
                (f"{label}: held out", control, "control"),
                ("full name: patients it read", names, "run"),
                ("full name: held out", held, "control"),
            ]
        ),
        axis="patients of whom it was written",
        table=pd.DataFrame(rows, columns=["identifier", "patients it read", "held-out patients", "verdict"]),
    )


def _privacy(figures: Figures) -> Step:
    names = [_named(epsilon, figures) for epsilon in figures.epsilons]
    best = figures.harmless[-1] if figures.harmless else None
    plain, base = figures.at(PERPLEXITY), figures.at(PERPLEXITY, "base")
    if best is None:
        found = "Names still came out at each of these."
    else:
        cost, written = figures.measured(PERPLEXITY, epsilon=best), figures.measured(NAMES, epsilon=best)
        assert plain is not None and base is not None  # measured as the other figures are
        found = (
            f"**{_named(best, figures)}**: full names of {wording.percent(written.value)} of "
            f"the patients, no more than of held-out ones. What it costs: {_perplexity(figures)} "
            f"**{wording.perplexity_text(cost.value)}** instead of {wording.perplexity_text(plain.value)} without "
            f"privacy (the public model, which read no note: {wording.perplexity_text(base.value)})."
        )
    shown = [(_named(epsilon, figures), figures.at(NAMES, epsilon=epsilon), "private") for epsilon in figures.epsilons]
    return Step(
        title="Differential privacy: which ε limits it, and what does it cost?",
        question=f"The same training with differential privacy, once at each of these ε per {figures.unit}. Which is "
        "the largest ε up to which the model writes no more full names of patients it read than of held-out ones?",
        answers=(*names, NO_EPSILON),
        right=_named(best, figures) if best is not None else NO_EPSILON,
        looks=(
            Look(
                "tradeoff",
                "Move ε yourself",
                {
                    "model": MODEL_NAMES[figures.sweep.model.kind],
                    "at": epsilon_label(figures.shown_epsilon),
                    "risk": "full names",
                },
                "Move the slider from left to right: what happens to usefulness, and what to the risk?",
            ),
            Look("defences", "Compare other defences", {}, "What limits names without noise, and what gets around it?"),
        ),
        reveal=found,
        point="At this ε no name came out in this measurement; the price is usefulness."
        if best is not None
        else "No ε here keeps names down to chance: a promise must be small enough to matter.",
        why=f"Each {figures.unit}'s influence on a step is clipped and covered with noise. A name that only one "
        f"{figures.unit} teaches drowns in it, while what many notes share is still learned. That no name came out "
        "here does not say that none can: only ε is a promise against attacks nobody has thought of"
        f"{', once the noise is secret' if any(map(figures.public_noise, figures.epsilons)) else ''}. Perplexity says "
        "how surprised the model is by notes of patients it never saw; lower is more useful.",
        picture=_picture(
            [
                *shown,
                ("no privacy", figures.at(NAMES), "run"),
                ("held out (control)", figures.at(NAMES, "heldout"), "control"),
            ]
        ),
        axis="patients whose full name it wrote",
        table=_costs(figures),
    )


def _membership(figures: Figures) -> Step:
    plain, base = figures.measured(AUC), figures.measured(AUC, "base")
    private = figures.measured(AUC, epsilon=figures.shown_epsilon)
    named = _named(figures.shown_epsilon, figures)
    return Step(
        title="Membership: who was in the training data?",
        question="An attacker gets 100 pairs of notes: one of each pair was trained on, the other is a held-out "
        "patient's. All they see is how surprised the model without privacy is by each. In how many pairs do they "
        "pick the right one?",
        answers=tuple(name for name, _ in PAIRS),
        right=_bin(round(100 * plain.value), PAIRS),
        looks=(
            Look(
                "membership",
                "Set the threshold yourself",
                {**_pair(figures), "view": "Threshold"},
                "Move the threshold: whom does it catch, and whom does it wrongly accuse?",
            ),
        ),
        reveal=f"In **{_pairs(plain)}** pairs without privacy (AUC {plain.value:.2f}, "
        f"{_interval(plain, '{:.2f}'.format)}), in **{_pairs(private)}** at {named}. The public model, which "
        f"read none of them: {_pairs(base)}. {_by_patient(figures, math.inf)}",
        point="A model tells who was there, even where it writes no name."
        if plain.low > base.high
        else "This model does not tell who was there better than the public one does.",
        why="A model is less surprised by what it has read. In a clinic for one disease, having been there is a "
        "diagnosis. A model that gives no name away in step 1 can fail here. Differential privacy limits this attack "
        "and every other one, by its promise and not by having been tried.",
        picture=_picture(
            [("no privacy", plain, "run"), (named, private, "private"), ("public model", base, "control")]
        ),
        axis="right of 100 pairs",
    )


def _decision(figures: Figures, choice: str | None) -> Step:
    by_name = {_named(epsilon, figures): epsilon for epsilon in (*figures.epsilons, math.inf)}
    at = figures.shown_epsilon if choice is None else by_name.get(choice, figures.shown_epsilon)
    model = MODEL_NAMES[figures.sweep.model.kind]
    return Step(
        title="Decide: choose ε, and defend it",
        question="The hospital wants to give such a model to a university. Which training would you sign for?",
        answers=tuple(by_name),
        right=None,
        looks=(
            Look(
                "tradeoff",
                "Look at the figures once more",
                {"model": model, "at": epsilon_label(at)},
                "Read what is promised at your ε, and beside it what was measured.",
            ),
            Look(
                "tradeoff",
                "Set your own limits",
                {"model": model, "view": "Which ε?"},
                "Say how much risk is too much: which ε do these runs recommend?",
            ),
            Look(
                "report",
                "Open what you would sign",
                {"runs": figures.run_ids[at]},
                "Read it as the hospital's privacy board would.",
            ),
            Look("ledger", "Enter it as given away", {}, "What has been promised once this model is with others?"),
        ),
        reveal=_defence(figures, at),
        point="An ε is defended by its unit, by what was measured beside its control, and by what it costs.",
        why="No ε is right by itself. Say for whom it promises something (a note or a patient), what attackers "
        "could do with it at most, what they did in this audit, and what the model is still good for. Then say what "
        "was not tested. Whoever chooses no privacy has no promise to show, whatever was measured.",
        picture=_picture(
            [
                (name, figures.at(PERPLEXITY, epsilon=epsilon), "run" if math.isinf(epsilon) else "private")
                for name, epsilon in by_name.items()
            ]
        ),
        axis=f"{_perplexity(figures)} of held-out notes (lower is more useful)",
        shares=False,
        table=_costs(figures),
    )


# Words and tables ----------------------------------------------------------------------------------------------------


def _bin(value: float, bins: tuple[tuple[str, float], ...]) -> str:
    """The first answer whose upper end the value does not exceed."""
    return next(name for name, end in bins if value <= end)


def _people(count: int) -> str:
    return "one patient" if count == 1 else f"{count:,} patients"


def _held_out(count: int) -> str:
    return "One further patient was" if count == 1 else f"{count:,} further patients were"


def _pair(figures: Figures) -> dict[str, str]:
    return {"left": figures.plain.id, "right": figures.private.id}


def _interval(value: Value, number: Callable[[float], str] = wording.percent) -> str:
    return wording.interval_text(value.low, value.high, number)


def _pairs(auc: Value) -> str:
    """`88 of 100`: how often the right one of two notes is picked, never all of them by rounding."""
    right, of = wording.pairs_of(auc.value)
    return f"{right:,} of {of:,}"


def _by_patient(figures: Figures, epsilon: float) -> str:
    """What the strongest attack that was run does with all notes of a patient together; nothing where none was."""
    found = figures.strongest(epsilon)
    if found is None:
        return ""
    right, of = wording.pairs_of(found.interval.value)
    if found.attacks > 1:
        who = f"the strongest of {found.attacks} attacks (“{found.attack}”)"
        return f"With all notes of a patient, {who} is right in {right:,} of {of:,} pairs of patients."
    more = "no other attack was run, and a full audit may find a stronger one"
    return f"With all notes of a patient, it is right in {right:,} of {of:,} pairs of patients; {more}."


def _trainings(figures: Figures) -> str:
    seeds = figures.seeds()
    return "one training" if seeds == 1 else f"mean of {seeds} trainings"


def _named(epsilon: float, figures: Figures) -> str:
    return "no privacy" if math.isinf(epsilon) else f"ε = {epsilon_label(epsilon)} per {figures.unit}"


def _perplexity(figures: Figures) -> str:
    return wording.perplexity_name(figures.sweep.model.kind)


def _below(value: Value, control: Value) -> bool:
    """Whether a figure is below its control for certain."""
    return value.high < control.low


def _defence(figures: Figures, epsilon: float) -> str:
    """Promise, measured risk beside its control, and cost of one ε."""
    privacy, control = figures.sweep.privacy, figures.at(NAMES, "heldout", epsilon)
    names, auc, cost = (figures.measured(metric, epsilon=epsilon) for metric in (NAMES, AUC, PERPLEXITY))
    against = f" (held-out patients: {wording.percent(control.value)})" if control else ""
    public = figures.public_noise(epsilon)
    promise = "Promise, were its noise secret" if public else "Promise"
    return "\n".join(
        (
            f"**{_named(epsilon, figures)}**",
            f"- {promise}: {wording.odds_sentence(epsilon, privacy.delta, privacy.unit)}"
            f"{f' {SENTENCE}' if public else ''}",
            f"- Measured: full names of {wording.percent(names.value)} of the patients{against}; the loss attack of "
            f"step 4 is right in {_pairs(auc)} pairs of notes. {_by_patient(figures, epsilon)}",
            f"- Cost: {_perplexity(figures)} {wording.perplexity_text(cost.value)}, without privacy "
            f"{wording.perplexity_text(figures.measured(PERPLEXITY).value)}.",
        )
    )


def _costs(figures: Figures) -> pd.DataFrame:
    """Every ε with promise, risk and cost."""
    privacy, rows = figures.sweep.privacy, []
    perplexity = _perplexity(figures)
    for epsilon in (*figures.epsilons, math.inf):
        names, auc, cost = (figures.measured(metric, epsilon=epsilon) for metric in (NAMES, AUC, PERPLEXITY))
        right, of = wording.right_of(wording.most_right_guesses(epsilon, privacy.delta))
        promise = "no limit" if math.isinf(epsilon) or right == of else f"{right:,} of {of:,}"
        rows.append(
            (
                _named(epsilon, figures),
                promise,
                wording.percent(names.value),
                f"{auc.value:.2f}",
                wording.perplexity_text(cost.value),
            )
        )
    return pd.DataFrame(
        rows, columns=["training", "right guesses, on average at most", "full names", "AUC", perplexity]
    )


def _picture(rows: list[tuple[str, Value | None, str]]) -> pd.DataFrame:
    kept = [(what, value.value, value.low, value.high, arm) for what, value, arm in rows if value is not None]
    return pd.DataFrame(kept, columns=["what", "value", "low", "high", "arm"])
