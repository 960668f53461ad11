"""How a job ended according to the scheduler: the words of its future, for jobs whose worker could not say it."""

from __future__ import annotations

from distributed import Future
from distributed.scheduler import KilledWorker

ANSWER_SECONDS = 30.0


def outcome(future: Future) -> tuple[str, str]:
    """What `core.jobs.task` returned, `lost` without a scheduler, or `error`; with a sentence, else empty.

    The sentence is a future's exception in words, or why a job failed that has no files here.
    This asks the worker for its result, so do not call it while holding a lock.
    """
    if future.status == "error":
        return "error", _why(future.exception())
    if future.status != "finished":
        return "lost", ""
    try:
        ended, why = future.result(timeout=ANSWER_SECONDS)
    except Exception:  # the worker or the connection ended at this moment; the job's files say how it ended
        return "done", ""
    return ended, why


def _why(error: BaseException | None) -> str:
    """A future's exception, as a sentence."""
    if isinstance(error, KilledWorker):
        return (
            "The worker process died repeatedly during this job, often because memory runs out: its log says whether "
            "it did. A smaller physical batch or model needs less memory; started again, the job resumes where it was."
        )
    if isinstance(error, ImportError):
        return (
            f"The worker that took this job cannot import what it needs ({error}). Start workers in this program's "
            "folder and with its environment; then start the job again."
        )
    return f"The worker could not do this job ({type(error).__name__}: {error}). Its log says more."
