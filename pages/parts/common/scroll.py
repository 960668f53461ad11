"""Bringing what a click has opened into view, where it may lie below the fold."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages.parts.common import page_files

_ASKED = "scrolls_asked"  # in the session: how often, so that each click scrolls once


def ask() -> None:
    """Have the next run of the page scroll to where it calls `here` (a callback of the click)."""
    st.session_state[_ASKED] = st.session_state.get(_ASKED, 0) + 1


def here(place: DeltaGenerator, *, if_low: bool = False) -> None:
    """Scroll to this place if a click asked for it. Call it when everything below the place is drawn.

    Args:
        place: What comes to the top of the window.
        if_low: Only if it is below the middle of the window, as on a phone.
    """
    with place:
        scroller = st.components.v2.component("philab_scroll_here", js=page_files.component("scroll_here.js"))
        scroller(key="scroll-here", data={"number": st.session_state.get(_ASKED, 0), "ifLow": if_low})
