"""The class on screen: the counted predictions, how often the models leaked for the class, and how to join."""

from __future__ import annotations

import html
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

import streamlit as st

from pages.parts.access import gate, viewer
from pages.parts.common import shell
from pages.parts.lesson import classroom_link, progress, screens
from pages.parts.pickers import run_picker
from pages.parts.playground import leak_counts
from pages.parts.session import classroom
from pages.parts.session.room_values import AFTER, Counts, Tries

EVERY_SECONDS = {"host": 2.0, "student": 2.0}
COUNTDOWNS = (30, 60, 120)  # seconds


def bars_html(answers: Sequence[str], counted: Counter[str], right: str | None = None) -> str:
    """How often each answer was given, as bars; the right one has a tick. All text is escaped."""
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


def tries_html(tries: dict[str, Tries]) -> str:
    """How often each model leaked for the whole class, next to the count for held-out patients."""
    runs = {run.id: run for run in run_picker.promptable()}
    names = run_picker.labels([runs[run_id] for run_id in tries if run_id in runs])
    rows = [
        "".join(f"<td>{cell}</td>" for cell in (html.escape(name), *leak_counts.cells(tries[run_id], runs[run_id])))
        for run_id, name in names.items()
    ]
    if not rows:
        return "<p>No text yet. Samples that the class generates in the Playground are counted here.</p>"
    titles = ("the whole class", "samples with a leak", "share (95\u00a0% interval)", "control")
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<table class="tally"><tr>{head}</tr>{body}</table>'


def live(step: int, answers: Sequence[str], right: str | None, *, shown: bool) -> None:
    """The room's counts for the current step, redrawn every few seconds."""
    who = "host" if classroom.host_key() else "student"
    gate.fragment(_live, run_every=EVERY_SECONDS[who])(step, answers, right, shown, classroom.leading())


def _live(step: int, answers: Sequence[str], right: str | None, shown: bool, led: bool) -> None:
    now = _current(step, shown, led)
    if now is None:
        return
    _countdown(now.ends)
    joined = f" · {joined_text(now)} joined" if classroom.host_key() else ""
    st.markdown(f"**Class {classroom.room()}**{joined}")
    votes, hidden = st.container(), True
    if classroom.host_key():  # the switch comes after the votes, which are then above the fold
        hidden = st.toggle("Hide the bars until the answer is shown", True, key="hide_bars", persist_state="session")
    with votes:
        if hidden and not shown:
            st.markdown(f"{votes_text(now, step)}. The bars appear with the answer.")
        else:
            st.html(bars_html(answers, now.predictions.get(step, Counter()), right if shown else None))
    st.html(tries_html(now.tries))


def votes_text(now: Counts, step: int) -> str:
    """`12 predictions so far`."""
    total = now.predictions.get(step, Counter()).total()
    return f"{total} prediction{'' if total == 1 else 's'} so far"


def joined_text(now: Counts) -> str:
    """`12 browsers`."""
    return f"{now.joined} browser{'' if now.joined == 1 else 's'}"


def _current(place: int, shown: bool, led: bool) -> Counts | None:
    """The room's counts; draws the page again if it is no longer what the class is at.

    Args:
        place: The place in the lesson that was drawn.
        shown: Whether its answer was drawn.
        led: Whether the presenter led then. Buttons depend on it, such as Back and Next.
    """
    now = classroom.counts()
    if (
        now is None  # the room is gone
        or now.round != classroom.joined_round()  # it was reset
        or (now.lead is not None) != led
        or progress.behind()
        or is_shown(place) != shown
    ):
        st.rerun(scope="app")
    return now


def is_shown(place: int) -> bool:
    """Whether the answer at this place is shown."""
    if place == AFTER:
        now = classroom.counts()
        return now is not None and AFTER in now.revealed
    return 1 <= place <= progress.STEPS and progress.shown(place)


def watch(place: int) -> None:
    """For a student: the countdown, and a look every two seconds whether the class has moved on."""
    gate.fragment(_watch, run_every=EVERY_SECONDS["student"])(place, is_shown(place), classroom.leading())


def _watch(place: int, shown: bool, led: bool) -> None:
    now = _current(place, shown, led)
    if now:
        _countdown(now.ends)


def bars(step: int, answers: Sequence[str], right: str | None) -> None:
    """The votes of a step whose answer is shown, redrawn every few seconds."""
    gate.fragment(_bars, run_every=EVERY_SECONDS["student"])(step, answers, right)


def _bars(step: int, answers: Sequence[str], right: str | None) -> None:
    now = classroom.counts()
    if now:
        st.html(bars_html(answers, now.predictions.get(step, Counter()), right))


def answered_so_far(place: int) -> None:
    """Before and after the lesson: how many have answered the three questions, redrawn every few seconds."""
    who = "host" if classroom.host_key() else "student"
    gate.fragment(_answered, run_every=EVERY_SECONDS[who])(place, is_shown(place), classroom.leading())


def _answered(place: int, shown: bool, led: bool) -> None:
    now = _current(place, shown, led)
    if now is None:
        return
    _countdown(now.ends)
    st.markdown(f"**Class {classroom.room()}** · {joined_text(now)} joined")
    st.markdown(f"{done(now, place)} answered all three questions")


def done(now: Counts, place: int) -> int:
    """How many browsers have answered all three questions before or after the lesson."""
    return sum(None not in pair[place == AFTER] for pair in now.learned)


