"""Permissions for the queue: limits per user, owners of jobs, and the instructor's key.

Commands are run by the machine's owner and have no limits. On the pages, a user is a signed-in person, a class's
browser or a browser session. `make class` sets PHILAB_CLASS=1, which makes the limits strict and lets users cancel only
their own jobs, and PHILAB_INSTRUCTOR_KEY: anyone who knows the key can cancel and reorder all jobs, close the queue,
and has no limits.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from core.common.formatting import duration_text

log = logging.getLogger(__name__)


class Refused(ValueError):
    """A user may not submit a job or change the queue in this way. The message is a sentence that says why."""


@dataclass(frozen=True)
class User:
    """A user of a page.

    Attributes:
        name: Tells users apart, and is not shown to others.
        key: What they typed as the instructor's key.
        instructor: Whether their role is that of an instructor; None where people have no roles, and the key decides.
    """

    name: str
    key: str = field(default="", repr=False)
    instructor: bool | None = None


@dataclass(frozen=True)
class Limits:
    """The most that one user, and all users together, may submit. None = no limit.

    Attributes:
        jobs: A user's waiting and running jobs.
        minutes: The estimated minutes of one job.
        day_minutes: The estimated minutes of all jobs that a user submitted in the last 24 hours.
        queue: The waiting and running jobs of all users.
        key: The instructor's key; if it is empty, every user has the instructor's rights.
    """

    jobs: int | None = 20
    minutes: float | None = 1_440
    day_minutes: float | None = 2_880
    queue: int | None = 200
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """The limits in the environment; the defaults are those for a personal computer, or for a class."""
        key = environment.get("PHILAB_INSTRUCTOR_KEY", "").strip()
        in_class = environment.get("PHILAB_CLASS") == "1" or bool(key)
        usual = CLASS if in_class else cls()
        named: dict[str, Any] = {
            name: _limit(environment, variable, getattr(usual, name)) for name, variable in VARIABLES.items()
        }
        return replace(usual, **named, key=key if key or not in_class else NOBODY)

    @property
    def in_class(self) -> bool:
        """Whether users may cancel only their own jobs, because an instructor manages the queue."""
        return bool(self.key)

    def instructs(self, user: User | None) -> bool:
        """Whether this user may change the whole queue.

        The machine's owner (None) may. Of signed-in people those may whose role says so, whatever key they know. Of
        others those may who know the key, or everybody if there is none.
        """
        if user is not None and user.instructor is not None:
            return user.instructor
        if user is None or not self.key:
            return True
        if self.key == NOBODY:
            return False
        return hmac.compare_digest(self.key.encode(), user.key.strip().encode())


CLASS = Limits(jobs=2, minutes=20, day_minutes=90, queue=40)
VARIABLES = {
    "jobs": "PHILAB_JOBS_PER_USER",
    "minutes": "PHILAB_MINUTES_PER_JOB",
    "day_minutes": "PHILAB_MINUTES_PER_DAY",
    "queue": "PHILAB_QUEUE",
}
NOBODY = "\0"  # key of a class without a key: no typed text equals it, so nobody is the instructor


def _limit(environment: Mapping[str, str], variable: str, usual: float | None) -> float | None:
    """A limit from a variable: a whole number from 0 up, or `none`. Otherwise logs a warning and uses the default."""
    value = environment.get(variable, "").strip().lower()
    if not value:
        return usual
    if value == "none":
        return None
    if value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    _warn_once(variable, value, usual)
    return usual


@lru_cache(maxsize=100)
def _warn_once(variable: str, value: str, usual: float | None) -> None:
    """Log it once for each value: limits are read whenever a page is drawn."""
    log.warning("%s is “%s”: it must be a whole number or “none”. The default, %s, is used.", variable, value, usual)


# What users submit ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """A job that a user submits, as `core.jobs.times.expected` estimates it; `size` says in words what it reads."""

    minutes: float
    size: str


def check(limits: Limits, request: Request, *, own: int, everybody: int, day_minutes: float) -> None:
    """Raise Refused, with a sentence, for a job beyond a user's limits.

    Args:
        limits: Those of this server.
        request: The job.
        own: Number of the user's waiting and running jobs.
        everybody: Number of all waiting and running jobs.
        day_minutes: Estimated minutes that the user submitted in the last 24 hours.
    """
    if limits.minutes is not None and request.minutes > limits.minutes:
        raise Refused(
            f"This job would take about {duration_text(60 * request.minutes)} ({request.size}); the limit here is "
            f"{_minutes(limits.minutes)}. Choose the short training, fewer epochs or a smaller hospital."
        )
    if limits.jobs is not None and own >= limits.jobs:
        jobs = "1 job" if own == 1 else f"{own} jobs"
        raise Refused(
            f"You have {jobs} waiting or running, and the limit here is {limits.jobs}. Wait until one is done, or "
            "cancel one in the training queue (page Train)."
        )
    if limits.day_minutes is not None and day_minutes + request.minutes > limits.day_minutes:
        raise Refused(
            f"This job would take about {duration_text(60 * request.minutes)}. You have submitted "
            f"{_minutes(day_minutes)} in the last 24 hours, and the limit here is {_minutes(limits.day_minutes)}."
        )
    if limits.queue is not None and everybody >= limits.queue:
        raise Refused(f"{everybody} jobs are already waiting or running, the limit of this server. Try again later.")


def _minutes(minutes: float) -> str:
    """`1 minute`, `90 minutes`, `40 hours`, `56,250 days`."""
    for unit, length, most in (("minute", 1, 120), ("hour", 60, 72), ("day", 1_440, float("inf"))):
        count = max(1, round(minutes / length)) if minutes > 0 else 0
        if count <= most:
            return f"{count:,} {unit}{'' if count == 1 else 's'}"
    raise AssertionError("a day has no most")


def in_words(limits: Limits, instructs: bool) -> Sequence[str]:
    """The limits of one user in words, for pages; empty for a user without limits."""
    if instructs and limits.in_class:
        return ()
    found = []
    if limits.jobs is not None:
        found.append(f"{limits.jobs} job{'' if limits.jobs == 1 else 's'} at a time")
    if limits.minutes is not None:
        found.append(f"{_minutes(limits.minutes)} per job")
    if limits.day_minutes is not None:
        found.append(f"{_minutes(limits.day_minutes)} of jobs in any 24 hours")
    return found
