"""A class on every page: the presenter leads, or sends everybody to what is on their screen; students are taken there.

Students get a link, as if somebody had given it to them: every page checks what it holds as it does for any link.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlencode

import streamlit as st

from core.jobs.limits import Limits
from pages.parts.access import gate
from pages.parts.common import page_files, query_params
from pages.parts.session import classroom, owner, resources, seat
from pages.parts.session.room_values import Query

FOLLOW_SECONDS = 2.0
SENT = "class-everybody-sent"
UPLOADED = "uploaded"  # in the link of a page that showed its viewer's uploads (pages.parts.uploads.after)


def begin(name: str, known: Collection[str]) -> None:
    """The presenter who leads tells the class which page they are on; a student's browser looks every two seconds.

    A page that was opened from the menu gets the class into its address: a phone may load it again at any time.

    Args:
        name: The page's short name.
        known: Every page's short name.
    """
    classroom.clear_screen()
    if classroom.room() or Limits.of().in_class:
        seat.keep()
    if classroom.host_key():
        now = classroom.counts()
        if now and now.lead and now.lead.page != name and name != "lesson":  # which leads by its step
            classroom.lead(name, linked())
    elif classroom.room():
        gate.fragment(_follow, run_every=FOLLOW_SECONDS)(name, tuple(known))
    if classroom.room() and name != "lesson":  # which writes its own link
        query_params.write({"room": classroom.room(), "round": str(classroom.joined_round())})


def controls(name: str) -> None:
    """For the presenter: whether the class follows, and a button that shows everybody what is on the screen."""
    if not classroom.host_key():
        return

    def changed() -> None:
        if st.session_state["class-lead"]:
            classroom.lead(name, linked())
        else:
            classroom.release()

    st.session_state["class-lead"] = classroom.leading()  # the full screen changes it, too
    st.toggle(
        "Lead the class",
        key="class-lead",
        on_change=changed,
        help="Everyone goes where you go, and sees answers when you show them.",
    )
    alone = has_uploads()
    st.button(
        "Show the class",
        icon=":material/cast:",
        key="class-everybody",
        on_click=everybody,
        args=(name,),
        help="Opens this page for the whole class. You have uploaded notes, so your settings stay with you: the class "
        "gets the page with default settings."
        if alone
        else "Opens exactly this for the whole class: this page with these models, settings and, in the Playground, "
        "your newest prompt.",
    )
    if st.session_state.pop(SENT, False):
        st.toast("Opening this page for the class.", icon=":material/cast:")


def everybody(name: str) -> None:
    """Send the class to what is on the presenter's screen."""
    classroom.send(name, linked())
    st.session_state[SENT] = True


def linked() -> Query:
    """What the presenter's screen shows, as a link; nothing if they have uploads, which nobody else may learn of."""
    if has_uploads():
        return ()
    shown = classroom.shown_on_screen()
    names = [name for name in st.query_params if name != UPLOADED and name not in shown]
    return (*((name, value) for name in names for value in st.query_params.get_all(name)), *shown.items())


def has_uploads() -> bool:
    """Whether the viewer has uploaded notes here. Other people must not learn of them."""
    from core.runs.uploads.records import uploads

    return owner.has_own_file() or bool(uploads(resources.data(), owner.owner()))


def _follow(name: str, known: tuple[str, ...]) -> None:
    """Give the browser the presenter's place; it goes there once (`assets/components/follow.js`)."""
    lead, room = classroom.target(), classroom.room()
    if lead is None or lead.page not in known:
        return
    path = "./" if lead.page == "home" else lead.page
    here = lead.page == name
    listener = st.components.v2.component("philab_follow", js=page_files.component("follow.js"))
    listener(
        key="class-follow",
        data={
            "room": room,
            "number": lead.number,
            "link": f"{path}?{urlencode([*lead.query, ('room', room)])}",
            "stay": here and (not lead.exact or name == "lesson"),  # the lesson turns its own pages
        },
    )
