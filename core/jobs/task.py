"""What a worker process does: make one run, or get ready for the first."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path

from core.pipeline import Cancelled, execute
from core.runs.store import Workspace
from core.spec import RunSpec

CANCEL_FILE = "cancel"
LOOK_SECONDS = 0.2

log = logging.getLogger(__name__)


def make_run(spec_json: str, root: str, shared: tuple[str, ...]) -> str:
    """Make the run of a spec and return `done`, `cancelled` or `failed`; details stand in the run's own files.

    Never raises: an exception would have the scheduler try again what will fail again.
    """
    workspace = Workspace(root, [Path(folder) for folder in shared])
    spec = RunSpec.model_validate_json(spec_json)
    try:
        execute(spec, workspace, should_stop=_asked_to_stop(workspace.work(spec.run_id)))
    except Cancelled:
        return "cancelled"
    except Exception:
        log.exception("run %s failed", spec.run_id)
        return "failed"
    return "done"


def _asked_to_stop(work: Path) -> Callable[[], bool]:
    """Whether somebody put a cancel file into the work folder; looks at the disk at most five times a second."""
    looked, found = 0.0, False

    def stop() -> bool:
        nonlocal looked, found
        now = time.monotonic()
        if not found and now - looked > LOOK_SECONDS:
            looked, found = now, (work / CANCEL_FILE).exists()
        return found

    return stop


def get_ready() -> None:
    """Import what training needs, so that the first click does not wait for it."""
    import core.attacks.exposure
    import core.attacks.extraction
    import core.attacks.membership
    import core.corpus.hospital
    import core.evaluation.summary
    import core.training.trainer  # noqa: F401
