"""Unlearning while somebody waits: a thread for each run and patient, with progress and cancel, shared by sessions."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import streamlit as st

from core.runs.run import Run
from pages.parts.access import gate, viewer
from pages.parts.common.durations import time_left
from pages.parts.common.phi_text import literal
from pages.parts.jobs import monitor
from pages.parts.session import instructor, resources
from pages.parts.session.failures import failure

if TYPE_CHECKING:
    from core.jobs.limits import User
    from core.runs.store import Workspace

POLL_SECONDS = 0.5
ETA_FROM = 0.05  # share of one model's part from which its remaining time is estimated
MOST_WAITING = 6  # of all users together
RETRAINING = "The same settings and seed without this patient's notes. It takes minutes, in the training queue."
_REFUSED = "forget_refused"
_GUARD = threading.Lock()  # of the works in progress


class Work:
    """One comparison in progress, or how the last one ended. `user` began it."""

    def __init__(self, run: Run, patient: str, workspace: Workspace, user: User) -> None:
        self.error, self.user = "", user
        self.active = False
        self.arm, self.doing, self.share = "", "", 0.0
        self.seconds_left: float | None = None  # of `doing`
        self._part_began = 0.0, 0.0  # on the monotonic clock, and the share that was first reported
        self._run, self._patient, self._workspace = run, patient, workspace
        self._cancelled = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin."""
        self.active = True
        threading.Thread(target=self._work, name="forgetting", daemon=True).start()

    def cancel(self) -> None:
        """End after the current batch. What was measured is kept."""
        self._cancelled = True

    def _work(self) -> None:
        turn = _one_at_a_time()
        try:
            while not turn.acquire(timeout=POLL_SECONDS):
                if self._cancelled:
                    return
            try:
                from core.pipeline.forgetting import forget

                forget(
                    self._run, self._patient, self._workspace, on_progress=self._report, should_stop=self._should_stop
                )
            finally:
                turn.release()
        except Exception as error:  # whoever looks reads the sentence: a thread has nobody to raise to
            self.error = failure(error, "Forgetting")
        finally:
            self.active = False

    def _should_stop(self) -> bool:
        return self._cancelled

    def _report(self, arm: str, doing: str, done: int, total: int) -> None:
        share = min(1.0, done / max(1, total))
        if (arm, doing) != (self.arm, self.doing) or share < self.share:  # some parts read the same notes twice
            self._part_began = time.monotonic(), share
        began, first = self._part_began
        made = share - first
        self.seconds_left = (time.monotonic() - began) * (1 - share) / made if made > ETA_FROM else None
        self.arm, self.doing, self.share = arm, doing, share


def work(run: Run, patient: str) -> Work | None:
    """What goes on with this run and patient, or how it ended with an error; shared by all sessions of the server."""
    return _works().get((run.id, patient))


def start(run: Run, patient: str) -> None:
    """Begin, within the limits: one at a time for each user, and no more than wait already.

    A refusal is kept for `refusal`.
    """
    if not viewer.may("forget"):
        st.session_state[_REFUSED] = viewer.needs("forget")
        return
    user, free, works = instructor.user(), instructor.manages(), _works()
    with _GUARD:
        for key in [key for key, one in works.items() if not one.active]:
            del works[key]  # an error of an earlier try
        if (run.id, patient) in works:
            return
        if monitor.engine().queue_closed and not free:
            st.session_state[_REFUSED] = "The instructor has closed the queue. It accepts no work of this kind either."
        elif not free and any(one.user.name == user.name for one in works.values()):
            st.session_state[_REFUSED] = "One of your patients is still being forgotten. Wait for that, or cancel it."
        elif len(works) >= MOST_WAITING:
            st.session_state[_REFUSED] = f"{len(works)} patients are being forgotten or waiting. Try again in a minute."
        else:
            works[run.id, patient] = Work(run, patient, resources.every_workspace(), user)
            works[run.id, patient].start()


def refusal() -> str:
    """Why the last click was refused, once; empty if it was not."""
    return str(st.session_state.pop(_REFUSED, ""))


def _may_cancel(going: Work) -> bool:
    """Whoever began it, and the instructor of a class."""
    user = instructor.user()
    return going.user.name == user.name or monitor.engine().limits.instructs(user)


def _cancel(going: Work) -> None:
    """Cancel, for those who may at the time of the click: they may have signed out since the page was drawn."""
    if not viewer.refused("forget") and _may_cancel(going):
        going.cancel()


@resources.process_object
def _works() -> dict[tuple[str, str], Work]:
    """Works by run and patient: those in progress, and those that ended with an error or a moment ago."""
    return {}


@resources.process_object
def _one_at_a_time() -> threading.Lock:
    """Of works alone: each takes minutes and several may wait, and computations of seconds must not wait for them."""
    return threading.Lock()


def progress(run: Run, patient: str, named: dict[str, str], open_arms: list[str]) -> None:
    """A bar that follows the work, with a button that cancels it; the page is drawn again after each model.

    `open_arms`: the models that are not measured yet, in the order of the work.
    """
    going = work(run, patient)
    if going is None:
        return
    later = len(open_arms) - open_arms.index(going.arm) - 1 if going.arm in open_arms else len(open_arms)
    gate.fragment(_progress, run_every=POLL_SECONDS)(going, going.arm, named, later)


def _progress(going: Work, drawn: str, named: dict[str, str], later: int) -> None:
    if not going.active or going.arm != drawn:
        st.rerun()
    st.progress(going.share, _doing(going, named, later))
    if _may_cancel(going):
        st.button("Cancel", icon=":material/stop:", key="forget-cancel", on_click=_cancel, args=(going,))


def _doing(going: Work, named: dict[str, str], later: int) -> str:
    """The model at work, what is done with it, the time that this part still takes, and how many models come later."""
    if not going.arm:
        return "Waiting for its turn …"
    name = named[going.arm]
    left = time_left(going.seconds_left)
    if left and going.doing == "unlearning":
        left += " or less"  # it ends as soon as the patient is like others
    after = f"; then {later} more model{'s' * (later > 1)}" if later else ""
    return f"{name[:1].upper()}{name[1:]}: {going.doing}{left}{after}"


def retraining(run: Run, patient: str) -> None:
    """The run without the patient in the training queue: a button, or its progress."""
    spec = run.spec.retrained_spec(patient)
    job = monitor.status(spec.run_id)
    if job is not None and job.state == "done":
        return
    if job is not None and job.active:
        gate.fragment(_queued, run_every=monitor.POLL_SECONDS)(spec.run_id)
        return
    if job is not None and job.state in ("failed", "interrupted"):
        ended = "failed" if job.state == "failed" else "was interrupted"
        st.caption(literal(f"Training again {ended}. {job.message}", 300) + " Start it again below.")
    if st.button(
        f"Train again without patient {literal(patient)}",
        icon=":material/model_training:",
        key="forget-retrain",
        **{"help": RETRAINING} | viewer.locked("train"),
    ) and monitor.submit(spec):
        st.rerun()


def _queued(run_id: str) -> None:
    job = monitor.status(run_id)
    if job is None or not job.active:
        st.rerun()
    st.markdown("**Training again without the patient**")
    monitor.progress_bar(job, monitor.engine().progress(run_id))
