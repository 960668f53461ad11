"""The class that this browser session is in: joining a room, and what it counts for the session.

`rooms.Classroom` holds the counts of every room; here are the functions that pages call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import streamlit as st

from core.common.database import DatabaseUnusable
from core.jobs.limits import NOBODY, Limits
from pages.parts.access import viewer
from pages.parts.session import instructor, resources, seat
from pages.parts.session.room_values import Answers, Audited, Counts, Lead, Tries, Verdicts, Vote
from pages.parts.session.rooms import Classroom, RoomGone, RoomsFull

_ROOM, _HOST, _ROUND, _COUNTED = "class_room", "class_host", "class_round", "class_counted"
_VERDICTS = "class_verdicts"  # what `verdicts` gave when the room was last read
_SINCE, _ON_SCREEN = "class_since", "class_on_screen"
_RETURNED = "class_returned"  # whether this session is a presenter's again, until the lesson has asked
# Parameters that are a session's own.
_PRIVATE = ("room", "host", "round", "guesses", "shown", "presenter", "guess", "screen", "before", "after")
# Sent by “Show the class” alone, never by leading: the page would answer the prompt in its link.
_ANSWERED = {"playground": ("prompt", "first")}
MOST_PARAMETERS, MOST_LETTERS = 40, 2_000  # of the presenter's link; a prompt is the longest


def classroom() -> Classroom:
    """The rooms of this server's data folder, shared by all browsers and by the folder's other servers."""
    return rooms_of(str(resources.data()))


@resources.process_object
def rooms_of(root: str) -> Classroom:
    """The rooms of a data folder."""
    return Classroom(Path(root))


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Say in one sentence why a class cannot be read or changed; say nothing if its room was removed just now."""
    try:
        yield
    except RoomGone:
        pass
    except RoomsFull as error:
        managed = Limits.of().key not in ("", NOBODY)
        hint = " With the instructor's key (on Train) you can still open one." if managed else ""
        st.toast(f"{error}{hint}", icon=":material/error:", duration="long")
    except DatabaseUnusable as error:
        st.toast(
            f"The class could not be reached, so this may not be counted. {error} Try again.",
            icon=":material/error:",
            duration="long",
        )


def enter(page: str) -> None:
    """Join the room in the link (`?room=CODE`), once per session. Every page calls this through `shell.page`.

    With the host's key (`&host=KEY`), the session is the presenter's again and not a student's, also if it has joined
    already: the presenter may have reloaded a page without the key, and gone back to one with it. A link with a round
    (`&round=2`) belongs to a page that was reloaded; its browser was counted when it joined, also one that keeps no
    cookie (`seat`).

    Args:
        page: The page's short name.
    """
    code, number = (st.query_params.get(name, "") for name in ("room", "round"))
    code = code.upper()
    joined = bool(code) and code == st.session_state.get(_ROOM)
    if not code or (joined and st.session_state.get(_HOST)):
        return
    with _told():
        if code not in classroom():
            return
        key = _presenters_key(code, page, joined=joined)
        if key:
            _take(code, key, classroom().counts(code).round)
            st.session_state[_RETURNED] = True
        elif joined:
            return
        elif number.isdecimal() and len(number) < 9:
            _take(code, None, int(number))
        else:
            join(code)


def _presenters_key(code: str, page: str, *, joined: bool) -> str | None:
    """The host's key in the link, or that of a browser which has presented the room and reloads a page.

    Only the lesson's address holds a key: presenters share their screen. There a link without one is a student's, with
    which the presenter rehearses in the same browser.
    """
    key = st.query_params.get("host", "")
    if not viewer.may("host"):
        return None
    if key and classroom().hosts(code, key):
        return key
    return None if joined or page == "lesson" else classroom().key_of(code, seat.seat())


def returned() -> bool:
    """Whether this session is a presenter's again since the last call."""
    return bool(st.session_state.pop(_RETURNED, False))


def join(code: str) -> bool:
    """Put this session into a room; False, without any effect, if there is no room with that code.

    Also False for those who are not let in: a button's callback runs before the page asks who is there.
    """
    if not viewer.standing().admitted:
        return False
    code = code.strip().upper()
    with _told():
        _take(code, None, classroom().join(code, seat.seat()))
        return True
    return False


