"""Jobs as every browser sees them: one job live, and the list of all that wait, run or have ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import plotly.graph_objects as go
import streamlit as st

from core.jobs.trained import trained_runs
from core.runs.progress import Progress
from core.runs.run import Run, RunNotFound
from core.spec import PrivacySpec, RunSpec
from core.spec.model_names import MODEL_NAMES
from pages.parts.access import gate, viewer
from pages.parts.common import chart_style, shell
from pages.parts.common.phi_text import literal
from pages.parts.jobs import samples, waiting
from pages.parts.jobs.last_ended import last_ended
from pages.parts.jobs.live_strips import loss_sentence, strips
from pages.parts.jobs.sentences import already_trained, job_title, private_jobs, title
from pages.parts.pickers import run_picker
from pages.parts.pickers.sweep_picker import family_ids
from pages.parts.session import instructor, owner, resources

if TYPE_CHECKING:
    from core.jobs.engine import Engine, Job

FIRST_SECONDS = 0.5  # between two polls until the first step of a job is done and it has a loss
POLL_SECONDS = 1.0  # while something waits or runs; a whole class polls one server
IDLE_SECONDS = 5.0  # otherwise, for jobs from other browsers
FINISHED_SHOWN = 8
EVERYONE = "Everyone sees this list, except for runs on uploaded notes."
SEEN = "jobs_seen"  # in the session: id, state and whether it has begun, of each job when the page was last drawn
BADGES: dict[str, tuple[str, str, Literal["gray", "blue", "green", "orange", "red"]]] = {
    "queued": ("waiting", ":material/hourglass_empty:", "gray"),
    "running": ("running", ":material/play_arrow:", "blue"),
    "done": ("done", ":material/check:", "green"),
    "cancelled": ("cancelled", ":material/block:", "orange"),
    "failed": ("failed", ":material/error:", "red"),
    "interrupted": ("interrupted", ":material/pause:", "orange"),
}


def engine() -> Engine:
    """The job engine of this server, shared by every browser; its worker starts with the first job."""
    from core.jobs.engine import Engine

    return Engine.of_server(resources.every_workspace())


def train_button(spec: RunSpec) -> bool:
    """The button Train, or a message that this run exists already or is in progress. True if it was clicked."""
    job = status(spec.run_id)
    if job is not None and job.state == "done":
        st.success(already_trained(spec), icon=":material/check:")
        links(spec, _family(spec.run_id))
        return False
    if job is not None and job.active:
        in_progress()
        return False
    if (found := owner.workspace().find(spec)) is not None and found.made_again:
        st.caption("This run is shipped with its figures only. Train it again to get all its tables.")
    label = "Resume training" if job is not None and job.state == "interrupted" else "Train"
    return st.button(
        label, type="primary", icon=":material/model_training:", width="stretch", key="train", **viewer.locked("train")
    )


def cannot_train(why: str) -> None:
    """The button Train, disabled, with the sentence that says which setting is invalid."""
    st.button(
        "Train", type="primary", icon=":material/model_training:", width="stretch", key="train", disabled=True, help=why
    )
    st.error(why, icon=":material/error:")


def in_progress() -> None:
    """The message in place of the button while the run with these settings waits or runs."""
    st.info("This run is waiting or running. [Watch it](#live).", icon=":material/hourglass_empty:")


def submit(spec: RunSpec) -> bool:
    """Submit a run to the engine and watch it. Never waits; a refusal is shown as a sentence and returns False.

    Pages open with the run, unless it was trained without some patients: that is a control of another run.
    """
    from core.jobs.engine import EngineFailed
    from core.runs.integrity.disk import error_sentence

    try:
        viewer.require("train")
        job = engine().submit(spec, instructor.user())
    except (EngineFailed, ValueError, OSError) as error:
        st.error(error_sentence(error), icon=":material/error:")
        return False
    st.session_state["watched"] = job.id
    if spec.without is None:
        st.session_state[run_picker.OWN] = job.id
    if (seen := st.session_state.get(SEEN)) is not None:  # this rerun draws it, so none is needed for it
        st.session_state[SEEN] = {one for one in seen if one[0] != job.id} | {(job.id, job.state, _begun(job))}
    return True


Ended = Callable[[str, str | None], None]


def watch(ended: Ended) -> None:
    """The watched job's texts, charts and progress, redrawn every second, and twice as often before the first step.

    `ended(run, sweep)` draws what is said of a finished run; both are ids, the second None if it is on no curve.
    """
    jobs = _jobs()
    awaited = any(job.position == 0 and not _begun(job) for job in jobs)
    gate.fragment(_watch, run_every=FIRST_SECONDS if awaited else _pace(jobs))(ended)


def queue() -> None:
    """All jobs, redrawn every second while anything waits or runs."""
    instructor.panel(engine())
    gate.fragment(_queue, run_every=_pace(_jobs()))()


def _jobs() -> list[Job]:
    """All jobs except those on notes that someone else uploaded."""
    return _shown_and_private()[0]


def _shown_and_private() -> tuple[list[Job], str]:
    """The jobs that the viewer may see, and how many others wait or run, in words; empty without one."""
    workspace, every = owner.workspace(), engine().jobs()
    shown = [job for job in every if workspace.shows(job.spec.corpus)]
    private = sum(job.active for job in every) - sum(job.active for job in shown)
    return shown, private_jobs(private)


def _pace(jobs: Sequence[Job]) -> float:
    return POLL_SECONDS if any(job.active for job in jobs) else IDLE_SECONDS


def _begun(job: Job) -> bool:
    """Whether its first step was taken or its first attack has begun."""
    progress = engine().progress(job.id)
    return job.active and (progress.step > 0 or progress.part > 0)


def status(job_id: str) -> Job | None:
    """The job with that id (`Job.id`); None if there is none."""
    try:
        return engine().status(job_id)
    except RunNotFound:
        return None


def watched() -> Job | None:
    """The job that is shown (`_watched`). Call it first: if a job changes after that, `watch` draws the page again."""
    jobs = _jobs()
    _changed(jobs)
    return _watched(jobs)


def is_of_others(job: Job) -> bool:
    """Whether a job is only the newest of this server: it has ended, and this browser did not ask for it."""
    return not job.active and st.session_state.get("watched") != job.id


def _watch(ended: Ended) -> None:
    jobs, private = _shown_and_private()
    _show_watched(jobs, private, ended)
    if _changed(jobs):  # asked last: before the buttons, it would swallow a click that comes at the same moment
        st.rerun()


def _show_watched(jobs: Sequence[Job], private: str, ended: Ended) -> None:
    if engine().problem:
        st.warning(
            f"{literal(engine().problem, 900)} Jobs wait until a worker can take them.", icon=":material/cloud_off:"
        )
    job = _watched(jobs)
    if job is None:
        now = private or "Nothing is being trained"
        st.info(f"{now}. Choose the settings and press Train.", icon=":material/model_training:")
        return
    st.markdown(f"**{literal(job_title(job))}**")
    progress = engine().progress(job.id)
    progress_bar(job, progress)
    if job.state == "done" and not job.is_audit:
        ended(job.run_id, _family(job.run_id))
    elif not job.is_audit:
        _try_now(job)
    if progress.samples:
        judged = resources.leaks_can_be_found(job.spec.corpus, owner.workspace())
        samples.show(progress.samples, judged=judged, active=job.active)
    if progress.steps_taken:
        _charts(job, progress)


def _try_now(job: Job) -> None:
    """A link to the model as soon as its training is over, while its audit goes on."""
    if job.active and any(run.id == job.run_id for run in trained_runs(owner.workspace())):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(":material/check: Training is over. The audit goes on.", width="content")
            query = run_picker.side_of(job.spec, job.run_id)
            shell.link("playground", "Try the model now", icon=":material/forum:", query=query)


def _charts(job: Job, progress: Progress) -> None:
    privacy, words = job.spec.privacy, job.spec.vocabulary
    cohort = resources.every_workspace().corpus_folder(job.spec.corpus)
    canaries = None if cohort is None else cohort / "canaries.parquet"
    figure = _strips(job.id, progress.updated, progress, privacy, canaries)
    spoken = "Loss, ε spent and canary exposure" if privacy.private else "Loss and canary exposure"
    chart_style.show(figure, key="strips", alt=f"{spoken} of {job_title(job)}, against steps")
    st.html(chart_style.legend_html(figure))
    masked = job.spec.model.kind != "gpt2"
    st.caption(loss_sentence(progress, private=privacy.private, masked=masked))
    with st.expander("How to read this", key="watch-methods"):
        if progress.samples:
            st.markdown(samples.how(progress.samples, job.spec))
        if privacy.private:
            st.markdown(
                "The losses and the canaries' exposure are computed directly from the private notes, and ε does not "
                "cover them. They are for the trusted person who trains the model, not for publication."
            )
        else:
            st.markdown("No privacy: ε = ∞ from the first step.")
        if words is not None and words.epsilon is not None:
            st.markdown(
                f"ε in the chart is that of training. The vocabulary from the notes spends ε = {words.epsilon:g} in "
                "addition."
            )


@resources.cached_object(max_entries=16, show_spinner=False)
def _strips(
    run_id: str, updated: float | None, _progress: Progress, privacy: PrivacySpec, canaries: Path | None
) -> go.Figure:
    """The charts as of the last event, made once for all browsers that watch; `canaries` is the cohort's table."""
    copies = {} if canaries is None else _copies(canaries)
    budget = _budget(_progress, privacy)
    return chart_style.dressed(strips(_progress, copies=copies, budget=budget, private=privacy.private))


