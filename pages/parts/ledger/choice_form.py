"""The fold of the release form in which a model is entered as the best of several runs, and its confirmation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import streamlit as st

from pages.parts.ledger.choosing_view import SHAPES

if TYPE_CHECKING:
    from core.runs.ledger.choice import Choice

CHOSEN, TRAININGS, SHAPE, SCORE = (f"release_{name}" for name in ("chosen", "trainings", "shape", "score"))  # keys


@dataclass(frozen=True)
class Typed:
    """What the fold contains when the form is sent."""

    chosen: bool
    trainings: float
    shape: float
    score: str

    def made(self) -> Choice | None:
        """The choice; None if the model was the only training. Raises ValueError with a sentence."""
        from core.runs.ledger.choice import Choice

        if not self.chosen:
            if self.score.strip():
                raise ValueError("a score is given, but the box “It was the best of several runs” is not ticked")
            return None
        return Choice.of(self.trainings, self.shape, self.score)


def show() -> Typed:
    """The fold with its fields."""
    from core.runs.ledger.choice import FIXED_NUMBER

    with st.expander("Was it the best of several runs?"):
        st.markdown(
            "The best of several runs reveals more about the notes than a single run does. The totals then count the "
            "choice (Papernot & Steinke 2022)."
        )
        chosen = st.checkbox("It was the best of several runs", key=CHOSEN)
        left, right = st.columns(2)
        # No range here: the browser would keep a number outside it back, and enter the one before.
        trainings = left.number_input("Expected number of runs", value=10.0, step=1.0, format="%g", key=TRAININGS)
        shape = right.selectbox("Number drawn as", list(SHAPES), key=SHAPE)
        score = st.text_input(
            "Which score was used, and on what data?",
            key=SCORE,
            max_chars=2_000,
            placeholder="For example: loss on public notes",
        )
        st.caption(FIXED_NUMBER)
    return Typed(bool(chosen), float(trainings), SHAPES[shape], score)


def confirmed(key: str) -> bool:
    """What a choice needs to be true, and the box that confirms it."""
    from core.runs.ledger.choice import CHOICE_HOLDS

    st.markdown(
        "\n".join(
            ["The choice counts as shown only if all of this is true:", "", *(f"- {one}" for one in CHOICE_HOLDS)]
        )
    )
    return st.checkbox("All of this is true.", key=key)


def restore(choice: Choice | None) -> None:
    """Fill the fold again with the choice of an entry that was not recorded."""
    if choice is None:
        return
    st.session_state[CHOSEN], st.session_state[SCORE] = True, choice.score
    st.session_state[TRAININGS] = choice.trainings
    st.session_state[SHAPE] = next(name for name, shape in SHAPES.items() if shape == choice.shape)
