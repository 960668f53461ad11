"""Guess first, then see: a question with a few answers, asked before the chart that answers it is shown.

The lesson always asks. On other pages one switch decides: on in a class, and off for everyone else, who comes to see
results.
"""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from pages.parts.session import classroom

SWITCH = "guess_first"  # in the session's state: the switch, once somebody has used it


def switch() -> None:
    """The switch for all pages, also `?guess=1`. The session keeps it, since a widget's state ends with its page."""
    if "guess" in st.query_params:
        st.session_state.setdefault(SWITCH, st.query_params["guess"] == "1")
    st.toggle(
        "Guess first",
        asked(),
        key="guess-switch",
        on_change=_keep_switch,
        help="Asks what you expect before a result is shown. In a class it is on from the start.",
    )


def _keep_switch() -> None:
    st.session_state[SWITCH] = st.session_state["guess-switch"]
    st.query_params["guess"] = "1" if st.session_state[SWITCH] else "0"


def asked() -> bool:
    """Whether pages outside the lesson ask before they show."""
    return st.session_state.get(SWITCH, classroom.room() is not None)


def first(
    question: str,
    answers: Sequence[str],
    *,
    key: str,
    shortcut: str | None = None,
    stays: bool = True,
    ask: bool | None = None,
    skips: bool = True,
) -> str | None:
    """Ask a question until the user answers it or skips it. The session keeps the answer.

    Args:
        question: The question.
        answers: The answers to choose from, one button each.
        key: The name under which the answer is kept.
        shortcut: A keyboard shortcut for “Show me”, which skips the question.
        stays: Whether a question that was asked stays on the page above its answer.
        ask: Whether to ask, whatever the switch says; None: as it says.
        skips: Whether “Show me” is there.

    Returns:
        The chosen answer; empty if the user skipped the question or was not asked, None while it is open.
    """
    if given(key) is None and (asked() if ask is None else ask):
        with st.container(border=True):
            st.markdown(f"**Guess first.** {question}")
            with st.container(horizontal=True):
                for number, answer in enumerate(answers):
                    st.button(answer, key=f"{key}-{number}", on_click=keep, args=(key, answer))
                if skips:
                    st.button(
                        "Show me", key=f"{key}-show", type="tertiary", shortcut=shortcut, on_click=keep, args=(key, "")
                    )
        return None
    if stays and given(key) is not None:
        st.markdown(f"**{question}**")
    return given(key) or ""


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
