"""Takes over uploaded cohorts, and deletes them with everything that was made from them."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from core.common.files import create, make_folder
from core.common.folders import OLD, remove
from core.runs import noise_key
from core.runs.events import CANCEL_FILE
from core.runs.integrity.upkeep import DAMAGED
from core.runs.lock import held, in_use, inner_work
from core.runs.store import Workspace
from core.runs.uploads.deletion_codes import hashed
from core.runs.uploads.ownership import cohort_of, mark_cohort, marked_cohort
from core.runs.uploads.records import (
    ASIDE,
    FOLDER,
    RUN_PLACES,
    RecordBroken,
    RecordUnread,
    Upload,
    due,
    hours_kept,
    is_orphan,
    move_aside,
    read_record,
    record_file,
    run_folders,
    seconds_kept,
    uploads,
    write_record,
)
from core.spec import CorpusSpec

MOST_UPLOADS = 10  # of one browser session or signed-in user at a time

log = logging.getLogger(__name__)


def until_deleted(
    workspace: Workspace, spec: CorpusSpec, *should_stop: Callable[[], bool] | None
) -> Callable[[], bool]:
    """A function that tells whether work on a cohort has to end: `should_stop` says so, or its notes were deleted.

    From notes that were deleted, nothing may be derived any more. A synthetic cohort can always be made again.
    """
    asked = [stop for stop in should_stop if stop is not None]

    def stop() -> bool:
        return any(stop() for stop in asked) or (spec.imported is not None and workspace.corpus_folder(spec) is None)

    return stop


def _alone(root: Path, digest: str) -> contextlib.AbstractContextManager[bool]:
    """Wait until no other process takes over or deletes this upload: its owner may upload the same notes again."""
    place = root / FOLDER
    begin = partial(make_folder, place, private=True)
    return held(place / f".{digest}.lock", should_stop=lambda: False, begin=begin)


def keep(workspace: Workspace, made: Path, *, owner: str, name: str, code: str = "") -> Upload:
    """Take over the cohort that an import wrote to the folder `made` (on the workspace's disk), for its owner.

    The record is written first, so the cohort never exists without one. If the owner has uploaded the same notes
    before, the deletion code that was shown then stays valid, and the new one is not used.

    Args:
        workspace: Where the cohort is stored.
        made: The folder of the import.
        owner: The browser session or signed-in user who uploaded the notes.
        name: The name of the cohort.
        code: A deletion code, to be shown to the owner if it `matches` the record's hash; only that is stored.

    Raises:
        ValueError: The cohort was not imported, or there is no owner, or the owner has MOST_UPLOADS others, or an
            earlier record cannot be read now.
        DiskFull: The cohort does not fit on the disk.
    """
    spec = CorpusSpec.model_validate_json((made / "spec.json").read_text(encoding="utf-8"))
    if spec.imported is None or not owner:
        raise ValueError("only imported notes with an owner can be kept as an upload")
    others = [one for one in uploads(workspace.root, owner) if one.digest != spec.digest()]
    if len(others) >= MOST_UPLOADS:
        raise ValueError(
            f"You have {len(others)} sets of notes on this server already, the most that one person may have. Delete "
            "one of them first."
        )
    with _alone(workspace.root, spec.digest()):
        return _keep(workspace, made, spec, owner, name, code)


def _keep(workspace: Workspace, made: Path, spec: CorpusSpec, owner: str, name: str, code: str) -> Upload:
    now = time.time()
    before = _known(workspace.root, spec.digest())
    code_hash = hashed(code) if code else ""
    if before is not None and not before.leaving and before.code_hash:
        code_hash = before.code_hash
    upload = Upload(spec.digest(), owner, name, spec, now, now + 3600 * hours_kept(), code_hash=code_hash)
    mark_cohort(made)
    write_record(workspace.root, upload)
    try:
        workspace.adopt(made, spec)
    except Exception:
        if before is None:
            record_file(workspace.root, upload.digest).unlink(missing_ok=True)
        else:
            with contextlib.suppress(OSError):  # the disk is still full
                write_record(workspace.root, before)
        raise
    return upload


def _known(root: Path, digest: str) -> Upload | None:
    """The record of an earlier upload of the same notes by the same owner, on whom the digest depends.

    None if there is none or it is damaged. Raises RecordUnread.
    """
    try:
        return read_record(record_file(root, digest))
    except RecordUnread:
        raise
    except RecordBroken:
        return None


def delete(workspace: Workspace, digest: str, *, only_if_due: bool = False) -> bool:
    """Remove an uploaded cohort and everything made from it. `workspace` must see every run (no `viewer`).

    With `only_if_due`, it does nothing if its owner has uploaded the same notes again since they were due.

    The ledger of released models stays: a release cannot be undone, and the same notes may come again.

    Returns:
        False while a run on it is still being trained or attacked. That job is asked to stop, nobody sees the upload
        any more, and it stays `due`. A run under attack stays until then, since only the run records which notes its
        audit is about.
    """
    with _alone(workspace.root, digest):
        return (only_if_due and digest not in due(workspace.root)) or _delete(workspace, digest)


def _delete(workspace: Workspace, digest: str) -> bool:
    root = workspace.root
    if not _begin_deletion(root, digest):
        return True
    remove(root / "corpora" / digest)
    workspace.forget(digest)
    works = [work for work in run_folders(root, "work") if _is_of(work, digest)]
    gone = [_stopped(workspace.lock_file(work.name), work) for work in works]
    trained = made_from(workspace, digest)
    for run_id in trained:
        audit = workspace.audit(run_id).folder
        waiting = inner_work(audit)
        for folder in waiting:
            (folder / CANCEL_FILE).touch()
        gone.append(not waiting and _stopped(workspace.audit_lock_file(run_id), audit, root / "runs" / run_id))
    for folder in [root / "references" / digest, *_set_aside(root, digest), *_damaged_of(root, digest, trained)]:
        shutil.rmtree(folder, ignore_errors=True)
    if all(gone):
        for record in (record_file(root, digest), root / FOLDER / ASIDE / f"{digest}.json"):
            _clear(record)
    return all(gone)


def _set_aside(root: Path, digest: str) -> list[Path]:
    """Folders of runs on a cohort that a killed process had renamed and not yet removed."""
    places = (root / place for place in RUN_PLACES)
    return [folder for place in places for folder in place.glob(f"{OLD}*/") if _is_of(folder, digest)]


def _damaged_of(root: Path, digest: str, run_ids: list[str]) -> list[Path]:
    """What `verify --repair` moved away of a cohort, of the runs on it, and of their audits."""
    cohorts = list((root / DAMAGED / "corpora").glob(f"{digest}.*"))
    runs = [path for path in (root / DAMAGED / "runs").glob("*/") if _is_of(path, digest)]
    names = {*run_ids, *(path.name.split(".")[0] for path in runs)}
    parts = [path for place in ("runs", "audits") for path in (root / DAMAGED / place).glob("*/")]
    return [*cohorts, *runs, *(path for path in parts if path.name.split(".")[0] in names)]


def delete_orphans(workspace: Workspace) -> list[Path]:
    """Delete folders made from uploads if nothing readable in them says which upload it was.

    Such a folder cannot be used, and nobody could ask for its deletion. It is deleted when it is as old as an upload
    may become. A folder without the mark of an upload stays, however damaged: it may be about notes imported by
    command, which the person who runs commands has to delete (`verify` names it).
    """
    root, now = workspace.root, time.time()
    gone = []
    for folder in run_folders(root, *RUN_PLACES):
        with contextlib.suppress(OSError):  # it was removed in the meantime
            if marked_cohort(folder) != "" or in_use(workspace.lock_file(folder.name.split(".")[0])):
                continue
            if folder.stat().st_mtime + seconds_kept() <= now and cohort_of(folder) is None:
                log.warning("%s is deleted: it was made from an upload, and nothing in it says from which.", folder)
                remove(folder)
                gone.append(folder)
    return gone


def _begin_deletion(root: Path, digest: str) -> bool:
    """Mark the upload's record as being deleted, so that nobody sees it any more. False if there is no upload."""
    try:
        upload = read_record(record_file(root, digest))
    except RecordBroken:
        move_aside(root, digest)
        upload = None
    if upload is not None:
        write_record(root, replace(upload, leaving=True))
    elif is_orphan(root, digest):
        record = make_folder(root / FOLDER / ASIDE, private=True) / f"{digest}.json"
        _clear(record)
        create(record)
        os.utime(record, (0, 0))  # the upload is due until everything is gone
    else:
        return False
    return True


def _clear(record: Path) -> None:
    """Remove a record, whether it is a file or a folder."""
    if record.is_dir():
        shutil.rmtree(record, ignore_errors=True)
    else:
        record.unlink(missing_ok=True)


def _stopped(lock: Path, job: Path, *others: Path) -> bool:
    """Remove a job's folder and the others. If a process works on the job, ask it to stop instead and return False."""
    if in_use(lock):
        with contextlib.suppress(FileNotFoundError):  # the job ended and was removed at this moment
            (job / CANCEL_FILE).touch()
        return False
    noise_key.destroy(job)
    for folder in (job, *others):
        shutil.rmtree(folder, ignore_errors=True)
    return True


def made_from(workspace: Workspace, digest: str) -> list[str]:
    """Ids of the finished runs on a cohort."""
    return [folder.name for folder in run_folders(workspace.root, "runs") if _is_of(folder, digest)]


def _is_of(folder: Path, digest: str) -> bool:
    return cohort_of(folder) == (digest, True)
