"""Says that a model which a box showed is gone, where another one takes its place."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import streamlit as st

from core.runs.run import Run
from pages.parts.common import shell
from pages.parts.common.phi_text import literal
from pages.parts.session import gone

_SHOWN, _GONE, _NOW = "models_shown-", "models_gone-", "models_gone_now-"  # in the session, before the box's name
_STAYED = "models_stayed-"  # likewise: whether all that is shown instead was shown before


def say(box: str, shown: Sequence[Run], offered: Collection[str], instead: str) -> None:
    """Warn if models that this box showed are gone, until another one is picked or another page is opened.

    Args:
        box: The box: its parameter in the link.
        shown: What it shows now.
        offered: Ids of all that it offers.
        instead: The names of what it shows now.
    """
    before: dict[str, bool] = st.session_state.get(f"{_SHOWN}{box}", {})
    lost: dict[str, bool] = {}
    if not before.keys() <= set(offered):
        there = gone.visible_runs()
        lost = {run_id: own for run_id, own in before.items() if run_id not in there}
    st.session_state[f"{_SHOWN}{box}"] = {run.id: run.spec.corpus.imported is not None for run in shown}
    st.session_state[f"{_NOW}{box}"] = bool(lost)
    if lost:
        st.session_state[f"{_GONE}{box}"] = lost
        st.session_state[f"{_STAYED}{box}"] = {run.id for run in shown} <= before.keys()
    elif not shell.same_page():
        forget(box)
    missing: dict[str, bool] = st.session_state.get(f"{_GONE}{box}", {})
    if missing:
        named = ", ".join(f"“{literal(run_id, 60)}”" for run_id in missing)
        one = len(missing) == 1
        why = f"{'its' if one else 'their'} notes were deleted" if all(missing.values()) else "deleted"
        now = "Still shown" if shown and st.session_state.get(f"{_STAYED}{box}") else "Shown instead"
        st.warning(
            f"{'The model' if one else 'Models'} chosen here, {named}, {'is' if one else 'are'} "
            f"gone: {why}. {now}: {literal(instead, 200) or 'nothing'}.",
            icon=":material/delete:",
        )


def said(box: str) -> Collection[str]:
    """Ids of the models that the box says are gone."""
    return st.session_state.get(f"{_GONE}{box}", {}).keys()


def found_now(*boxes: str) -> bool:
    """Whether one of these boxes found in this run of the script that its model is gone.

    What was clicked before that was meant for this model.
    """
    return any(st.session_state.get(f"{_NOW}{box}", False) for box in boxes)


def forget(box: str) -> None:
    """Say no more that models are gone: another one was picked."""
    st.session_state.pop(f"{_GONE}{box}", None)
