"""A student's view for voting: the question, the options as large buttons, and what became of the vote."""

from __future__ import annotations

import streamlit as st

from pages.parts.common import guess, shell
from pages.parts.lesson import classroom_view, progress, quiz, screens
from pages.parts.lesson.phrases import first_sentence
from pages.parts.lesson.steps import Step
from pages.parts.session import classroom
from pages.parts.session.room_values import AFTER

NAMES = {progress.BEFORE: "before the lesson", AFTER: "after the lesson"}


def show(number: int, every: tuple[Step, ...]) -> None:
    """The whole view.

    Args:
        number: The place in the lesson.
        every: The five steps.
    """
    where = NAMES.get(number, f"step {number} of {len(every)}")
    st.markdown(f"**Class {classroom.room()}** · {where}")
    classroom_view.watch(number)
    if number in NAMES:
        _questions(after=number == AFTER)
    else:
        _step(number, every[number - 1])
    if not classroom.leading():
        _turn(number)
    with st.container(horizontal=True, vertical_alignment="center", key="vote-foot"):
        st.button("See the page", type="tertiary", key="see-page", on_click=screens.choose, args=("page",))
        st.button("Leave the class", type="tertiary", key="class-leave", on_click=classroom.leave)
    shell.whose_notes()


def _step(number: int, step: Step) -> None:
    given, shown = guess.given(progress.key(number)), progress.shown(number)
    st.header(step.title)
    st.markdown(step.question)
    if shown:
        _result(number, step, given)
    elif given is None:
        with st.container(key="options"):
            for place, option in enumerate(step.answers):
                st.button(
                    option,
                    key=f"{progress.key(number)}-{place}",
                    width="stretch",
                    on_click=guess.keep,
                    args=(progress.key(number), option),
                )
        if not classroom.locked(number):
            st.button(
                "Show without voting",
                type="tertiary",
                key=f"{progress.key(number)}-show",
                on_click=guess.keep,
                args=(progress.key(number), ""),
            )
    else:
        if given and classroom.counted(number):
            st.success(f"You voted “{given}”. Your vote is counted.", icon=":material/how_to_vote:")
        elif given:
            st.warning(f"You chose “{given}”, too late to be counted.", icon=":material/how_to_vote:")
        if classroom.locked(number):
            st.caption("The votes and the answer appear when the presenter shows them.")
        else:
            st.button(
                "Show the answer",
                icon=":material/lightbulb:",
                type="primary",
                key="lesson-show",
                width="stretch",
                on_click=progress.show,
                args=(number,),
            )


def _result(number: int, step: Step, given: str | None) -> None:
    if given:
        tick = " ✓" if given == step.right else ""
        st.markdown(f":material/how_to_vote: You voted “{given}”{tick}")
    else:
        st.markdown("You did not vote.")
    if step.right:
        st.markdown(f":material/lightbulb: Answer from these runs: **{step.right}**. {first_sentence(step.reveal)}")
    classroom_view.bars(number, step.answers, step.right)
    st.markdown(f":blue-background[**{step.point}**]")


def _questions(*, after: bool) -> None:
    st.header("The same three questions again" if after else "Three questions before you start")
    if after and quiz.revealed():
        quiz.own()
        now = classroom.counts()
        if now:
            quiz.picture(now)
        return
    quiz.ask(after=after)


def _next_label(number: int) -> str:
    """What Next does: the questions before the lesson come one after another without it."""
    open_yet = number == progress.BEFORE and not quiz.done(after=False) and not quiz.closed(after=False)
    return "Skip to step 1" if open_yet else "Next"


def _turn(number: int) -> None:
    """Back and Next, as long as the presenter does not lead."""
    with st.container(horizontal=True):
        for label, key, to, end in (
            ("Back", "lesson-back", number - 1, progress.BEFORE),
            (_next_label(number), "lesson-next", number + 1, AFTER),
        ):
            st.button(label, key=key, disabled=number == end, on_click=progress.go, args=(to,), width="stretch")
