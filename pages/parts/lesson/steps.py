"""The lesson's five steps: the question, where to look, and the answer from the runs of this server.

No result is written here. Every answer is computed from `Figures`, so the lesson is correct for any runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pandas as pd

from core.attacks.prompts import PROMPTS
from core.evaluation import wording
from core.evaluation.comparison import differences
from core.phi.fields import DIRECT, FIELD
from core.spec.model_names import MODEL_NAMES
from pages.parts.common.public_noise import SENTENCE
from pages.parts.lesson.figures import ATTEMPTS, AUC, NAMES, PERPLEXITY, Figures, Value
from pages.parts.lesson.phrases import (
    below,
    epsilon_text,
    held_out_text,
    interval_text,
    limits_nothing,
    names_at,
    pairs_text,
    patients_text,
    per_patient_text,
    perplexity_name,
    runs_text,
    without_noise,
)
from pages.parts.pickers.epsilon_slider import epsilon_key

# Answers that are shares: up to and including this one.
SHARES = (
    ("nobody", 0.0),
    ("up to 10 in 100", 0.1),
    ("10 to 25 in 100", 0.25),
    ("25 to 50 in 100", 0.5),
    ("more than half", 1.0),
)
PAIRS = (("about 50, a coin toss", 55), ("56 to 70", 70), ("71 to 85", 85), ("86 to 95", 95), ("more than 95", 100))
COINCIDENCE = ("clearly lower", "about the same", "clearly higher")
NO_EPSILON = "none of these"
BY_EPSILON_ALONE = (
    "This follows from ε and δ alone, for any run. The report also uses this run's exact accounting, which may allow "
    "fewer."
)


@dataclass(frozen=True)
class Look:
    """A link to a page with certain settings, and what to do there."""

    page: str
    label: str
    query: dict[str, str]
    task: str  # what to do there


@dataclass(frozen=True)
class Step:
    """One question of the lesson with its answer.

    `right` is the answer from the runs; None if the question is a choice or cannot be answered. `asked` is the question
    in a few words, which the answer follows where the question itself is not shown. `looks` are pages that show the
    answer. `picture` has the columns what, value, low, high and arm (`run`, `private` or `control`); `chance` is the
    value of blind guessing, if the picture marks it; `table` has further figures, or is empty.
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
    asked: str = ""
    chance: float | None = None
    table: pd.DataFrame = field(default_factory=pd.DataFrame)


def steps(figures: Figures, choice: str | None = None) -> tuple[Step, ...]:
    """The five steps. `choice` is the answer chosen in the last step, an ε in words; None before."""
    made: tuple[Callable[[Figures], Step], ...] = (_repeats, _coincidence, _privacy, _membership)
    return (*(make(figures) for make in made), _decision(figures, choice))


