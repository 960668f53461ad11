"""Where things stand on a page that answers one question with one picture."""

from __future__ import annotations

import html
from collections.abc import Hashable

import streamlit as st
from streamlit.delta_generator import DeltaGenerator


def picture_and_knobs(fold: str = "Settings") -> tuple[DeltaGenerator, DeltaGenerator]:
    """A wide column for the sentence, the picture and what is below it, and a narrow one for the knobs.

    On a phone the knobs come first, folded under the word `fold`.
    """
    picture, right = st.columns([5, 2], gap="large")
    return picture, folded_knobs(right, fold)


def folded_knobs(place: DeltaGenerator, fold: str) -> DeltaGenerator:
    """A container for the knobs of a page, once a page; on a phone it is folded under the word `fold`.

    So the knobs stay within reach, and the answer is on the first screen. The fold is HTML and CSS (assets/style.css),
    since the server does not know how wide a screen is.
    """
    knobs = place.container(key="knobs")
    knobs.html(f'<details class="knobs-fold"><summary>{html.escape(fold)}</summary></details>')
    return knobs


def fresh(name: str, choice: Hashable) -> DeltaGenerator:
    """A container that is emptied in the browser as soon as `choice` changes.

    While a script runs, the browser keeps whatever the last run drew at a place until the new run draws something there
    (Streamlit's `AppRoot.addBlock` hands a block's children on to its successor). The sentences of one model would then
    stay under the heading of the next. There are two places: a new choice is drawn in the place that the last one left
    free, and an empty element takes the other place.

    Args:
        name: What is chosen, unique on the page.
        choice: What the content depends on.
    """
    key = f"fresh-{name}"
    last, second = st.session_state.get(key, (choice, False))
    second = second != (last != choice)
    st.session_state[key] = (choice, second)
    if second:
        st.empty()
        return st.container()
    place = st.container()
    st.empty()
    return place
