"""Guess first, then see: a question with a few answers in front of a picture that gives the right one away."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st


def first(question: str, answers: Sequence[str], *, key: str) -> str | None:
    """Ask until somebody answers or asks to see it; then the answer, which the page may take up (None while asking).

    An empty answer means that the picture was asked for without a guess. What was answered is kept in the session.
    """
    kept = f"guessed_{key}"
    if kept not in st.session_state:
        with st.container(border=True):
            st.markdown(f"**Guess first.** {question}")
            with st.container(horizontal=True):
                for number, answer in enumerate(answers):
                    st.button(answer, key=f"{key}-{number}", on_click=_keep, args=(kept, answer))
                st.button("Show me", key=f"{key}-show", type="tertiary", on_click=_keep, args=(kept, ""))
        return None
    return st.session_state[kept]


def _keep(name: str, answer: str) -> None:
    st.session_state[name] = answer


def told(answer: str, right: str) -> None:
    """The right answer beside the one that was given, in one line."""
    given = f"You guessed “{answer}”. " if answer else ""
    st.markdown(f":material/lightbulb: {given}{right}")
