"""The job engine: runs are made one after another by a worker process that every browser session shares.

What a job is and how far it is stands on disk (`data/work/<id>/`), so another browser, a refreshed one, or a restarted
server sees the same jobs. The engine only knows which of them are waiting in its queue.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from distributed import Client, Future

from core.jobs.task import CANCEL_FILE, get_ready, make_run
from core.runs.events import Status, append_event, read_status, write_status
from core.runs.lock import in_use
from core.runs.progress import Progress, ProgressReader, progress_of
from core.runs.run import Run, RunBroken, RunNotFound, read_spec
from core.runs.store import Workspace
from core.spec import RunSpec

JobState = Literal["queued", "running", "done", "cancelled", "failed", "interrupted"]
ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60


class EngineFailed(RuntimeError):
    """The worker process or the scheduler could not be reached. The text is a sentence."""


@dataclass(frozen=True)
class Job:
    """A run that somebody asked for.

    `position` is how many jobs are before it in the queue (0 = next or running; None = not in the queue). `interrupted`
    means that whoever made it is gone (a server restart): submitting it again goes on from its checkpoint.
    """

    run_id: str
    spec: RunSpec
    state: JobState
    message: str
    submitted: float | None
    position: int | None

    @property
    def active(self) -> bool:
        """True while it waits or runs."""
        return self.state in ("queued", "running")


class Engine:
    """Submit, watch and cancel jobs. Threads may share one engine; `Engine.connect` gives all sessions the same one."""

    _engines: dict[tuple[str | None, Path], Engine] = {}
    _engines_lock = threading.Lock()

    def __init__(self, workspace: Workspace, scheduler_address: str | None = None) -> None:
        self.workspace = workspace
        self.scheduler_address = scheduler_address
        self._lock = threading.RLock()  # the dictionaries below; never held while something is started
        self._starting = threading.Lock()
        self._process: subprocess.Popen | None = None
        self._client: Client | None = None
        self._ready: Future | None = None
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
        except (EngineFailed, OSError) as error:
            self._give_up(str(error))
            return
        with self._lock:
            for run_id, future in self._futures.items():
                if future is None:
                    self._futures[run_id] = self._send(client, run_id)

    def _started(self) -> Client:
        """The client, connected to a living cluster; starts one where there is none. Raises EngineFailed."""
        with self._starting:
            if self._client is not None and (self._process is None or self._process.poll() is None):
                return self._client
            with self._lock:  # the jobs of a cluster that died show as interrupted
                self._futures = {run_id: None for run_id, future in self._futures.items() if future is None}
            address = self.scheduler_address or self._start_cluster()
            try:
                self._client = Client(address, set_as_default=False, timeout=START_SECONDS)
            except (OSError, TimeoutError) as error:
                raise EngineFailed(f"The job scheduler at {address} does not answer ({error}).") from error
            self._ready = self._client.submit(
                get_ready, key="get-ready", priority=1_000_000
            )  # dropped, it would not run
            return self._client

    def _send(self, client: Client, run_id: str) -> Future:
        self._submissions += 1
        future = client.submit(
            make_run,
            read_spec(self.workspace.work(run_id)).model_dump_json(),
            str(self.workspace.root),
            tuple(map(str, self.workspace.shared)),
            key=f"{run_id}-{os.getpid()}-{self._submissions}",
            pure=False,
            priority=-self._submissions,
        )
        future.add_done_callback(lambda ended: self._note_end(run_id, ended))
        return future

    def _give_up(self, message: str) -> None:
        with self._lock:
            waiting = [run_id for run_id, future in self._futures.items() if future is None]
            for run_id in waiting:
                del self._futures[run_id]
                self._fail(run_id, message)

    def _fail(self, run_id: str, message: str) -> None:
        work = self.workspace.work(run_id)
        if work.exists():
            submitted = (read_status(work) or Status(state="failed")).submitted
            write_status(work, Status(state="failed", message=message, submitted=submitted, finished=time.time()))
            append_event(work, "failed", message=message)

    def _start_cluster(self) -> str:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
        self._process = subprocess.Popen(  # noqa: S603 — our own module
            [sys.executable, "-m", "core.jobs.cluster"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C in the terminal is for the server; the cluster ends with it, in order
        )
        line = self._process.stdout.readline()
        if not line:
            raise EngineFailed("The job engine could not start its worker process; the server's log says why.")
        return json.loads(line)["scheduler"]

    def close(self) -> None:
        """End the client and the local cluster. Running jobs show as interrupted afterwards."""
        with self._starting, self._lock:
            if self._client is not None:
                self._client.close(timeout=5)
            if self._process is not None:
                self._process.stdin.close()
                self._process.wait(timeout=60)
            self._client = self._process = self._ready = None
            self._futures.clear()
        with self._engines_lock:
            self._engines.pop((self.scheduler_address, self.workspace.root), None)

    # Jobs --------------------------------------------------------------------------------------------------------

    def submit(self, spec: RunSpec) -> Job:
        """Ask for a run; returns at once. Asking again changes nothing: no run is made or queued twice.

        Raises DiskFull when not even the job's folder can be written.
        """
        run_id = spec.run_id
        with self._lock:
            job = self._find(run_id)
            if job is not None and job.state in ("queued", "running", "done"):
                return job
            work = self.workspace.begin(spec)
            (work / CANCEL_FILE).unlink(missing_ok=True)
            write_status(work, Status(state="queued", submitted=time.time()))
            self._ended.pop(run_id, None)
            self._futures.pop(run_id, None)
            self._futures[run_id] = None
            job = self.status(run_id)
        self.warm()
        return job

    def _note_end(self, run_id: str, future: Future) -> None:
        """Write down what no worker could: that a job has outlived too many workers."""
        if future.status == "error":
            self._fail(
                run_id,
                "The worker process died again and again while it made this run, most likely for lack of memory. "
                "Choose a smaller physical batch or model, and start it again: it goes on from its checkpoint.",
            )

    def jobs(self) -> list[Job]:
        """Every job that is not done, running and queued ones first in their order, then the others, newest first."""
        with self._lock:
            found = [self._from_disk(work) for work in self.workspace.works()]
            jobs = [job for job in found if job is not None and not self._is_a_part(job)]
            jobs += [job for run_id, job in self._ended.items() if not self.workspace.work(run_id).exists()]
        active = sorted((job for job in jobs if job.active), key=lambda job: (job.state == "queued", job.position or 0))
        others = sorted((job for job in jobs if not job.active), key=lambda job: job.submitted or 0.0, reverse=True)
        return active + others

    def _is_a_part(self, job: Job) -> bool:
        """A base control that is being made within another run is no job of its own."""
        return job.spec.is_base and job.run_id not in self._futures

    def status(self, run_id: str) -> Job:
        """The job of that run. Raises RunNotFound when nobody asked for it."""
        with self._lock:
            job = self._find(run_id)
        if job is None:
            raise RunNotFound(f"Nobody has asked for a run {run_id}.")
        return job

    def run(self, run_id: str) -> Run:
        """The finished run. Raises RunNotFound while it is not done."""
        return self.workspace.run(run_id)

    def progress(self, run_id: str) -> Progress:
        """Losses, ε, exposures, stage and time left of a job or of a finished run."""
        work = self.workspace.work(run_id)
        with self._lock:
            reader = self._readers.setdefault(run_id, ProgressReader(work))
        if work.exists():
            return reader.read()
        with self._lock:
            self._readers.pop(run_id, None)
        try:
            return progress_of(self.workspace.run(run_id).events())
        except (RunNotFound, RunBroken):
            return Progress()

    def cancel(self, run_id: str) -> Job:
        """Take a job out of the queue, stop it within about 2 s while it runs, or forget a failed or broken-off one."""
        with self._lock:
            job = self.status(run_id)
            if job.state in ("done", "cancelled"):
                return job
            work = self.workspace.work(run_id)
            if work.exists():
                (work / CANCEL_FILE).touch()
            self._ended[run_id] = Job(run_id, job.spec, "cancelled", "Cancelled.", job.submitted, None)
            if job.state != "running":
                future = self._futures.pop(run_id, None)
                if future is not None:
                    future.cancel()
                if not self._is_made(run_id):
                    self.workspace.discard(work)
            return self.status(run_id)

    # Looking -----------------------------------------------------------------------------------------------------

    def _find(self, run_id: str) -> Job | None:
        work = self.workspace.work(run_id)
        if (job := self._from_disk(work)) is not None:
            return job
        try:
            run = self.workspace.run(run_id)
        except (RunNotFound, RunBroken):
            return self._ended.get(run_id)
        return Job(run_id, run.spec, "done", run.status.message, run.status.submitted, None)

    def _from_disk(self, work: Path) -> Job | None:
        status = read_status(work)
        try:
            spec = read_spec(work)
        except (RunBroken, OSError):
            return None
        if status is None:
            return None
        state = self._state(work.name, status)
        position = self._position(work.name) if state in ("queued", "running") else None
        return Job(work.name, spec, state, status.message, status.submitted, position)

    def _state(self, run_id: str, status: Status) -> JobState:
        if status.state in ("queued", "running") and not (self._waits(run_id) or self._is_made(run_id)):
            return "interrupted"
        return "running" if status.state == "done" else status.state  # done, and about to be moved to its place

    def _waits(self, run_id: str) -> bool:
        """Is it in the queue of this engine, or in its worker's hands?"""
        future = self._futures.get(run_id)
        return run_id in self._futures and (future is None or not future.done())

    def _is_made(self, run_id: str) -> bool:
        """Is any living process making it?"""
        return in_use(self.workspace.lock_file(run_id))

    def _position(self, run_id: str) -> int:
        waiting = [name for name in self._futures if self._waits(name)]
        return waiting.index(run_id) if run_id in waiting else 0
