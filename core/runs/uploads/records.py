"""Who brought which notes: cohorts that belong to one browser session or signed-in user, for a stated time only.

A record in `uploads/<digest>.json` says whose the cohort of that digest is. It stays until everything made from the
cohort is gone too: runs, half-made runs, audits, reference models. Notes that came by the command line have no record:
they are for commands, and for the app only where `PHILAB_SHOW_IMPORTED=1` says so.

A record that cannot be read harms nobody else's: it is left out, named (`damaged_records`), and put aside in
`uploads/damaged/` under its name. Its cohort is then shown to nobody, and deleted when its folder is as old as an
upload may become. So is an uploaded cohort whose record is gone altogether, and what was made from it: both are marked
(`core.runs.uploads.ownership`).

A browser session's uploads go an hour after the session was last there (`still_here`): nobody can reach them any more,
but with their deletion code (`core.runs.uploads.deletion_codes`).
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
from typing import TYPE_CHECKING, ClassVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from core.common.files import make_folder, replace_text
from core.runs.integrity.upkeep import DAMAGED, DIGEST
from core.runs.run import RUN_ID
from core.runs.uploads.deletion_codes import matches
from core.runs.uploads.ownership import UPLOADED, mark_cohort, marked_cohort
from core.spec import CorpusSpec

if TYPE_CHECKING:
    pass

FOLDER = "uploads"
ASIDE = "damaged"  # in it: records that cannot be read
HOURS = 24.0  # how long notes that were uploaded are kept, unless PHILAB_UPLOAD_HOURS says otherwise
HOURS_ALONE = 1.0  # …at most, when the browser session that brought them is gone
OF_SESSION = "session-"  # how owners begin who are browser sessions

log = logging.getLogger(__name__)


class RecordBroken(ValueError):
    """A record of an upload cannot be read. The text is a sentence with the file and the reason, not its content."""


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
    code_hash: str = ""  # core.runs.uploads.deletion_codes.hashed of the deletion code; older records have none


_RECORD = TypeAdapter(Upload)
RUN_PLACES = ("runs", "work", f"{DAMAGED}/runs")  # where folders of runs are


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


def seconds_kept() -> float:
    """As `hours_kept`, in seconds; the usual time where the setting is wrong, of which pages complain."""
    try:
        return 3600 * hours_kept()
    except ValueError:
        return 3600 * HOURS


def uploads(root: Path, owner: str | None = None) -> list[Upload]:
    """Every upload, or one owner's, oldest first; those that are being deleted only without `owner`.

    Records that cannot be read are left out: `damaged_records` names them.
    """
    found = [one for one in records_of(root) if isinstance(one, Upload)]
    kept = [one for one in found if owner is None or (one.owner == owner and not one.leaving)]
    return sorted(kept, key=lambda one: (one.uploaded, one.digest))


def damaged_records(root: Path, *, aside: bool = True) -> list[str]:
    """A sentence for every record that cannot be read and, with `aside`, for every one that was put aside."""
    found = [str(one) for one in records_of(root) if isinstance(one, RecordBroken)]
    there = _aside(root) if aside else []
    return found + [f"The upload's record {path} was put aside: it cannot be read." for path in there]


def put_aside_damaged(root: Path) -> list[str]:
    """Move records that cannot be read into `uploads/damaged/`, log each, and return the sentences about them.

    Cohorts of readable records are marked as uploaded, where an earlier version did not.
    """
    told = []
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            upload = read_record(path)
        except RecordBroken as error:
            told.append(str(error))
            log.warning("%s It is put aside, shown to nobody, and deleted when its time is over.", error)
            with contextlib.suppress(OSError):  # a disk that is only read
                os.replace(path, make_folder(root / FOLDER / ASIDE, private=True) / path.name)
            continue
        cohort = root / "corpora" / path.stem
        if upload is not None and cohort.is_dir() and not (cohort / UPLOADED).exists():
            with contextlib.suppress(OSError):
                mark_cohort(cohort)
    return told


def records_of(root: Path) -> Iterator[Upload | RecordBroken]:
    """Every record of an upload, readable or broken, in the order of the digests."""
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
    """Does this server show everybody the notes that came by the command line (PHILAB_SHOW_IMPORTED=1)?"""
    return os.environ.get("PHILAB_SHOW_IMPORTED") == "1"


def may_see(root: Path, spec: CorpusSpec, viewer: str) -> bool:
    """Is this cohort, and whatever was made from it, for these eyes? Synthetic ones are for everybody's."""
    if spec.imported is None:
        return True
    return sees_upload(root, spec.digest(), viewer)