def projected(place: int, *, shown: bool, draw: Callable[[Counts], None]) -> None:
    """For the full screen: the countdown in large figures, and what `draw` makes of the counts, every few seconds."""
    led = classroom.leading()

    def live() -> None:
        now = _current(place, shown, led)
        if now is None:
            return
        if told := _left_text(now.ends):
            st.html(f'<div class="screen-clock">{told}</div>')
        draw(now)

    gate.fragment(live, run_every=EVERY_SECONDS["host"])()


def timers() -> None:
    """For the presenter: what starts a countdown."""
    for choice in COUNTDOWNS:
        st.button(
            f"{choice} s", icon=":material/timer:", key=f"timer-{choice}", on_click=classroom.count_down, args=(choice,)
        )


def timer_menu() -> None:
    """The same as one button, for the full screen."""
    icon, key = ":material/timer:", "screen-timer"
    chosen = st.menu_button("Timer", COUNTDOWNS, key=key, icon=icon, format_func="{} s".format)
    if chosen is not None:
        classroom.count_down(chosen)


def _countdown(ends: float | None) -> None:
    """The seconds that are left to vote, and for the presenter what starts and ends them."""
    if classroom.host_key():
        with st.container(horizontal=True, vertical_alignment="center"):
            timers()
    if told := _left_text(ends):
        st.markdown(f":material/timer: **{told}**")


def _left_text(ends: float | None) -> str:
    """`12 seconds left`; empty if no countdown runs."""
    seconds = None if ends is None else ends - time.time()
    if seconds is None or seconds < -10:
        return ""
    return f"{math.ceil(seconds)} seconds left" if seconds > 0 else "Time is up"


def host_panel() -> None:
    """For the presenter: the join link with its QR code, and buttons to restart the class and to leave it."""
    room = classroom.room()
    assert room is not None  # who has a room's key is in it
    url = classroom_link.join_url(room)
    if url is None:
        if classroom_link.listens_only_here():
            short = "use `make class`"
            reason = (
                "This server is reachable only from this computer. Stop it (Ctrl-C) and start it with `make class`."
            )
        else:
            short = "no network"
            reason = "This computer is not connected to a network, so no other device can reach it."
        # One line, without the box of `st.warning`: at 1280 × 800 the votes below stay above the fold.
        st.markdown(f":orange[:material/wifi_off: **Students cannot join: {short}.**]", help=reason)
    else:
        st.html(f'<p class="join"><b>{html.escape(url)}</b></p>{classroom_link.qr_html(url)}')
        who = "Anyone on this network can open it, without a password or a name."
        if viewer.standing().required:
            who = "People on this server's list can open it after they have signed in."
        st.caption(f"{who} Only counts are kept, for at most 12 hours after the class.")
    with st.container(horizontal=True):
        _restart()
        st.link_button(
            "View as a student",
            f"lesson?room={room}",
            icon=":material/school:",
            help="Opens the student view in a new tab, so you can rehearse before anyone joins.",
        )
        _leave()


def _restart() -> None:
    """A button that asks once more, because deleted votes are lost."""
    # The key changes with the round, so that the popover closes after the click.
    key = f"class-restart-{classroom.joined_round()}"
    with st.popover("Restart the class", icon=":material/restart_alt:", key=key):
        st.markdown("Deletes all votes and counts. Everyone who joined starts again with the three questions.")
        st.button(
            "Restart and delete all votes",
            icon=":material/delete:",
            type="primary",
            on_click=classroom.reset,
            key="class-reset",
        )


def _leave() -> None:
    """Asks once more: without the key in the address, the presenter cannot lead the class again."""
    with st.popover("Leave the class", icon=":material/logout:", key="class-leave-menu"):
        st.markdown(
            "The class stays open without you. To lead it again, open your address with `host=` from the browser's "
            "history."
        )
        st.button("Leave and stop leading", icon=":material/logout:", on_click=classroom.leave, key="class-leave")


def class_menu() -> None:
    """Outside a class: open one, or join one by its code."""
    with st.popover("Class", icon=":material/groups:"):
        st.markdown(
            "To teach, open a class. Students join it by a link, and their predictions and leaks are counted here."
        )
        locked, icon = viewer.locked("host"), ":material/co_present:"
        st.button("Open a class", icon=icon, on_click=classroom.open_room, key="class-open", **locked)
        st.divider()
        refused = st.session_state.pop("class-refused", False)
        if refused:  # in the popover, which stays open, and above the box: below it a phone would have to scroll
            _no_class("Check the code.")
        with st.form("class-form", border=False):  # Enter sends it
            # No limit: the browser drops a longer paste whole.
            st.text_input("Or join with a class code", key="class-code")
            st.form_submit_button("Join", icon=":material/login:", on_click=_join_typed, key="class-join")
    if st.query_params.get("room") and not refused:
        _no_class("Ask for a new link.")


def _no_class(remedy: str) -> None:
    st.warning(f"There is no class with that code on this server. {remedy}", icon=":material/link_off:")


def _join_typed() -> None:
    st.session_state["class-refused"] = not classroom.join(st.session_state["class-code"])


def student_links() -> None:
    """For a student: back to the view for voting, leave the class, or go to the Playground."""
    st.button("Voting view", icon=":material/how_to_vote:", on_click=screens.choose, args=("vote",), key="see-vote")
    st.button("Leave the class", icon=":material/logout:", on_click=classroom.leave, key="class-leave", type="tertiary")
    shell.link("playground", "Playground: your samples there are counted", icon=":material/forum:")
