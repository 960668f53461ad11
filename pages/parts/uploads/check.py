"""The check of this session's uploaded notes: start, watch and end it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import streamlit as st

from core.corpus.importing.importer import STAGES
from core.evaluation.wording import percent
from core.jobs.imports import CHECKS, Check
from pages.parts.access import gate, viewer
from pages.parts.common.durations import time_left
from pages.parts.session import owner, resources

POLL_SECONDS = 1.0
_ASKED = owner.OWN_CHECK


@dataclass(frozen=True)
class Asked:
    """A check with its file and settings; `name` is the default name of the notes."""

    path: Path
    options: dict[str, Any]
    name: str
    check: Check


def start(path: Path, options: dict[str, Any], name: str) -> Asked:
    """Start to check `path` with the options of `import_notes`; returns at once. An earlier check is ended.

    Raises `viewer.Refused`.
    """
    viewer.require("upload")
    forget()
    check = CHECKS.start(resources.every_workspace().root, path, options, alive=owner.session_lives())
    st.session_state[_ASKED] = Asked(path, options, name, check)
    return st.session_state[_ASKED]


def current(path: Path | None = None, options: dict[str, Any] | None = None) -> Asked | None:
    """The check of this session. If `path` and `options` are given, a check of anything else is ended."""
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
    """The check's progress, redrawn every second, with a button that ends it."""
    gate.fragment(_watch, run_every=POLL_SECONDS)(asked)


def _watch(asked: Asked) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(asked.check.progress().share, text=_in_words(asked.check))
        if st.button("Cancel", icon=":material/cancel:", key="own_cancel"):
            forget()
            st.rerun()
    st.caption("You can use other pages meanwhile. Changing a column or setting above ends this check.")
    if not asked.check.active:  # asked last: before the button, it would swallow a click that comes at the same moment
        st.rerun()


def _in_words(check: Check) -> str:
    if check.state == "queued":
        return "Waiting for other checks"
    progress = check.progress()
    if not progress.what:
        return "Starting"
    if progress.what == next(iter(STAGES)):  # reads a file, in bytes or rows
        done = percent(progress.done / max(1, progress.total))
    else:
        done = f"{progress.done:,} of {progress.total:,} notes"
    return f"{progress.what.capitalize()}: {done}{time_left(progress.eta_seconds)}"
