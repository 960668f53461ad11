"""The class on screen: who predicted what, how often the models leaked for everybody, and how to join."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Sequence

import streamlit as st

from pages.parts.common import shell
from pages.parts.lesson import classroom_link
from pages.parts.pickers import run_picker
from pages.parts.playground import leak_counts
from pages.parts.session import classroom

EVERY_SECONDS = {"host": 2.0, "student": 5.0}


def bars_html(answers: Sequence[str], counted: Counter[str], right: str | None = None) -> str:
    """How often each answer was given, as bars; the right one has a tick. Every character is escaped."""
    most, total = max(counted.values(), default=0), sum(counted.values())
    rows = []
    for answer in answers:
        times = counted[answer]
        width = 100 * times / most if most else 0
        tick = " ✓" if answer == right else ""
        rows.append(
            f"<tr><td>{html.escape(answer)}{tick}</td><td><i style='width:{width:.0f}%'></i></td><td>{times}</td></tr>"
        )
    people = f"{total} prediction{'' if total == 1 else 's'}"
    return f'<table class="bars"><caption>{people}</caption>{"".join(rows)}</table>'


def tries_html(tries: dict[str, classroom.Tries]) -> str:
    """How often each model leaked for the whole class, beside the count for held-out patients."""
    runs = {run.id: run for run in run_picker.promptable()}
    names = run_picker.labels([runs[run_id] for run_id in tries if run_id in runs])
    rows = [
        "".join(f"<td>{cell}</td>" for cell in (html.escape(name), *leak_counts.cells(tries[run_id], runs[run_id])))
        for run_id, name in names.items()
    ]
    if not rows:
        return "<p>No text was written yet. What the class asks in the Playground is counted here.</p>"
    titles = ("the whole class", "samples with a leak", "share (95\u00a0% interval)", "control")
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table class="tally"><tr>{head}</tr>{body}</table>'


def live(step: int, answers: Sequence[str], right: str | None, *, shown: bool) -> None:
    """The room's counts for the step on screen, drawn anew every few seconds."""
    who = "host" if classroom.host_key() else "student"
    st.fragment(_live, run_every=EVERY_SECONDS[who])(step, answers, right, shown)


def _live(step: int, answers: Sequence[str], right: str | None, shown: bool) -> None:
    now = classroom.counts()
    if now is None or now.round != classroom.joined_round():
        st.rerun(scope="app")  # the presenter has emptied the room, or it is gone
    counted = now.predictions.get(step, Counter())
    if classroom.host_key():
        hidden = st.toggle("Hide the bars until the answer is shown", key="hide_bars", persist_state="session")
        students = f"{now.joined} browser{'' if now.joined == 1 else 's'} joined"
        st.markdown(f"**Class {classroom.room()}** · {students}")
    else:
        hidden = True
        st.markdown(f"**Class {classroom.room()}**")
    if hidden and not shown:
        st.markdown(f"{counted.total()} predicted so far. The bars come with the answer.")
    else:
        st.html(bars_html(answers, counted, right if shown else None))
    st.html(tries_html(now.tries))


def host_panel() -> None:
    """For the presenter: the join link with its QR code, and the ways to begin again and to end."""
    room = classroom.room()
    assert room is not None  # who has a room's key is in it
    url = classroom_link.join_url("lesson", room)
    if url is None:
        reason = (
            "This server answers this computer alone. Stop it (Ctrl-C) and start it with `make class`."
            if classroom_link.listens_only_here()
            else "This computer is in no network, so no other device can reach it."
        )
        st.warning(f"Nobody else can join yet. {reason}", icon=":material/wifi_off:")
    else:
        st.html(f'<p class="join"><b>{html.escape(url)}</b></p>{classroom_link.qr_html(url)}')
        st.caption("Anybody in this network can open it: no password, no names. Only counts are kept, in memory.")
    with st.container(horizontal=True):
        st.button(
            "Begin again",
            icon=":material/restart_alt:",
            on_click=classroom.reset,
            key="class-reset",
            help="Empties every count; all who joined begin at step 1 again.",
        )
        st.button("Leave the class", icon=":material/logout:", on_click=classroom.leave, key="class-leave")


def door() -> None:
    """For whoever is in no class: open one, or join one by its code."""
    with st.popover("Class", icon=":material/groups:"):
        st.markdown("Teach: open a room, students join it by a link, and their predictions and leaks are counted here.")
        st.button("Open a class", icon=":material/co_present:", on_click=classroom.open_room, key="class-open")
        st.divider()
        st.text_input("Or join one: its code", key="class-code", max_chars=classroom.CODE_LETTERS)
        st.button("Join", icon=":material/login:", on_click=_join_typed, key="class-join")
    if st.session_state.pop("class-refused", False) or _dead_link():
        st.warning("There is no class of that code on this server now. Ask for a new link.", icon=":material/link_off:")


def _join_typed() -> None:
    st.session_state["class-refused"] = not classroom.join(st.session_state["class-code"])


def _dead_link() -> bool:
    return bool(st.query_params.get("room"))


def ends() -> None:
    """For a student: a way out."""
    st.button("Leave the class", icon=":material/logout:", on_click=classroom.leave, key="class-leave", type="tertiary")
    shell.link("playground", "Playground: what you ask there counts", icon=":material/forum:")
