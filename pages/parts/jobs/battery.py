"""The full audit: which of its attacks were run on the chosen models, a button for the rest, and progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import streamlit as st

from core.common.formatting import duration_text
from core.jobs.times.costs import whole
from core.jobs.times.expected import expected_stages
from core.jobs.work import AUDIT
from core.pipeline.full_audit import chosen_attacks, open_attacks, open_figures
from core.runs.run import Run
from pages.parts.access import gate, viewer
from pages.parts.common.phi_text import coded, literal
from pages.parts.jobs import monitor
from pages.parts.session import instructor, owner

if TYPE_CHECKING:
    from core.attacks.registry import Attack
    from core.jobs.engine import Job

LABEL = "Run the full audit"
FIGURES = "Compute the figures"
NAMED = 6  # attacks that were not run: up to this many are named
HOW_LONG = "Each attack shows its remaining time. Reference models are trained once per cohort."


def offer(runs: Mapping[str, Run]) -> None:
    """For each run, by name: the button, the live progress, or why there is neither. Nothing if all is done."""
    named = [(literal(label), run) for label, run in runs.items()]  # may contain patients' ids from an uploaded file
    unfinished = [
        (name, run)
        for name, run in named
        if open_attacks(run, owner.workspace()) or (run.has_model and open_figures(run, owner.workspace()))
    ]
    if possible := [(name, run) for name, run in unfinished if run.has_model]:
        with st.container(border=True):
            _follow(possible)
    for name, run in unfinished:
        if not run.has_model:
            _without_weights(name, run)
    for name, run in named:
        _not_possible(name, run)


def _not_possible(name: str, run: Run) -> None:
    """Which attacks are not possible on this run, and why; a command in the reason is set as code."""
    from core.evaluation.report.commands import parts_of_sentence  # imports scipy

    why: dict[str, list[str]] = {}
    for one in owner.workspace().audit(run.id).outcomes().values():
        if one.state == "not possible":
            why.setdefault(one.message, []).append(one.attack)
    for message, attacks in why.items():
        reason = coded(parts_of_sentence(message[:1].upper() + message[1:].rstrip(".")))
        st.caption(f"Not possible on “{name}”: {', '.join(attacks)}. {reason}.")


def _without_weights(name: str, run: Run) -> None:
    if not owner.workspace().audit(run.id).outcomes():
        st.caption(
            f"“{name}” has had only the quick audit. Its weights are not stored here, so no further attack can be "
            "run. Runs made on the Train page keep their weights; train it there with another seed, as a separate "
            "run."
        )


def _follow(possible: Sequence[tuple[str, Run]]) -> None:
    """Draw the audits of these runs again and again: in one fragment, since each is another request to the server."""
    jobs = [_job(run) for _, run in possible]
    pace = monitor.POLL_SECONDS if any(job is not None and job.active for job in jobs) else monitor.IDLE_SECONDS
    gate.fragment(_live, run_every=pace)(possible, [_state(job) for job in jobs])


def _job(run: Run) -> Job | None:
    return monitor.status(AUDIT + run.id)


def _state(job: Job | None) -> str | None:
    return None if job is None else job.state


def _live(possible: Sequence[tuple[str, Run]], drawn: Sequence[str | None]) -> None:
    """The states of the audits; the whole page is drawn again when one changes, in whichever browser."""
    jobs = [_job(run) for _, run in possible]
    for (name, run), job in zip(possible, jobs, strict=True):
        _show_audit(name, run, job, several=len(possible) > 1)
    if [_state(job) for job in jobs] != drawn:  # asked last, as in `monitor`: no click is swallowed
        st.rerun()


def _show_audit(name: str, run: Run, job: Job | None, *, several: bool) -> None:
    if job is not None and job.active:
        st.markdown(f"**Attacking “{name}”**")
        monitor.progress_bar(job, monitor.engine().progress(job.id))
        return
    st.markdown(f"{_status_text(name, run)}{_takes(run)}")
    if job is not None and job.state in ("failed", "interrupted", "cancelled"):
        failed = job.state == "failed"
        said = f"failed. {literal(job.message, 600)}" if failed else f"was {job.state}."
        st.caption(f"The last audit {said} The button below continues it.")
    label, help_text = (LABEL, HOW_LONG) if open_attacks(run, owner.workspace()) else (FIGURES, None)
    if several:  # a screen reader lists buttons without the text above them
        label += f": {name}"
    options = {"help": help_text} | viewer.locked("audit")
    if st.button(label, key=f"battery-{run.id}", icon=":material/swords:", **options):
        _submit(run)


def _status_text(name: str, run: Run) -> str:
    """Which attacks of the full audit were not run, or how many were if most are missing, and which failed."""
    every, left = chosen_attacks(run, None), open_attacks(run, owner.workspace())
    outcomes = owner.workspace().audit(run.id).outcomes()
    failed = [
        f"{one.name} ({literal(outcomes[one.name].message, 600)})" for one in left if _failed(outcomes.get(one.name))
    ]
    if len(left) == len(every) and not failed:
        return (
            f"“{name}” has had only the quick audit. The full audit has {len(every)} attacks, "
            f"{len(_on_membership(every))} of them on membership."
        )
    if not left:
        return (
            f"All attacks of the full audit were run on “{name}”, but some figures are missing or were computed by "
            "older code. **Compute the figures** runs no attack again."
        )
    untried = [one.name for one in left if not _failed(outcomes.get(one.name))]
    if len(left) <= NAMED:
        missing = [f"{_were(untried)} not run on “{name}”: {', '.join(untried)}"] if untried else []
        missing += (
            [f"{'one' if len(failed) == 1 else len(failed)} failed on “{name}”: {'; '.join(failed)}"] if failed else []
        )
        membership = len(_on_membership(every))
        scope = f"{membership} on membership and {len(every) - membership} others"
        return f"The full audit has {len(every)} attacks ({scope}); {'; '.join(missing)}."
    scored, ran = _on_membership(every), [one for one in every if one not in left]
    sentence = (
        f"{len(ran)} of the full audit's {len(every)} attacks were run on “{name}”, {len(_on_membership(ran))} of the "
        f"{len(scored)} on membership among them."
    )
    return sentence + (f" Failed: {'; '.join(failed)}." if failed else "")


def _takes(run: Run) -> str:
    """How long the attacks that are left should take here, as one more sentence; empty if none is left."""
    left = open_attacks(run, owner.workspace())
    if not left:
        return ""
    seconds = whole(expected_stages(run.spec, owner.workspace(), is_audit=True))
    what = "It" if len(left) == len(chosen_attacks(run, None)) else "What is left"
    return f" {what} takes about {duration_text(seconds)} on this machine."


def _were(attacks: Sequence[str]) -> str:
    return "one was" if len(attacks) == 1 else f"{len(attacks)} were"


def _on_membership(attacks: Sequence[Attack]) -> list[Attack]:
    """Those that score notes: only they are counted where a page says “the strongest of 10 membership attacks”."""
    return [one for one in attacks if "scores" in one.tables]


def _failed(outcome: object) -> bool:
    return getattr(outcome, "state", "") == "failed"


def _submit(run: Run) -> None:
    from core.jobs.engine import EngineFailed
    from core.runs.integrity.disk import error_sentence

    try:
        viewer.require("audit")
        monitor.engine().submit_audit(run.id, instructor.user())
    except (EngineFailed, LookupError, ValueError, OSError) as error:
        st.error(error_sentence(error), icon=":material/error:")
        return
    st.rerun()
