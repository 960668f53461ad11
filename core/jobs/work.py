"""The files of one job: training a run, or attacking a finished one.

A job's folder contains `status.json` while somebody waits for it, the event log `events.jsonl`, and `cancel` after
somebody asked it to stop. The process that works on it holds its lock. So every browser, and a restarted server, sees
the same jobs.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.pipeline.full_audit import open_attacks, open_figures
from core.runs.audits import AuditBroken
from core.runs.events import CANCEL_FILE, STATUS_FILE, Status, append_event, read_status, write_status
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.lock import POLL_SECONDS, held, in_use
from core.runs.run import RUN_ID, RunBroken, RunNotFound, read_spec
from core.runs.store import Workspace
from core.spec import RunSpec

JobState = Literal["queued", "running", "done", "cancelled", "failed", "interrupted"]
AUDIT = "audit-"  # prefix of the job id for a run's full audit
LEAVE_SECONDS = 10.0  # that a worker may take to release a job after it has recorded the failure


@dataclass(frozen=True)
class Job:
    """A run that somebody submitted, or its full audit (`is_audit`). `id` names the job.

    `position` is the number of jobs before it in the queue (0 = next or running; None = not in the queue).
    `interrupted` means that the process working on it is gone (a server restart): submitting it again resumes from its
    checkpoint, or with the attacks that are not done yet, or moves a complete run to its place.
    """

    run_id: str
    spec: RunSpec
    state: JobState
    message: str
    submitted: float | None
    position: int | None
    is_audit: bool = False

    @property
    def id(self) -> str:
        """The run's id, or the run's id with the prefix `audit-`."""
        return AUDIT + self.run_id if self.is_audit else self.run_id

    @property
    def active(self) -> bool:
        """True while the job waits or runs."""
        return self.state in ("queued", "running")


@dataclass(frozen=True)
class Work:
    """A job according to its files; only the engine knows which jobs wait in a queue."""

    workspace: Workspace
    run_id: str
    is_audit: bool = False

    @classmethod
    def of(cls, workspace: Workspace, job_id: str) -> Work:
        """The job of that id, whether or not anybody submitted it."""
        return cls(workspace, job_id.removeprefix(AUDIT), job_id.startswith(AUDIT))

    @classmethod
    def asked_for(cls, workspace: Workspace) -> list[Work]:
        """All jobs that somebody submitted and that are not done."""
        audits = [path.parent.name for path in (workspace.root / "audits").glob(f"*/{STATUS_FILE}")]
        return [
            *(cls(workspace, folder.name) for folder in workspace.works()),
            *(cls(workspace, run_id, True) for run_id in sorted(audits) if RUN_ID.fullmatch(run_id)),
        ]

    @property
    def id(self) -> str:
        """As `Job.id`."""
        return AUDIT + self.run_id if self.is_audit else self.run_id

    @property
    def in_words(self) -> str:
        """`a full audit of run …` or `a run …`."""
        return f"a full audit of run {self.run_id}" if self.is_audit else f"a run {self.run_id}"

    @property
    def folder(self) -> Path:
        """The folder of its state and event log. Raises RunNotFound for anything that is not a run id."""
        return self.workspace.audit(self.run_id).folder if self.is_audit else self.workspace.work(self.run_id)

    @property
    def lock_file(self) -> Path:
        """The lock file of the process that makes or attacks the run."""
        return (self.workspace.audit_lock_file if self.is_audit else self.workspace.lock_file)(self.run_id)

    @property
    def in_hand(self) -> bool:
        """Whether a living process works on it."""
        return in_use(self.lock_file)

    def status(self) -> Status | None:
        """The status in its files; None if nobody waits for it."""
        return read_status(self.folder)

    def spec(self) -> RunSpec | None:
        """The spec of the run it is about; None if it cannot be read."""
        try:
            return self.workspace.run(self.run_id).spec if self.is_audit else read_spec(self.folder)
        except (RunNotFound, RunBroken, OSError):
            return None

    def finished(self) -> Job | None:
        """The job as done: a complete run, or a run for which the battery has no attack and no figure left to make.

        None for the training of a run that is made again.
        """
        try:
            run = self.workspace.run(self.run_id)
        except (RunNotFound, RunBroken):
            return None
        if not self.is_audit and run.made_again:
            return None
        try:
            if self.is_audit and (open_attacks(run, self.workspace) or open_figures(run, self.workspace)):
                return None
        except AuditBroken:
            return None
        submitted = None if self.is_audit else run.status.submitted
        return Job(self.run_id, run.spec, "done", run.status.message, submitted, None, self.is_audit)

    def queue(self, spec: RunSpec) -> float:
        """Record that somebody waits for it, and return the time, which identifies this submission to a worker.

        Raises:
            DiskFull: There is no room even for that.
        """
        for last in (False, False, True):  # the worker of the same run, just cancelled, may remove the folder meanwhile
            try:
                self._begin(spec)
                submitted = time.time()
                write_status(self.folder, Status(state="queued", submitted=submitted))
                break
            except FileNotFoundError:
                if last:
                    raise
        return submitted

    def _begin(self, spec: RunSpec) -> None:
        """Make its folder, without a request to stop. Raises DiskFull."""
        if self.is_audit:
            with full_disk_as_sentence(f"the audit of run {self.run_id}", self.folder):
                self.workspace.begin_audit(self.run_id, spec.corpus)
        else:
            self.workspace.begin(spec)
        (self.folder / CANCEL_FILE).unlink(missing_ok=True)

    def wait_for_failed_worker(self) -> None:
        """Wait while a worker that has recorded a failure still holds the job, `LEAVE_SECONDS` at most."""
        until = time.monotonic() + LEAVE_SECONDS
        while self._failed and self.in_hand and time.monotonic() < until:
            time.sleep(POLL_SECONDS)

    def withdraw(self) -> None:
        """Cancel the job: ask the worker on it to stop, or else remove its request.

        A run leaves nothing behind; an audit keeps its finished attacks. The lock is held meanwhile, so a worker about
        to start the job waits, and then finds no request for it. A worker that has recorded a failure no longer looks
        for a request to stop, and is about to release the job: that is waited for, `LEAVE_SECONDS` at most.

        Raises:
            OSError: The request to stop could not be written, on a full disk for example.
        """
        if not self.folder.exists():
            return
        until = time.monotonic() + LEAVE_SECONDS
        with held(self.lock_file, should_stop=lambda: not self._failed or time.monotonic() > until) as nobody_at_it:
            if not nobody_at_it:
                with suppress(FileNotFoundError):  # the run was completed and moved at this moment
                    (self.folder / CANCEL_FILE).touch()
            elif self.is_audit:
                (self.folder / STATUS_FILE).unlink(missing_ok=True)
                (self.folder / CANCEL_FILE).unlink(missing_ok=True)
            else:
                self.workspace.discard(self.folder)

    def leave_nothing(self) -> None:
        """Remove what was begun of a run that is there, unless a process works on it or the folder is read-only."""
        with suppress(OSError), held(self.lock_file, should_stop=lambda: True) as nobody_at_it:
            if nobody_at_it:
                self.workspace.discard(self.folder)

    @property
    def _failed(self) -> bool:
        status = self.status()
        return status is not None and status.state == "failed"

    @property
    def asked_to_stop(self) -> bool:
        """Whether the worker has been asked to stop."""
        return (self.folder / CANCEL_FILE).exists()

    def clear_up(self) -> None:
        """Remove the request to stop after the worker has stopped."""
        (self.folder / CANCEL_FILE).unlink(missing_ok=True)

    def fail(self, message: str) -> None:
        """Record why it cannot be done, if somebody waits for it."""
        status = self.status()
        if status is not None:
            failed = {"state": "failed", "message": message, "finished": time.time()}
            write_status(self.folder, status.model_copy(update=failed))
            append_event(self.folder, {"event": "failed", "message": message})

    def task(self, submitted: float) -> tuple[str, str, str, tuple[str, ...], float]:
        """The function of `core.jobs.task` for it, and its arguments. Raises RunNotFound, RunBroken."""
        places = (str(self.workspace.root), tuple(map(str, self.workspace.shared)), submitted)
        if self.is_audit:
            self.workspace.run(self.run_id)
            return ("attack_run", self.run_id, *places)
        return ("make_run", read_spec(self.folder).model_dump_json(), *places)

    def task_by_store(self, submitted: float, topic: str, key: str) -> tuple[str, str, float, str, str]:
        """As `task`, for a worker that shares only the store (see `core.jobs.task`). Raises RunBroken."""
        return ("make_run_by_store", read_spec(self.folder).model_dump_json(), submitted, topic, key)
