"""The job engine: a worker process, shared by all browser sessions, trains and attacks runs one after another.

The definition and progress of every job are on disk (`core.jobs.work`), so another browser, a reloaded page, or a
restarted server sees the same jobs. `core.jobs.queues` tells other servers which wait here, and has who submitted them.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Future

from core.jobs.by_store.messages import Message
from core.jobs.by_store.mirror import Mirror, bring, check_for_store
from core.jobs.connection import Connection, EngineFailed, server_scheduler
from core.jobs.limits import Limits, Refused, User
from core.jobs.outcome import outcome
from core.jobs.queues.own import Ticket
from core.jobs.queues.rights import QueueRights
from core.jobs.time_left import time_left_of
from core.jobs.times.expected import request_of
from core.jobs.work import Job, Work
from core.jobs.workers import Fit
from core.pipeline.full_audit import check_attackable
from core.runs.progress import Progress, ProgressReader, progress_of
from core.runs.remote.store import Store, store_address
from core.runs.run import Run, RunBroken, RunNotFound
from core.runs.store import Workspace
from core.spec import RunSpec

LOOK_SECONDS = 5.0  # interval at which an existing cluster is checked for more workers while jobs wait

log = logging.getLogger(__name__)


class Engine(QueueRights):
    """Submits, watches and cancels jobs. Threads may share it; `Engine.of_server` gives all sessions the same engine.

    `problem` is a sentence while the cluster takes no jobs, else empty. With `patient`, jobs wait meanwhile; without,
    they fail with that sentence, until an existing cluster has taken a job: what it then loses may come back.

    With $PHILAB_STORE, workers of an existing cluster share no folder with it: `_mirror` follows their jobs.
    """

    _engines: dict[tuple[str | None, Path], Engine] = {}
    _engines_lock = threading.Lock()

    def __init__(self, workspace: Workspace, scheduler_address: str | None = None, *, patient: bool = False) -> None:
        super().__init__(workspace)
        self.scheduler_address = scheduler_address
        self.patient = patient
        self.problem = ""
        self.limits = Limits.of()
        self._starting = threading.Lock()
        self._mirror = Mirror() if scheduler_address is not None and store_address() else None
        self._connection = Connection(scheduler_address, None if self._mirror is None else self._hear)
        self._submissions = 0
        self._look: threading.Timer | None = None
        self._asked = False
        self._closed = False

    @classmethod
    def connect(
        cls, scheduler_address: str | None = None, workspace: Workspace | None = None, *, patient: bool = False
    ) -> Engine:
        """The engine of this process for a scheduler (default: a local cluster) and a data folder."""
        workspace = workspace or Workspace()
        key = (scheduler_address, workspace.root)
        with cls._engines_lock:
            if key not in cls._engines:
                cls._engines[key] = cls(workspace, scheduler_address, patient=patient)
            return cls._engines[key]

    @classmethod
    def of_server(cls, workspace: Workspace) -> Engine:
        """The engine of the app: with the scheduler in $PHILAB_SCHEDULER, for which jobs wait, or a local cluster."""
        address = server_scheduler()
        return cls.connect(address, workspace, patient=address is not None)

    # Starting and ending -----------------------------------------------------------------------------------------

    def warm(self) -> None:
        """Start the worker in the background and import what training needs, so that a job starts quickly."""
        with self._lock:
            if self._asked:  # a thread that has not begun yet finds whatever waits by then
                return
            self._asked = True
        threading.Thread(target=self._hand_over, name="phi-leak-lab-engine", daemon=True).start()

    def _hand_over(self) -> None:
        """Give the scheduler as many waiting jobs as there are free workers, starting it if necessary."""
        try:
            with self._starting:
                self._asked = False
                if self._closed:  # asked before that, and begun after it
                    return
                self._start()
                with self._lock:
                    self._drop_what_is_gone()
                    ready = bool(self._queue.ready())
                fit = self._connection.fit(self._for_workers()) if ready else None
                with self._lock:
                    self._send_ready(fit)
                    self._publish()
                    self._note_problem("")
                    self.patient = self.patient or fit is not None
                    if self.scheduler_address is not None:  # its workers change
                        self._look_later()
        except (EngineFailed, OSError) as error:
            self._give_up(str(error))

    def _start(self) -> None:
        """Connect to a running cluster, starting one if necessary. Raises EngineFailed."""
        if self._connection.alive:
            return
        with self._lock:  # jobs of a cluster that died are shown as interrupted
            self._queue.lose()
        self._connection.open()

    def _for_workers(self) -> Path | Store:
        """What the workers of an existing cluster must see. Raises StoreUnusable."""
        store = None if self._mirror is None else Store.of_environment()
        return self.workspace.root if store is None else store

    def _drop_what_is_gone(self) -> None:
        """Remove jobs whose folder was deleted, damaged, or claimed by another server while they waited here.

        Not those of which an earlier submission is ending: its worker removes the folder, and `_record_end` makes it
        again.
        """
        for ticket in self._queue.ready():
            if self._is_gone(ticket):
                self._queue.remove(ticket.job_id)

    def _send_ready(self, fit: Fit | None) -> None:
        free = (1 if fit is None else fit.threads) - self._queue.in_hand()
        for ticket in self._queue.ready()[: max(0, free)]:
            try:
                self._send(ticket, fit)
            except (RunNotFound, RunBroken):
                self._queue.remove(ticket.job_id)

    def _look_later(self) -> None:
        """Try again in a few seconds if jobs wait or the cluster did not answer."""
        if (self._queue.waiting() or self.problem) and self._look is None and not self._closed:
            self._look = threading.Timer(LOOK_SECONDS, self._look_again)
            self._look.daemon = True
            self._look.start()

    def _look_again(self) -> None:
        with self._lock:
            self._look = None
        self._hand_over()

    def _send(self, ticket: Ticket, fit: Fit | None) -> None:
        self._submissions += 1
        ticket.key = f"{ticket.job_id}-{self._shared.server}-{self._submissions}"
        task = self._task(ticket)
        ticket.future = self._connection.submit(task, fit, key=ticket.key, priority=-self._submissions)
        ticket.future.add_done_callback(lambda ended: self._note_end(ticket, ended))

    def _task(self, ticket: Ticket) -> tuple[Any, ...]:
        """As `Work.task`, also for workers that share only a store. Raises RunNotFound, RunBroken."""
        work = self._work(ticket.job_id)
        if self._mirror is None:
            return work.task(ticket.submitted)
        ticket.arriving = True
        self._mirror.begin(ticket.key, work, ticket.submitted)
        return work.task_by_store(ticket.submitted, self._connection.topic, ticket.key)

    def _hear(self, message: Message) -> None:
        """Follow a worker that shares only the store. Called in the client's loop, which nothing may hold up."""
        assert self._mirror is not None  # else nobody listens
        if not self._mirror.hear(message):
            threading.Thread(target=self._stop_withdrawn, args=(message["key"],), daemon=True).start()

    def _stop_withdrawn(self, key: str) -> None:
        """Stop a job that a worker still reports, but another server of the data folder has cancelled or taken."""
        with self._lock:
            for ticket in self._queue.live():
                if ticket.key == key and ticket.future is not None and self._is_gone(ticket):
                    self._connection.ask_to_stop(key)
                    self._queue.remove(ticket.job_id)
                    self._publish()

    def _note_problem(self, sentence: str) -> None:
        """Keep the sentence for the pages, and log it once."""
        if sentence and sentence != self.problem:
            log.warning("%s", sentence)
        self.problem = sentence

    def _give_up(self, message: str) -> None:
        """Have waiting jobs wait on, or mark them as failed, with a sentence; jobs that a worker has continue."""
        with self._lock:
            if self.patient:
                self._note_problem(message)
                self._look_later()
                return
            for ticket in self._queue.waiting():
                self._queue.remove(ticket.job_id)
                if not self._is_gone(ticket):
                    with self._reason_kept(ticket, message):
                        self._work(ticket.job_id).fail(message)
            self._publish()

    def close(self) -> None:
        """Close the client and end the local cluster. Running jobs are shown as interrupted afterwards."""
        with self._starting, self._lock:
            self._closed = True
            self._queue.clear()
            self._shared.close()
            if self._look is not None:
                self._look.cancel()
            self._connection.close()
        with self._engines_lock:
            self._engines.pop((self.scheduler_address, self.workspace.root), None)

    # Jobs --------------------------------------------------------------------------------------------------------

    def submit(self, spec: RunSpec, user: User | None = None) -> Job:
        """Submit a run and return at once. Submitting it again changes nothing: no run is made or queued twice.

        Without a `user` the request comes from the machine's owner, who has no limits. Raises Refused if the job
        exceeds the user's limits, DiskFull if there is no room even for the job's folder.
        """
        return self._submit(Work(self.workspace, spec.run_id), spec, user)

    def submit_audit(self, run_id: str, user: User | None = None) -> Job:
        """Submit a full audit of a finished run and return at once. What is done or in progress is not repeated.

        Raises RunNotFound if there is no such run, ValueError if it has no weights, Refused and DiskFull as `submit`.
        """
        run = self.workspace.run(run_id)
        check_attackable(run)
        return self._submit(Work(self.workspace, run_id, is_audit=True), run.spec, user)

    def _submit(self, work: Work, spec: RunSpec, user: User | None) -> Job:
        self._find(work)  # reads the run's files, which are remembered, before others wait for this
        request = request_of(spec, self.workspace, is_audit=work.is_audit)
        with self._lock:
            ends, job = self._ends(work), self._find(work)
            if job is not None and (job.state == "done" or (job.active and not ends)):
                return job
            if self._mirror is not None:
                check_for_store(spec, is_audit=work.is_audit)
            self._check(work.id, request, user)
            name = None if user is None else user.name
            leaves = self._queue.is_leaving(work.id)  # then the folder is still the earlier submission's
            submitted = time.time() if leaves else work.queue(spec)
            self._queue.add(Ticket(work.id, spec, submitted, name, unwritten=leaves))
            self._ended.pop(work.id, None)
            self._reasons.pop(work.id, None)
            self._shared.submitted(work.id, name, request.minutes)
            self._publish()
            job = self.status(work.id)
        self.warm()
        return job

    def _note_end(self, ticket: Ticket, future: Future) -> None:
        """Record the outcome if no worker could, and continue with the next job."""
        ended, why = outcome(future)
        if self._mirror is not None:
            self._mirror.end(ticket.key)
            try:
                if ended == "done" and (why := self._bring(ticket)):
                    ended = "failed"
            finally:
                ticket.arriving = False
        with self._lock:
            wanted = self._queue.end(ticket)
            with self._reason_kept(ticket, why):
                self._record_end(ticket, ended, why, wanted=wanted)
            self._publish()
            waiting = bool(self._queue.waiting())
        if waiting:
            self.warm()

    def _record_end(self, ticket: Ticket, ended: str, why: str, *, wanted: bool) -> None:
        """Write how a job ended, or if it was cancelled, clear up after its worker. Raises OSError."""
        work = self._work(ticket.job_id)
        if wanted:
            self._note_outcome(work, ticket, ended, why)
        elif (again := self._queue.get(ticket.job_id)) is None:
            work.clear_up()
        elif again.unwritten or work.status() is None:  # the earlier submission removed the folder when it stopped
            again.submitted, again.unwritten = work.queue(again.spec), False

    def _bring(self, ticket: Ticket) -> str:
        """Fetch the run of a job, unless it was cancelled. A sentence if that fails."""
        with self._lock:
            wanted = self._queue.get(ticket.job_id) is ticket and not self._is_gone(ticket)
        return bring(self._work(ticket.job_id), ticket.spec) if wanted else ""

    def _note_outcome(self, work: Work, ticket: Ticket, ended: str, why: str) -> None:
        """Record `ended` and `why`, which come from `outcome`."""
        status = work.status()
        if status is None or status.submitted != ticket.submitted:  # done, cancelled, or claimed by another server
            return
        if ended == "error" or (ended == "failed" and status.state != "failed" and why):
            work.fail(why)
        elif ended == "lost":
            self._reasons[ticket.job_id] = f"{self._connection.lost()} Submit the job again: it resumes where it was."
        elif ended == "cancelled" and not work.asked_to_stop:
            work.fail(
                f"The worker that took this job does not see the data folder {self.workspace.root}. Share the folder "
                "with it under the same path, or end that worker; then start the job again."
            )

    def jobs(self) -> list[Job]:
        """Every job that is not done: running and queued ones first, in their order, then the others, newest first."""
        elsewhere = self._shared.elsewhere()
        found = [self._from_disk(work, elsewhere) for work in Work.asked_for(self.workspace)]
        with self._lock:
            jobs = [job for job in found if job is not None and (job.id in elsewhere or not self._is_a_part(job))]
            jobs = [replace(job, position=self._place(job.id, elsewhere)) if job.active else job for job in jobs]
            there = {job.id for job in jobs}
            jobs += [job for job_id, job in self._ended.items() if job_id not in there]
        active = sorted((job for job in jobs if job.active), key=lambda job: (job.state == "queued", job.position or 0))
        others = sorted((job for job in jobs if not job.active), key=lambda job: job.submitted or 0.0, reverse=True)
        return active + others

    def _is_a_part(self, job: Job) -> bool:
        """Whether the job is a base control that is being made as part of another run."""
        return job.spec.is_base and not job.is_audit and job.id not in self._queue

    def status(self, job_id: str) -> Job:
        """The job of that run, or of that run's audit (`Job.id`). Raises RunNotFound if nobody submitted it."""
        job = self._find(self._work(job_id))
        if job is None:
            raise RunNotFound(f"No one has submitted {self._work(job_id).in_words}.")
        return job

    def run(self, run_id: str) -> Run:
        """The finished run. Raises RunNotFound if it is not done yet."""
        return self.workspace.run(run_id)

    def progress(self, job_id: str) -> Progress:
        """Losses, ε, exposures, texts, stage and time left of a job or a finished run; for an audit, its attack."""
        work = self._work(job_id)
        with self._lock:
            reader = self._readers.setdefault(job_id, ProgressReader(work.folder, partial(time_left_of, work)))
        if work.folder.exists():
            return reader.read()
        with self._lock:
            self._readers.pop(job_id, None)
        try:
            return Progress() if work.is_audit else progress_of(self.workspace.run(work.run_id).events())
        except (RunNotFound, RunBroken):
            return Progress()

    def cancel(self, job_id: str, user: User | None = None) -> Job:
        """Remove a job from the queue, stop it within about 2 s if it runs, or forget a failed or interrupted one.

        Returns the job as it is then: done, if its run was completed at this moment.

        Raises Refused if the job belongs to another user, and OSError if its worker cannot be asked to stop: then a
        running job goes on.
        """
        self._work(job_id).wait_for_failed_worker()  # without the lock, for which every page waits
        with self._lock:
            job = self.status(job_id)
            if job.state in ("done", "cancelled"):
                return job
            if not self.may_cancel(job_id, user):
                raise Refused("Only the user who submitted a job, or the instructor, can cancel it.")
            message = self._who_cancels(job_id, user)
            ticket, there = self._queue.get(job_id), self._shared.elsewhere().get(job_id)
            waited = ticket.future is None if ticket is not None else job.state == "queued"
            asked = ticket if ticket is not None else there
            work = self._work(job_id)
            if self._mirror is not None and ticket is not None and ticket.future is not None:
                self._mirror.end(ticket.key)
                self._connection.ask_to_stop(ticket.key)
            work.withdraw()
            self._queue.remove(job_id)
            if job.is_audit or work.folder.exists() or work.finished() is None:  # else it ended at this moment: done
                self._ended[job_id] = Job(job.run_id, job.spec, "cancelled", message, job.submitted, None, job.is_audit)
            self._shared.cancelled(job_id, give_back=asked.user if asked is not None and waited else None)
            self._publish()
            return self.status(job_id)
