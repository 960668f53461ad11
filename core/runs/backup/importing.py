"""Takes the items of an archive into a data folder, each complete or not at all.

Every path, checksum and name in the archive is checked before anything becomes visible. An item that is there already
with equal content is skipped, so a stopped import goes on when it is started again. One that differs is never replaced.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from core.common.files import create, make_folder
from core.common.folders import building, publish
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.runs.audits import StoredAudit
from core.runs.backup.archive import Archive, Item, ItemReport, reading
from core.runs.backup.kinds import KINDS, RECORD, content_problem, files_of, is_weights
from core.runs.integrity.checksums import FILE as CHECKSUMS
from core.runs.integrity.checksums import Checksums, sha256
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.integrity.verify import cohort_problems, run_problems
from core.runs.run import Run, RunBroken, RunNotFound
from core.runs.store import Workspace
from core.runs.uploads.ownership import UPLOADED, marked_cohort
from core.runs.uploads.records import RecordBroken, Upload, may_be_kept, read_record, record_file, write_record
from core.spec import CorpusSpec
from core.spec.schema import read as read_settings

Outcome = Literal["imported", "completed", "there", "refused"]
ASIDE = "If the one here is damaged, `python -m core verify --repair` moves it aside; then import again."


@dataclass(frozen=True)
class Imported:
    """What became of one item: `there` with equal content before, `completed` by the weights that it lacked."""

    path: str
    outcome: Outcome
    why: str = ""


class _Refused(ValueError):
    """An item cannot be taken over. The message is the rest of a sentence that begins with the item."""


def import_archive(
    workspace: Workspace, file: Path, *, dry_run: bool = False, on_progress: ItemReport | None = None
) -> list[Imported]:
    """Take everything in an archive into the data folder that is not there yet.

    Args:
        workspace: The data folder, without a viewer.
        file: The archive.
        dry_run: Check everything and say what would happen, in a temporary folder elsewhere.
        on_progress: Called before each item.

    Raises:
        ArchiveBroken: A path, a checksum or a name in the archive is wrong. Nothing was imported.
        DiskFull, OSError: It could not be read or written; items that are complete stay.
    """
    with reading(file) as archive:
        archive.check()
        items = sorted(archive.manifest.items, key=lambda item: (KINDS.index(item.kind), item.name))
        task = _Import(archive, workspace, {item.path for item in items} if dry_run else set(), dry_run)
        done = []
        for number, item in enumerate(items, start=1):
            if on_progress is not None:
                on_progress(number, len(items), item.path)
            with full_disk_as_sentence(item.path, workspace.root):
                done.append(task.take(item))
        return done


@dataclass
class _Import:
    """One import. In a dry run, `coming` holds the paths of items that an import would bring before others."""

    archive: Archive
    workspace: Workspace
    coming: set[str]
    dry_run: bool
    refused: set[str] = field(default_factory=set)

    def take(self, item: Item) -> Imported:
        """Check an item and move it to its place. Raises OSError."""
        try:
            if item.kind == "uploads":
                return self._take_record(item)
            return self._take_folder(item)
        except _Refused as error:
            self.coming.discard(item.path)
            self.refused.add(item.path)
            return Imported(item.path, "refused", f"{item.path} was not imported: {error}")

    def _take_folder(self, item: Item) -> Imported:
        final = self.workspace.root / item.path
        compared = _compared(item, final)
        if compared == "there":
            return Imported(item.path, "there")
        private = self._is_private(item)
        with ExitStack() as stack:
            if self.dry_run:
                parent = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            else:
                parent = make_folder(final.parent, private=True) if _in_private(item) else final.parent
            beside = stack.enter_context(building(parent, private=private))
            made = make_folder(beside / final.name)  # checks compare a folder's name with its settings
            self._write(item, made)
            self._check(item, made)
            if not self.dry_run and not publish(made, final, lambda there: compared != "completed"):
                _compared(item, final)  # another process was first: it is equal, or this one is refused
                return Imported(item.path, "there")
        return Imported(item.path, "completed" if compared == "completed" else "imported")

    def _write(self, item: Item, made: Path) -> None:
        for file in item.files:
            path = made / file
            make_folder(path.parent)
            with create(path).open("wb") as out:
                for piece in self.archive.pieces(item, file):
                    out.write(piece)
            if (problem := content_problem(path)) is not None:
                raise _Refused(f"its file {file} {problem}.")

    def _is_private(self, item: Item) -> bool:
        """Whether an item is about imported notes or releases. Raises _Refused for an audit without its run."""
        match item.kind:
            case "corpora":
                return self._cohort(item).imported is not None
            case "ledger" | "references":
                return _in_private(item)
        if item.kind == "runs":
            return self._run_cohort(item).imported is not None
        if f"runs/{item.name}" in self.refused:
            raise _Refused("it is about the archive's run, which was not imported.")
        try:
            return self.workspace.run(item.name).spec.corpus.imported is not None
        except RunBroken as error:
            raise _Refused(str(error)) from None
        except RunNotFound:
            if f"runs/{item.name}" in self.coming:
                return True
            raise _Refused("its run is neither here nor in the archive.") from None

    def _cohort(self, item: Item) -> CorpusSpec:
        return CorpusSpec.model_validate_json(self.archive.read(item, "spec.json"))

    def _run_cohort(self, item: Item) -> CorpusSpec:
        return read_settings(self.archive.read(item, "spec.json").decode("utf-8")).spec.corpus

    def _check(self, item: Item, made: Path) -> None:
        """Raise _Refused unless the item in `made` can be used, and may be kept."""
        match item.kind:
            case "runs":
                self._check_run(item, made)
            case "corpora":
                self._check_cohort(item, made)
            case "audits":
                self._check_audit(item, made)
            case "references" if _in_private(item) and not self._may_be_kept(item.name.split("/")[0]):
                raise _Refused("nothing here says that the notes that it was made from may still be kept.")
            case "ledger":
                _check_ledger(made, self.archive.read(item, "0001.json"))

    def _check_run(self, item: Item, made: Path) -> None:
        for file, problem in run_problems(made).items():
            raise _Refused(f"its file {file} {problem}.")
        _check_listed(item, made)
        try:
            run = Run.open(made)
            run.privacy  # noqa: B018 — its promise can be read, or this raises
        except RunBroken as error:
            raise _Refused(str(error)) from None
        taken = Checksums.read(made)
        if taken is not None and taken.corpus != run.spec.corpus.digest():
            raise _Refused("its checksums name another cohort than its settings.")
        if (marked := marked_cohort(made)) is not None:
            self._check_record(marked, run.spec.corpus.digest())

    def _check_audit(self, item: Item, made: Path) -> None:
        stored = StoredAudit(item.name, made)
        for path, problem in stored.problems():
            raise _Refused(f"its file {path.relative_to(made)} {problem}.")
        if f"runs/{item.name}" in self.coming:
            return  # a dry run: the run that it belongs to is not here to look at
        here = self.workspace.run(item.name).training
        if any(one.training != here for one in stored.outcomes().values()):
            raise _Refused("the run here has other weights: it was trained again, with other noise.")

    def _check_cohort(self, item: Item, made: Path) -> None:
        for file, problem in cohort_problems(made).items():
            raise _Refused(f"its file {file} {problem}.")
        _check_listed(item, made)
        uploaded = (made / UPLOADED).exists()
        if uploaded:
            self._check_record(item.name, item.name)
        corpus = Corpus.read(made)
        assert corpus.spec is not None  # `check_identity` has read it
        if corpus.spec.imported is None:
            derived, expected = corpus.content_id(), build(corpus.spec).content_id()
        else:
            derived = corpus.content_id(self._owner(item.name) if uploaded else "")
            expected = corpus.spec.imported
        if derived != expected:
            raise _Refused("its notes are not those that its settings give.")

    def _owner(self, digest: str) -> str:
        """The owner of an upload, on whom the id of its notes depends."""
        item = next((one for one in self.archive.manifest.items if one.path == f"uploads/{digest}"), None)
        record = read_record(record_file(self.workspace.root, digest)) if item is None else self._record(item)
        return "" if record is None else record.owner

    def _check_record(self, marked: str, digest: str) -> None:
        """Raise _Refused unless there is a record that says until when the upload is kept."""
        if marked != digest:
            raise _Refused("its mark names another upload than its settings.")
        try:
            record = read_record(record_file(self.workspace.root, digest))
        except RecordBroken as error:
            raise _Refused(str(error)) from None
        if not (f"uploads/{digest}" in self.coming if record is None else not record.leaving):
            raise _Refused("it was made from uploaded notes whose time is over, or that were deleted here.")

    def _may_be_kept(self, digest: str) -> bool:
        """Whether a model of these notes may be kept, with what a dry run would have brought before it."""
        if may_be_kept(self.workspace.root, digest):
            return True
        if record_file(self.workspace.root, digest).exists():  # unreadable, or the upload is being deleted
            return False
        cohort = next((one for one in self.archive.manifest.items if one.path == f"corpora/{digest}"), None)
        by_command = cohort is not None and cohort.path in self.coming and UPLOADED not in cohort.files
        return by_command or f"uploads/{digest}" in self.coming

    # Records of uploads ------------------------------------------------------------------------------------------

    def _take_record(self, item: Item) -> Imported:
        root = self.workspace.root
        upload = self._record(item)
        there = record_file(root, item.name)
        if there.exists():
            if sha256(there) != item.files[RECORD].sha256:
                raise _Refused("another record of this upload is here.")
            return Imported(item.path, "there")
        if upload.leaving or upload.expires <= time.time():
            raise _Refused("these notes had to be deleted by now, as their owner was told.")
        if not self.dry_run:
            write_record(root, upload)
        return Imported(item.path, "imported")

    def _record(self, item: Item) -> Upload:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{item.name}.json"
            create(path, private=True).write_bytes(self.archive.read(item, RECORD))
            try:
                upload = read_record(path)
            except RecordBroken:
                upload = None
        if upload is None or upload.spec.digest() != upload.digest:
            raise _Refused("it cannot be read.")
        return upload


def _in_private(item: Item) -> bool:
    """Whether an item's parent folder is private, whatever the item is about: ledgers, and models of imported notes."""
    return item.kind == "ledger" or (item.kind == "references" and "/" in item.name)


