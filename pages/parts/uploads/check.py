"""The check of brought notes that this session has asked for: started, watched and ended."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from core.jobs.imports import CHECKS, Check
from pages.parts.common.durations import time_left
from pages.parts.session import owner, resources

POLL_SECONDS = 1.0
_ASKED = owner.OWN_CHECK


@dataclass(frozen=True)
class Asked:
    """A check and what it is about; `name` is what the notes will be called unless their owner says otherwise."""

    path: Path
    options: dict[str, Any]
    name: str
    check: Check


def start(path: Path, options: dict[str, Any], name: str) -> Asked:
    """Have `path` checked with the options of `import_notes`; returns at once. An earlier check is ended."""
    forget()
    check = CHECKS.start(resources.every_workspace().root, path, options, alive=owner.session_lives())
    st.session_state[_ASKED] = Asked(path, options, name, check)
    return st.session_state[_ASKED]


def current(path: Path | None = None, options: dict[str, Any] | None = None) -> Asked | None:
    """The check of this session. With `path` and `options`, one of something else is ended: nobody asks for it now."""
    asked = st.session_state.get(_ASKED)
    if asked is not None and path is not None and (asked.path, asked.options) != (path, asked.options | options):
        forget()
        return None
    return asked


def forget() -> None:
    """End the check and remove what it wrote."""
    asked = st.session_state.pop(_ASKED, None)
    if asked is not None:
        asked.check.end()


def watch(asked: Asked) -> None:
    """How far the check is, renewed every second, with a button that ends it."""
    st.fragment(run_every=POLL_SECONDS)(_watch)(asked)


def _watch(asked: Asked) -> None:
    if not asked.check.active:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(asked.check.progress().share, text=_in_words(asked.check))
        if st.button("Cancel", icon=":material/cancel:", key="own_cancel"):
            forget()
            st.rerun()
    st.caption("You can look at other pages meanwhile. Another column or setting above ends this check.")


def _in_words(check: Check) -> str:
    if check.state == "queued":
        return "Waiting for its turn"
    progress = check.progress()
    if not progress.what:
        return "Starting"
    return f"{progress.what.capitalize()}: {progress.done:,} of {progress.total:,}{time_left(progress.eta_seconds)}"
