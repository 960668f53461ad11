"""How far a session is in the lesson: which step, what it predicted, what it has been shown. Kept in the link too.

In the link: `step` (1 to 5), `guesses` (a letter a step, `-` for none), `shown` (the steps whose answer was seen), and
in a class `room`, `round` and, for the presenter, `host`.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase

import streamlit as st

from pages.parts.common import guess
from pages.parts.session import classroom

STEPS = 5
_AT, _SHOWN, _BEGUN = "lesson_step", "lesson_shown", "lesson_begun"


def begin(answers: Sequence[Sequence[str]]) -> None:
    """Take up the lesson where the link or the session left it. `answers` are the possible ones of each step.

    A class that its presenter has emptied begins again.
    """
    if _BEGUN not in st.session_state:
        st.session_state[_BEGUN] = True
        _restore(answers)
    now = classroom.counts()
    if now and now.round != classroom.joined_round():
        restart()
        classroom.next_round()
    if classroom.host_key() is None:
        for number in range(1, STEPS + 1):
            given = guess.given(key(number))
            if given:
                classroom.predicted(number, given)


def key(number: int) -> str:
    """The name under which a step's guess is kept."""
    return f"lesson-{number}"


def step() -> int:
    """The step on screen, from 1."""
    return st.session_state.get(_AT, 1)


def go(number: int) -> None:
    """Turn to a step; beyond the ends nothing happens."""
    st.session_state[_AT] = min(max(number, 1), STEPS)


def show(number: int) -> None:
    """Give the answer of a step away."""
    st.session_state[_SHOWN] = {*st.session_state.get(_SHOWN, ()), number}


def shown(number: int) -> bool:
    """Whether the answer of a step may be seen; who asked for it without a guess sees it at once."""
    return number in st.session_state.get(_SHOWN, ()) or guess.given(key(number)) == ""


def restart() -> None:
    """Forget every guess and go to step 1."""
    for number in range(1, STEPS + 1):
        guess.forget(key(number))
    st.session_state[_AT], st.session_state[_SHOWN] = 1, set()


def share(answers: Sequence[Sequence[str]]) -> None:
    """Write into the link where this session is."""
    letters = ""
    for number, options in enumerate(answers, start=1):
        given = guess.given(key(number))
        letters += ascii_lowercase[options.index(given)] if given in options else "-"
    told = {
        "step": str(step()),
        "guesses": letters if letters.strip("-") else None,
        "shown": "".join(str(number) for number in range(1, STEPS + 1) if shown(number)) or None,
        "room": classroom.room(),
        "round": None if classroom.room() is None else str(classroom.joined_round()),
        "host": classroom.host_key(),
    }
    for name, value in told.items():
        if value is None:
            st.query_params.pop(name, None)
        elif st.query_params.get(name) != value:
            st.query_params[name] = value


def _restore(answers: Sequence[Sequence[str]]) -> None:
    """Read the link; whatever does not fit is passed over."""
    asked = st.query_params.get("step", "")
    go(int(asked) if asked in "12345" and asked else 1)
    now = classroom.counts()
    if now and st.query_params.get("round", str(now.round)) != str(now.round):
        return  # the class has begun again since
    given = set()
    for number, (options, letter) in enumerate(zip(answers, st.query_params.get("guesses", ""), strict=False), start=1):
        place = ascii_lowercase.find(letter)
        if 0 <= place < len(options):
            guess.keep(key(number), options[place])
            given.add(number)
    st.session_state[_SHOWN] = {int(number) for number in st.query_params.get("shown", "") if number in "12345"}
    for number in st.session_state[_SHOWN] - given:
        guess.keep(key(number), "")  # seen without a guess
    if now and "round" in st.query_params:
        classroom.has_counted(given)
