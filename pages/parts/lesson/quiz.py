"""A session's answers to the three questions: asked before and after the lesson, alone or in a class.

In a class each browser's first answers count, and the right ones stay closed until the presenter shows them. Alone they
are kept in the session and in the link (`before` and `after`, one letter a question, `-` for none).
"""

from __future__ import annotations

from string import ascii_lowercase

import streamlit as st

from pages.parts.common import query_params
from pages.parts.lesson import learned, progress
from pages.parts.lesson.questions import QUESTIONS
from pages.parts.session import classroom
from pages.parts.session.room_values import AFTER, Counts

_NAMES = {False: "before", True: "after"}
_BEGUN, _ROUND = "quiz_begun", "quiz_round"


def turn_buttons(number: int) -> None:
    """Back and Next, from a place of the lesson."""
    st.button(
        "Back",
        icon=":material/arrow_back:",
        shortcut="Left",
        key="lesson-back",
        disabled=number == progress.BEFORE and not can_take_back(),
        on_click=go_back,
    )
    st.button(
        "Next",
        icon=":material/arrow_forward:",
        shortcut="Right",
        key="lesson-next",
        disabled=number == AFTER,
        on_click=progress.go,
        args=(number + 1,),
    )


def begin() -> None:
    """Continue with what the room knows of this browser, else with what the link holds; restart with the class."""
    place = (classroom.room(), classroom.joined_round())
    if st.session_state.get(_ROUND, place) != place and place[0] is not None:
        for after in (False, True):
            st.session_state[_key(after=after)] = {}
    st.session_state[_ROUND] = place
    if _BEGUN not in st.session_state:
        st.session_state[_BEGUN] = True
        now = classroom.counts()
        if not (now and st.query_params.get("round", str(now.round)) != str(now.round)):  # reset since
            for after in (False, True):
                st.session_state[_key(after=after)] = _from_link(after=after)
    kept = classroom.answers()
    for after, chosen in ((False, kept.before), (True, kept.after)):
        for question, option in enumerate(chosen):
            if option is not None:
                _given(after=after)[question] = option


def share() -> None:
    """Write this session's answers into the link."""
    if progress.moved():
        return
    parameters = {}
    for after, name in _NAMES.items():
        given = _given(after=after)
        letters = "".join(
            ascii_lowercase[given[number]] if number in given else "-" for number in range(len(QUESTIONS))
        )
        parameters[name] = letters if given else None
    query_params.write(parameters)


def given(question: int, *, after: bool) -> int | None:
    """The place of the chosen option; None if the question is open."""
    return _given(after=after).get(question)


def done(*, after: bool) -> bool:
    """Whether all three were answered."""
    return len(_given(after=after)) == len(QUESTIONS)


def revealed() -> bool:
    """Whether the right answers are shown: alone at once, in a class by the presenter."""
    now = classroom.counts()
    return done(after=True) if now is None else AFTER in now.revealed


def closed(*, after: bool) -> bool:
    """Whether it is too late to answer: before, once an answer of the lesson was seen; after, once these are shown."""
    if after:
        return revealed()
    now = classroom.counts()
    in_class = now is not None and bool(now.revealed or classroom.answers().predictions)
    return in_class or progress.any_shown() or bool(_given(after=True))


def can_take_back() -> bool:
    """Whether Back takes back an answer to the questions before the lesson.

    Only alone: in a class the first answer of each browser counts, and its room keeps it.
    """
    answered = progress.step() == progress.BEFORE and bool(_given(after=False))
    return answered and classroom.room() is None and not closed(after=False)


def go_back() -> None:
    """Take back the last answer before the lesson, else go one place back."""
    if can_take_back():
        answers = _given(after=False)
        del answers[max(answers)]
    else:
        progress.go(progress.step() - 1)


def ask(*, after: bool) -> None:
    """The first open question with a button for each option; when all are answered or closed, a sentence."""
    number = next((number for number in range(len(QUESTIONS)) if given(number, after=after) is None), None)
    if number is None:
        thanks = "Thank you." if after else "Thank you. You will get the same questions at the end."
        st.markdown(f":material/check_circle: {thanks}")
        if after and not revealed():
            st.caption("The presenter will show what the class learned.")
        return
    if closed(after=after):
        if not after:
            st.caption("You have already seen an answer in the lesson, so these questions are closed.")
        return
    question = QUESTIONS[number]
    st.caption(f"Question {number + 1} of {len(QUESTIONS)}")
    st.markdown(f"**{question.text}**")
    with st.container(key="options"):
        for place, option in enumerate(question.options):
            st.button(
                option,
                key=f"quiz-{_NAMES[after]}-{number}-{place}",
                width="stretch",
                on_click=_answer,
                args=(number, place),
                kwargs={"after": after},
            )


def own() -> None:
    """One's own answers before and after, with the right one and why."""
    for number, question in enumerate(QUESTIONS):
        first, second = (given(number, after=after) for after in (False, True))
        st.markdown(f"**{number + 1}. {question.text}**")
        mine = [
            f"{when}: {question.options[chosen]}{' ✓' if chosen == question.right else ''}"
            for when, chosen in (("before", first), ("after", second))
            if chosen is not None
        ]
        told = f"You chose {'; '.join(mine)}. " if mine else ""
        st.markdown(f"{told}Right: **{question.options[question.right]}**.")
        st.markdown(question.why)


def picture(now: Counts, *, projected: bool = False) -> None:
    """What the class learned: a chart, and a sentence for each question."""
    learned.show(learned.tables(now.learned), projected=projected)


def _answer(question: int, option: int, *, after: bool) -> None:
    """Keep the first answer; in a class only if the room takes it."""
    if question in _given(after=after) or closed(after=after):
        return
    if classroom.room() is None or classroom.answered(question, option, after=after):
        _given(after=after)[question] = option


def _key(*, after: bool) -> str:
    return f"quiz_{_NAMES[after]}"


def _given(*, after: bool) -> dict[int, int]:
    return st.session_state.setdefault(_key(after=after), {})


def _from_link(*, after: bool) -> dict[int, int]:
    """The answers in the link; letters that name no option are ignored."""
    letters = st.query_params.get(_NAMES[after], "")
    found = {number: ascii_lowercase.find(letter) for number, letter in enumerate(letters[: len(QUESTIONS)])}
    return {number: place for number, place in found.items() if 0 <= place < len(QUESTIONS[number].options)}
