"""What became of each job: from its files, from this engine's queue, and from other servers' queues."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from core.common.newest import Newest
from core.jobs.queues.own import Queue, Ticket
from core.jobs.queues.shared import Elsewhere, SharedQueue
from core.jobs.work import Job, JobState, Work
from core.runs.events import Status
from core.runs.integrity.disk import error_sentence
from core.runs.progress import ProgressReader
from core.runs.store import Workspace

REMEMBERED = 500  # jobs of which a server keeps what is on no disk, or was read from there

log = logging.getLogger(__name__)


class JobStates:
    """The part of an engine that looks at jobs. Any thread may look.

    Files are read without the lock, so that a slow disk holds up one page and not all of them. What is in memory is
    looked at after the files, under the lock: a submission or a cancellation that a file shows is then complete there.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._lock = threading.RLock()  # guards everything below; never held while something is started
        self._queue = Queue()
        self._shared = SharedQueue(workspace.root)
        self._ended: Newest[str, Job] = Newest(REMEMBERED)  # cancelled jobs, which leave nothing on disk
        self._readers: Newest[str, ProgressReader] = Newest(REMEMBERED)
        self._reasons: Newest[str, str] = Newest(REMEMBERED)  # why a job was interrupted

    def _work(self, job_id: str) -> Work:
        return Work.of(self.workspace, job_id)

    def _find(self, work: Work) -> Job | None:
        elsewhere = self._shared.elsewhere()
        found = self._from_disk(work, elsewhere) or work.finished()
        if found is not None:
            return found
        with self._lock:  # nothing is submitted or cancelled now: it may have been since its files were looked for
            return self._from_queue(work) or self._ended.get(work.id) or self._from_disk(work, elsewhere)

    def _from_disk(self, work: Work, elsewhere: dict[str, Elsewhere]) -> Job | None:
        with self._lock:
            if (waiting := self._from_queue(work)) is not None:  # its files are those of the earlier submission
                return waiting
        status = work.status()
        if status is None or (spec := work.spec()) is None:
            return None
        state = self._state(work, status, elsewhere)
        if state == "interrupted" and work.status() != status:  # it went on, or ended, while this looked at it
            return self._from_disk(work, elsewhere)
        if state == "interrupted" and not work.is_audit and work.finished() is not None:
            work.leave_nothing()  # an import or an update brought the finished run
            return None
        with self._lock:
            position = self._place(work.id, elsewhere) if state in ("queued", "running") else None
            reason = self._reasons.get(work.id, "") if state == "interrupted" else ""
        return Job(work.run_id, spec, state, status.message or reason, status.submitted, position, work.is_audit)

    def _ends(self, work: Work) -> bool:
        """Whether the job was cancelled, and a worker has it that has not stopped yet. Needs the lock.

        Ask before `_find`: a worker that stops in between leaves no job to find.
        """
        return self._queue.get(work.id) is None and (self._queue.is_leaving(work.id) or work.asked_to_stop)

    def _from_queue(self, work: Work) -> Job | None:
        """A waiting job while an earlier, cancelled submission of it is still removing its folder. Needs the lock."""
        ticket = self._queue.get(work.id)
        if ticket is None or ticket.future is not None or not self._queue.is_leaving(work.id):
            return None
        return Job(work.run_id, ticket.spec, "queued", "", ticket.submitted, self._position(work.id), work.is_audit)

    def _state(self, work: Work, status: Status, elsewhere: dict[str, Elsewhere]) -> JobState:
        waits = self._waits(work.id) or work.id in elsewhere
        if status.state in ("queued", "running", "done") and not (waits or work.in_hand):
            return "interrupted"  # also a complete run, if its process was killed before moving the folder
        return "running" if status.state == "done" else status.state  # done, but not yet moved to its final place

    def _waits(self, job_id: str) -> bool:
        """Whether the job waits in this engine's queue or a worker of it has the job."""
        with self._lock:
            ticket = self._queue.get(job_id)
            return ticket is not None and ticket.live

    def _place(self, job_id: str, elsewhere: dict[str, Elsewhere]) -> int:
        """The number of jobs before it, at the server where it waits or runs. Needs the lock."""
        there = elsewhere.get(job_id)
        return self._position(job_id) if there is None else there.place

    def _position(self, job_id: str) -> int:
        live = [ticket.job_id for ticket in self._queue.live()]
        return live.index(job_id) if job_id in live else 0

    def _is_gone(self, ticket: Ticket) -> bool:
        status = self._work(ticket.job_id).status()
        return status is None or status.submitted != ticket.submitted

    def _live(self) -> list[Ticket]:
        """Jobs that run or wait here, in order, without those that another server has cancelled or taken.

        Needs the lock.
        """
        leaving = {ticket.job_id for ticket in self._queue.leaving()}  # whose folder is still being removed
        return [
            ticket
            for ticket in self._queue.live()
            if ticket.future is not None or ticket.job_id in leaving or not self._is_gone(ticket)
        ]

    @contextmanager
    def _reason_kept(self, ticket: Ticket, why: str) -> Iterator[None]:
        """Keep in memory why a job ended if that cannot be written, on a full disk for example: other jobs go on."""
        try:
            yield
        except OSError as error:
            log.warning("the end of %s could not be recorded: %s", ticket.job_id, error)
            self._reasons[ticket.job_id] = " ".join(filter(None, (why, error_sentence(error))))

    def _publish(self) -> None:
        """Tell other servers what runs and waits here."""
        self._shared.publish([(ticket.job_id, ticket.user) for ticket in self._live()])
