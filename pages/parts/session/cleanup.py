"""Deletes uploads: when their owner says so, past their time, and what a killed server left of them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pages.parts.session import owner, resources

if TYPE_CHECKING:
    from pathlib import Path

    from core.runs.store import Workspace

LOOK_SECONDS = 60.0  # between two looks at what is past its time
THOROUGH_EVERY = 10  # looks; the others leave the rest of the store alone
AGAIN_SECONDS = 30.0
_uploads_seen: dict[Path, set[str]] = {}  # digests at the last look, by data folder

log = logging.getLogger(__name__)


@dataclass
class _ClearAgain:
    """How often the caches are still to be emptied after a deletion.

    A page that was being drawn then may put what it had read into a cache afterwards.
    """

    rounds: int = 0
    wake: threading.Event = field(default_factory=threading.Event)


_clear_again = _ClearAgain()


def remove(workspace: Workspace, digest: str) -> None:
    """Delete an uploaded cohort with everything made from it; jobs on it are cancelled. `workspace` has no viewer."""
    from core.jobs.engine import Engine
    from core.runs.uploads.deletion import delete, made_from

    with _logged(f"cancelling the jobs on the upload {digest}"):  # what is asked to stop is deleted all the same
        engine = Engine.connect(workspace=workspace)
        for job in engine.jobs():
            if job.spec.corpus.digest() == digest:
                engine.cancel(job.id)
    trained = made_from(workspace, digest)
    delete(workspace, digest)
    for run_id in trained:  # afterwards: no request can load one again
        resources.server(workspace).forget(run_id)
    resources.empty_caches()
    _clear_again.rounds = 2
    _clear_again.wake.set()


def clear_out(workspace: Workspace, *, thorough: bool = True) -> None:
    """Delete uploads past their time, and what a killed server left. What fails is logged, and the rest is done.

    Without `thorough` the store is not walked through.
    """
    from core.runs.integrity.upkeep import sweep_store, tighten_store
    from core.runs.uploads.deletion import delete_orphans
    from core.runs.uploads.records import due, put_aside_damaged
    from core.runs.uploads.scratch import sweep

    if thorough and _clear_again.rounds:
        _clear_again.rounds -= 1
        resources.empty_caches()
    workspace.forget_imported(gone=True)
    with _logged("putting records aside that cannot be read"):
        put_aside_damaged(workspace.root)
    with _logged("looking which browsers are still there"):
        _note_who_is_here(workspace.root)
    overdue: list[str] = []
    with _logged("looking for uploads past their time"):
        overdue = due(workspace.root)
    for digest in overdue:
        with _logged(f"deleting the upload {digest}"):
            remove(workspace, digest)
    with _logged("letting go of what a command deleted"):
        _let_go_of_deleted(workspace)
    if thorough:
        with _logged("deleting what nobody can be asked about"):
            delete_orphans(workspace)
        with _logged("clearing out what a server left"):
            sweep(workspace.root)
            sweep_store(workspace.root)
            tighten_store(workspace.root)


def _note_who_is_here(root: Path) -> None:
    """Their uploads stay; of sessions that are gone and left none nothing is remembered."""
    from core.runs.uploads.records import still_here, uploads

    owners = {one.owner for one in uploads(root)}
    for who, lives in list(owner.lives_of_sessions.items()):
        if lives():
            if who in owners:
                still_here(root, who)
        elif who not in owners:
            owner.lives_of_sessions.pop(who, None)


def _let_go_of_deleted(workspace: Workspace) -> None:
    """Empty the caches when an upload is gone since the last look, and unload models whose runs are gone.

    A command that deletes one (`python -m core delete-upload`) cannot reach into this process.
    """
    from core.runs.uploads.records import uploads

    there = {one.digest for one in uploads(workspace.root)}
    if _uploads_seen.get(workspace.root, set()) - there:
        server = resources.server(workspace)
        for run_id in set(server.loaded()) - {run.id for run in workspace.runs()}:
            server.forget(run_id)
        resources.empty_caches()
    _uploads_seen[workspace.root] = there


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception:  # the thread that promises to delete must outlive any one failure
        log.exception("%s failed; it is tried again in %g s", what, LOOK_SECONDS)


@resources.process_object
def keep_time(root: str, _workspace: Workspace) -> threading.Thread:
    """Start, once a data folder, the thread that deletes uploads past their time, and what a killed server left."""

    def look() -> None:
        looks = 0
        while True:
            clear_out(_workspace, thorough=looks % THOROUGH_EVERY == 0)
            looks += 1
            if _clear_again.wake.wait(LOOK_SECONDS):
                _clear_again.wake.clear()
                time.sleep(AGAIN_SECONDS)
                looks = 0

    thread = threading.Thread(target=look, name="uploads", daemon=True)
    thread.start()
    return thread