def sees_upload(root: Path, digest: str, viewer: str) -> bool:
    """May the viewer see the imported cohort of that digest, and what was made from it?"""
    try:
        upload = read_record(record_file(root, digest))
    except RecordBroken:
        return False
    if upload is None:
        return shows_commands_notes() and not is_orphan(root, digest)
    return upload.owner == viewer and not upload.leaving


def is_orphan(root: Path, digest: str) -> bool:
    """Was this uploaded, as something other than its record says?"""
    places = (root / FOLDER / ASIDE / f"{digest}.json", root / "corpora" / digest / UPLOADED)
    return any(path.exists() for path in places) or digest in _marked_runs(root)


def run_folders(root: Path, *places: str) -> list[Path]:
    """Folders of runs, finished, half-made or put aside."""
    folders = [path for place in places for path in (root / place).glob("*/")]
    return [path for path in folders if RUN_ID.fullmatch(path.name.split(".")[0])]


def _marked_runs(root: Path) -> dict[str, Path]:
    """Digests of uploads that runs are marked with, and the folder of one of these runs."""
    marked = {marked_cohort(folder): folder for folder in run_folders(root, *RUN_PLACES)}
    return {digest: folder for digest, folder in marked.items() if digest}


def due(root: Path, now: float | None = None) -> list[str]:
    """Digests of what is past its time or half deleted. Never raises because of what a record holds.

    Where no record can be read, the time is that of the cohort's folder, or else of the record's file.
    """
    now = time.time() if now is None else now
    known = list(uploads(root))
    past = [one.digest for one in known if one.leaving or min(one.expires, _alone_until(root, one)) <= now]
    return past + [digest for digest, since in _orphans(root, known).items() if since + seconds_kept() <= now]


def still_here(root: Path, owner: str, now: float | None = None) -> None:
    """Note that the browser session `owner` is there: its uploads stay for another hour, or until they expire.

    The time is that of the record's file, so that whoever deletes the record meanwhile loses nothing.
    """
    for one in uploads(root, owner):
        with contextlib.suppress(OSError):  # it is being deleted, or the disk is only read
            os.utime(record_file(root, one.digest), None if now is None else (now, now))


def _alone_until(root: Path, upload: Upload) -> float:
    """Until when an upload stays whose browser session is gone."""
    if not upload.owner.startswith(OF_SESSION):
        return float("inf")  # somebody signed in can come back
    try:
        return record_file(root, upload.digest).stat().st_mtime + 3600 * HOURS_ALONE
    except OSError:  # it goes while it is looked at
        return float("inf")


def with_code(root: Path, code: str) -> list[Upload]:
    """The uploads that have this deletion code: one or none. Every record is compared, each in constant time."""
    return [one for one in uploads(root) if matches(code, one.code_hash)]


def _orphans(root: Path, known: list[Upload]) -> dict[str, float]:
    """Digests of uploads without a readable record, and since when they are there, in Unix seconds."""
    readable = {one.digest for one in known}
    records = {path.stem: path for path in [*(root / FOLDER).glob("*.json"), *_aside(root)]}
    marked = {path.parent.name: path.parent for path in (root / "corpora").glob(f"*/{UPLOADED}")}
    found: dict[str, float] = {}
    for digest, path in (_marked_runs(root) | records | marked).items():
        if digest not in readable and DIGEST.fullmatch(digest):
            with contextlib.suppress(OSError):  # it goes while it is looked at
                cohort = root / "corpora" / digest
                found[digest] = (cohort if cohort.is_dir() else path).stat().st_mtime
    return found


def record_file(root: Path, digest: str) -> Path:
    """Where the record of an upload is stored."""
    return root / FOLDER / f"{digest}.json"


def write_record(root: Path, upload: Upload) -> None:
    """Write a record whole or not at all, for its owner's eyes alone."""
    path = record_file(root, upload.digest)
    make_folder(path.parent, private=True)
    data = {**asdict(upload), "spec": upload.spec.model_dump(mode="json")}
    replace_text(path, json.dumps(data, ensure_ascii=False, indent=2), private=True)


def read_record(path: Path) -> Upload | None:
    """The record, or None where there is none (it can vanish while somebody looks). Raises RecordBroken."""
    try:
        upload = _RECORD.validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RecordBroken(f"The upload's record {path} cannot be read ({error.strerror}).") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        why = f"{where}: {first['msg']}" if where else first["msg"]
        raise RecordBroken(f"The upload's record {path} is damaged or of another version ({why}).") from None
    if upload.digest != path.stem:
        raise RecordBroken(f"The upload's record {path} is of another upload than its name says.")
    return upload
