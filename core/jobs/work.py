"""One job's place on disk: making a run, or attacking a finished one.

A job's folder holds `status.json` while somebody waits for it, the diary `events.jsonl`, and `cancel` once somebody
asked it to stop; whoever is at it holds its lock. So every browser, and a restarted server, sees the same jobs.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.pipeline.full_audit import open_attacks, open_figures
from core.runs.audits import AuditBroken
from core.runs.events import CANCEL_FILE, STATUS_FILE, Status, append_event, read_status, write_status
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.lock import held, in_use
from core.runs.run import RunBroken, RunNotFound, read_spec
from core.runs.store import Workspace
from core.spec import RunSpec

JobState = Literal["queued", "running", "done", "cancelled", "failed", "interrupted"]
AUDIT = "audit-"  # in front of a run's name: the job of attacking it with the full battery


@dataclass(frozen=True)
class Job:
    """A run that somebody asked for, or its full audit (`is_audit`). `id` names the job.

    `position` is how many jobs are before it in the queue (0 = next or running; None = not in the queue). `interrupted`
    means that whoever was at it is gone (a server restart): asking again goes on from its checkpoint, or with the
    attacks that are not done yet.
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
        """The run's name, or that with `audit-` in front."""
        return AUDIT + self.run_id if self.is_audit else self.run_id

    @property
    def active(self) -> bool:
        """True while it waits or runs."""
        return self.state in ("queued", "running")


@dataclass(frozen=True)
class Work:
    """A job as its files tell of it; which of them wait in a queue only the engine knows."""

    workspace: Workspace
    run_id: str
    is_audit: bool = False

    @classmethod
    def of(cls, workspace: Workspace, job_id: str) -> Work:
        """The job of that id, whether or not anybody asked for it."""
        return cls(workspace, job_id.removeprefix(AUDIT), job_id.startswith(AUDIT))

    @classmethod
    def asked_for(cls, workspace: Workspace) -> list[Work]:
        """Everything that somebody asked for and that is not done."""
        audits = (workspace.root / "audits").glob(f"*/{STATUS_FILE}")
        return [
            *(cls(workspace, folder.name) for folder in workspace.works()),
            *(cls(workspace, path.parent.name, True) for path in sorted(audits)),
        ]

    @property
    def id(self) -> str:
        """As `Job.id`."""
        return AUDIT + self.run_id if self.is_audit else self.run_id

    @property
    def folder(self) -> Path:
        """Where its state and diary stand. Raises RunNotFound for what is no run's name."""
        return self.workspace.audit(self.run_id).folder if self.is_audit else self.workspace.work(self.run_id)

    @property
    def lock_file(self) -> Path:
        """What whoever makes or attacks the run holds locked."""
        return (self.workspace.audit_lock_file if self.is_audit else self.workspace.lock_file)(self.run_id)

    @property
    def in_hand(self) -> bool:
        """Is any living process at it?"""
        return in_use(self.lock_file)

    def status(self) -> Status | None:
        """What its files say; None when nobody waits for it."""
        return read_status(self.folder)

    def spec(self) -> RunSpec | None:
        """The spec of the run it is about; None when that cannot be read."""
        try:
            return self.workspace.run(self.run_id).spec if self.is_audit else read_spec(self.folder)
        except (RunNotFound, RunBroken, OSError):
            return None

    def finished(self) -> Job | None:
        """The job as done: a complete run, or one of which the battery has no attack and no figure left to make."""
        try:
            run = self.workspace.run(self.run_id)
        except (RunNotFound, RunBroken):
            return None
        try:
            if self.is_audit and (open_attacks(run, self.workspace) or open_figures(run, self.workspace)):
                return None
        except AuditBroken:
            return None
        submitted = None if self.is_audit else run.status.submitted
        return Job(self.run_id, run.spec, "done", run.status.message, submitted, None, self.is_audit)

    def queue(self, spec: RunSpec) -> float:
        """Write down that somebody waits for it; returns the time, by which a worker knows this very submission.

        Raises DiskFull when not even that can be written.
        """
        if self.is_audit:
            with full_disk_as_sentence(f"the audit of run {self.run_id}", self.folder):
                self.workspace.begin_audit(self.run_id, spec.corpus)
        else:
            self.workspace.begin(spec)
        (self.folder / CANCEL_FILE).unlink(missing_ok=True)
        submitted = time.time()
        write_status(self.folder, Status(state="queued", submitted=submitted))
        return submitted

    def withdraw(self) -> None:
        """Nobody waits for it any more: a worker at it is asked to stop; else what asks for it is removed.

        Of a run nothing is left; of an audit the attacks that were done are kept. The lock is held meanwhile, so a
        worker that is about to begin waits, and then finds that nobody asks for the job.
        """
        if not self.folder.exists():
            return
        with held(self.lock_file, should_stop=lambda: True) as nobody_at_it:
            if not nobody_at_it:
                (self.folder / CANCEL_FILE).touch()
            elif self.is_audit:
                (self.folder / STATUS_FILE).unlink(missing_ok=True)
                (self.folder / CANCEL_FILE).unlink(missing_ok=True)
            else:
                self.workspace.discard(self.folder)

    @property
    def asked_to_stop(self) -> bool:
        """Is a worker that is at it asked to stop?"""
        return (self.folder / CANCEL_FILE).exists()

    def clear_up(self) -> None:
        """Remove the request to stop, once whoever was asked has stopped."""
        (self.folder / CANCEL_FILE).unlink(missing_ok=True)

    def fail(self, message: str) -> None:
        """Write down why it cannot be done, where somebody waits for it."""
        status = self.status()
        if status is not None:
            write_status(
                self.folder, Status(state="failed", message=message, submitted=status.submitted, finished=time.time())
            )
            append_event(self.folder, "failed", message=message)

    def task(self, submitted: float) -> tuple[str, str, str, tuple[str, ...], float]:
        """The function of `core.jobs.task` that does it, and its arguments. Raises RunNotFound, RunBroken."""
        places = (str(self.workspace.root), tuple(map(str, self.workspace.shared)), submitted)
        if self.is_audit:
            self.workspace.run(self.run_id)
            return ("attack_run", self.run_id, *places)
        return ("make_run", read_spec(self.folder).model_dump_json(), *places)
