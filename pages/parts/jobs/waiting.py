"""Active jobs in words; those in the queue say when they should start."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from core.jobs.times.costs import whole
from core.jobs.times.expected import expected_stages
from core.jobs.times.starts import seconds_to_starts
from core.runs.progress import Progress
from pages.parts.jobs.sentences import stage_in_words
from pages.parts.session import resources

if TYPE_CHECKING:
    from core.jobs.engine import Engine, Job

LOOK_SECONDS = 5  # for which an answer is kept: everybody in a class asks every second
EXPECTED_SECONDS = 60  # for which the estimate of one job is kept


def in_words(job: Job, progress: Progress, engine: Engine) -> str:
    """What a job is doing now, or when it should start."""
    return stage_in_words(job, progress, starts(engine) if job.state == "queued" else {})


def starts(engine: Engine) -> dict[str, float]:
    """Seconds until each waiting job should start, by `Job.id`; empty while nothing runs, or its end is not known."""
    return _starts(str(engine.workspace.root), engine)


@resources.cached_data(max_entries=8, ttl=LOOK_SECONDS, show_spinner=False)
def _starts(root: str, _engine: Engine) -> dict[str, float]:
    now, jobs = time.time(), _engine.jobs()
    left = [_engine.progress(job.id).seconds_left(now) for job in jobs if job.state == "running"]
    known = [seconds for seconds in left if seconds is not None]
    waiting = [job for job in jobs if job.state == "queued"]
    if not known or len(known) < len(left):
        return {}
    expected = [_expected(root, job.id, job) for job in waiting]
    return dict(zip((job.id for job in waiting), seconds_to_starts(known, expected), strict=True))


@resources.cached_data(max_entries=256, ttl=EXPECTED_SECONDS, show_spinner=False)
def _expected(root: str, job_id: str, _job: Job) -> float:
    return whole(expected_stages(_job.spec, resources.every_workspace(), is_audit=_job.is_audit))
