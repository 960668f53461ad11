"""Unlearning while somebody waits: a thread for each run and patient, with progress and cancel, shared by sessions."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import streamlit as st

from core.runs.run import Run
from pages.parts.common.phi_text import literal
from pages.parts.jobs import monitor
from pages.parts.session import resources

if TYPE_CHECKING:
    from core.runs.store import Workspace

POLL_SECONDS = 0.5


class Work:
    """One comparison in progress, or how the last one ended."""

    def __init__(self, run: Run, patient: str, workspace: Workspace) -> None:
        self.error = ""
        self.active = False
        self.arm, self.doing, self.share = "", "", 0.0
        self._run, self._patient, self._workspace = run, patient, workspace
        self._cancelled = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin, unless it is in progress."""
        with self._lock:
            if self.active:
                return
            self.active, self.error, self._cancelled = True, "", False
            self.arm, self.doing, self.share = "", "", 0.0
            threading.Thread(target=self._work, name="forgetting", daemon=True).start()

    def cancel(self) -> None:
        """End after the current batch. What was measured is kept."""
        self._cancelled = True

    def _work(self) -> None:
        try:
            with _one_at_a_time():
                from core.pipeline.forgetting import forget

                forget(
                    self._run, self._patient, self._workspace, on_progress=self._report, should_stop=self._should_stop
                )
        except Exception as error:  # whoever looks reads the sentence: a thread has nobody to raise to
            self.error = str(error) or f"Forgetting stopped: {type(error).__name__}."
        finally:
            self.active = False

    def _should_stop(self) -> bool:
        """Also once uploaded notes are deleted: nothing may be derived from them any more."""
        spec = self._run.spec.corpus
        return self._cancelled or (spec.imported is not None and self._workspace.corpus_folder(spec) is None)

    def _report(self, arm: str, doing: str, done: int, total: int) -> None:
        self.arm, self.doing, self.share = arm, doing, done / max(1, total)


def work(run: Run, patient: str) -> Work:
    """The work on this run and patient, shared by all sessions of the server."""
    return _work(run.id, patient, run, resources.every_workspace())


@resources.cached_object(max_entries=32, show_spinner=False)
def _work(run_id: str, patient: str, _run: Run, _workspace: Workspace) -> Work:
    return Work(_run, patient, _workspace)


@resources.process_object
def _one_at_a_time() -> threading.Lock:
    return threading.Lock()


def progress(run: Run, patient: str, named: dict[str, str]) -> None:
    """A bar that follows the work, with a button that cancels it; the page is drawn again after each model."""
    going = work(run, patient)
    st.fragment(run_every=POLL_SECONDS)(_progress)(going, going.arm, named)


def _progress(going: Work, drawn: str, named: dict[str, str]) -> None:
    if not going.active or going.arm != drawn:
        st.rerun()
    told = f"{named.get(going.arm, 'waiting')}: {going.doing}" if going.arm else "Starting …"
    st.progress(min(1.0, going.share), f"{told[:1].upper()}{told[1:]}")
    st.button("Cancel", icon=":material/stop:", key="forget-cancel", on_click=going.cancel)


def retraining(run: Run, patient: str) -> None:
    """The run without the patient in the training queue: a button, or its progress."""
    spec = run.spec.retrained_spec(patient)
    job = monitor.status(spec.run_id)
    if job is not None and job.state == "done":
        return
    if job is not None and job.active:
        st.fragment(run_every=monitor.POLL_SECONDS)(_queued)(spec.run_id)
        return
    if job is not None and job.state in ("failed", "interrupted"):
        st.caption(literal(f"Training again was {job.state}. {job.message}", 300))
    if st.button(
        f"Train again without {literal(patient)}",
        icon=":material/model_training:",
        key="forget-retrain",
        help="The same settings and seed without this patient's notes. It takes minutes, in the training queue.",
    ) and monitor.submit(spec):
        st.rerun()


def _queued(run_id: str) -> None:
    job = monitor.status(run_id)
    if job is None or not job.active:
        st.rerun()
    st.markdown("**Training again without the patient**")
    monitor.progress_bar(job, monitor.engine().progress(run_id))