def _budget(progress: Progress, privacy: PrivacySpec) -> float | None:
    """The ε that a training with a target guarantees. GDP plans too little noise for most targets: it will spend more.

    None without a target, and for a run planned by GDP whose log is of an earlier version.
    """
    planned_by_gdp = privacy.target_epsilon is not None and privacy.accountant == "gdp"
    return progress.epsilon_end if planned_by_gdp else privacy.target_epsilon


@resources.cached_data(max_entries=16, show_spinner=False)
def _copies(canaries: Path) -> dict[str, int]:
    """How often each canary was planted."""
    import pandas as pd

    table = pd.read_parquet(canaries, columns=["canary_id", "insertions", "inserted"])
    return dict(zip(table["canary_id"], (table["insertions"] * table["inserted"]).astype(int).tolist(), strict=True))


def _changed(jobs: Sequence[Job]) -> bool:
    """Whether a job began, took its first step, ended or was added since this browser began to draw the page."""
    now = {(job.id, job.state, _begun(job)) for job in jobs}
    before = st.session_state.get(SEEN)
    st.session_state[SEEN] = now
    return before is not None and before != now


def _watched(jobs: Sequence[Job]) -> Job | None:
    """The job chosen in this browser (it may have ended), else one under way, else the last that ended."""
    chosen = st.session_state.get("watched")
    job = status(chosen) if chosen else None
    if job is not None and not owner.workspace().shows(job.spec.corpus):  # its notes were deleted while it runs
        job = None
    return job or next((job for job in jobs if job.active), None) or last_ended(engine(), jobs)


