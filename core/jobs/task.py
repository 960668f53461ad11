"""What a worker process does: make one run, attack one, or get ready for the first."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from core.pipeline.full_audit import audit
from core.pipeline.training_run import execute
from core.runs.events import CANCEL_FILE, Cancelled, read_status
from core.runs.store import Workspace
from core.spec import RunSpec

LOOK_SECONDS = 0.2
Ended = Literal["done", "cancelled", "failed"]

log = logging.getLogger(__name__)


def make_run(spec_json: str, root: str, shared: tuple[str, ...], submitted: float) -> Ended:
    """Make the run of a spec and return how it ended; details are in the run's own files."""
    workspace = Workspace(root, [Path(folder) for folder in shared])
    spec = RunSpec.model_validate_json(spec_json)
    stop = _asked_to_stop(workspace.work(spec.run_id), submitted)
    return _ended(f"run {spec.run_id}", workspace, stop, lambda: execute(spec, workspace, should_stop=stop))


def attack_run(run_id: str, root: str, shared: tuple[str, ...], submitted: float) -> Ended:
    """Run the full battery on a run and return how it ended; details are beside what the audit leaves.

    Attacks that are done are not done again, so a worker that takes over from one that died goes on after them.
    """
    workspace = Workspace(root, [Path(folder) for folder in shared])
    stop = _asked_to_stop(workspace.audit(run_id).folder, submitted)
    attack = partial(audit, should_stop=stop)
    return _ended(f"audit of {run_id}", workspace, stop, lambda: attack(workspace.run(run_id), workspace))


def _ended(what: str, workspace: Workspace, stop: Callable[[], bool], work: Callable[[], object]) -> Ended:
    """Never raises: an exception would have the scheduler try again what will fail again.

    Imported notes do not outlive the job in this process's memory: their owner may delete them while it waits.
    """
    if stop():
        return "cancelled"
    try:
        work()
    except Cancelled:
        return "cancelled"
    except Exception:
        log.exception("%s failed", what)
        return "failed"
    finally:
        workspace.forget_imported()
    return "done"


def _asked_to_stop(folder: Path, submitted: float) -> Callable[[], bool]:
    """Whether a job was cancelled: its folder has a cancel file, or does not ask for this very submission any more.

    A job that no worker has begun is cancelled by removing its status, so a worker that was about to begin it finds
    none, or one with another time of submission. Looks at the disk at most five times a second.
    """
    looked, found = 0.0, False

    def stop() -> bool:
        nonlocal looked, found
        now = time.monotonic()
        if not found and now - looked > LOOK_SECONDS:
            looked = now
            found = (folder / CANCEL_FILE).exists() or not _asks_for(folder, submitted)
        return found

    return stop


def _asks_for(folder: Path, submitted: float) -> bool:
    status = read_status(folder)
    return status is not None and status.submitted == submitted


def get_ready() -> None:
    """Import what training needs, so that the first click does not wait for it."""
    import core.attacks.exposure
    import core.attacks.membership.scores
    import core.attacks.memorisation.extraction
    import core.corpus.synthetic.hospital
    import core.evaluation.summary
    import core.training.trainer  # noqa: F401