def open_room() -> None:
    """Open a room; this session is its host and not a student. A message says so if the viewer may not.

    The instructor of a class can open one even if students have opened as many as there may be.
    """
    if viewer.refused("host"):
        return
    with _told():
        _take(*classroom().open(in_any_case=instructor.manages()), 0)


def _take(code: str, key: str | None, number: int) -> None:
    st.session_state[_ROOM], st.session_state[_HOST] = code, key
    st.session_state[_ROUND], st.session_state[_COUNTED] = number, set()
    sent = classroom().counts(code).sent
    st.session_state[_SINCE] = sent.number if sent else 0
    if key:
        classroom().present(code, key, seat.seat())


def leave() -> None:
    """Remove this session from its room; its counts stay. A presenter who leaves does not lead any more."""
    if host_key():
        release()
    for name in (_ROOM, _HOST, _ROUND, _COUNTED, _SINCE, _VERDICTS):
        st.session_state.pop(name, None)
    for name in ("room", "round", "host"):
        st.query_params.pop(name, None)


def room() -> str | None:
    """The code of this session's room; None if it is in none, the room is gone, or its viewer has signed out.

    Every vote asks this first: a button's callback runs before the page asks who is there.
    """
    code = st.session_state.get(_ROOM)
    with _told():
        return code if code is not None and code in classroom() and viewer.standing().admitted else None
    return None


def host_key() -> str | None:
    """The host's key, if this session opened its room and its viewer may host one."""
    key = st.session_state.get(_HOST) if room() else None
    return key if key and viewer.may("host") else None


def _by_host(change: Callable[[Classroom, str], object]) -> None:
    """Change this session's room, if it is its host's."""
    code, key = room(), host_key()
    with _told():
        if code and key and classroom().hosts(code, key):
            change(classroom(), code)


def counts() -> Counts | None:
    """The counts of this session's room."""
    code = room()
    with _told():
        return classroom().counts(code) if code else None
    return None


def predicted(step: int, answer: str) -> None:
    """Count this session's prediction of a step, once."""
    code = room()
    with _told():
        if code and step not in st.session_state[_COUNTED] and classroom().predict(code, seat.seat(), step, answer):
            st.session_state[_COUNTED].add(step)


def counted(step: int) -> bool:
    """Whether this browser's prediction of a step is counted."""
    return step in st.session_state.get(_COUNTED, ()) or step in answers().predictions


def answers() -> Answers:
    """What this browser has answered in its room's present round; nothing outside a room."""
    code = room()
    with _told():
        return classroom().answers(code, seat.seat()) if code else Answers()
    return Answers()


def answered(question: int, option: int, *, after: bool) -> bool:
    """Keep this browser's answer to one of the three questions; whether it was still open. False outside a room."""
    code = room()
    with _told():
        return bool(code) and classroom().answer(str(code), seat.seat(), question, option, after=after)
    return False


def has_counted(steps: set[int]) -> None:
    """Mark these predictions as counted: they were, before this browser reloaded the page."""
    st.session_state.setdefault(_COUNTED, set()).update(steps)


def unseen(samples: Sequence[object]) -> list[bool]:
    """Whether each sample is new to this session's room, which then knows it; False outside a room."""
    code = room()
    with _told():
        if code:
            return classroom().unseen(code, samples)
    return [False] * len(samples)


def tried(run_id: str, tries: Tries) -> None:
    """Count the samples that a model wrote for this session."""
    code = room()
    if code and tries.samples:
        with _told():
            classroom().add_tries(code, run_id, tries)


def leading() -> bool:
    """Whether the presenter leads this session's room: students follow, and answers wait for the presenter."""
    now = counts()
    return now is not None and now.lead is not None


def lead(page: str, query: Iterable[tuple[str, str]]) -> None:
    """Tell those who follow where the presenter is; only the host can."""
    place = [(name, value) for name, value in _shared(query) if name not in _ANSWERED.get(page, ())]
    _by_host(lambda rooms, code: rooms.lead(code, page, place))