def progress_bar(job: Job, progress: Progress) -> None:
    """Stage, n of N and the time left of all stages; Cancel while the job can be cancelled."""
    whole = None if job.is_audit else progress.whole_share(time.time())  # attacks have numbers of their own
    share = {"running": progress.share if whole is None else whole, "done": 1.0}.get(job.state, 0.0)
    if not job.active:
        from core.jobs.queues.rights import CANCELLED

        _badge(job.state)
        if job.message and job.state in ("failed", "interrupted"):
            st.error(literal(job.message, 600), icon=":material/error:")
        elif job.state == "cancelled" and job.message != CANCELLED:  # the badge says that
            st.caption(literal(job.message, 600))
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.progress(share, text=waiting.in_words(job, progress, engine()))
        _cancel_button(job, "watch")


def _cancel_button(job: Job, where: str) -> None:
    """Cancel, for users who may. The engine checks this too, whatever a page shows."""
    if engine().may_cancel(job.id, instructor.user()):
        _change_button(
            "Cancel", "cancel", f"cancel-{where}-{job.id}", lambda: engine().cancel(job.id, instructor.user())
        )


def _first_button(job: Job) -> None:
    """For the instructor: move a waiting job to the first place; repeated, this gives any order."""
    move = partial(engine().move, job.id, 0, instructor.user())
    _change_button("Run next", "vertical_align_top", f"first-{job.id}", move)


