"""A slider over ε: it reads as sentences do (`1,000`), and stands in the page's link as a plain number (`1000`)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import streamlit as st

from core.common.formatting import setting_text
from pages.parts.pickers import linked_choice


def epsilon_key(epsilon: float) -> str:
    """`0.5`, `8`, `1000`, `∞`: an ε in links, which must not change, and in tables to download."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"


def pick(label: str, key: str, options: Mapping[str, float], start: str) -> str:
    """The key of the chosen ε.

    Args:
        label: What is chosen.
        key: The widget's key, which is also the link's parameter.
        options: Every ε by its `epsilon_key`, in the slider's order.
        start: The key that it starts at, if neither the session nor the link has one of the options.
    """
    linked_choice.adopt(key, key, options)
    if st.session_state.get(key) not in options:
        before = (st.query_params.get(key), st.session_state.get(f"picked_{key}"))
        st.session_state[key] = next((one for one in before if one in options), start)
    chosen = st.select_slider(
        label,
        list(options),
        key=key,
        format_func=lambda one: setting_text(options[one]),
        on_change=linked_choice.share,
        args=(key, key, options),
        persist_state="session",  # else a browser that gets two reruns before it draws starts at the first option
    )
    linked_choice.shown(key, chosen)
    return chosen
