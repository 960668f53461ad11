"""Records of uploads: each cohort belongs to one browser session or signed-in user, for a limited time.

A record in `uploads/<digest>.json` names the owner of the cohort with that digest. It stays until everything made from
the cohort is gone as well: runs, unfinished runs, audits, reference models. Notes imported by command have no record:
commands see them, and the app only with `PHILAB_SHOW_IMPORTED=1`.

A record that cannot be read does not affect other uploads: it is left out and reported (`damaged_records`). If the
system could not read it at that moment, it stays, and its owner sees the upload again when it can be read. If its
content is damaged, it is moved to `uploads/damaged/` under its name. Its cohort is then shown to nobody, and deleted
when its folder is as old as an upload may become. The same happens to an uploaded cohort without any record, and to
what was made from it: both are marked (`core.runs.uploads.ownership`).

A browser session's uploads are deleted an hour after the session was last active (`still_here`). After that, nobody
could reach them except with their deletion code (`core.runs.uploads.deletion_codes`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from core.common.files import make_folder, replace_text
from core.common.refusals import first_refusal
from core.runs.integrity.upkeep import DAMAGED, DIGEST
from core.runs.run import RUN_ID
from core.runs.uploads.deletion_codes import matches
from core.runs.uploads.ownership import UPLOADED, mark_cohort, marked_cohort
from core.spec import CorpusSpec

FOLDER = "uploads"
ASIDE = "damaged"  # subfolder for records that cannot be read
HOURS = 24.0  # how long uploaded notes are kept, unless PHILAB_UPLOAD_HOURS says otherwise
HOURS_ALONE = 1.0  # …at most, once the browser session that uploaded them is gone
OF_SESSION = "session-"  # prefix of owners that are browser sessions

log = logging.getLogger(__name__)


class RecordBroken(ValueError):
    """A record of an upload cannot be read. The message is a sentence with the file and the reason, not its content."""


class RecordUnread(RecordBroken):
    """The system could not read a record at this moment, whatever its content is (too many open files, for example)."""


@dataclass(frozen=True)
class Upload:
    """One uploaded cohort. Times are Unix seconds; `leaving` means that it is being deleted."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    digest: str
    owner: str
    name: str
    spec: CorpusSpec
    uploaded: float
    expires: float
    leaving: bool = False
    code_hash: str = ""  # hash of the deletion code (core.runs.uploads.deletion_codes.hashed); older records have none


_RECORD = TypeAdapter(Upload)
RUN_PLACES = ("runs", "work", f"{DAMAGED}/runs")  # places with folders of runs


def hours_kept() -> float:
    """Number of hours for which an upload is kept. Raises ValueError if PHILAB_UPLOAD_HOURS is not above 0."""
    given = os.environ.get("PHILAB_UPLOAD_HOURS", str(HOURS))
    try:
        hours = float(given)
    except ValueError:
        hours = 0.0
    if not 0 < hours < float("inf"):
        raise ValueError(f"PHILAB_UPLOAD_HOURS is “{given}”: set it to a number of hours above 0.")
    return hours


def seconds_kept() -> float:
    """As `hours_kept`, in seconds; the default if the setting is wrong (pages report the wrong setting)."""
    try:
        return 3600 * hours_kept()
    except ValueError:
        return 3600 * HOURS


def uploads(root: Path, owner: str | None = None) -> list[Upload]:
    """All uploads, or those of one owner, oldest first. Uploads being deleted are included only without `owner`.

    Records that cannot be read are left out: `damaged_records` reports them.
    """
    found = [one for one in records_of(root) if isinstance(one, Upload)]
    kept = [one for one in found if owner is None or (one.owner == owner and not one.leaving)]
    return sorted(kept, key=lambda one: (one.uploaded, one.digest))


def damaged_records(root: Path, *, aside: bool = True) -> list[str]:
    """A sentence for every record that cannot be read and, with `aside`, for every one that was moved away."""
    found = [str(one) for one in records_of(root) if isinstance(one, RecordBroken)]
    there = _aside(root) if aside else []
    return found + [f"The upload's record {path} was moved here because it cannot be read." for path in there]


def put_aside_damaged(root: Path) -> list[str]:
    """Move damaged records to `uploads/damaged/`, log each, and return the sentences about them.

    A record that the system could not read at this moment may be sound, and stays. Cohorts with a readable record are
    marked as uploaded, if an earlier version did not mark them.
    """
    problems = []
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            upload = read_record(path)
        except RecordUnread as error:
            log.warning("%s It stays where it is, and is shown to nobody until it can be read.", error)
            continue
        except RecordBroken as error:
            problems.append(str(error))
            log.warning("%s It is moved away, shown to nobody, and deleted when its time is over.", error)
            move_aside(root, path.stem)
            continue
        cohort = root / "corpora" / path.stem
        if upload is not None and cohort.is_dir() and not (cohort / UPLOADED).exists():
            with contextlib.suppress(OSError):
                mark_cohort(cohort)
    return problems


def move_aside(root: Path, digest: str) -> None:
    """Move the record of an upload to `uploads/damaged/`, if the disk can be written."""
    with contextlib.suppress(OSError):
        os.replace(record_file(root, digest), make_folder(root / FOLDER / ASIDE, private=True) / f"{digest}.json")


def records_of(root: Path) -> Iterator[Upload | RecordBroken]:
    """All records of uploads, readable or broken, in the order of their digests."""
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            upload = read_record(path)
        except RecordBroken as error:
            yield error
        else:
            if upload is not None:
                yield upload


def _aside(root: Path) -> list[Path]:
    return sorted((root / FOLDER / ASIDE).glob("*.json"))


