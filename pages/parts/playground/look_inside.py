"""Any text, typed or pasted, token by token in the models on the page."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.runs.run import Run
from core.serving.server import MASK, PromptError, clean_prompt
from pages.parts.access import gate
from pages.parts.common.phi_text import literal
from pages.parts.playground import inspection


def button(pair: Sequence[Run], latest: str) -> None:
    """A button that opens a box for a text, and shows what each model expects at each of its places.

    Args:
        pair: the models on the page; one of another kind than the first is left out.
        latest: the newest text of the session.
    """
    if st.button("Look inside", icon=":material/troubleshoot:", help="What the models expect at each place of a text."):
        _dialog(pair, latest)


@st.dialog("What does each model expect next?", width="large", icon=":material/troubleshoot:")
@gate.drawn_for_admitted
def _dialog(pair: Sequence[Run], latest: str) -> None:
    with st.form("look-inside", border=False):
        masked = pair[0].spec.model.kind != "gpt2"
        typed = st.text_area(
            "Your own text, or the latest of this session",
            latest or "Patient: ",
            height=100,
            help=f"The model is asked about each word in turn, and ranks its guesses for a {MASK}." if masked else None,
        )
        st.form_submit_button("Show", type="primary")
    try:
        text, _ = clean_prompt(typed)
    except PromptError as refused:
        st.error(literal(str(refused), 600), icon=":material/error:")
        return
    runs = inspection.with_public(pair)
    with st.spinner("Asking each model …", show_time=True):
        judged = inspection.finish(runs, inspection.start(runs, text))
    for error in dict.fromkeys(one.error for one in judged if one.error):
        st.error(literal(error, 600), icon=":material/error:")
    answered = [one for one in judged if not one.error]
    if answered:
        inspection.draw_tokens(text, answered, key="inside-tokens")
