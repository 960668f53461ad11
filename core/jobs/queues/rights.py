"""Who may change the queue: users submit within limits, a job's owner cancels it, the instructor does everything."""

from __future__ import annotations

from core.jobs.limits import Limits, Refused, Request, User, check
from core.jobs.states import JobStates

CANCELLED = "Cancelled."  # a job's message, where its user or a command cancelled it


class QueueRights(JobStates):
    """The part of an engine that changes the queue for users and the instructor."""

    limits: Limits

    def may_cancel(self, job_id: str, user: User | None) -> bool:
        """Whether the job is the user's own, or the user may change the whole queue."""
        return self.limits.instructs(user) or self.owns(job_id, user)

    def owns(self, job_id: str, user: User | None) -> bool:
        """Whether this user submitted the job, at any server."""
        return user is not None and self._shared.owner(job_id) == user.name

    def _who_cancels(self, job_id: str, user: User | None) -> str:
        """A cancelled job's message. A student is informed that it was the instructor."""
        by_instructor = user is not None and self.limits.in_class and not self.owns(job_id, user)
        return "Cancelled by the instructor." if by_instructor else CANCELLED

    def _check(self, job_id: str, request: Request, user: User | None) -> None:
        """Raise Refused for a job that this user may not submit now."""
        if user is None or (self.limits.in_class and self.limits.instructs(user)):
            return
        if self.queue_closed:
            raise Refused("The queue is closed: the instructor accepts no new jobs now. Jobs already in it still run.")
        users = [ticket.user for ticket in self._live()]
        users += [job.user for job in self._shared.elsewhere().values()]
        check(
            self.limits,
            request,
            own=users.count(user.name),
            everybody=len(users),
            day_minutes=self._shared.minutes(user.name, but=job_id),
        )

    def move(self, job_id: str, place: int, user: User | None = None) -> None:
        """Move a waiting job to another place in the queue (0 = next). Raises Refused."""
        self._only_instructors(user)
        with self._lock:
            try:
                self._queue.move(job_id, place)
            except KeyError:
                if job_id in self._shared.elsewhere():
                    raise Refused("This job waits at another server, and can be moved only there.") from None
                raise Refused("This job is no longer waiting, so it has no place in the queue.") from None
            self._publish()

    def close_queue(self, closed: bool, user: User | None = None) -> None:
        """Stop accepting new jobs from users at all servers, or accept them again. Raises Refused.

        It is open again when this server ends.
        """
        self._only_instructors(user)
        try:
            self._shared.close_queue(closed)
        except OSError as error:
            raise Refused(str(error)) from error

    @property
    def queue_closed(self) -> bool:
        """Whether the queue accepts no new jobs from users."""
        return self._shared.is_closed()

    def _only_instructors(self, user: User | None) -> None:
        if not self.limits.instructs(user):
            raise Refused("Only the instructor can change the queue. The key is in the terminal of `make class`.")
