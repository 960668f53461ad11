"""The viewer, and what they may see: an upload belongs to the browser session or signed-in user that made it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.parts.access import viewer
from pages.parts.session import resources

if TYPE_CHECKING:
    from core.runs.store import Workspace

OWN_BOXES = ("own_file", "own_identifiers")  # the upload boxes for notes and identifiers (`box`)
OWN_CHECK = "own_asked"  # the session's check of notes
EMPTIED = "own_files_emptied"  # how often the boxes were emptied
_SESSION = "owner_of_this_session"


@resources.process_object
def sessions() -> dict[str, Callable[[], bool]]:
    """By session: a function that says whether it is still connected."""
    return {}


def owner() -> str:
    """The viewer of this page as an unguessable name: of the signed-in user, else of the browser session.

    Part of a page may be drawn again after its viewer was signed out elsewhere. The whole page then is, which ends it.
    """
    now = viewer.standing()
    if not now.admitted:
        st.rerun()  # does nothing in a button's callback
        raise viewer.Refused("You are no longer signed in.")
    if now.required:
        return now.owner
    if _SESSION not in st.session_state:
        from core.runs.uploads.records import OF_SESSION

        st.session_state[_SESSION] = OF_SESSION + secrets.token_hex(16)
    sessions()[st.session_state[_SESSION]] = session_lives()
    return st.session_state[_SESSION]


def has_own_file() -> bool:
    """Whether this session has a file in an upload box, or a check of one."""
    return any(st.session_state.get(key) for key in (OWN_CHECK, *map(box, OWN_BOXES)))


def box(name: str) -> str:
    """The key of an upload box. Emptying a box needs a new key; otherwise its files would be written to disk again."""
    emptied = st.session_state.get(EMPTIED, 0)
    return f"{name}-{emptied}" if emptied else name


def signed_in() -> bool:
    """Whether the viewer is signed in, so that uploads outlive this browser session."""
    return owner().startswith("user-")


def session_lives() -> Callable[[], bool]:
    """A function that tells, from any thread, whether this browser session is still connected."""
    context = get_script_run_ctx()
    if context is None or not runtime.exists():  # pages without a server, as in tests
        return lambda: True
    return lambda: runtime.exists() and runtime.get_instance().is_active_session(context.session_id)


def workspace() -> Workspace:
    """The runs and cohorts that the viewer may see: made here or shipped, without others' uploads."""
    from core.runs.store import Workspace

    return Workspace(resources.data(), viewer=owner())
