"""The job engine: runs are made and attacked one after another by a worker process that every browser session shares.

What a job is and how far it is stands on disk (`core.jobs.work`), so another browser, a refreshed one, or a restarted
server sees the same jobs. The engine only knows which of them are waiting in its queue.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from distributed import Client, Future

from core.audit import check_attackable
from core.jobs.connection import Connection, EngineFailed
from core.jobs.work import AUDIT, Job, JobState, Work
from core.runs.events import Status
from core.runs.progress import Progress, ProgressReader, progress_of
from core.runs.run import Run, RunBroken, RunNotFound
from core.runs.store import Workspace
from core.spec import RunSpec


class Engine:
    """Submit, watch and cancel jobs. Threads may share one engine; `Engine.connect` gives all sessions the same one."""

    _engines: dict[tuple[str | None, Path], Engine] = {}
    _engines_lock = threading.Lock()

    def __init__(self, workspace: Workspace, scheduler_address: str | None = None) -> None:
        self.workspace = workspace
        self.scheduler_address = scheduler_address
        self._lock = threading.RLock()  # the dictionaries below; never held while something is started
        self._starting = threading.Lock()
        self._connection = Connection(scheduler_address)
        self._futures: dict[str, Future | None] = {}  # in the order of submission; None = not handed over yet
        self._readers: dict[str, ProgressReader] = {}
        self._ended: dict[str, Job] = {}  # cancelled ones: nothing of them is on disk
        self._submissions = 0

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
        """Give the scheduler every job that it does not have yet; starts it where there is none."""
        try:
            client = self._started()
            with self._lock:
                for job_id in [name for name, future in self._futures.items() if future is None]:
                    try:
                        self._futures[job_id] = self._send(client, job_id)
                    except (RunNotFound, RunBroken):  # its folder was deleted, or damaged, while it waited here
                        del self._futures[job_id]
        except (EngineFailed, OSError) as error:  # OSError: whatever goes wrong with a connection
            self._give_up(str(error))

    def _started(self) -> Client:
        """The client, connected to a living cluster; starts one where there is none. Raises EngineFailed."""
        with self._starting:
            if self._connection.alive:
                return self._connection.client
            with self._lock:  # the jobs of a cluster that died show as interrupted
                self._futures = {job_id: None for job_id, future in self._futures.items() if future is None}
            return self._connection.open()

    def _send(self, client: Client, job_id: str) -> Future:
        self._submissions += 1
        future = client.submit(
            *Work.of(self.workspace, job_id).task(),
            key=f"{job_id}-{os.getpid()}-{self._submissions}",
            pure=False,
            priority=-self._submissions,
        )
        future.add_done_callback(lambda ended: self._note_end(job_id, ended))
        return future

    def _give_up(self, message: str) -> None:
        with self._lock:
            waiting = [job_id for job_id, future in self._futures.items() if future is None]
            for job_id in waiting:
                del self._futures[job_id]
                Work.of(self.workspace, job_id).fail(message)

    def close(self) -> None:
        """End the client and the local cluster. Running jobs show as interrupted afterwards."""
        with self._starting, self._lock:
            self._connection.close()
            self._futures.clear()
        with self._engines_lock:
            self._engines.pop((self.scheduler_address, self.workspace.root), None)

    # Jobs --------------------------------------------------------------------------------------------------------

    def submit(self, spec: RunSpec) -> Job:
        """Ask for a run; returns at once. Asking again changes nothing: no run is made or queued twice.

        Raises DiskFull when not even the job's folder can be written.
        """
        return self._submit(Work(self.workspace, spec.run_id), spec)

    def submit_audit(self, run_id: str) -> Job:
        """Ask for the full battery on a finished run; returns at once. What is done or under way is not done again.

        Raises RunNotFound for a run that is not there, ValueError for one that keeps no weights, DiskFull.
        """
        run = self.workspace.run(run_id)
        check_attackable(run)
        return self._submit(Work(self.workspace, run_id, is_audit=True), run.spec)

    def _submit(self, work: Work, spec: RunSpec) -> Job:
        with self._lock:
            job = self._find(work)
            if job is not None and job.state in ("queued", "running", "done"):
                return job
            work.queue(spec)
            self._ended.pop(work.id, None)
            self._futures.pop(work.id, None)
            self._futures[work.id] = None
            job = self.status(work.id)
        self.warm()
        return job

    def _note_end(self, job_id: str, future: Future) -> None:
        """Write down what no worker could: that a job has outlived too many workers."""
        if future.status == "error":
            Work.of(self.workspace, job_id).fail(
                "The worker process died again and again during this job, most likely for lack of memory. Choose a "
                "smaller physical batch or model, and start it again: it goes on from where it was.",
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
        return job.spec.is_base and not job.is_audit and job.id not in self._futures

    def status(self, job_id: str) -> Job:
        """The job of that run, or of that run's audit (`Job.id`). Raises RunNotFound when nobody asked for it."""
        with self._lock:
            job = self._find(Work.of(self.workspace, job_id))
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
        work = Work.of(self.workspace, job_id)
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

    def cancel(self, job_id: str) -> Job:
        """Take a job out of the queue, stop it within about 2 s while it runs, or forget a failed or broken-off one."""
        with self._lock:
            job = self.status(job_id)
            if job.state in ("done", "cancelled"):
                return job
            work = Work.of(self.workspace, job_id)
            work.ask_to_stop()
            self._ended[job_id] = Job(
                job.run_id, job.spec, "cancelled", "Cancelled.", job.submitted, None, job.is_audit
            )
            if job.state != "running":
                future = self._futures.pop(job_id, None)
                if future is not None:
                    future.cancel()
                if not work.in_hand:
                    work.forget()
            return self.status(job_id)

    # Looking -----------------------------------------------------------------------------------------------------

    def _find(self, work: Work) -> Job | None:
        return self._from_disk(work) or work.finished() or self._ended.get(work.id)

    def _from_disk(self, work: Work) -> Job | None:
        status = work.status()
        spec = None if status is None else work.spec()
        if spec is None:
            return None
        state = self._state(work, status)
        position = self._position(work.id) if state in ("queued", "running") else None
        return Job(work.run_id, spec, state, status.message, status.submitted, position, work.is_audit)

    def _state(self, work: Work, status: Status) -> JobState:
        if status.state in ("queued", "running") and not (self._waits(work.id) or work.in_hand):
            return "interrupted"
        return "running" if status.state == "done" else status.state  # done, and about to be moved to its place

    def _waits(self, job_id: str) -> bool:
        """Is it in the queue of this engine, or in its worker's hands?"""
        future = self._futures.get(job_id)
        return job_id in self._futures and (future is None or not future.done())

    def _position(self, job_id: str) -> int:
        waiting = [name for name in self._futures if self._waits(name)]
        return waiting.index(job_id) if job_id in waiting else 0
