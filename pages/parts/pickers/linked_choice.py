"""A choice that stands in the page's link by its id, where `bind="query-params"` would put its changing label."""

from __future__ import annotations

import html
from collections.abc import Collection

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from pages.parts.common.phi_text import literal, visible
from pages.parts.session import classroom

FITS = 10  # characters of a name that every select box shows, also one beside a picture at 900 pixels
MOST = 200  # characters of a name that are written below its box


def adopt(key: str, widget: str, ids: Collection[str]) -> bool:
    """Give the widget the link's choice if the link has changed by itself: by the Back button, or in a class.

    Back to a link without the choice brings what the page showed under that link. Call it before the widget is drawn,
    and draw that without a start value if this is true.

    Args:
        key: The link's parameter.
        widget: The widget's key.
        ids: The choices that there are.
    """
    linked, seen = st.query_params.get(key), f"linked_{key}"
    changed = st.session_state.get(seen) != linked
    st.session_state[seen] = linked
    if linked is None and by_history():
        changed, linked = True, st.session_state.get(_unlinked(key))
    if not changed or linked not in ids or st.session_state.get(widget, linked) == linked:
        return False
    st.session_state[widget] = st.session_state[f"picked_{key}"] = linked
    return True


def by_history() -> bool:
    """Whether the browser came here by Back or Forward, or was taken along in a class."""
    context = get_script_run_ctx()
    return context is not None and context.is_history_navigation


def _unlinked(key: str) -> str:
    """Where the session keeps what this page showed while its link did not hold the choice."""
    context = get_script_run_ctx()
    return f"unlinked_{context.page_script_hash if context else ''}_{key}"


def share(key: str, widget: str, ids: Collection[str]) -> None:
    """Put the user's choice into the link, and keep it for other pages."""
    if st.session_state[widget] in ids:  # a browser may still send an old label
        for name in (f"picked_{key}", f"linked_{key}"):
            st.session_state[name] = st.session_state[widget]
        st.query_params[key] = st.session_state[widget]


MISSING = "it is not on this server, or it lacks what this page needs"


def say_missing(key: str, ids: Collection[str], instead: str, *, what: str = "model", why: str = MISSING) -> None:
    """Warn if the link names a choice that is not among `ids`: what is shown is another one, called `instead`.

    Args:
        key: The link's parameter.
        ids: The choices that there are.
        instead: The name of the choice that is shown.
        what: What the link names.
        why: What its absence means.
    """
    linked = st.query_params.get(key)
    if linked and linked not in ids:
        st.warning(
            f"The {what} in this link, “{literal(linked, 60)}”, is not offered here: {why}. Shown instead: "
            f"{literal(instead, 200)}.",
            icon=":material/link_off:",
        )


def whole_name(name: str) -> str:
    """The chosen name as HTML, to be written below its box if the box cuts it off; empty where it fits everywhere.

    The server does not know how wide a box is: the style sheet hides the name where its letters fit.
    """
    if len(name) <= FITS:
        return ""
    shown = html.escape(visible(name if len(name) <= MOST else f"{name[:MOST]} …"))
    return f'<div class="whole-name"><p style="--letters: {len(name)}">{shown}</p></div>'


def shown(key: str, chosen: str) -> None:
    """Tell the class what is chosen, also where the link does not hold it; then keep it for the Back button."""
    if key not in st.query_params and not by_history():
        st.session_state[_unlinked(key)] = chosen
    classroom.on_screen(**{key: chosen})
