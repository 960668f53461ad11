"""The training that a reloaded page shows again: its browser session, and what it watched, are new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.runs.run import RunNotFound
from pages.parts.session import instructor, owner

if TYPE_CHECKING:
    from core.jobs.engine import Engine, Job


def last_ended(engine: Engine, jobs: Sequence[Job]) -> Job | None:
    """The newest training that has ended, whether done, cancelled or failed; None without one.

    In a class an unfinished one is shown only to the student who asked for it: to others it says nothing.

    Args:
        engine: The engine of this server.
        jobs: The jobs that the viewer may see (`Engine.jobs`), which lack those that are done.
    """
    user, in_class = instructor.user(), engine.limits.in_class
    ended = [job for job in jobs if not job.active and not job.is_audit]
    unfinished = next((job for job in ended if not in_class or engine.owns(job.id, user)), None)
    done = _last_done(engine)
    if unfinished is None or done is None:
        return unfinished or done
    return max(unfinished, done, key=lambda job: job.submitted or 0.0)


def _last_done(engine: Engine) -> Job | None:
    """The run that was made last, of those that the viewer may see."""
    runs = (run for run in owner.workspace().runs() if not run.shipped and not run.spec.is_base)
    newest = next(runs, None)
    try:
        return None if newest is None else engine.status(newest.id)
    except RunNotFound:
        return None
