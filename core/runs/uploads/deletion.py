"""Takes over uploaded cohorts, and deletes them with everything that was made from them."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from pathlib import Path

from core.common.files import create, make_folder
from core.common.folders import remove
from core.runs import noise_key
from core.runs.events import CANCEL_FILE
from core.runs.integrity.upkeep import DAMAGED
from core.runs.lock import in_use
from core.runs.store import Workspace
from core.runs.uploads.deletion_codes import hashed
from core.runs.uploads.ownership import cohort_of, mark_cohort, marked_cohort
from core.runs.uploads.records import (
    ASIDE,
    FOLDER,
    RUN_PLACES,
    RecordBroken,
    Upload,
    hours_kept,
    is_orphan,
    put_aside_damaged,
    read_record,
    record_file,
    run_folders,
    seconds_kept,
    write_record,
)
from core.spec import CorpusSpec

log = logging.getLogger(__name__)


def keep(workspace: Workspace, made: Path, *, owner: str, name: str, code: str = "") -> Upload:
    """Take over the cohort that an import wrote into the folder `made` (on the workspace's disk) as the owner's.

    The record is written first: the cohort is never there without one. Of `code`, a deletion code to show to the owner,
    only the hash is stored. Raises ValueError for a cohort that was not imported, DiskFull when it does not fit.
    """
    spec = CorpusSpec.model_validate_json((made / "spec.json").read_text(encoding="utf-8"))
    if spec.imported is None or not owner:
        raise ValueError("only notes that somebody brought can be kept as theirs")
    now = time.time()
    code_hash = hashed(code) if code else ""
    upload = Upload(spec.digest(), owner, name, spec, now, now + 3600 * hours_kept(), code_hash=code_hash)
    mark_cohort(made)
    write_record(workspace.root, upload)
    try:
        workspace.adopt(made, spec)
    except Exception:
        record_file(workspace.root, upload.digest).unlink(missing_ok=True)
        raise
    return upload


def delete(workspace: Workspace, digest: str) -> bool:
    """Remove an uploaded cohort and everything made from it. `workspace` must see every run (no `viewer`).

    False while a run on it is still being made or attacked: that is asked to stop, nobody sees it any more, and the
    upload stays `due`. A run that is being attacked stays until then, since it alone says whose notes its audit is of.
    """
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
        gone.append(_stopped(workspace.audit_lock_file(run_id), audit, root / "runs" / run_id))
    for folder in [root / "references" / digest, *_damaged_of(root, digest, trained)]:
        shutil.rmtree(folder, ignore_errors=True)
    if all(gone):
        for record in (record_file(root, digest), root / FOLDER / ASIDE / f"{digest}.json"):
            _clear(record)
    return all(gone)


def _damaged_of(root: Path, digest: str, run_ids: list[str]) -> list[Path]:
    """What `verify --repair` put aside of a cohort, of the runs on it, and of their audits."""
    cohorts = list((root / DAMAGED / "corpora").glob(f"{digest}.*"))
    runs = [path for path in (root / DAMAGED / "runs").glob("*/") if _is_of(path, digest)]
    names = {*run_ids, *(path.name.split(".")[0] for path in runs)}
    parts = [path for place in ("runs", "audits") for path in (root / DAMAGED / place).glob("*/")]
    return [*cohorts, *runs, *(path for path in parts if path.name.split(".")[0] in names)]


def delete_orphans(workspace: Workspace, now: float | None = None) -> list[Path]:
    """Delete what was made from uploads, where nothing in it can be read that says from which.

    It cannot be used, and nobody could ask for its deletion. Each folder goes when it is as old as an upload may
    become. What has no mark of an upload stays, however damaged: it may be of notes that a command brought, and those
    are for whoever runs commands to delete (`verify` names it).
    """
    root, now = workspace.root, time.time() if now is None else now
    gone = []
    for folder in run_folders(root, *RUN_PLACES):
        with contextlib.suppress(OSError):  # it goes while it is looked at
            if marked_cohort(folder) != "" or in_use(workspace.lock_file(folder.name.split(".")[0])):
                continue
            if folder.stat().st_mtime + seconds_kept() <= now and cohort_of(folder) is None:
                log.warning("%s is deleted: it is of an upload, and nothing in it says of which.", folder)
                remove(folder)
                gone.append(folder)
    return gone


def _begin_deletion(root: Path, digest: str) -> bool:
    """Have the record say that the upload is leaving, so that nobody sees any of it. False where there is no upload."""
    try:
        upload = read_record(record_file(root, digest))
    except RecordBroken:
        put_aside_damaged(root)
        upload = None
    if upload is not None:
        write_record(root, Upload(**{**vars(upload), "leaving": True}))
    elif is_orphan(root, digest):
        record = make_folder(root / FOLDER / ASIDE, private=True) / f"{digest}.json"
        _clear(record)
        create(record)
        os.utime(record, (0, 0))  # it is due until all is gone
    else:
        return False
    return True


def _clear(record: Path) -> None:
    """Remove a record, whatever it has become."""
    if record.is_dir():
        shutil.rmtree(record, ignore_errors=True)
    else:
        record.unlink(missing_ok=True)


def _stopped(lock: Path, job: Path, *others: Path) -> bool:
    """Remove a job's folder, and others with it; while somebody is at the job, ask them to stop instead: False."""
    if in_use(lock):
        with contextlib.suppress(FileNotFoundError):  # it ended, and went, this moment
            (job / CANCEL_FILE).touch()
        return False
    noise_key.destroy(job)
    for folder in (job, *others):
        shutil.rmtree(folder, ignore_errors=True)
    return True


def made_from(workspace: Workspace, digest: str) -> list[str]:
    """Ids of the finished runs on a cohort."""
    return [folder.name for folder in (workspace.root / "runs").glob("*/") if _is_of(folder, digest)]


def _is_of(folder: Path, digest: str) -> bool:
    return cohort_of(folder) == (digest, True)