def _change_button(label: str, icon: str, key: str, change: Callable[[], object]) -> None:
    """A button that changes the queue; a refusal, or a disk that takes nothing, is shown as a sentence."""
    from core.jobs.limits import Refused
    from core.runs.integrity.disk import error_sentence

    if not st.button(label, icon=f":material/{icon}:", key=key):
        return
    try:
        change()
    except (Refused, RunNotFound, OSError) as error:
        st.error(error_sentence(error), icon=":material/error:")
        return
    st.rerun()


def _queue() -> None:
    jobs, private = _shown_and_private()
    runs = owner.workspace().runs()
    listed = {job.id for job in jobs}  # a training that ends between the two lists is in both, and drawn as a job
    finished = [run for run in runs if not run.shipped and not run.spec.is_base and run.id not in listed]
    if not jobs and not finished:
        limits = instructor.limits_in_words(engine())
        st.caption(f"{f'{private}; no other jobs yet' if private else 'No jobs yet'}. {EVERYONE}{limits}")
        return
    active = sum(job.active for job in jobs)
    everyone = f"{private}. {EVERYONE}" if private else EVERYONE
    limits = instructor.limits_in_words(engine())
    st.caption(f"{active} waiting or running, {len(finished)} finished here. {everyone}{limits}")
    if engine().queue_closed:
        st.warning("The queue is closed: the instructor accepts no new jobs.", icon=":material/lock:")
    for job in jobs:
        _job_row(job)
    on_curve = family_ids(runs)
    for run in finished[:FINISHED_SHOWN]:
        _run_row(run, on_curve.get(run.id))


def _job_row(job: Job) -> None:
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        _badge(job.state)
        st.markdown(literal(job_title(job)), width="stretch")
        doing = waiting.in_words(job, engine().progress(job.id), engine()) if job.active else literal(job.message, 300)
        st.caption(doing, width="content")
        if engine().owns(job.id, instructor.user()):
            st.badge("yours", icon=":material/person:", color="violet")
        _watch_button(job.id)
        if job.state == "queued" and instructor.manages():
            _first_button(job)
        if job.active:
            _cancel_button(job, "queue")


def _run_row(run: Run, family: str | None) -> None:
    with st.container(horizontal=True, vertical_alignment="center", border=True):
        _badge("done")
        st.markdown(literal(title(run)), width="stretch")
        if run.status.finished:
            st.caption(time.strftime("%d %b %H:%M", time.localtime(run.status.finished)), width="content")
        _watch_button(run.id)
        links(run.spec, family)


def _watch_button(job_id: str) -> None:
    if st.button("Watch", key=f"watch-{job_id}", icon=":material/visibility:"):
        st.session_state["watched"] = job_id
        st.rerun()


def _badge(state: str) -> None:
    words, icon, colour = BADGES[state]
    st.badge(words, icon=icon, color=colour)


def links(spec: RunSpec, family: str | None) -> None:
    """Links to a finished run; to the trade-off only if it is on a curve, the one with that id (`Sweep.id`)."""
    pages, run = shell.pages(), run_picker.side_of(spec, spec.run_id)
    with st.container(horizontal=True, width="content"):
        st.page_link(pages["playground"], label="Open in Playground", icon=":material/forum:", query_params=run)
        if family is not None:
            curve = {"model": MODEL_NAMES[spec.model.kind], "family": family}
            st.page_link(pages["tradeoff"], label="Open in ε trade-off", icon=":material/balance:", query_params=curve)


def _family(run_id: str) -> str | None:
    return family_ids(owner.workspace().runs()).get(run_id)
