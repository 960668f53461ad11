"""A browser's seat in a class: a random name that it keeps in a cookie.

A student who reloads the page is then no second voter, and can still cancel their jobs. The name says nothing about a
person. Rooms store only a digest of it under their own key, so two classes cannot be linked. Without cookies a seat
lasts as long as the session.
"""

from __future__ import annotations

import hashlib
import re
import secrets

import streamlit as st

from pages.parts.common import page_files

COOKIE = "philab_seat"
HOURS = 12  # that the cookie lasts: a day of teaching
_SEAT = "class_seat"
_FORM = re.compile(r"[A-Za-z0-9_-]{22}")


def seat() -> str:
    """The seat of this session's browser: from its cookie, else a new one."""
    if _SEAT not in st.session_state:
        st.session_state[_SEAT] = _kept() or secrets.token_urlsafe(16)
    return st.session_state[_SEAT]


def user() -> str:
    """The seat as a user's name in the queue. A digest: the name is on disk, and reading it there gives no seat."""
    return "seat-" + hashlib.sha256(seat().encode()).hexdigest()[:32]


def keep() -> None:
    """Let the browser keep its seat. Every page of a class calls this; the cookie is sent with the next connection."""
    if _kept() != seat():
        keeper = st.components.v2.component("philab_seat", js=page_files.component("seat.js"))
        keeper(key="class-seat", data={"name": COOKIE, "seat": seat(), "seconds": HOURS * 3600})


def _kept() -> str | None:
    """The seat in the browser's cookie; None if there is none, or a damaged one."""
    known = st.context.cookies.get(COOKIE)
    return known if isinstance(known, str) and _FORM.fullmatch(known) else None
