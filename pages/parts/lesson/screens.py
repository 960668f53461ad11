"""Which view of the lesson is drawn: the whole page, the full screen of a projector, or a phone's view for voting.

In the link: `screen` (`page`, `full` or `vote`). Without it, who joins a class votes and everybody else gets the page.
"""

from __future__ import annotations

from typing import Literal, cast, get_args

import streamlit as st

from pages.parts.common import page_files
from pages.parts.session import classroom

Screen = Literal["page", "full", "vote"]
_SCREEN = "lesson_screen"


def current() -> Screen:
    """The view to draw: only students vote, and they get no full screen, which shows what is hidden from them."""
    asked = st.session_state.setdefault(_SCREEN, st.query_params.get("screen"))
    student = classroom.room() is not None and classroom.host_key() is None
    allowed: tuple[Screen, ...] = ("vote", "page") if student else ("page", "full")
    return cast(Screen, asked) if asked in allowed else allowed[0]


def choose(screen: Screen) -> None:
    """Change to this view."""
    assert screen in get_args(Screen)
    st.session_state[_SCREEN] = screen


def begin() -> Screen:
    """The view to draw, with its style; the link holds it if it is not the usual one."""
    screen = current()
    if screen != "page":
        st.html(f"<style>{page_files.style('bare')}{page_files.style(screen)}</style>")
    if st.session_state[_SCREEN] == screen:
        if st.query_params.get("screen") != screen:
            st.query_params["screen"] = screen
    else:
        st.query_params.pop("screen", None)
    return screen


def pass_keys_on() -> None:
    """Let the lesson's keys work while a switch has the focus, as after a click on *Lead the class*.

    Streamlit ignores shortcuts while any `<input>` has the focus, and its switches are such. They use none of these
    keys, so an invisible component passes them on. It is drawn last, so that it moves nothing.
    """
    component = st.components.v2.component("philab_keys", js=page_files.component("keys.js"))
    component(key="lesson-keys")
