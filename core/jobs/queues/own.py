"""The queue of one engine, in memory: which jobs wait, in which order, and which of them a scheduler has.

The engine hands a job over only when a worker is free for it. So a waiting job can be cancelled or moved without the
scheduler, and a job that was handed over is on its way to a worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from distributed import Future

from core.spec import RunSpec


@dataclass(eq=False)
class Ticket:
    """One submission of a job. `future` is None while it waits; `submitted` is the time in the job's status.

    `key` names its task at the scheduler.
    `arriving` is True from when a worker without the data folder gets the job until its run has been fetched.
    `unwritten` is True while the request is not in the job's folder, which an earlier, cancelled submission still has.
    """

    job_id: str
    spec: RunSpec
    submitted: float
    user: str | None = None
    future: Future | None = None
    key: str = ""
    arriving: bool = False
    unwritten: bool = False

    @property
    def live(self) -> bool:
        """Whether it waits, a worker has it, or its run is being fetched."""
        return self.future is None or self.arriving or not self.future.done()


@dataclass
class Queue:
    """Tickets in the order in which they run. Not thread-safe: the engine's lock guards it."""

    _tickets: dict[str, Ticket] = field(default_factory=dict)
    _leaving: list[Ticket] = field(default_factory=list)  # cancelled, but a worker may be about to start them

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._tickets

    def get(self, job_id: str) -> Ticket | None:
        """The ticket of a job that was not cancelled."""
        return self._tickets.get(job_id)

    def add(self, ticket: Ticket) -> None:
        """Put a job at the end."""
        self._tickets.pop(ticket.job_id, None)
        self._tickets[ticket.job_id] = ticket

    def waiting(self) -> list[Ticket]:
        """Jobs that no scheduler has yet, in order."""
        return [ticket for ticket in self._tickets.values() if ticket.future is None]

    def ready(self) -> list[Ticket]:
        """Those of `waiting` that may be handed over: no earlier submission of the same job is still in progress."""
        leaving = {ticket.job_id for ticket in self._leaving}
        return [ticket for ticket in self.waiting() if ticket.job_id not in leaving]

    def live(self) -> list[Ticket]:
        """Jobs that run or wait, in order."""
        return [ticket for ticket in self._tickets.values() if ticket.live]

    def leaving(self) -> list[Ticket]:
        """Cancelled jobs that a worker has, or may be about to start."""
        return list(self._leaving)

    def is_leaving(self, job_id: str) -> bool:
        """Whether one of `leaving` is of this job."""
        return any(one.job_id == job_id for one in self._leaving)

    def in_hand(self) -> int:
        """Number of jobs that the scheduler has, including cancelled ones that have not ended yet."""
        return sum(one.future is not None and one.live for one in (*self._tickets.values(), *self._leaving))

    def remove(self, job_id: str) -> None:
        """Remove a job. If it was handed over, it counts as in hand until its future is done."""
        ticket = self._tickets.pop(job_id, None)
        if ticket is not None and ticket.future is not None and ticket.live:
            self._leaving.append(ticket)

    def end(self, ticket: Ticket) -> bool:
        """Forget a ticket whose future is done. True if it was not cancelled."""
        if ticket in self._leaving:
            self._leaving.remove(ticket)
            return False
        kept = self._tickets.get(ticket.job_id) is ticket
        if kept:
            del self._tickets[ticket.job_id]
        return kept

    def lose(self) -> None:
        """Forget the jobs of a scheduler that is gone; waiting jobs keep waiting."""
        self._tickets = {ticket.job_id: ticket for ticket in self.waiting()}
        self._leaving = []

    def clear(self) -> None:
        """Empty the queue."""
        self._tickets, self._leaving = {}, []

    def move(self, job_id: str, place: int) -> None:
        """Move a waiting job to another place among the waiting ones (0 = next). Raises KeyError for any other job."""
        waiting = self.waiting()
        moved = next((ticket for ticket in waiting if ticket.job_id == job_id), None)
        if moved is None:
            raise KeyError(job_id)
        waiting.remove(moved)
        waiting.insert(max(0, place), moved)
        handed = [ticket for ticket in self._tickets.values() if ticket.future is not None]
        self._tickets = {ticket.job_id: ticket for ticket in (*handed, *waiting)}
