"""Where things stand on a page that answers one question with one picture."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator


def picture_and_knobs() -> tuple[DeltaGenerator, DeltaGenerator]:
    """A wide column for the sentence, the picture and what is below it, and a narrow one for the knobs.

    On a phone the picture comes first.
    """
    picture, knobs = st.columns([5, 2], gap="large")
    return picture, knobs.container(key="knobs")
