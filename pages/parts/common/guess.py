"""Guess first, then see: a question with a few answers in front of a picture that gives the right one away."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st


def first(
    question: str, answers: Sequence[str], *, key: str, shortcut: str | None = None, stays: bool = True
) -> str | None:
    """Ask until somebody answers or asks to see it; then the answer, which the page may take up (None while asking).

    An empty answer means that the picture was asked for without a guess; `shortcut` is a key for that. What was
    answered is kept in the session. The question stays above its answer, unless the page says it in words of its own.
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
    """What was answered: one of the answers, empty for none of them, None while nobody was asked."""
    return st.session_state.get(_kept(key))


def keep(key: str, answer: str) -> None:
    """Take this as the answer; the first one stands, so a key that is pressed in haste wipes no guess."""
    st.session_state.setdefault(_kept(key), answer)


def forget(key: str) -> None:
    """Ask again."""
    st.session_state.pop(_kept(key), None)


def _kept(key: str) -> str:
    return f"guessed_{key}"


def told(answer: str, right: str) -> None:
    """The right answer beside the one that was given, in one line."""
    guessed = f"You guessed “{answer}”. " if answer else ""
    st.markdown(f":material/lightbulb: {guessed}{right}")
