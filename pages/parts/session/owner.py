"""Who is looking, and what they may see: an upload belongs to the browser session, or signed-in user, it came from."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st
from streamlit import runtime
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.parts.session import resources

if TYPE_CHECKING:
    from core.runs.store import Workspace

OWN_BOXES = ("own_file", "own_identifiers")  # those that take notes and identifiers (`box`)
OWN_CHECK = "own_asked"  # the session's check of notes
EMPTIED = "own_files_emptied"  # how often its boxes were emptied
_SESSION = "owner_of_this_session"
lives_of_sessions: dict[str, Callable[[], bool]] = {}  # sessions that were here, and whether each is still connected


def owner() -> str:
    """Who looks at this page, as a name that nobody can guess: of the signed-in user, else of the browser session."""
    if getattr(st.user, "is_logged_in", False):
        who = "/".join(str(st.user.get(name) or "") for name in ("iss", "sub", "email"))
        return "user-" + hashlib.sha256(who.encode()).hexdigest()
    if _SESSION not in st.session_state:
        from core.runs.uploads.records import OF_SESSION

        st.session_state[_SESSION] = OF_SESSION + secrets.token_hex(16)
    lives_of_sessions[st.session_state[_SESSION]] = session_lives()
    return st.session_state[_SESSION]


def looks_at_own_file() -> bool:
    """Whether this session has a file of its own in a box for uploads, or a check of one."""
    return any(st.session_state.get(key) for key in (OWN_CHECK, *map(box, OWN_BOXES)))


def box(name: str) -> str:
    """The key of a box for files. Only a new one makes it empty: what it holds would be written to disk again."""
    emptied = st.session_state.get(EMPTIED, 0)
    return f"{name}-{emptied}" if emptied else name


def signed_in() -> bool:
    """True when uploads outlive this browser session."""
    return owner().startswith("user-")


def session_lives() -> Callable[[], bool]:
    """Tells, from any thread, whether this browser session is still connected."""
    context = get_script_run_ctx()
    if context is None or not runtime.exists():  # pages without a server, as tests run them
        return lambda: True
    return lambda: runtime.exists() and runtime.get_instance().is_active_session(context.session_id)


def workspace() -> Workspace:
    """What the viewer may see of this server: what was made here and what is shipped, without others' uploads."""
    from core.runs.store import Workspace

    return Workspace(resources.data(), viewer=owner())