def shows_commands_notes() -> bool:
    """Whether this server shows everybody the notes imported by command (PHILAB_SHOW_IMPORTED=1)."""
    return os.environ.get("PHILAB_SHOW_IMPORTED") == "1"


def may_see(root: Path, spec: CorpusSpec, viewer: str) -> bool:
    """Whether the viewer may see this cohort and what was made from it. Anyone may see synthetic and public notes."""
    if spec.imported is None or spec.is_public_text:
        return True
    return sees_upload(root, spec.digest(), viewer)


def sees_upload(root: Path, digest: str, viewer: str) -> bool:
    """Whether the viewer may see the imported cohort with that digest, and what was made from it."""
    try:
        upload = read_record(record_file(root, digest))
    except RecordBroken:
        return False
    if upload is None:
        there = (root / "corpora" / digest).is_dir()  # else it was deleted, and no list of jobs may show it
        return there and shows_commands_notes() and not is_orphan(root, digest)
    return upload.owner == viewer and not upload.leaving


def may_be_kept(root: Path, digest: str) -> bool:
    """Whether models of imported notes may be kept: an upload's record says until when, or a command imported them."""
    try:
        upload = read_record(record_file(root, digest))
    except RecordBroken:
        return False
    if upload is not None:
        return not upload.leaving
    return (root / "corpora" / digest).is_dir() and not is_orphan(root, digest)


def is_orphan(root: Path, digest: str) -> bool:
    """Whether this cohort was uploaded, judging by anything other than a readable record."""
    places = (root / FOLDER / ASIDE / f"{digest}.json", root / "corpora" / digest / UPLOADED)
    return any(path.exists() for path in places) or digest in _marked_runs(root)


def run_folders(root: Path, *places: str) -> list[Path]:
    """Folders of runs: finished, unfinished or moved away."""
    folders = [path for place in places for path in (root / place).glob("*/")]
    return [path for path in folders if RUN_ID.fullmatch(path.name.split(".")[0])]


def _marked_runs(root: Path) -> dict[str, Path]:
    """Digests of uploads that runs are marked with, each with the folder of one of these runs."""
    marked = {marked_cohort(folder): folder for folder in run_folders(root, *RUN_PLACES)}
    return {digest: folder for digest, folder in marked.items() if digest}


def due(root: Path, now: float | None = None) -> list[str]:
    """Digests of uploads that have expired or are half deleted. Never raises because of the content of a record.

    If no record can be read, the time is that of the cohort's folder, or else of the record's file.
    """
    now = time.time() if now is None else now
    known = list(uploads(root))
    past = [one.digest for one in known if one.leaving or min(one.expires, _alone_until(root, one)) <= now]
    return past + [digest for digest, since in _orphans(root, known).items() if since + seconds_kept() <= now]


def still_here(root: Path, owner: str, now: float | None = None) -> None:
    """Note that the browser session `owner` is active: its uploads stay for another hour, or until they expire.

    The time is that of the record's file, so deleting the record at the same time does no harm.
    """
    for one in uploads(root, owner):
        with contextlib.suppress(OSError):  # it is being deleted, or the disk is read-only
            os.utime(record_file(root, one.digest), None if now is None else (now, now))


def _alone_until(root: Path, upload: Upload) -> float:
    """Time until which an upload stays after its browser session is gone."""
    if not upload.owner.startswith(OF_SESSION):
        return float("inf")  # a signed-in user can come back
    try:
        return record_file(root, upload.digest).stat().st_mtime + 3600 * HOURS_ALONE
    except OSError:  # it was removed in the meantime
        return float("inf")


def with_code(root: Path, code: str) -> list[Upload]:
    """The uploads with this deletion code: one or none. Every record is compared, each in constant time."""
    return [one for one in uploads(root) if matches(code, one.code_hash)]


def _orphans(root: Path, known: list[Upload]) -> dict[str, float]:
    """Digests of uploads without a readable record, and since when they exist, in Unix seconds."""
    readable = {one.digest for one in known}
    records = {path.stem: path for path in [*(root / FOLDER).glob("*.json"), *_aside(root)]}
    marked = {path.parent.name: path.parent for path in (root / "corpora").glob(f"*/{UPLOADED}")}
    found: dict[str, float] = {}
    for digest, path in (_marked_runs(root) | records | marked).items():
        if digest not in readable and DIGEST.fullmatch(digest):
            with contextlib.suppress(OSError):  # it was removed in the meantime
                cohort = root / "corpora" / digest
                found[digest] = (cohort if cohort.is_dir() else path).stat().st_mtime
    return found


def record_file(root: Path, digest: str) -> Path:
    """The file of an upload's record."""
    return root / FOLDER / f"{digest}.json"


def write_record(root: Path, upload: Upload) -> None:
    """Write a record as a whole or not at all, readable by its owner alone."""
    path = record_file(root, upload.digest)
    make_folder(path.parent, private=True)
    data = {**asdict(upload), "spec": upload.spec.model_dump(mode="json")}
    replace_text(path, json.dumps(data, ensure_ascii=False, indent=2), private=True)


def read_record(path: Path) -> Upload | None:
    """The record, or None if there is none (it can be removed at any time). Raises RecordBroken."""
    try:
        upload = _RECORD.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        kind = RecordBroken if isinstance(error, IsADirectoryError) else RecordUnread
        raise kind(f"The upload's record {path} cannot be read ({error.strerror}).") from None
    except ValidationError as error:
        raise RecordBroken(
            f"The upload's record {path} is damaged or of another version ({first_refusal(error)})."
        ) from None
    if upload.digest != path.stem:
        raise RecordBroken(f"The upload's record {path} belongs to another upload than its name says.")
    return upload
