"""The queue of one engine, in memory: which jobs wait, in which order, and which a scheduler has.

The engine hands a job over only when a worker is free for it. So a job that waits can be cancelled or moved without
asking anybody, and a job that was handed over is on its way to a worker.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from distributed import Future

from core.spec import RunSpec


@dataclass(eq=False)
class Ticket:
    """One submission of a job. `future` is None while it waits, `submitted` its time as its status has it."""

    job_id: str
    spec: RunSpec
    submitted: float
    user: str | None = None
    future: Future | None = None

    @property
    def live(self) -> bool:
        """Does it wait, or is it in a worker's hands?"""
        return self.future is None or not self.future.done()


@dataclass
class Queue:
    """Tickets in the order in which they run. Not safe for threads by itself: the engine's lock guards it."""

    closed: bool = False
    _tickets: dict[str, Ticket] = field(default_factory=dict)
    _leaving: list[Ticket] = field(default_factory=list)  # cancelled, but a worker may be about to begin them

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
        """Jobs that no scheduler has yet, next one first."""
        return [ticket for ticket in self._tickets.values() if ticket.future is None]

    def ready(self) -> list[Ticket]:
        """Those of `waiting` that may be handed over: no earlier submission of the same job is still on its way."""
        leaving = {ticket.job_id for ticket in self._leaving}
        return [ticket for ticket in self.waiting() if ticket.job_id not in leaving]

    def live(self) -> list[Ticket]:
        """Jobs that run or wait, in their order."""
        return [ticket for ticket in self._tickets.values() if ticket.live]

    def leaving(self) -> list[Ticket]:
        """Jobs that were cancelled and that a worker has, or may be about to begin."""
        return list(self._leaving)

    def in_hand(self) -> int:
        """How many jobs the scheduler has, with those that were cancelled and have not ended yet."""
        return sum(one.future is not None and one.live for one in (*self._tickets.values(), *self._leaving))

    def remove(self, job_id: str) -> Ticket | None:
        """Take a job out. One that was handed over counts as in hand until its future is done."""
        ticket = self._tickets.pop(job_id, None)
        if ticket is not None and ticket.future is not None and ticket.live:
            self._leaving.append(ticket)
        return ticket

    def end(self, ticket: Ticket) -> bool:
        """Forget a ticket whose future is done. True when it was not cancelled."""
        if ticket in self._leaving:
            self._leaving.remove(ticket)
            return False
        kept = self._tickets.get(ticket.job_id) is ticket
        if kept:
            del self._tickets[ticket.job_id]
        return kept

    def lose(self) -> None:
        """Forget what a scheduler had that is gone; what waits goes on waiting."""
        self._tickets = {ticket.job_id: ticket for ticket in self.waiting()}
        self._leaving = []

    def clear(self) -> list[Ticket]:
        """Empty it, and return what waited."""
        waiting = self.waiting()
        self._tickets, self._leaving = {}, []
        return waiting

    def move(self, job_id: str, place: int) -> None:
        """Give a waiting job another place among the waiting ones (0 = next). Raises KeyError for any other job."""
        waiting = self.waiting()
        moved = next((ticket for ticket in waiting if ticket.job_id == job_id), None)
        if moved is None:
            raise KeyError(job_id)
        waiting.remove(moved)
        waiting.insert(max(0, place), moved)
        handed = [ticket for ticket in self._tickets.values() if ticket.future is not None]
        self._tickets = {ticket.job_id: ticket for ticket in (*handed, *waiting)}
