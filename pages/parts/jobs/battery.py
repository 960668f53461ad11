"""The full battery of attacks: what the chosen runs have had of it, a button for the rest, and how far that is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import streamlit as st

from core.jobs.work import AUDIT
from core.pipeline.full_audit import chosen_attacks, open_attacks, open_figures
from core.runs.run import Run
from pages.parts.jobs import monitor
from pages.parts.session import instructor, owner

if TYPE_CHECKING:
    from core.jobs.engine import Job

LABEL = "Run the full battery"
FIGURES = "Make the figures"
HOW_LONG = (
    "Each attack tells its time left; on a machine like a laptop the whole takes some minutes. Reference models are "
    "trained once a hospital."
)


def offer(runs: Mapping[str, Run]) -> None:
    """For each run, by name: the button, the live progress, or why neither is there. Nothing where all is done."""
    for name, run in runs.items():
        if open_attacks(run, owner.workspace()) or (run.has_model and open_figures(run, owner.workspace())):
            _one(name, run)
        _not_possible(name, run)


def _not_possible(name: str, run: Run) -> None:
    """Which attacks this run's cohort does not allow, and why."""
    why: dict[str, list[str]] = {}
    for one in owner.workspace().audit(run.id).outcomes().values():
        if one.state == "not possible":
            why.setdefault(one.message, []).append(one.attack)
    for message, attacks in why.items():
        reason = message[:1].upper() + message[1:].rstrip(".")
        st.caption(f"Not possible on the cohort of “{name}”: {', '.join(attacks)}. {reason}.")


def _one(name: str, run: Run) -> None:
    if not run.has_model:
        if not owner.workspace().audit(run.id).outcomes():
            st.caption(
                f"“{name}” has had the quick audit only, and its weights are not kept here, so it cannot be attacked "
                "further. Runs made on the page Train keep theirs: with another seed it is a run of its own."
            )
        return
    job = _job(run)
    pace = monitor.POLL_SECONDS if job is not None and job.active else monitor.IDLE_SECONDS
    st.fragment(run_every=pace)(_live)(name, run, None if job is None else job.state)


def _job(run: Run) -> Job | None:
    return monitor.status(AUDIT + run.id)


def _live(name: str, run: Run, drawn: str | None) -> None:
    """The state of one audit; the whole page is drawn anew when that changes, whoever changed it."""
    job = _job(run)
    if (None if job is None else job.state) != drawn:
        st.rerun()
    with st.container(border=True):
        if job is not None and job.active:
            st.markdown(f"**Attacking “{name}”**")
            monitor.progress_bar(job, monitor.engine().progress(job.id))
            return
        st.markdown(_had(name, run))
        if job is not None and job.state in ("failed", "interrupted", "cancelled"):
            st.caption(f"The last audit was {job.state}. {job.message if job.state == 'failed' else ''}")
        label, help_text = (LABEL, HOW_LONG) if open_attacks(run, owner.workspace()) else (FIGURES, None)
        if st.button(label, key=f"battery-{run.id}", icon=":material/swords:", help=help_text):
            _submit(run)


def _had(name: str, run: Run) -> str:
    """How much of the battery a run has had, and what failed, in a sentence or two."""
    every, left = chosen_attacks(run, None), open_attacks(run, owner.workspace())
    outcomes = owner.workspace().audit(run.id).outcomes()
    failed = [f"{one.name} ({outcomes[one.name].message})" for one in left if _failed(outcomes.get(one.name))]
    if len(left) == len(every) and not failed:
        return (
            f"“{name}” has had the quick audit only. The full battery has {len(every)} attacks and takes some minutes."
        )
    if not left:
        return (
            f"“{name}” has had every attack of the battery, but not all figures were made of what they found, or older "
            "code made them. No attack is run again for them."
        )
    told = f"“{name}” has had {len(every) - len(left)} of the battery's {len(every)} attacks."
    return told + (f" Failed: {'; '.join(failed)}." if failed else "")


def _failed(outcome: object) -> bool:
    return getattr(outcome, "state", "") == "failed"


def _submit(run: Run) -> None:
    from core.jobs.engine import EngineFailed
    from core.runs.integrity.disk import error_sentence

    try:
        monitor.engine().submit_audit(run.id, instructor.user())
    except (EngineFailed, LookupError, ValueError, OSError) as error:
        st.error(error_sentence(error), icon=":material/error:")
        return
    st.rerun()
