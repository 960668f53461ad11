"""Lesson: five steps, alone or with a class. In each you predict, look, see the answer and read why."""

from __future__ import annotations

import streamlit as st

from pages.parts.common import chart_style, guess, layout, shell
from pages.parts.common.data_table import data_table
from pages.parts.lesson import classroom_view, full_screen, picture, progress, quiz, screens, teaching_pack, vote
from pages.parts.lesson.figures import Figures, figures
from pages.parts.lesson.questions import QUESTIONS
from pages.parts.lesson.steps import Step, steps
from pages.parts.session import classroom
from pages.parts.session.room_values import AFTER

shell.page(
    "lesson",
    "What does a model remember about patients, and what limits that? Five steps: predict, look, check your answer.",
)


def bar(number: int, every: tuple[Step, ...]) -> None:
    """Where the lesson is, the buttons Back and Next, and for who teaches the full screen."""
    where = {progress.BEFORE: "Before", AFTER: "After"}.get(number, f"Step {number} of {len(every)}")
    with st.container(horizontal=True, vertical_alignment="center"):
        quiz.turn_buttons(number)
        st.progress(min(number, len(every)) / len(every), text=where, width=240)
        if classroom.room() is None:
            classroom_view.class_menu()
        if classroom.room() is None or classroom.host_key():
            st.button(
                "Full screen",
                icon=":material/open_in_full:",
                key="screen-enter",
                on_click=screens.choose,
                args=("full",),
                help="For a projector: one step fits the window. F11 hides the browser's own bars.",
            )


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
    chart = picture.dots(step.picture, step.axis, shares=step.shares, chance=step.chance)
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
    if classroom.revealed(number) and guess.given(progress.key(number)) is None:
        guess.keep(progress.key(number), "")  # who made no guess sees the answer with the others
    given = guess.first(
        step.question,
        step.answers,
        key=progress.key(number),
        shortcut="S",
        stays=False,
        ask=True,
        skips=not classroom.locked(number),
    )
    if given is None:
        look(step)
        return
    if not progress.shown(number):
        st.markdown(f"{step.question}\n\nYour answer: **{given}**." if given else step.question)
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


def questions(*, after: bool) -> None:
    """The three questions before or after the lesson, and at the end what was learned."""
    now = classroom.counts()
    if not after:
        st.header("Three questions before you start")
        st.markdown(
            "You get the same questions at the end, and see what changed. They take a minute, and your answers are "
            "anonymous."
        )
    else:
        st.header("The same three questions again")
    if classroom.host_key() and now:
        for number, question in enumerate(QUESTIONS, start=1):
            st.markdown(f"{number}. {question.text}")
        if after and not quiz.revealed():
            st.button(
                "Show what the class learned",
                icon=":material/lightbulb:",
                type="primary",
                shortcut="S",
                key="lesson-show",
                on_click=classroom.reveal,
                args=(AFTER,),
            )
    elif not (after and quiz.revealed()):
        quiz.ask(after=after)
    if after and quiz.revealed():
        if now:
            quiz.picture(now)
        quiz.own()


def in_class(number: int, every: tuple[Step, ...]) -> None:
    """What the class does here, beside the step: votes, the join link, and for a student the ways out."""
    step = every[number - 1] if 1 <= number <= len(every) else None
    if classroom.host_key():
        if not classroom.leading():
            st.caption("Students set their own pace until you lead.")
        with st.expander("Join link and QR code", expanded=number <= 1, icon=":material/qr_code:"):
            classroom_view.host_panel()
    if step is None:
        classroom_view.answered_so_far(number)
    elif progress.shown(number) or guess.given(progress.key(number)) is not None or classroom.host_key():
        classroom_view.live(number, step.answers, step.right, shown=progress.shown(number))
    else:
        classroom_view.watch(number)
    if not classroom.host_key():
        classroom_view.student_links()


def page(number: int, every: tuple[Step, ...]) -> None:
    """The whole page: the current place of the lesson, next to the class if there is one."""
    bar(number, every)
    step = every[number - 1] if 1 <= number <= len(every) else None
    left, right = (st.container(), None) if classroom.room() is None else st.columns([3, 2], gap="large")
    with left, layout.fresh("step", number):
        if step is None:
            questions(after=number == AFTER)
        else:
            show(number, step)
    if right is not None:
        with right:
            in_class(number, every)


def lesson(found: Figures) -> None:
    """The lesson in the view that this browser has chosen."""
    options = [step.answers for step in steps(found)]
    progress.begin(options)
    quiz.begin()
    every = steps(found, guess.given(progress.key(5)))  # after `begin`: a link may hold the choice of step 5
    number, screen = progress.step(), screens.begin()
    if screen == "page":
        page(number, every)
        if classroom.room() is None or classroom.host_key():
            teaching_pack.offer(found)
        screens.pass_keys_on()
    else:
        (full_screen if screen == "full" else vote).show(number, every)
    progress.share(options)
    quiz.share()
    progress.keep_link()


found = figures()
if found is None:
    st.info(
        "The lesson needs two models of the same patients: one trained without privacy and one trained with an ε. "
        "Train both; the lesson then uses their results.",
        icon=":material/school:",
    )
    shell.link_to_train()
else:
    lesson(found)
