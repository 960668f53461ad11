"""The job engine: runs are made and attacked one after another by a worker process that every browser session shares.

What a job is and how far it has come is on disk (`core.jobs.work`), so another browser, a refreshed one, or a restarted
server sees the same jobs. The engine knows which of them wait in its queue, and who asked for them.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from distributed import Future
from distributed.scheduler import KilledWorker

from core.jobs.connection import Connection, EngineFailed
from core.jobs.limits import Accounts, Limits, Refused, Request, User, check
from core.jobs.queue import Queue, Ticket
from core.jobs.work import AUDIT, Job, JobState, Work
from core.jobs.workers import Fit, task_caller
from core.pipeline.full_audit import check_attackable
from core.runs.events import Status
from core.runs.progress import Progress, ProgressReader, progress_of
from core.runs.run import Run, RunBroken, RunNotFound
from core.runs.store import Workspace
from core.spec import RunSpec

LOOK_SECONDS = 5.0  # between two looks for further workers of somebody else's cluster while jobs wait
ANSWER_SECONDS = 30.0


class Engine:
    """Submit, watch and cancel jobs. Threads may share one engine; `Engine.connect` gives all sessions the same one."""

    _engines: dict[tuple[str | None, Path], Engine] = {}
    _engines_lock = threading.Lock()

    def __init__(self, workspace: Workspace, scheduler_address: str | None = None) -> None:
        self.workspace = workspace
        self.scheduler_address = scheduler_address
        self.limits = Limits.of()
        self._lock = threading.RLock()  # what follows below; never held while something is started
        self._starting = threading.Lock()
        self._connection = Connection(scheduler_address)
        self._queue = Queue()
        self._owners: dict[str, str] = {}  # who asked for a job last, also of those that have ended
        self._accounts = Accounts()
        self._readers: dict[str, ProgressReader] = {}
        self._ended: dict[str, Job] = {}  # cancelled ones: nothing of them is on disk
        self._reasons: dict[str, str] = {}  # why a job is interrupted
        self._submissions = 0
        self._look: threading.Timer | None = None

    @classmethod
    def connect(cls, scheduler_address: str | None = None, workspace: Workspace | None = None) -> Engine:
        """The engine of this process for a scheduler (default: a local cluster of its own) and a data folder."""
        workspace = workspace or Workspace()
        key = (scheduler_address, workspace.root)
        with cls._engines_lock:
            if key not in cls._engines:
                cls._engines[key] = cls(workspace, scheduler_address)
            return cls._engines[key]

    # Starting and ending -----------------------------------------------------------------------------------------

    def warm(self) -> None:
        """Start the worker in the background and let it import what training needs: a click is answered fast."""
        threading.Thread(target=self._hand_over, name="phi-leak-lab-engine", daemon=True).start()

    def _hand_over(self) -> None:
        """Give the scheduler as many waiting jobs as workers are free; starts it where there is none."""
        try:
            with self._starting:
                self._start()
                with self._lock:
                    self._drop_what_is_gone()
                    asked = bool(self._queue.ready())
                fit = self._connection.fit(self.workspace.root) if asked else None
                with self._lock:
                    self._send_ready(fit)
        except (EngineFailed, OSError) as error:  # OSError: whatever goes wrong with a connection
            self._give_up(str(error))

    def _start(self) -> None:
        """Connect to a living cluster; starts one where there is none. Raises EngineFailed."""
        if self._connection.alive:
            return
        with self._lock:  # the jobs of a cluster that died show as interrupted
            self._queue.lose()
        self._connection.open()

    def _drop_what_is_gone(self) -> None:
        """Take out jobs whose folder was deleted, damaged, or claimed by another server, while they waited here."""
        for ticket in self._queue.waiting():
            status = self._work(ticket.job_id).status()
            if status is None or status.submitted != ticket.submitted:
                self._queue.remove(ticket.job_id)

    def _send_ready(self, fit: Fit | None) -> None:
        free = (1 if fit is None else fit.threads) - self._queue.in_hand()
        for ticket in self._queue.ready()[: max(0, free)]:
            try:
                self._send(ticket, fit)
            except (RunNotFound, RunBroken):
                self._queue.remove(ticket.job_id)
        if self.scheduler_address is not None and self._queue.waiting() and self._look is None:
            self._look = threading.Timer(LOOK_SECONDS, self._look_again)
            self._look.daemon = True
            self._look.start()

    def _look_again(self) -> None:
        with self._lock:
            self._look = None
        self._hand_over()

    def _send(self, ticket: Ticket, fit: Fit | None) -> None:
        self._submissions += 1
        where = {} if fit is None else {"workers": list(fit.workers), "allow_other_workers": True}
        ticket.future = self._connection.connected().submit(
            task_caller(),
            *self._work(ticket.job_id).task(ticket.submitted),
            key=f"{ticket.job_id}-{os.getpid()}-{self._submissions}",
            pure=False,
            priority=-self._submissions,
            **where,
        )
        ticket.future.add_done_callback(lambda ended: self._note_end(ticket, ended))

    def _give_up(self, message: str) -> None:
        """Fail what waits, with a sentence; what a worker has goes on."""
        with self._lock:
            for ticket in self._queue.waiting():
                self._queue.remove(ticket.job_id)
                self._work(ticket.job_id).fail(message)

    def close(self) -> None:
        """End the client and the local cluster. Running jobs show as interrupted afterwards."""
        with self._starting, self._lock:
            self._queue.clear()
            if self._look is not None:
                self._look.cancel()
            self._connection.close()
        with self._engines_lock:
            self._engines.pop((self.scheduler_address, self.workspace.root), None)

    # Jobs --------------------------------------------------------------------------------------------------------

    def submit(self, spec: RunSpec, user: User | None = None) -> Job:
        """Ask for a run; returns at once. Asking again changes nothing: no run is made or queued twice.

        Without a `user` the machine's owner asks, who has no limits. Raises Refused for what is beyond the user's
        limits, DiskFull when not even the job's folder can be written.
        """
        return self._submit(Work(self.workspace, spec.run_id), spec, user)

    def submit_audit(self, run_id: str, user: User | None = None) -> Job:
        """Ask for the full battery on a finished run; returns at once. What is done or under way is not done again.

        Raises RunNotFound for a run that is not there, ValueError for one that keeps no weights, Refused, DiskFull.
        """
        run = self.workspace.run(run_id)
        check_attackable(run)
        return self._submit(Work(self.workspace, run_id, is_audit=True), run.spec, user)

    def _submit(self, work: Work, spec: RunSpec, user: User | None) -> Job:
        with self._lock:
            job = self._find(work)
            if job is not None and job.state in ("queued", "running", "done"):
                return job
            request = Request.full_audit(spec) if work.is_audit else Request.run(spec)
            self._check(request, user)
            self._queue.add(Ticket(work.id, spec, work.queue(spec), None if user is None else user.name))
            self._ended.pop(work.id, None)
            self._reasons.pop(work.id, None)
            self._owners.pop(work.id, None)
            if user is not None:
                self._owners[work.id] = user.name
                self._accounts.add(user, work.id, request.minutes)
            job = self.status(work.id)
        self.warm()
        return job

    def _check(self, request: Request, user: User | None) -> None:
        """Raise Refused for a job that this user may not ask for now."""
        if user is None or (self.limits.in_class and self.limits.instructs(user)):
            return
        if self._queue.closed:
            raise Refused("The queue is closed: the instructor takes no new jobs now. What waits in it still runs.")
        live = self._queue.live()
        check(
            self.limits,
            user,
            request,
            own=sum(ticket.user == user.name for ticket in live),
            everybody=len(live),
            day_minutes=self._accounts.minutes(user),
        )

    def _note_end(self, ticket: Ticket, future: Future) -> None:
        """Write down what no worker could, and go on with the next job."""
        ended, why = _outcome(future)
        with self._lock:
            wanted = self._queue.end(ticket)
            work = self._work(ticket.job_id)
            if wanted:
                self._note_outcome(work, ticket, ended, why)
            elif (again := self._queue.get(ticket.job_id)) is None:
                work.clear_up()
            elif work.status() is None:  # the earlier submission took its folder away when it stopped
                again.submitted = work.queue(again.spec)
            waiting = bool(self._queue.waiting())
        if waiting:
            self.warm()

    def _note_outcome(self, work: Work, ticket: Ticket, ended: str, why: str) -> None:
        """`ended` and `why` as `_outcome` has them."""
        status = work.status()
        if status is None or status.submitted != ticket.submitted:  # it is done, cancelled, or another server's by now
            return
        if ended == "error":
            work.fail(why)
        elif ended == "lost":
            self._reasons[ticket.job_id] = self._connection.lost()
        elif ended == "cancelled" and not work.asked_to_stop:
            work.fail(
                f"The worker that took this job does not see the data folder {self.workspace.root}. Share the folder "
                "with it under the same path, or end that worker, and start the job again."
            )

    def jobs(self) -> list[Job]:
        """Every job that is not done, running and queued ones first in their order, then the others, newest first."""
        with self._lock:
            found = [self._from_disk(work) for work in Work.asked_for(self.workspace)]
            jobs = [job for job in found if job is not None and not self._is_a_part(job)]
            there = {job.id for job in jobs}
            jobs += [job for job_id, job in self._ended.items() if job_id not in there]
        active = sorted((job for job in jobs if job.active), key=lambda job: (job.state == "queued", job.position or 0))
        others = sorted((job for job in jobs if not job.active), key=lambda job: job.submitted or 0.0, reverse=True)
        return active + others

    def _is_a_part(self, job: Job) -> bool:
        """A base control that is being made within another run is no job of its own."""
        return job.spec.is_base and not job.is_audit and job.id not in self._queue

    def status(self, job_id: str) -> Job:
        """The job of that run, or of that run's audit (`Job.id`). Raises RunNotFound when nobody asked for it."""
        with self._lock:
            job = self._find(self._work(job_id))
        if job is None:
            raise RunNotFound(f"Nobody has asked for {self._in_words(job_id)}.")
        return job

    @staticmethod
    def _in_words(job_id: str) -> str:
        return f"a full audit of run {job_id.removeprefix(AUDIT)}" if job_id.startswith(AUDIT) else f"a run {job_id}"

    def run(self, run_id: str) -> Run:
        """The finished run. Raises RunNotFound while it is not done."""
        return self.workspace.run(run_id)

    def progress(self, job_id: str) -> Progress:
        """Losses, ε, exposures, stage and time left of a job or of a finished run; of an audit, its attack."""
        work = self._work(job_id)
        with self._lock:
            reader = self._readers.setdefault(job_id, ProgressReader(work.folder))
        if work.folder.exists():
            return reader.read()
        with self._lock:
            self._readers.pop(job_id, None)
        try:
            return Progress() if work.is_audit else progress_of(self.workspace.run(work.run_id).events())
        except (RunNotFound, RunBroken):
            return Progress()

    def cancel(self, job_id: str, user: User | None = None) -> Job:
        """Take a job out of the queue, stop it within about 2 s while it runs, or forget a failed or broken-off one.

        Raises Refused when it is somebody else's.
        """
        with self._lock:
            job = self.status(job_id)
            if job.state in ("done", "cancelled"):
                return job
            if not self.may_cancel(job_id, user):
                raise Refused("Only who asked for a job, or the instructor, can cancel it.")
            ticket = self._queue.remove(job_id)
            if ticket is not None and ticket.user is not None and ticket.future is None:
                self._accounts.give_back(ticket.user, job_id)
            self._ended[job_id] = Job(
                job.run_id, job.spec, "cancelled", "Cancelled.", job.submitted, None, job.is_audit
            )
            self._work(job_id).withdraw()
            return self.status(job_id)

    # The queue ---------------------------------------------------------------------------------------------------

    def may_cancel(self, job_id: str, user: User | None) -> bool:
        """Is this job the user's own, or may they change the whole queue?"""
        return self.limits.instructs(user) or self.owns(job_id, user)

    def owns(self, job_id: str, user: User | None) -> bool:
        """Did this user ask for the job?"""
        return user is not None and self._owners.get(job_id) == user.name

    def move(self, job_id: str, place: int, user: User | None = None) -> None:
        """Give a waiting job another place in the queue (0 = next). Raises Refused."""
        self._only_instructors(user)
        with self._lock:
            try:
                self._queue.move(job_id, place)
            except KeyError:
                raise Refused("This job does not wait any more, so it has no place in the queue.") from None

    def close_queue(self, closed: bool, user: User | None = None) -> None:
        """Take no new jobs of users, or take them again. Raises Refused."""
        self._only_instructors(user)
        with self._lock:
            self._queue.closed = closed

    @property
    def queue_closed(self) -> bool:
        """Does the queue take no new jobs of users?"""
        return self._queue.closed

    def _only_instructors(self, user: User | None) -> None:
        if not self.limits.instructs(user):
            raise Refused("Only the instructor can change the queue. The key is in the terminal of `make class`.")

    # Looking -----------------------------------------------------------------------------------------------------

    def _work(self, job_id: str) -> Work:
        return Work.of(self.workspace, job_id)

    def _find(self, work: Work) -> Job | None:
        return self._from_disk(work) or work.finished() or self._from_queue(work) or self._ended.get(work.id)

    def _from_disk(self, work: Work) -> Job | None:
        status = work.status()
        if status is None or (spec := work.spec()) is None:
            return None
        state = self._state(work, status)
        position = self._position(work.id) if state in ("queued", "running") else None
        reason = self._reasons.get(work.id, "") if state == "interrupted" else ""
        return Job(work.run_id, spec, state, status.message or reason, status.submitted, position, work.is_audit)

    def _from_queue(self, work: Work) -> Job | None:
        """A job that waits, while an earlier submission of it, which was cancelled, takes its folder away."""
        ticket = self._queue.get(work.id)
        if ticket is None or ticket.future is not None or work.id not in {one.job_id for one in self._queue.leaving()}:
            return None
        return Job(work.run_id, ticket.spec, "queued", "", ticket.submitted, self._position(work.id), work.is_audit)

    def _state(self, work: Work, status: Status) -> JobState:
        if status.state in ("queued", "running") and not (self._waits(work.id) or work.in_hand):
            return "interrupted"
        return "running" if status.state == "done" else status.state  # done, and about to be moved to its place

    def _waits(self, job_id: str) -> bool:
        """Is it in the queue of this engine, or in its worker's hands?"""
        ticket = self._queue.get(job_id)
        return ticket is not None and ticket.live

    def _position(self, job_id: str) -> int:
        live = [ticket.job_id for ticket in self._queue.live()]
        return live.index(job_id) if job_id in live else 0


def _outcome(future: Future) -> tuple[str, str]:
    """What `core.jobs.task` returned, `lost` without a scheduler, or `error` with the future's own exception in words.

    Asks the worker for its answer, so it must not be called under a lock.
    """
    if future.status == "error":
        return "error", _why(future.exception())
    if future.status != "finished":
        return "lost", ""
    try:
        return future.result(timeout=ANSWER_SECONDS), ""
    except Exception:  # the worker or the connection ended in this very moment; the job's files say how it went
        return "done", ""


def _why(error: BaseException | None) -> str:
    """A future's own exception, as a sentence."""
    if isinstance(error, KilledWorker):
        return (
            "The worker process ended during this job, again and again. Often memory runs out: its log says whether it "
            "did. With a smaller physical batch or model it needs less; started again, it goes on from where it was."
        )
    if isinstance(error, ImportError):
        return (
            f"The worker that took this job cannot import what it needs ({error}). Start workers in this program's "
            "folder and with its environment, and start the job again."
        )
    return f"The worker could not do this job ({type(error).__name__}: {error}). Its log says more."