def _check_listed(item: Item, made: Path) -> None:
    """Raise _Refused for a file that the item's own checksums do not name."""
    taken = Checksums.read(made)
    if taken is not None and (odd := sorted(item.files.keys() - taken.sha256.keys() - {CHECKSUMS})):
        raise _Refused(f"its file {odd[0]} is not among its checksums.")


def _check_ledger(made: Path, first: bytes) -> None:
    from core.runs.ledger.entries import Ledger, LedgerBroken, Release

    try:
        Ledger(made, Release.model_validate_json(first).corpus).releases()
    except LedgerBroken as error:
        raise _Refused(str(error).replace(str(made), "the ledger in the archive")) from None
    except ValueError:
        raise _Refused("its first entry cannot be read.") from None


def _compared(item: Item, final: Path) -> Literal["there", "completed", "new"]:
    """Whether the item is there already, lacks only its weights, or is new. Raises _Refused if it differs."""
    if not final.exists():
        return "new"
    here, unknown = files_of(item.kind, final)
    if unknown:
        raise _Refused(f"the one here has a file that does not belong to it, {unknown[0]}.")
    if item.kind == "ledger":
        return _compared_ledger(item, final, here)
    more, fewer = _apart(item, set(here) - item.files.keys()), _apart(item, item.files.keys() - set(here))
    lacking = bool(more[0] or fewer[0])  # one of the two has no weights, and checksums without them
    passing = {CHECKSUMS} if item.kind == "runs" and lacking else set()
    differing = [
        file
        for file in here
        if file in item.files and file not in passing and sha256(final / file) != item.files[file].sha256
    ]
    if odd := sorted([*differing, *more[1], *fewer[1]]):
        raise _Refused(f"the one here differs in its file {odd[0]}. {ASIDE}")
    if more[0] and fewer[0]:
        raise _Refused("the one here has other models.")
    return "completed" if fewer[0] else "there"


def _apart(item: Item, files: set[str]) -> tuple[list[str], list[str]]:
    """Files of models, and other files."""
    models = [file for file in files if is_weights(item.kind, item.name, file)]
    return models, sorted(files - set(models))


def _compared_ledger(item: Item, final: Path, here: list[str]) -> Literal["there"]:
    """A ledger is there if it has all entries of the archive's; it may have later ones."""
    entries = sorted(file for file in item.files if file != "head")
    for entry in entries:
        if entry not in here:
            raise _Refused(
                f"the ledger here has {len(here) - ('head' in here)} of its {len(entries)} entries. What was released "
                f"since then is not counted here. Move the folder {final} away, and import again."
            )
        if sha256(final / entry) != item.files[entry].sha256:
            raise _Refused(f"the ledger here has another entry {entry}: the two promise different things.")
    return "there"
