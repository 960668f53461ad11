"""The session's user for the job queue, and how an instructor unlocks its controls with the key of `make class`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import streamlit as st

from core.jobs.limits import NOBODY, Limits, Refused, User, in_words
from pages.parts.access import viewer
from pages.parts.session import owner, seat

if TYPE_CHECKING:
    from core.jobs.engine import Engine

SHORTEST_KEY = 12  # characters: tries are not counted, and all of four digits can be tried within a lesson
_KEY, _TYPED, _WRONG = "instructor_key", "instructor_typed", "instructor_wrong"


def user() -> User:
    """The session's user, with the instructor's key if it was entered, or with the role of who is signed in."""
    return User(_name(), st.session_state.get(_KEY, ""), viewer.instructs())


def _name() -> str:
    """What tells users of the queue apart: the sign-in; in a class without one the browser; otherwise the session.

    A student who reloads the page keeps their jobs, to watch and to cancel, and their limits.
    """
    name = owner.owner()  # also asks whether the viewer is still signed in
    return seat.user() if Limits.of().in_class and not viewer.standing().required else name


def manages() -> bool:
    """Whether the session is a class's instructor's: the key was entered here, or the viewer's role is that.

    Outside a class there is none.
    """
    limits = Limits.of()
    return limits.in_class and limits.instructs(user())


def leads() -> bool:
    """Whether the session may do what a class leaves to its instructor: outside a class, everybody may."""
    return not Limits.of().in_class or manages()


def panel(engine: Engine) -> None:
    """In a class: a form for the key, or the instructor's controls of the queue. Where people have roles, no key."""
    if not Limits.of().in_class:
        return
    if not manages():
        if viewer.instructs() is None:
            _key_form()
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge("You are the instructor", icon=":material/school:", color="violet")
        closed = engine.queue_closed
        st.button(
            "Open the queue" if closed else "Close the queue",
            icon=":material/lock_open:" if closed else ":material/lock:",
            key="queue-close",
            help="A closed queue takes no new jobs from students. Waiting jobs still run.",
            on_click=_close,
            args=(engine, not closed),
        )
        if viewer.instructs() is None:
            st.button(
                "Forget the key", icon=":material/logout:", key="instructor-leave", type="tertiary", on_click=_leave
            )


def _close(engine: Engine, closed: bool) -> None:
    """Close or open the queue, for those who may at the time of the click."""
    if not viewer.refused("host"):
        try:
            engine.close_queue(closed, user())
        except Refused as error:
            st.toast(str(error), icon=":material/error:")


def limits_in_words(engine: Engine) -> str:
    """The session's limits as a sentence; empty outside a class and for the instructor."""
    limits = in_words(engine.limits, manages()) if engine.limits.in_class else ()
    return f" You may request {', '.join(limits)} (estimated)." if limits else ""


def _key_form() -> None:
    with st.popover("Instructor", icon=":material/key:"):
        with st.form("instructor-form", border=False):  # Enter sends it
            st.text_input("Instructor's key", type="password", key=_TYPED, autocomplete="off")
            st.form_submit_button("Manage the queue", key="instructor-enter", on_click=_enter)
        if st.session_state.get(_WRONG):
            st.error(_refusal(), icon=":material/error:")


def _refusal() -> str:
    key = Limits.of().key
    if key != NOBODY and len(key) < SHORTEST_KEY:
        return (
            f"This server's key has fewer than {SHORTEST_KEY} characters, so it could be guessed and is not accepted. "
            "Choose a longer PHILAB_INSTRUCTOR_KEY and restart the server."
        )
    return "Wrong key. The key is shown in the terminal that runs `make class`."


def _enter() -> None:
    typed = st.session_state.pop(_TYPED, "").strip()
    right = len(typed) >= SHORTEST_KEY and Limits.of().instructs(User(owner.owner(), typed))
    st.session_state[_WRONG] = not right
    if right:
        st.session_state[_KEY] = typed


def _leave() -> None:
    st.session_state.pop(_KEY, None)
