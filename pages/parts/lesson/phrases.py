"""Short phrases that the lesson's answers are put together from."""

from __future__ import annotations

import math
from collections.abc import Callable

from core.attacks.membership.decision import in_words
from core.common.formatting import setting_text
from core.evaluation import wording
from pages.parts.lesson.figures import NAMES, PERPLEXITY, Figures, Value


def patients_text(count: int) -> str:
    """`one patient` or `12 patients`."""
    return "one patient" if count == 1 else f"{count:,} patients"


def first_sentence(text: str) -> str:
    """The first sentence of an answer, which has the measured figure."""
    return f"{text.partition('. ')[0].removesuffix('.')}."


def held_out_text(count: int) -> str:
    """How many further patients, as the start of a sentence."""
    return "One further patient was" if count == 1 else f"{count:,} further patients were"


def interval_text(value: Value, number: Callable[[float], str] = wording.percent) -> str:
    """A 95 % interval as text."""
    return wording.interval_text(value.low, value.high, number)


def pairs_text(auc: Value) -> str:
    """`88 of 100`: how often the right one of two notes is picked, never rounded up to all of them."""
    right, of = wording.pairs_of(auc.value)
    return f"{right:,} of {of:,}"


def per_patient_text(figures: Figures, epsilon: float) -> str:
    """The result of the strongest attack per patient, which uses all notes of a patient; empty if none was run."""
    found = figures.strongest(epsilon)
    if found is None:
        return ""
    low, high = found.interval.low, found.interval.high
    right, of = wording.pairs_of(found.interval.value, low=low)
    sure = wording.interval_text(low, high, lambda auc: f"{of * auc:,.0f}")
    sure = f"{sure}, evaluated on {patients_text(found.patients)}"
    if found.attacks > 1:
        who = f"the strongest of {found.attacks} membership attacks, {in_words(found.attack)},"
        sure = f"{sure}, widened for the choice; one run"
        says = f"Given all notes of a patient, {who} is right in {right:,} of {of:,} pairs of patients ({sure})."
        return (
            f"{says} Which attack is strongest differs between models, and costly attacks were run on fewer patients."
        )
    more = "no other membership attack was run, and a full audit may find a stronger one"
    who = f"{in_words(found.attack)} is right in {right:,} of {of:,} pairs of patients ({sure}; one run)"
    return f"Given all notes of a patient, {who}; {more}."


def runs_text(figures: Figures) -> str:
    """Of how many runs a figure is the mean."""
    seeds = figures.seeds()
    return "one run" if seeds == 1 else f"mean of {seeds} runs"


def epsilon_text(epsilon: float, figures: Figures) -> str:
    """ε with its unit, or that there is no privacy."""
    return "no privacy" if math.isinf(epsilon) else f"ε = {setting_text(epsilon)} per {figures.unit}"


def perplexity_name(figures: Figures) -> str:
    """What perplexity is called for the kind of model."""
    return wording.perplexity_name(figures.sweep.model.kind)


def limits_nothing(figures: Figures, epsilon: float) -> str:
    """That names did not appear at an ε which promises nothing; empty for a smaller ε."""
    if wording.right_of_100(wording.most_right_guesses(epsilon, figures.sweep.privacy.delta)) != wording.ALL_RIGHT:
        return ""
    return (
        f" But this ε limits nothing in practice: {wording.NEARLY_ALL} of 100 guesses about one {figures.unit} may be "
        "right. That names did not appear is a measurement, not protection."
    )


def without_noise(figures: Figures, epsilon: float) -> str:
    """The perplexity of the same training without noise: it separates the cost of noise from that of clipping."""
    found = figures.noiseless(PERPLEXITY, epsilon)
    if found is None:
        return ""
    seeds = "one seed" if found[1] == 1 else f"{found[1]} seeds"
    return (
        f" The same training without noise (same clipping, same number of steps, {seeds}) reaches "
        f"{wording.perplexity_text(found[0].value)}; only the rest of the difference is the cost of noise."
    )


def below(value: Value, control: Value) -> bool:
    """Whether a figure is clearly below its control: their intervals do not overlap."""
    return value.high < control.low


def names_at(figures: Figures, epsilon: float) -> str:
    """How many patients' full names were written at an ε at which they do not exceed the control."""
    written, held = figures.measured(NAMES, epsilon=epsilon), figures.measured(NAMES, "heldout", epsilon)
    if not written.value and not held.value:
        return "no full name of any patient, trained on or held out"
    said = (
        f"full names of {wording.percent(written.value)} of the patients against {wording.percent(held.value)} of the "
        "held-out patients"
    )
    return said if below(written, held) else f"{said}, shares that cannot be told apart"
