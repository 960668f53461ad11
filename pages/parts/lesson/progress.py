"""A session's progress in the lesson: its step, its predictions, and the answers it has seen. Kept in the link too.

The five steps are places 1 to 5. At place 0 and at place 6 (`AFTER`) three questions are asked (`lesson.quiz`).

In the link: `step` (the place), `guesses` (one letter per step, `-` for none), `shown` (the steps whose answer was
seen), and in a class `room`, `round` and, for the presenter, `host`. At place 0 there is no `step`, so that the
browser's Back button leaves the lesson from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

import streamlit as st

from pages.parts.common import guess, query_params, shell
from pages.parts.session import classroom
from pages.parts.session.room_values import AFTER

STEPS, BEFORE = 5, 0
PLACES = "0123456"  # as the link names them
_AT, _SHOWN, _BEGUN, _LED = "lesson_step", "lesson_shown", "lesson_begun", "lesson_led"
_LINK, _MOVED = "lesson_link", "lesson_moved"
_IN_LINK = ("step", "guesses", "shown", "before", "after")  # the last two are written by `quiz`


def begin(answers: Sequence[Sequence[str]]) -> None:
    """Continue the lesson where the link or the session left off; restart it if the presenter has reset the class.

    Args:
        answers: The possible answers of each step.
    """
    if _BEGUN not in st.session_state:
        st.session_state[_BEGUN] = True
        _restore(answers)
    else:
        _adopt()
    now = classroom.counts()
    if now and now.round != classroom.joined_round():
        restart()
        classroom.next_round()
    _resume()
    _follow()
    if guess.given(key(step())) == "" and classroom.locked(step()):
        guess.forget(key(step()))  # skipped before the presenter led: it can still be voted on
    if classroom.room() and classroom.host_key() is None:
        _count(answers)


def _count(answers: Sequence[Sequence[str]]) -> None:
    """Take back what this browser predicted before it was reloaded, and count what it predicted since."""
    before = classroom.answers().predictions
    for number, options in enumerate(answers, start=1):
        if before.get(number) in options:
            guess.keep(key(number), before[number])
        given = guess.given(key(number))
        if given:
            classroom.predicted(number, given)


def _adopt() -> None:
    """Go where the link leads if it has changed by itself: by the browser's Back or Forward button.

    Without a place it leads to the start, unless the reader comes from another page: the menu's link has no place, and
    continues the lesson. Predictions are kept, since a class has counted them.
    """
    asked, before = st.query_params.get("step"), st.session_state.get(_LINK)
    moved = before is not None and _link() != before and (asked is not None or shell.same_page())
    st.session_state[_MOVED] = moved
    if moved:
        _go_to(asked or "")
        st.session_state[_SHOWN] = _linked_shown()


def moved() -> bool:
    """Whether a Back button led here. Then nothing is written into the link: a new entry would undo the button."""
    return bool(st.session_state.get(_MOVED))


def keep_link() -> None:
    """Remember the link as this run leaves it, so that the next one notices a Back button."""
    st.session_state[_LINK] = _link()


def _link() -> tuple[str | None, ...]:
    return tuple(st.query_params.get(name) for name in _IN_LINK)


def _linked_shown() -> set[int]:
    return {int(number) for number in st.query_params.get("shown", "") if number in "12345"}


def _resume() -> None:
    """A presenter who comes back continues where the class is: their link may be older, and all would follow it."""
    now = classroom.counts()
    if classroom.returned() and now and now.lead and now.step is not None:
        go(now.step)


def _follow() -> None:
    """Go to the presenter's place, if they lead or sent everybody there, and that is news."""
    lead = classroom.target()
    if lead is None or lead.page != "lesson":
        return
    if st.session_state.get(_LED) != (classroom.room(), lead.number):
        st.session_state[_LED] = (classroom.room(), lead.number)
        _go_to(dict(lead.query).get("step", ""))


def behind() -> bool:
    """Whether the presenter has moved on in the lesson since this page was drawn."""
    lead = classroom.target()
    if lead is None or lead.page != "lesson":
        return False
    return st.session_state.get(_LED) != (classroom.room(), lead.number)


def _go_to(asked: str) -> None:
    """Go to the place that a link names; to the start if there is none of that name."""
    go(int(asked) if asked in PLACES and asked else BEFORE)


def key(number: int) -> str:
    """The key under which a step's guess is kept."""
    return f"lesson-{number}"


def step() -> int:
    """The current place: 1 to 5 for a step, 0 before and 6 after them."""
    return st.session_state.get(_AT, BEFORE)


def go(number: int) -> None:
    """Go to a place; numbers beyond the ends are clipped."""
    st.session_state[_AT] = min(max(number, BEFORE), AFTER)


def show(number: int) -> None:
    """Show the answer of a step."""
    st.session_state[_SHOWN] = {*st.session_state.get(_SHOWN, ()), number}


def shown(number: int) -> bool:
    """Whether the answer of a step is shown: at once after a skipped guess, or when a presenter who leads shows it."""
    if classroom.locked(number):
        return False
    if classroom.revealed(number):
        return True
    return number in st.session_state.get(_SHOWN, ()) or guess.given(key(number)) == ""


def any_shown() -> bool:
    """Whether this session has seen the answer of a step."""
    return any(shown(number) for number in range(1, STEPS + 1))


def restart() -> None:
    """Forget every guess and go to the start."""
    for number in range(1, STEPS + 1):
        guess.forget(key(number))
    st.session_state[_AT], st.session_state[_SHOWN] = BEFORE, set()


def share(answers: Sequence[Sequence[str]]) -> None:
    """Write this session's progress into the link."""
    letters = ""
    for number, options in enumerate(answers, start=1):
        given = guess.given(key(number))
        letters += ascii_lowercase[options.index(given)] if given in options else "-"
    parameters = {
        "step": str(step()) if step() != BEFORE or st.query_params.get("step") == str(BEFORE) else None,
        "guesses": letters if letters.strip("-") else None,
        "shown": "".join(str(number) for number in range(1, STEPS + 1) if shown(number)) or None,
        "room": classroom.room(),
        "round": None if classroom.room() is None else str(classroom.joined_round()),
        "host": classroom.host_key(),
    }
    if not moved():
        query_params.write(parameters)
    if classroom.leading():
        classroom.lead("lesson", [("step", str(step()))])
        if 1 <= step() <= STEPS and shown(step()):
            classroom.reveal(step())


def _restore(answers: Sequence[Sequence[str]]) -> None:
    """Read the progress from the link; invalid parts are ignored."""
    _go_to(st.query_params.get("step", ""))
    now = classroom.counts()
    if now and st.query_params.get("round", str(now.round)) != str(now.round):
        return  # the class was reset since
    given = set()
    for number, (options, letter) in enumerate(zip(answers, st.query_params.get("guesses", ""), strict=False), start=1):
        place = ascii_lowercase.find(letter)
        if 0 <= place < len(options):
            guess.keep(key(number), options[place])
            given.add(number)
    st.session_state[_SHOWN] = _linked_shown()
    for number in st.session_state[_SHOWN] - given:
        guess.keep(key(number), "")  # the answer was shown without a guess
    if now and "round" in st.query_params:
        classroom.has_counted(given)
