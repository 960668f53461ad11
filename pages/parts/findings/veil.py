"""In a class: the presenter who leads hides the verdicts, on their own page too, until they show them.

Verdicts that were shown are seen by all, also where *Guess first* is on: a class discusses them together.
"""

from __future__ import annotations

import streamlit as st

from pages.parts.access import gate
from pages.parts.session import classroom
from pages.parts.session.room_values import Verdicts

LOOK_SECONDS = 2.0
HIDE = "Here and for the class. Students can guess, but see no verdict until you show it."
SHOW = "You and the class see the verdicts, even students who have not guessed."
WAITING = "The presenter will show the verdict."


def controls() -> None:
    """For the presenter who leads, a button for all; for a student, a look every two seconds whether it was pressed."""
    verdicts = classroom.verdicts()
    hidden = verdicts == "hidden"
    if not classroom.host_key():
        if hidden or classroom.room():
            gate.fragment(_watch, run_every=LOOK_SECONDS)(verdicts)
    elif classroom.leading():
        st.button(
            "Show verdicts" if hidden else "Hide verdicts",
            icon=":material/visibility:" if hidden else ":material/visibility_off:",
            key="findings-veil",
            on_click=classroom.veil,
            args=(not hidden,),
            help=SHOW if hidden else HIDE,
        )


def _watch(drawn: Verdicts | None) -> None:
    if classroom.verdicts() != drawn:
        st.rerun(scope="app")
