"""Lesson: five steps, alone or with a class. In each you predict, look, see the answer and read why."""

from __future__ import annotations

import streamlit as st

from pages.parts.common import chart_style, guess, layout, shell
from pages.parts.common.data_table import data_table
from pages.parts.lesson import classroom_view, picture, progress
from pages.parts.lesson.figures import Figures, figures
from pages.parts.lesson.steps import Step, steps
from pages.parts.session import classroom

shell.page(
    "Lesson",
    "What does a model remember about patients, and what limits that? Five steps: predict, look, check your answer.",
    icon=":material/school:",
)


def bar(number: int, every: tuple[Step, ...]) -> None:
    """The step's number, and the buttons Back and Next."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Back",
            icon=":material/arrow_back:",
            shortcut="Left",
            key="lesson-back",
            disabled=number == 1,
            on_click=progress.go,
            args=(number - 1,),
        )
        st.button(
            "Next",
            icon=":material/arrow_forward:",
            shortcut="Right",
            key="lesson-next",
            disabled=number == len(every),
            on_click=progress.go,
            args=(number + 1,),
        )
        st.progress(number / len(every), text=f"Step {number} of {len(every)}", width=240)
        if classroom.room() is None:
            classroom_view.class_menu()


def look(step: Step) -> None:
    """Links to the pages where the answer can be seen."""
    for place in step.looks:
        room = classroom.room()
        query = {**place.query, "room": room} if room else place.query
        st.markdown(f":material/visibility: {place.task}")
        st.page_link(shell.pages()[place.page], label=place.label, icon=":material/open_in_new:", query_params=query)


def answer(number: int, step: Step, given: str) -> None:
    """The answer with its explanation, chart and table."""
    if step.right:
        guess.show_answer(given, f"Answer from these runs: **{step.right}**.")
    elif given:
        st.markdown(f"You chose **{given}**. No measurement can decide whether that is right.")
    st.markdown(step.reveal)
    chart = picture.dots(step.picture, step.axis, shares=step.shares)
    chart_style.show(chart, key=f"lesson-chart-{number}", alt=f"{step.axis}, each with its 95 % interval")
    st.markdown(f":blue-background[**{step.point}**]")
    with st.container(key="lesson-why"):
        st.markdown(step.why)
    if len(step.table):
        st.dataframe(step.table, hide_index=True, alt="The figures of this step")
    data_table(step.picture, name=f"lesson-{number}")


def show(number: int, step: Step) -> None:
    """One step: the question, then where to look, then the answer."""
    st.header(f"{number}. {step.title}")
    given = guess.first(step.question, step.answers, key=progress.key(number), shortcut="S", stays=False, always=True)
    if given is None:
        look(step)
        return
    if not progress.shown(number):
        st.markdown(f"{step.question}\n\nYou predicted **{given}**." if given else step.question)
        look(step)
        if classroom.locked(number):
            st.caption("The presenter will show the answer.")
            return
        st.button(
            "Show the answer",
            icon=":material/lightbulb:",
            type="primary",
            shortcut="S",
            key="lesson-show",
            on_click=progress.show,
            args=(number,),
        )
        return
    st.markdown(step.question)
    answer(number, step, given)
    look(step)


def lesson(found: Figures) -> None:
    """The current step, next to the class if there is one."""
    options = [step.answers for step in steps(found)]
    progress.begin(options)
    every = steps(found, guess.given(progress.key(5)))  # after `begin`: a link may hold the choice of step 5
    number = progress.step()
    step = every[number - 1]
    bar(number, every)
    shown = progress.shown(number)
    if classroom.room() is None:
        with layout.fresh("step", number):
            show(number, step)
    else:
        left, right = st.columns([3, 2], gap="large")
        with left, layout.fresh("step", number):
            show(number, step)
        with right:
            if classroom.host_key():
                with st.expander("Join link and QR code", expanded=number == 1, icon=":material/qr_code:"):
                    classroom_view.host_panel()
            if shown or guess.given(progress.key(number)) is not None or classroom.host_key():
                classroom_view.live(number, step.answers, step.right, shown=shown)
            if not classroom.host_key():
                classroom_view.student_links()
    progress.share(options)


found = figures()
if found is None:
    st.info(
        "The lesson needs two models of the same patients: one trained without privacy and one trained with an ε. "
        "Train both; the lesson then uses their results.",
        icon=":material/school:",
    )
    shell.link("train", "Train a model", icon=":material/model_training:")
else:
    lesson(found)
