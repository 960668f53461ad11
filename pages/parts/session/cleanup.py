"""Deletes uploads, on their owner's request or after they expire, what a killed server left, and unused classes."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pages.parts.session import classroom, owner, resources

if TYPE_CHECKING:
    from pathlib import Path

    from core.runs.store import Workspace

LOOK_SECONDS = 60.0  # between two checks for expired uploads
WATCH_SECONDS = 1.0  # between two looks at whether another server or a command deleted an upload
THOROUGH_EVERY = 10  # checks; the others do not walk through the store
AGAIN_SECONDS = 30.0

log = logging.getLogger(__name__)


@dataclass
class _ClearAgain:
    """How many more times to empty the caches after a deletion.

    A page that was being drawn at that time may still write into a cache what it read before.
    """

    rounds: int = 0
    wake: threading.Event = field(default_factory=threading.Event)


@resources.process_object
def _clear_again() -> _ClearAgain:
    return _ClearAgain()


@resources.process_object
def _uploads_seen() -> dict[Path, set[str]]:
    """Digests at the last look, by data folder."""
    return {}


def remove(workspace: Workspace, digest: str, *, only_if_due: bool = False) -> bool:
    """Delete an uploaded cohort with everything made from it, and cancel the jobs on it. `workspace` has no viewer.

    With `only_if_due`, it does nothing if its owner has uploaded the same notes again since they were due.

    Returns:
        False while a job still works on it (`core.runs.uploads.deletion.delete`). `clear_out` deletes the rest.
    """
    from core.jobs.engine import Engine
    from core.runs.uploads.deletion import delete, made_from
    from core.runs.uploads.records import due

    if only_if_due and digest not in due(workspace.root):
        return True
    with _logged(f"cancelling the jobs on the upload {digest}"):  # they are deleted even if this fails
        engine = Engine.of_server(workspace)
        for job in engine.jobs():
            if job.spec.corpus.digest() == digest:
                engine.cancel(job.id)
    trained = made_from(workspace, digest)
    finished = delete(workspace, digest, only_if_due=only_if_due)
    for run_id in trained:  # after the deletion, so that no request can load one again
        resources.server(workspace).forget(run_id)
    resources.empty_caches()
    _clear_again().rounds = 2
    _clear_again().wake.set()
    return finished


def clear_out(workspace: Workspace, *, thorough: bool = True) -> None:
    """Delete expired uploads, unused classes, and what a killed server left. A failure is logged; the rest is done.

    Without `thorough`, it does not walk through the store.
    """
    from core.runs.integrity.upkeep import sweep_store, tighten_store
    from core.runs.uploads.deletion import delete_orphans
    from core.runs.uploads.records import due, put_aside_damaged
    from core.runs.uploads.scratch import sweep

    if thorough and _clear_again().rounds:
        _clear_again().rounds -= 1
        resources.empty_caches()
    workspace.forget_imported(gone=True)
    with _logged("putting unreadable records aside"):
        put_aside_damaged(workspace.root)
    with _logged("checking which browsers are still connected"):
        _keep_uploads_of_connected(workspace.root)
    overdue: list[str] = []
    with _logged("searching for expired uploads"):
        overdue = due(workspace.root)
    for digest in overdue:
        with _logged(f"deleting the upload {digest}"):
            remove(workspace, digest, only_if_due=True)
    with _logged("unloading what a command deleted"):
        _unload_deleted(workspace)
    with _logged("removing classes that nobody uses"):
        classroom.rooms_of(str(workspace.root)).clear_out()
    if thorough:
        with _logged("deleting uploads without an owner"):
            delete_orphans(workspace)
        with _logged("deleting what a killed server left"):
            sweep(workspace.root)
            sweep_store(workspace.root)
            tighten_store(workspace.root, workspace.shared)


def _keep_uploads_of_connected(root: Path) -> None:
    """Record that connected sessions still need their uploads; forget sessions that are gone and have none."""
    from core.runs.uploads.records import still_here, uploads

    owners = {one.owner for one in uploads(root)}
    for who, is_connected in list(owner.sessions().items()):
        if is_connected():
            if who in owners:
                still_here(root, who)
        elif who not in owners:
            owner.sessions().pop(who, None)


def _unload_deleted(workspace: Workspace) -> None:
    """If an upload is gone or being deleted since the last look, empty the caches and unload the models made from it.

    This handles other processes: `python -m core delete-upload`, and another server on the same data folder.
    """
    from core.runs.uploads.records import uploads

    there = {one.digest for one in uploads(workspace.root) if not one.leaving}
    gone = _uploads_seen().get(workspace.root, set()) - there
    for digest in gone:  # also one that another process is still deleting: its folder may be there at this moment
        workspace.forget(digest)
    if gone:
        server = resources.server(workspace)
        kept = {run.id for run in workspace.runs() if run.spec.corpus.digest() not in gone}
        for run_id in server.loaded() - kept:
            server.forget(run_id)
        resources.empty_caches()
        _clear_again().rounds = 2
        _clear_again().wake.set()
    _uploads_seen()[workspace.root] = there


def _wait(workspace: Workspace, seen: int) -> bool:
    """Wait for the next check. Whether it came early, because an upload was deleted here or by another process.

    `seen` is the time of the last change before the check that is over: a change during it is looked at, too.
    """
    end = time.monotonic() + LOOK_SECONDS
    while (left := end - time.monotonic()) > 0:
        if _clear_again().wake.wait(min(left, WATCH_SECONDS)):
            return True
        now = _last_change(workspace.root)
        if now != seen:
            seen = now
            with _logged("unloading what another process deleted"):
                workspace.forget_imported(gone=True)
                _unload_deleted(workspace)
    return False


def _last_change(root: Path) -> int:
    """When a record of an upload was last added, replaced or removed, in nanoseconds; 0 if there never was one."""
    from core.runs.uploads.records import FOLDER

    try:
        return (root / FOLDER).stat().st_mtime_ns
    except OSError:
        return 0


@contextlib.contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception:  # the deleting thread must survive any failure
        log.exception("%s failed; next attempt in %g s", what, LOOK_SECONDS)


@resources.process_object
def start_thread(root: str, _workspace: Workspace) -> threading.Thread:
    """Start, once per data folder, the thread that deletes expired uploads and what a killed server left."""

    def look() -> None:
        looks = 0
        while True:
            seen = _last_change(_workspace.root)
            clear_out(_workspace, thorough=looks % THOROUGH_EVERY == 0)
            looks += 1
            if _wait(_workspace, seen):
                _clear_again().wake.clear()
                time.sleep(AGAIN_SECONDS)
                looks = 0

    thread = threading.Thread(target=look, name="uploads", daemon=True)
    thread.start()
    return thread
