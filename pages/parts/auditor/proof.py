"""What the guesses prove: the bound on ε after every guess, as a chart and in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from core.common.formatting import promised_text, proved_text
from core.evaluation.guarantee.live_bound import live_epsilon
from core.runs.run import Run
from pages.parts.common import chart_style
from pages.parts.common.public_noise import SENTENCE, public_noise
from pages.parts.session.room_values import Vote

LINES = {  # who guessed → colour and dash
    "people alone": (chart_style.OKABE_ITO["blue"], "solid"),
    "people with a hint": (chart_style.RISK, "solid"),
    "the machine, on the same notes": (chart_style.CONTROL, "dash"),
}
FEWEST = next(count for count in range(1, 100) if live_epsilon([True] * count)[-1] > 0)  # right guesses in a row
EXAMPLES = (FEWEST, 30)  # right guesses in a row: what they prove is said before the first guess
HOW = """
For each note a fair coin decided whether it comes from a patient the model was trained on or from a held-out one;
each patient appears once, even if you change to another model of the same hospital. If exchanging one patient for
another were ε-DP, a guess could be right with probability at most *p* = e^ε/(1 + e^ε), whatever was guessed before.
Enough right guesses therefore rule out a small ε. Adding or removing a patient is half an exchange: for that ε, halve
the bound.

**It is a proof only if no one looks up the notes.** Other pages of this app, and another class on the same hospital,
reveal who was in the training data.

**The bound holds at every moment**, not only at the end: it is a test by betting (Waudby-Smith & Ramdas 2024; Steinke
et al. 2023 for *p*). In 1,000 simulated classes that guess blindly and look after each of 200 guesses, about 30 prove
anything at all; an ordinary 95 % test, checked as often, would be wrong far more often. δ is taken as 0.

**The machine** sees nothing but the model: it says “member” for the half of the notes that the model finds
likelier. The hint is the same number, shown to you for the note at hand.

The bound is about ε *per patient*, since all notes of a patient were in or out together. A promise per note protects a
patient with many notes less, so a bound above it is no contradiction. Each line alone holds at 95 %.
"""


def series(votes: Sequence[Vote]) -> dict[str, list[bool]]:
    """Whether each guess was right, in order, for everyone who has guessed."""
    every = {
        "people alone": [vote.right for vote in votes if not vote.helped],
        "people with a hint": [vote.right for vote in votes if vote.helped],
        "the machine, on the same notes": [vote.machine for vote in votes],
    }
    return {name: right for name, right in every.items() if right}


def chart(found: dict[str, list[bool]]) -> go.Figure:
    """The proved ε after every guess."""
    figure = go.Figure()
    for name, right in found.items():
        colour, dash = LINES[name]
        bounds = [0.0, *live_epsilon(right).tolist()]
        figure.add_scatter(
            x=list(range(len(bounds))),
            y=bounds,
            name=name,
            mode="lines",
            line={"color": colour, "width": 3, "dash": dash, "shape": "hv"},
            customdata=[(_guesses(count), proved_text(bound)) for count, bound in enumerate(bounds)],
            hovertemplate="after %{customdata[0]}: ε ≥ %{customdata[1]}<extra>" + name + "</extra>",
        )
    figure.update_layout(**chart_style.LAYOUT, height=300)
    figure.update_xaxes(title="guesses", rangemode="tozero")
    figure.update_yaxes(title="proved: ε at least", rangemode="tozero")
    return figure


def _guesses(count: int) -> str:
    """`1 guess`, `12 guesses`."""
    return f"{count} guess{'' if count == 1 else 'es'}"


def proves_something(found: dict[str, list[bool]]) -> bool:
    """Whether any line of the chart is above 0."""
    return any(live_epsilon(right)[-1] > 0 for right in found.values())


def sentences(found: dict[str, list[bool]]) -> list[str]:
    """For everyone who guessed: how many were right, and what that proves."""
    told = []
    for name, right in found.items():
        bound = float(live_epsilon(right)[-1])
        proves = f"**ε ≥ {proved_text(bound)}**" if bound > 0 else "nothing yet"
        told.append(f"{name[0].upper()}{name[1:]}: **{sum(right):,} of {len(right):,}** right, which proves {proves}.")
    return told


def first_words() -> str:
    """What a proof would look like, before the first guess."""
    few, many = EXAMPLES
    least, more = (proved_text(float(live_epsilon([True] * count)[-1])) for count in EXAMPLES)
    return (
        f"The proof appears here after the first guess. {few} right guesses in a row prove ε ≥ {least}, {many} in a "
        f"row prove ε ≥ {more}; after a wrong guess, more are needed."
    )


def promise(run: Run) -> str:
    """What the model promises, to compare with what was proved."""
    epsilon, unit = math.inf if run.privacy is None else run.privacy.epsilon(), run.spec.privacy.unit
    if math.isinf(epsilon):
        return (
            "This model promises nothing, so there is no promise to contradict. A proof shows which ε could not have "
            "been promised for exchanging one patient. Choose a model with DP to compare."
        )
    told = f"This model promises ε = {promised_text(epsilon)} per {unit}."
    if public_noise([run]):
        told = f"This model would promise ε = {promised_text(epsilon)} per {unit} if its noise were secret. {SENTENCE}"
    if unit == "note":
        return f"{told} The proof is about whole patients, so it cannot contradict that."
    return f"{told} The proof is about exchanging one patient for another: compare half of the proved ε with it."
