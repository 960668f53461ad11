"""The tasks of a worker process: train a run, attack a run, or prepare for the first task."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from core.common.errors import Cancelled
from core.jobs.by_store.messages import asked_to_stop, teller
from core.pipeline.full_audit import audit
from core.pipeline.training_run import execute
from core.runs.events import asked_to_cancel, read_status
from core.runs.integrity.disk import error_sentence
from core.runs.remote.sharing import store_of
from core.runs.store import Workspace
from core.spec import RunSpec

Ended = Literal["done", "cancelled", "failed"]

log = logging.getLogger(__name__)


def make_run(spec_json: str, root: str, shared: tuple[str, ...], submitted: float) -> tuple[Ended, str]:
    """Make the run of a spec. Returns how it ended, and if it failed, why; the run's own files have the details."""
    workspace = Workspace(root, [Path(folder) for folder in shared])
    spec = RunSpec.model_validate_json(spec_json)
    work = workspace.work(spec.run_id)
    stop, again = _asked_to_stop(work, submitted), partial(_asked_again, work, submitted)
    make = partial(execute, spec, workspace, should_stop=stop, asked_again=again)
    return _ended(f"run {spec.run_id}", workspace, stop, make)


def make_run_by_store(spec_json: str, submitted: float, topic: str, key: str) -> tuple[Ended, str]:
    """Make the run of a spec in this worker's own data folder and publish it to the store.

    The engine gets the events under `topic`, and asks to stop by `key` (core.jobs.by_store.messages). Returns how it
    ended, and if it failed, why. A worker that does see the job's folder uses it: the engine reads the events there.
    """
    workspace = Workspace()
    spec = RunSpec.model_validate_json(spec_json)
    if _asks_for(workspace.work(spec.run_id), submitted):
        return make_run(spec_json, str(workspace.root), tuple(map(str, workspace.shared)), submitted)
    if store_of(spec) is None:
        return "failed", "The worker that took this job has no store: start it with the same PHILAB_STORE."
    stop = asked_to_stop(key)
    make = partial(execute, spec, workspace, on_event=teller(topic, key), should_stop=stop)
    return _ended(f"run {spec.run_id}", workspace, stop, make)


def attack_run(run_id: str, root: str, shared: tuple[str, ...], submitted: float) -> tuple[Ended, str]:
    """Run the full audit of a run. Returns how it ended, and if it failed, why; the audit's folder has the details.

    Finished attacks are not repeated, so a worker that takes over from one that died continues after them.
    """
    workspace = Workspace(root, [Path(folder) for folder in shared])
    folder = workspace.audit(run_id).folder
    stop, again = _asked_to_stop(folder, submitted), partial(_asked_again, folder, submitted)
    attack = partial(audit, should_stop=stop, asked_again=again)
    return _ended(f"audit of {run_id}", workspace, stop, lambda: attack(workspace.run(run_id), workspace))


def _ended(what: str, workspace: Workspace, stop: Callable[[], bool], work: Callable[[], object]) -> tuple[Ended, str]:
    """Do the work and return how it ended, and if it failed, why.

    Never raises: the scheduler would retry what will fail again. Imported notes are dropped from this process's memory
    after the job: their owner may delete them at any time.
    """
    if stop():
        return "cancelled", ""
    try:
        work()
    except Cancelled:
        return "cancelled", ""
    except Exception as error:
        log.exception("%s failed", what)
        return "failed", error_sentence(error)
    finally:
        workspace.forget_imported()
    return "done", ""


def _asked_to_stop(folder: Path, submitted: float) -> Callable[[], bool]:
    """Whether a job was cancelled: its folder has a cancel file, or its status is of another submission, or gone.

    A job that no worker has started is cancelled by removing its status, so a worker about to start it finds none, or
    one with another time of submission.
    """
    return asked_to_cancel(folder, withdrawn=lambda: not _asks_for(folder, submitted))


def _asked_again(folder: Path, submitted: float) -> bool:
    """Whether the job was submitted again, after the scheduler that gave it to this worker was lost for example.

    Call it with the job's lock held: a submission that is shown as running then waits, and it was this worker that
    marked it, since it came just before.
    """
    status = read_status(folder)
    if status is None or status.state not in ("queued", "running"):
        return False
    return status.submitted not in (None, submitted)


def _asks_for(folder: Path, submitted: float) -> bool:
    status = read_status(folder)
    return status is not None and status.submitted == submitted


def get_ready() -> None:
    """Import what training needs, so that the first job does not wait for it."""
    import core.attacks.exposure
    import core.attacks.membership.scores
    import core.attacks.memorisation.extraction
    import core.corpus.synthetic.hospital
    import core.evaluation.summary
    import core.training.trainer  # noqa: F401
