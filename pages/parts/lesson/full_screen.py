"""The lesson on a projector: one step fits the window, with the votes, the countdown and how to join beside it."""

from __future__ import annotations

import html
from collections import Counter

import streamlit as st

from pages.parts.common import chart_style, guess, shell
from pages.parts.lesson import classroom_link, classroom_view, picture, progress, quiz, screens
from pages.parts.lesson.questions import QUESTIONS
from pages.parts.lesson.steps import Step
from pages.parts.session import classroom
from pages.parts.session.room_values import AFTER, Counts


def show(number: int, every: tuple[Step, ...]) -> None:
    """The whole view.

    Args:
        number: The place in the lesson.
        every: The five steps.
    """
    _bar(number, len(every))
    step = every[number - 1] if 1 <= number <= len(every) else None
    shown = classroom_view.is_shown(number)
    # The last step shows the votes for every ε, and below them guarantee, measurement and cost. Smaller type in a wider
    # column fits the window.
    dense = number == progress.STEPS and shown
    left, right = st.columns([5, 5 if dense else 3], gap="medium")
    with left, st.container(key="screen-left"):
        _left(number, step, shown=shown)
    with right, st.container(key="screen-right"):
        if classroom.room():
            classroom_view.projected(number, shown=shown, draw=lambda now: _right(now, number, step, shown=shown))
        if step and shown:
            with st.container(key="screen-dense" if dense else "screen-reveal"):
                st.markdown(step.reveal)
        shell.whose_notes()


def _bar(number: int, last: int) -> None:
    """Where the lesson is, what moves it, and the ways out; in a class also its code."""
    where = {progress.BEFORE: "Before", AFTER: "After"}.get(number, f"Step {number} of {last}")
    with st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute", key="screen-bar"
    ):
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            quiz.turn_buttons(number)
            st.markdown(f"**{where}**", width="content")
        with st.container(horizontal=True, vertical_alignment="center", width="content"):
            if classroom.room():
                st.markdown(f"Class **{classroom.room()}**", width="content")
                _lead()
                classroom_view.timer_menu()
            st.button(
                "Leave full screen",
                icon=":material/close_fullscreen:",
                shortcut="Esc",
                key="screen-leave",
                on_click=screens.choose,
                args=("page",),
            )


def _lead() -> None:
    """Whether the class follows; the page's own switch is hidden here."""
    if classroom.leading():
        st.button("Stop leading", icon=":material/groups:", key="screen-lead", on_click=classroom.release)
    else:
        st.button(
            "Lead the class",
            icon=":material/groups:",
            key="screen-lead",
            on_click=classroom.lead,
            args=("lesson", [("step", str(progress.step()))]),
        )


def _left(number: int, step: Step | None, *, shown: bool) -> None:
    if step is None:
        _questions(after=number == AFTER, shown=shown)
    elif shown:
        _answer(number, step)
    else:
        _question(number, step)


def _question(number: int, step: Step) -> None:
    st.header(f"{number}. {step.title}")
    st.markdown(step.question)
    options = "".join(f"<span>{html.escape(option)}</span>" for option in step.answers)
    st.html(f'<div class="screen-options">{options}</div>')
    _show_button(number)


def _show_button(number: int) -> None:
    st.button(
        "Show the answer",
        icon=":material/lightbulb:",
        type="primary",
        shortcut="S",
        key="lesson-show",
        on_click=_reveal,
        args=(number,),
    )


def _reveal(number: int) -> None:
    """The presenter predicts nothing and shows the answer."""
    if number == AFTER:
        classroom.reveal(AFTER)
        return
    guess.keep(progress.key(number), "")
    progress.show(number)


def _answer(number: int, step: Step) -> None:
    st.header(f"{number}. {step.title}")
    if step.right:
        st.markdown(f":material/lightbulb: Answer from these runs. {step.asked}: **{step.right}**")
    with st.container(key="screen-chart"):
        chart = picture.dots(step.picture, step.axis, shares=step.shares, chance=step.chance)
        alt = f"{step.axis}, each with its 95 % interval"
        chart_style.show(chart, key="screen-dots", alt=alt, fills=True)
    with st.container(key="screen-point"):
        st.markdown(f":blue-background[**{step.point}**]")


def _questions(*, after: bool, shown: bool) -> None:
    now = classroom.counts()
    st.header("After the lesson: the same three questions" if after else "Before the lesson: three questions")
    if after and shown and now:
        quiz.picture(now, projected=True)
        return
    if now is None:
        if after and quiz.revealed():
            with st.container(key="screen-own"):
                quiz.own()
        else:
            quiz.ask(after=after)
        return
    for number, question in enumerate(QUESTIONS, start=1):
        st.markdown(f"**{number}. {question.text}**")
    if after:
        _show_button(AFTER)


def _right(now: Counts, number: int, step: Step | None, *, shown: bool) -> None:
    """The votes so far, or the bars; how to join while nothing is shown."""
    if step is None:
        st.markdown(f"**{classroom_view.done(now, number)} of {now.joined}** answered all three")
    elif shown:
        st.html(classroom_view.bars_html(step.answers, now.predictions.get(number, Counter()), step.right))
    else:
        st.markdown(f"**{classroom_view.votes_text(now, number)}** from {classroom_view.joined_text(now)}")
    if not shown:
        _join()


def _join() -> None:
    room = classroom.room()
    assert room is not None  # drawn in a class alone
    url = classroom_link.join_url(room)
    if url is None:
        st.warning("Only this computer can reach the server. Start it with `make class`.", icon=":material/wifi_off:")
    else:
        st.html(f'<div class="screen-join"><b>{html.escape(url)}</b>{classroom_link.qr_html(url)}</div>')
