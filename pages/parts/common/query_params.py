"""The page's link: what a widget is given so that its value stands there, and parameters that are no widget's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from typing import Literal, TypedDict

import streamlit as st
from streamlit.errors import StreamlitAPIException

from core.spec import CorpusSpec


class Kept(TypedDict, total=False):
    """Keyword arguments of a widget; a TypedDict, so that a type checker knows which arguments `**KEEP` gives."""

    bind: Literal["query-params"]


KEEP: Kept = {"bind": "query-params"}


def kept_unless_real(corpus: CorpusSpec | None) -> Kept:
    """KEEP for what is typed about a generated cohort; nothing for imported notes.

    Browsers keep addresses, and proxies write them to logs: no name, id or word of a real note may get there.
    """
    return KEEP if corpus is not None and corpus.imported is None else {}


def write(parameters: Mapping[str, str | None]) -> None:
    """Set what has a value and remove the others; one entry in the browser's history for all that is set."""
    for name, value in parameters.items():
        if value is None:
            st.query_params.pop(name, None)
    new = {name: value for name, value in parameters.items() if value not in (None, st.query_params.get(name))}
    if new:
        st.query_params.update(new)


def drop_unless_offered(key: str, options: Collection[str], label: Callable[[str], str] = str) -> None:
    """Drop the value of a widget that it does not offer now, in the session and in the link.

    Streamlit carries the value of a key from page to page. One that this page does not offer would stay in the link,
    while the page shows its first view. Call it before the widget is drawn.

    Args:
        key: The widget's key, which is also the link's parameter.
        options: What the widget offers.
        label: An option as it stands in the link.
    """
    if st.session_state.get(key) not in options:
        st.session_state.pop(key, None)
    if key in st.query_params and st.query_params[key] not in map(label, options):
        with contextlib.suppress(StreamlitAPIException):  # the page's own widget is bound to it, and corrects it
            del st.query_params[key]