def release() -> None:
    """Let everyone go their own way; only the host can."""
    _by_host(lambda rooms, code: rooms.release(code))


def send(page: str, query: Iterable[tuple[str, str]]) -> None:
    """Send everybody to exactly this page and these settings; only the host can."""
    _by_host(lambda rooms, code: rooms.send(code, page, _shared(query)))


def _shared(query: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What others may get of the presenter's link."""
    shared = [(name, value) for name, value in query if name not in _PRIVATE and len(name) + len(value) <= MOST_LETTERS]
    return shared[:MOST_PARAMETERS]


def target() -> Lead | None:
    """Where the presenter wants this session to be: their place while they lead, or what they sent since it joined."""
    now = counts()
    if now is None or host_key():
        return None
    sent = now.sent if now.sent and now.sent.number > st.session_state.get(_SINCE, 0) else None
    return max(filter(None, (now.lead, sent)), key=lambda lead: lead.number, default=None)


def on_screen(**shown: str) -> None:
    """A part of the page tells what it shows beyond the link's parameters, so that `send` can pass it on."""
    st.session_state.setdefault(_ON_SCREEN, {}).update(shown)


def shown_on_screen() -> dict[str, str]:
    """What parts of the page have told since `clear_screen`."""
    return st.session_state.get(_ON_SCREEN, {})


def clear_screen() -> None:
    """A page is drawn anew."""
    st.session_state[_ON_SCREEN] = {}


def reveal(step: int) -> None:
    """Show everyone the answer of a step; only the host can."""
    _by_host(lambda rooms, code: rooms.reveal(code, step))


def locked(step: int) -> bool:
    """Whether the answer of a step waits for the presenter."""
    now = counts()
    return now is not None and now.lead is not None and not host_key() and step not in now.revealed


def revealed(step: int) -> bool:
    """Whether the presenter has shown everyone the answer of a step."""
    now = counts()
    return now is not None and now.lead is not None and step in now.revealed


def veil(hidden: bool) -> None:
    """Hide the verdicts on Findings from the class, or show them; only the host can."""
    _by_host(lambda rooms, code: rooms.veil(code, hidden))


def verdicts() -> Verdicts | None:
    """What the presenter did with the verdicts on Findings; as last known, while the room cannot be read.

    They are hidden only while the presenter leads. Verdicts that were shown stay, and None means neither.
    """
    code = st.session_state.get(_ROOM)
    if code is None or not viewer.standing().admitted:
        return None
    try:
        now = classroom().counts(code)
    except RoomGone:
        return None
    except DatabaseUnusable:
        return st.session_state.get(_VERDICTS)
    found = None if now.verdicts == "hidden" and now.lead is None else now.verdicts
    st.session_state[_VERDICTS] = found
    return found


def count_down(seconds: float | None) -> None:
    """Start a countdown that everyone sees, or end it (None); only the host can."""
    _by_host(lambda rooms, code: rooms.count_down(code, seconds))


def choose(audited: Audited) -> None:
    """Let the class guess about this model; only its host can."""
    _by_host(lambda rooms, code: rooms.choose(code, audited))


def deal(hospital: str, number: int) -> tuple[bytes, range] | None:
    """The next notes of a hospital's deck for this session; None outside a room."""
    code = room()
    with _told():
        return classroom().deal(code, hospital, number) if code else None
    return None


def voted(run_id: str, vote: Vote) -> None:
    """Count this session's guess for its room, if the room's round is still the session's."""
    code = room()
    if code:
        with _told():
            classroom().vote(code, run_id, vote, joined_round())


def joined_round() -> int | None:
    """The round that this session is in; lower than that of `counts` after the presenter has reset the room."""
    return st.session_state.get(_ROUND) if room() else None


def next_round() -> None:
    """Move to the room's current round, with nothing counted yet."""
    now = counts()
    if now:
        st.session_state[_ROUND], st.session_state[_COUNTED] = now.round, set()


def reset() -> None:
    """Clear the room's counts; only its host can."""
    _by_host(lambda rooms, code: rooms.reset(code))
