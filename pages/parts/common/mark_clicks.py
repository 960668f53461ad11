"""Clicks on marked text: a mark that `phi_text` drew with a key tells the page which one was clicked.

`st.html` shows text and takes no clicks, and a link would start a new session. So a component without any content of
its own listens for clicks, Enter and the space bar on the whole document, and sends the mark's key.
"""

from __future__ import annotations

import re

import streamlit as st

from pages.parts.common import page_files

_KEY = re.compile(r"([0-9a-f]{16})-(\d{1,9})")


def clicked(*, key: str, told: str = "") -> tuple[str, int] | None:
    """The text's key and the mark's first character, if a mark was clicked since the last run; call it once a page.

    A screen reader speaks `told` when it changes: text that is redrawn while it grows cannot be a live region itself.
    """
    listener = st.components.v2.component("philab_mark_clicks", js=page_files.component("mark_clicks.js"))
    found = _KEY.fullmatch(str(listener(key=key, data=told, on_mark_change=lambda: None).mark or ""))
    return (found[1], int(found[2])) if found else None
