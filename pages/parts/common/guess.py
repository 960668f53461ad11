"""Guess first, then see: a question with a few answers, asked before the chart that answers it is shown."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st


def first(
    question: str, answers: Sequence[str], *, key: str, shortcut: str | None = None, stays: bool = True
) -> str | None:
    """Ask a question until the user answers it or skips it. The session keeps the answer.

    Args:
        question: The question.
        answers: The answers to choose from, one button each.
        key: The name under which the answer is kept.
        shortcut: A keyboard shortcut for “Show me”, which skips the question.
        stays: Whether the question stays on the page above its answer.

    Returns:
        The chosen answer; empty if the user skipped the question, None while it is open.
    """
    if given(key) is None:
        with st.container(border=True):
            st.markdown(f"**Guess first.** {question}")
            with st.container(horizontal=True):
                for number, answer in enumerate(answers):
                    st.button(answer, key=f"{key}-{number}", on_click=keep, args=(key, answer))
                st.button(
                    "Show me", key=f"{key}-show", type="tertiary", shortcut=shortcut, on_click=keep, args=(key, "")
                )
    elif stays:
        st.markdown(f"**{question}**")
    return given(key)


def given(key: str) -> str | None:
    """The answer that was given; empty if the question was skipped, None while it is open."""
    return st.session_state.get(_kept(key))


def keep(key: str, answer: str) -> None:
    """Keep this as the answer. The first one counts, so a key pressed twice does not overwrite a guess."""
    st.session_state.setdefault(_kept(key), answer)


def forget(key: str) -> None:
    """Ask again."""
    st.session_state.pop(_kept(key), None)


def _kept(key: str) -> str:
    return f"guessed_{key}"


def show_answer(answer: str, right: str) -> None:
    """One line with the user's answer, if there is one, and the right answer."""
    guessed = f"You guessed “{answer}”. " if answer else ""
    st.markdown(f":material/lightbulb: {guessed}{right}")