def _repeats(figures: Figures) -> Step:
    named, patients = figures.measured(NAMES), figures.counted(NAMES)
    model = MODEL_NAMES[figures.sweep.model.kind]
    return Step(
        title="A model was trained on patients' notes. Does it repeat them?",
        question=f"A small {model} was trained on the notes of {patients_text(patients)}, without privacy. It wrote "
        f"{figures.counted(ATTEMPTS):,} continuations of {len(PROMPTS)} ordinary openings such as "
        f"“{PROMPTS[0].text}”. For how many of 100 patients did it write the full name?",
        answers=tuple(name for name, _ in SHARES),
        right=_bin(named.value, SHARES),
        looks=(
            Look(
                "playground",
                "Try it yourself",
                {**_pair(figures), "samples": "8"},
                f"Press “{PROMPTS[0].text}” and read what both models write.",
            ),
        ),
        reveal=f"For **{wording.percent(named.value)}** of the training patients ({interval_text(named)}; "
        f"{runs_text(figures)}).",
        point="This model, trained without privacy, reveals patients' names to anyone who can query it."
        if figures.exceeds(NAMES)
        else "This model shows no clear sign of revealing more names than chance; other models do.",
        why="No prompt asked for a particular patient: any note can start with these openings. Training makes the text "
        "of the notes more likely, including a name that appears in several notes of one person. Only full names of "
        "patients in the training notes are counted. Could the model have guessed them? That is the next question.",
        picture=_picture(
            [
                ("patients it was trained on", named, "run"),
                ("held-out patients (never seen)", figures.at(NAMES, "heldout"), "control"),
            ]
        ),
        axis="share of patients whose full name it wrote",
        asked="Patients whose full name it wrote",
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
            verdict = "not known" if more is None else "leaked" if more else "no sign of a leak"
            verdict = verdict if run.value > 0 else "not written"
            rows.append((FIELD[each].label, wording.percent(run.value), wording.percent(held.value), verdict))
    names, held = figures.measured(NAMES), figures.measured(NAMES, "heldout")
    more = figures.exceeds(metric)
    right = None if more is None else COINCIDENCE[0] if more else COINCIDENCE[1]
    if more is False and below(read, control):
        right = COINCIDENCE[2]
    return Step(
        title="Which values are leaks, and which are coincidences?",
        question=f"The same texts contain the {label} of {wording.percent(read.value)} of the training patients. "
        f"{held_out_text(figures.counted(NAMES, 'heldout'))} held out: the model never saw their notes. Is that "
        "share lower among them, about the same, or higher?",
        answers=COINCIDENCE,
        right=right,
        looks=(
            Look(
                "canaries",
                "See the effect of controls",
                {**_pair(figures), "view": "Risk score"},
                "Compare the old score with the one that subtracts the controls.",
            ),
        ),
        reveal=f"{label.capitalize()}: **{wording.percent(read.value)}** of the training patients "
        f"({interval_text(read)}), "
        f"**{wording.percent(control.value)}** of the held-out patients ({interval_text(control)}). "
        f"Full name: {wording.percent(names.value)} "
        f"against {wording.percent(held.value)}.",
        point="Only what exceeds its control is evidence of a leak.",
        why="Some values are shared by many people or are easy to hit by chance: a model that writes many dates hits "
        "some birthdays. So the same count is made for patients the model cannot know. If both counts agree, there is "
        "no evidence of memorising; if the training patients' count is clearly higher, there is. A report without a "
        "control may call chance a leak.",
        picture=_picture(
            [
                (f"{label}: training patients", read, "run"),
                (f"{label}: held out", control, "control"),
                ("full name: training patients", names, "run"),
                ("full name: held out", held, "control"),
            ]
        ),
        axis="share of patients whose value it wrote",
        asked=f"How often the texts contain a held-out patient's {label}, compared with a training patient's",
        table=pd.DataFrame(rows, columns=["identifier", "training patients", "held-out patients", "verdict"]),
    )


def _privacy(figures: Figures) -> Step:
    names = [epsilon_text(epsilon, figures) for epsilon in figures.epsilons]
    best = figures.harmless[-1] if figures.harmless else None
    shown_run = figures.private if best is None else figures.runs_at(best)[0]
    plain, base = figures.at(PERPLEXITY), figures.at(PERPLEXITY, "base")
    if best is None:
        each = all(figures.exceeds(NAMES, epsilon) for epsilon in figures.epsilons)
        at = "each of these ε" if each else "the smallest of these ε, or it is not known whether they did"
        found = f"Names still leaked at {at}."
    else:
        cost = figures.measured(PERPLEXITY, epsilon=best)
        assert plain is not None and base is not None  # measured as the other figures are
        found = (
            f"**{epsilon_text(best, figures)}**: {names_at(figures, best)}. The cost: {perplexity_name(figures)} "
            f"**{wording.perplexity_text(cost.value)}** instead of {wording.perplexity_text(plain.value)} without "
            f"privacy (the public model, trained on no note: {wording.perplexity_text(base.value)})."
            f"{without_noise(figures, best)}{limits_nothing(figures, best)}"
        )
    shown = [
        (epsilon_text(epsilon, figures), figures.at(NAMES, epsilon=epsilon), "private") for epsilon in figures.epsilons
    ]
    return Step(
        title="Differential privacy: which ε limits leaks, and what does it cost?",
        question=f"The same public model was trained with differential privacy at each of these ε per {figures.unit}. "
        "Up to which ε is there no clear sign that it writes training patients' full names more often than those of "
        "held-out patients?",
        answers=(*names, NO_EPSILON),
        right=epsilon_text(best, figures) if best is not None else NO_EPSILON,
        looks=(
            Look(
                "tradeoff",
                "Move ε yourself",
                {
                    **_model(figures),
                    "family": figures.sweep.id,
                    "at": epsilon_key(figures.shown_epsilon),
                    "risk": "full names",
                },
                "Move the slider from left to right. How do usefulness and risk change?",
            ),
            Look(
                "defences", "Compare other defences", {}, "Which defences limit names without noise? What evades them?"
            ),
        ),
        reveal=found,
        point="At this ε, names did not leak beyond chance in this measurement; the cost is usefulness."
        if best is not None
        else "No ε here was shown to keep names down to chance: an ε must be small enough to matter.",
        why=f"Clipping limits what one {figures.unit} can change in a step, and noise covers the rest, while the model "
        "still learns what many notes share. Clipping alone may keep names out; only noise makes it a guarantee. No "
        "leak in this measurement does not mean that none is possible: only ε limits attacks that are not known yet"
        f"{', once the noise is secret' if any(map(figures.public_noise, figures.epsilons)) else ''}. Perplexity "
        "measures how well the model predicts notes of patients it never saw; lower is more useful. "
        f"{differences([figures.plain, shown_run], with_epsilon=True)}",
        picture=_picture(
            [
                *shown,
                ("no privacy", figures.at(NAMES), "run"),
                ("held out (control)", figures.at(NAMES, "heldout"), "control"),
            ]
        ),
        axis="share of patients whose full name it wrote",
        asked="Largest ε without a clear sign of leaked names",
        table=_costs(figures),
    )


def _membership(figures: Figures) -> Step:
    plain, base = figures.measured(AUC), figures.measured(AUC, "base")
    private = figures.measured(AUC, epsilon=figures.shown_epsilon)
    named = epsilon_text(figures.shown_epsilon, figures)
    return Step(
        title="Membership: who was in the training data?",
        question="An attacker gets 100 pairs of notes. One note of each pair was in the training data, the other is a "
        "held-out patient's. The attacker sees only the loss of the model without privacy on each note. In how many "
        "pairs do they pick the training note?",
        answers=tuple(name for name, _ in PAIRS),
        right=_bin(round(100 * plain.value), PAIRS),
        looks=(
            Look(
                "membership",
                "Set the threshold yourself",
                {**_pair(figures), "view": "Threshold"},
                "Move the threshold. How many members does it catch, and how many others does it wrongly accuse?",
            ),
        ),
        reveal=f"In **{pairs_text(plain)}** pairs of notes without privacy (AUC {plain.value:.2f}, "
        f"{interval_text(plain, '{:.2f}'.format)}), in **{pairs_text(private)}** at {named}. The public model, trained "
        f"on none of them: {pairs_text(base)}. {per_patient_text(figures, math.inf)}",
        point="A model can reveal who was in its training data, even if it writes no name."
        if plain.low > base.high
        else "The loss attack found no clear sign of who was in this model's training data; a stronger attack may.",
        why="A model's loss is lower on notes it was trained on. In a clinic for one disease, having been a patient "
        "there is a diagnosis. A model that reveals no name in step 1 can still fail here. Differential privacy limits "
        "this attack and every other one, because it is a mathematical guarantee and not the result of a test.",
        picture=_picture(
            [("no privacy", plain, "run"), (named, private, "private"), ("public model", base, "control")]
        ),
        axis="pairs guessed right",
        asked="Pairs guessed right, of 100",
        chance=0.5,
    )


def _decision(figures: Figures, choice: str | None) -> Step:
    by_name = {epsilon_text(epsilon, figures): epsilon for epsilon in (*figures.epsilons, math.inf)}
    at = figures.shown_epsilon if choice is None else by_name.get(choice, figures.shown_epsilon)
    return Step(
        title="Decide: choose an ε and justify it",
        question="The hospital wants to give such a model to a university. Which model would you sign off on?",
        answers=tuple(by_name),
        right=None,
        looks=(
            Look(
                "tradeoff",
                "Look at the figures again",
                {**_model(figures), "family": figures.sweep.id, "at": epsilon_key(at)},
                "Read what your ε guarantees and what was measured.",
            ),
            Look(
                "tradeoff",
                "Set your own limits",
                {**_model(figures), "family": figures.sweep.id, "view": "Which ε?"},
                "Set the risk that you accept. Which ε do these runs recommend?",
            ),
            Look(
                "report",
                "Open what you would sign",
                {"runs": figures.run_ids[at]},
                "Read it as the hospital's privacy board would.",
            ),
            Look("ledger", "Record the release", {}, "Which guarantee is left after this model is released?"),
        ),
        reveal=_defence(figures, at),
        point="Justify an ε by its unit, by the measured risk next to its control, and by its cost.",
        why="No ε is right by itself. State what it protects (a note or a patient), the most that attackers could do, "
        "what they did in this audit, and how useful the model still is. Then state what was not tested. If you choose "
        "no privacy, you have no guarantee to show, whatever was measured.",
        picture=_picture(
            [
                (name, figures.at(PERPLEXITY, epsilon=epsilon), "run" if math.isinf(epsilon) else "private")
                for name, epsilon in by_name.items()
            ]
        ),
        axis=f"{perplexity_name(figures)} on held-out notes (lower is more useful)",
        shares=False,
        table=_costs(figures),
    )


# Words and tables ----------------------------------------------------------------------------------------------------


def _bin(value: float, bins: tuple[tuple[str, float], ...]) -> str:
    """The first answer whose upper end the value does not exceed."""
    return next(name for name, end in bins if value <= end)


def _model(figures: Figures) -> dict[str, str]:
    """The trade-off's parameter for the model, which the reader may have changed there."""
    return {"model": MODEL_NAMES[figures.sweep.model.kind]}


def _pair(figures: Figures) -> dict[str, str]:
    return {"left": figures.plain.id, "right": figures.private.id}


def _defence(figures: Figures, epsilon: float) -> str:
    """Guarantee, measured risk next to its control, and cost of one ε."""
    privacy, control = figures.sweep.privacy, figures.at(NAMES, "heldout", epsilon)
    names, auc, cost = (figures.measured(metric, epsilon=epsilon) for metric in (NAMES, AUC, PERPLEXITY))
    against = f" (held-out patients: {wording.percent(control.value)})" if control else ""
    public = figures.public_noise(epsilon)
    guarantee = "Guarantee if its noise were secret" if public else "Guarantee"
    return "\n".join(
        (
            f"**{epsilon_text(epsilon, figures)}**",
            f"- {guarantee}: {wording.odds_sentence(epsilon, privacy.delta, privacy.unit)} {BY_EPSILON_ALONE}"
            f"{f' {SENTENCE}' if public else ''}",
            f"- Measured: full names of {wording.percent(names.value)} of the patients{against}; the loss attack of "
            f"step 4 is right in {pairs_text(auc)} pairs of notes. {per_patient_text(figures, epsilon)}",
            f"- Cost: {perplexity_name(figures)} {wording.perplexity_text(cost.value)}, without privacy "
            f"{wording.perplexity_text(figures.measured(PERPLEXITY).value)}.",
        )
    )


def _costs(figures: Figures) -> pd.DataFrame:
    """Every ε with its guarantee, risk and cost."""
    privacy, rows = figures.sweep.privacy, []
    perplexity = perplexity_name(figures)
    for epsilon in (*figures.epsilons, math.inf):
        names, auc, cost = (figures.measured(metric, epsilon=epsilon) for metric in (NAMES, AUC, PERPLEXITY))
        right = wording.right_of_100(wording.most_right_guesses(epsilon, privacy.delta))
        right = wording.NEARLY_ALL if right == wording.ALL_RIGHT else right
        limit = "no limit" if math.isinf(epsilon) else f"{right} of 100"
        measured = (wording.percent(names.value), f"{auc.value:.2f}", wording.perplexity_text(cost.value))
        rows.append((epsilon_text(epsilon, figures), limit, *measured))
    guesses = "right guesses by ε and δ alone, on average at most"
    return pd.DataFrame(rows, columns=["training", guesses, "full names", "AUC", perplexity])


def _picture(rows: list[tuple[str, Value | None, str]]) -> pd.DataFrame:
    kept = [(what, value.value, value.low, value.high, arm) for what, value, arm in rows if value is not None]
    return pd.DataFrame(kept, columns=["what", "value", "low", "high", "arm"])
