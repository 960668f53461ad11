"""Who brought which notes: cohorts that belong to one browser session or signed-in user, for a stated time only.

A record in `uploads/<digest>.json` says whose the cohort of that digest is. It stays until everything made from the
cohort is gone too: runs, half-made runs, audits, reference models. Notes that came by the command line have no record:
they are for commands, and for the app only where `PHILAB_SHOW_IMPORTED=1` says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from core.runs import noise_key
from core.runs.events import CANCEL_FILE, replace_text
from core.runs.lock import in_use
from core.runs.run import RunBroken, read_spec
from core.spec import CorpusSpec

if TYPE_CHECKING:
    from core.runs.store import Workspace

FOLDER = "uploads"
HOURS = 24.0  # how long notes that were uploaded are kept, unless PHILAB_UPLOAD_HOURS says otherwise


@dataclass(frozen=True)
class Upload:
    """One uploaded cohort. Times are Unix seconds; `leaving` means that it is being deleted."""

    digest: str
    owner: str
    name: str
    spec: CorpusSpec
    uploaded: float
    expires: float
    leaving: bool = False


def hours_kept() -> float:
    """For how many hours an upload is kept. Raises ValueError when PHILAB_UPLOAD_HOURS is not a number above 0."""
    given = os.environ.get("PHILAB_UPLOAD_HOURS", str(HOURS))
    try:
        hours = float(given)
    except ValueError:
        hours = 0.0
    if not 0 < hours < float("inf"):
        raise ValueError(f"PHILAB_UPLOAD_HOURS is “{given}”, not a number of hours above 0.")
    return hours


def keep(workspace: Workspace, made: Path, *, owner: str, name: str) -> Upload:
    """Take over the cohort that an import wrote into the folder `made` (on the workspace's disk) as the owner's.

    The record is written first: the cohort is never there without one. Raises ValueError for a cohort that was not
    imported, DiskFull when it does not fit.
    """
    spec = CorpusSpec.model_validate_json((made / "spec.json").read_text(encoding="utf-8"))
    if spec.imported is None or not owner:
        raise ValueError("only notes that somebody brought can be kept as theirs")
    now = time.time()
    upload = Upload(spec.digest(), owner, name, spec, now, now + 3600 * hours_kept())
    _write(workspace.root, upload)
    try:
        workspace.adopt(made, spec)
    except Exception:
        _file(workspace.root, upload.digest).unlink(missing_ok=True)
        raise
    return upload


def uploads(root: Path, owner: str | None = None) -> list[Upload]:
    """Every upload, or one owner's, oldest first; those that are being deleted only without `owner`."""
    folder = root / FOLDER
    found = [_read(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []
    kept = [one for one in found if one is not None and (owner is None or (one.owner == owner and not one.leaving))]
    return sorted(kept, key=lambda one: (one.uploaded, one.digest))


def shows_commands_notes() -> bool:
    """Does this server show everybody the notes that came by the command line (PHILAB_SHOW_IMPORTED=1)?"""
    return os.environ.get("PHILAB_SHOW_IMPORTED") == "1"


def may_see(root: Path, spec: CorpusSpec, viewer: str) -> bool:
    """Is this cohort, and whatever was made from it, for these eyes? Synthetic ones are for everybody's."""
    if spec.imported is None:
        return True
    upload = _read(_file(root, spec.digest()))
    if upload is None:
        return shows_commands_notes()
    return upload.owner == viewer and not upload.leaving


def delete(workspace: Workspace, digest: str) -> bool:
    """Remove an uploaded cohort and everything made from it. `workspace` must see every run (no `viewer`).

    False while a run on it is still being made or attacked: that is asked to stop, nobody sees it any more, and the
    upload stays `due`. A run that is being attacked stays until then, since it alone says whose notes its audit is of.
    """
    upload = _read(_file(workspace.root, digest))
    if upload is None:
        return True
    _write(workspace.root, Upload(**{**vars(upload), "leaving": True}))
    shutil.rmtree(workspace.root / "corpora" / digest, ignore_errors=True)
    workspace.forget(upload.spec)
    gone = [_stopped(workspace.lock_file(work.name), work) for work in workspace.works() if _is_of(work, digest)]
    for run_id in made_from(workspace, digest):
        audit = workspace.audit(run_id).folder
        gone.append(_stopped(workspace.audit_lock_file(run_id), audit, workspace.root / "runs" / run_id))
    shutil.rmtree(workspace.references(upload.spec), ignore_errors=True)
    if all(gone):
        _file(workspace.root, digest).unlink(missing_ok=True)
    return all(gone)


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


def due(root: Path, now: float | None = None) -> list[str]:
    """Digests of what is past its time or half deleted."""
    now = time.time() if now is None else now
    return [one.digest for one in uploads(root) if one.leaving or one.expires <= now]


def made_from(workspace: Workspace, digest: str) -> list[str]:
    """Ids of the finished runs on a cohort."""
    return [folder.name for folder in (workspace.root / "runs").glob("*/") if _is_of(folder, digest)]


def _is_of(folder: Path, digest: str) -> bool:
    try:
        return read_spec(folder).corpus.digest() == digest
    except (RunBroken, OSError):
        return False


def _file(root: Path, digest: str) -> Path:
    return root / FOLDER / f"{digest}.json"


def _write(root: Path, upload: Upload) -> None:
    path = _file(root, upload.digest)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {**asdict(upload), "spec": upload.spec.model_dump(mode="json")}
    replace_text(path, json.dumps(data, ensure_ascii=False, indent=2))


def _read(path: Path) -> Upload | None:
    """The record, or None where there is none (it can vanish while somebody looks)."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return Upload(**{**data, "spec": CorpusSpec.model_validate(data["spec"])})
