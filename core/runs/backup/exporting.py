"""Writes runs, audits, cohorts, reference models and ledgers of a data folder to an archive.

Work in progress, its keys, ended sign-ins and damaged files are never exported. Notes that were imported, and
everything made from them, are exported on request alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from core.common.folders import folders_in, locked
from core.runs.audits import ATTACKS_FILE, StoredAudit
from core.runs.backup.archive import Item, ItemReport, Manifest, StoredFile, Writer, is_archive, writing
from core.runs.backup.kinds import RECORD, Kind, files_of, is_name, is_weights
from core.runs.integrity.checksums import FILE as CHECKSUMS
from core.runs.integrity.checksums import Checksums, sha256
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.integrity.upkeep import DIGEST
from core.runs.integrity.verify import cohort_problems, run_problems
from core.runs.lock import in_use, inner_work
from core.runs.run import RUN_ID, Run
from core.runs.store import Workspace
from core.runs.uploads.ownership import UPLOADED, cohort_of
from core.runs.uploads.records import RecordBroken, may_be_kept, read_record, record_file


class ExportRefused(ValueError):
    """What was asked for cannot be exported. The message is a sentence; nothing was written."""


@dataclass(frozen=True)
class Source:
    """An item of a data folder. `imported` says that it is, or was made from, imported notes."""

    kind: Kind
    name: str
    folder: Path
    imported: bool

    @property
    def path(self) -> str:
        """Where it is in the data folder."""
        return f"{self.kind}/{self.name}"


@dataclass
class Exported:
    """What an archive holds, and what was left out of it and why, a sentence each."""

    items: list[Item] = field(default_factory=list)
    private: int = 0  # items on imported notes that were left out
    problems: list[str] = field(default_factory=list)


def export(
    workspace: Workspace,
    file: Path,
    *,
    runs: Sequence[str] = (),
    weights: bool = True,
    uploads: bool = False,
    on_progress: ItemReport | None = None,
) -> Exported:
    """Write an archive of the data folder to `file`, whole or not at all. Shipped runs are not part of it.

    Args:
        workspace: The data folder, without a viewer.
        file: The archive. An archive of this program that is there is replaced.
        runs: Only these runs, each with its cohort, its control and its audit.
        weights: Also the models of runs, of unlearnings, and the attacks' reference models.
        uploads: Also imported notes and everything made from them.
        on_progress: Called before each item.

    Raises:
        ExportRefused: The file is something else than an archive, or a named run is on imported notes.
        RunNotFound, RunBroken: There is no such run.
        DiskFull, OSError: The archive could not be written; what was at `file` before is still there.
    """
    if file.exists() and not is_archive(file):
        raise ExportRefused(f"{file} exists and is not an archive of this program. Choose another name.")
    exported = Exported()
    chosen = list(_named(workspace, runs, uploads) if runs else _all(workspace, exported, uploads))
    with full_disk_as_sentence("the archive", file.parent):
        file.parent.mkdir(parents=True, exist_ok=True)
        with writing(file) as archive:
            for number, source in enumerate(chosen, start=1):
                if on_progress is not None:
                    on_progress(number, len(chosen), source.path)
                if (problem := _problem(workspace, source)) is not None:
                    exported.problems.append(f"{source.path} was left out: {problem}.")
                elif stored := _stored(archive, source, weights):
                    exported.items.append(Item(kind=source.kind, name=source.name, files=stored))
            archive.finish(Manifest(weights=weights, items=exported.items))
    return exported


# What is exported ----------------------------------------------------------------------------------------------------


def _all(workspace: Workspace, exported: Exported, uploads: bool) -> Iterator[Source]:
    for source in sources(workspace):
        if source.imported and not uploads:
            exported.private += 1
        else:
            yield source


def sources(workspace: Workspace) -> Iterator[Source]:
    """Everything in the data folder that an archive may hold, in the order of an import."""
    root = workspace.root
    for record in sorted((root / "uploads").glob("*.json")):
        if DIGEST.fullmatch(record.stem):
            yield Source("uploads", record.stem, record, imported=True)
    for folder in folders_in(root / "corpora"):
        if DIGEST.fullmatch(folder.name):
            yield Source("corpora", folder.name, folder, _imported(folder))
    runs = [folder for folder in folders_in(root / "runs") if RUN_ID.fullmatch(folder.name)]
    about = {folder.name: _imported(folder) for folder in runs}
    yield from (Source("runs", folder.name, folder, about[folder.name]) for folder in runs)
    for folder in folders_in(root / "audits"):
        if RUN_ID.fullmatch(folder.name) and any((one / "runs" / folder.name).is_dir() for one in _roots(workspace)):
            yield Source("audits", folder.name, folder, about.get(folder.name, False))
    yield from _references(root / "references")
    for folder in folders_in(root / "ledger"):
        if DIGEST.fullmatch(folder.name) and (folder / "0001.json").exists():
            yield Source("ledger", folder.name, folder, _ledger_imported(folder))


def _references(place: Path) -> Iterator[Source]:
    for folder in folders_in(place):
        if is_name("references", folder.name):
            yield Source("references", folder.name, folder, imported=False)
        elif DIGEST.fullmatch(folder.name):
            names = (one for one in folders_in(folder) if is_name("references", f"{folder.name}/{one.name}"))
            yield from (Source("references", f"{folder.name}/{one.name}", one, imported=True) for one in names)


def _named(workspace: Workspace, runs: Sequence[str], uploads: bool) -> list[Source]:
    """The sources of these runs, their controls, cohorts, audits and, if asked for, records of uploads."""
    wanted: set[str] = set()
    for run_id in dict.fromkeys(runs):
        run = workspace.run(run_id)
        if run.spec.corpus.imported is not None and not uploads:
            raise ExportRefused(
                f"Run {run_id} was made from imported notes, which are exported only with --uploads. Nothing was "
                "written."
            )
        for one in (run, *_control(workspace, run)):
            wanted |= {f"runs/{one.id}", f"audits/{one.id}"}
        digest = run.spec.corpus.digest()
        wanted |= {f"corpora/{digest}", f"uploads/{digest}"}
    found = [source for source in sources(workspace) if source.path in wanted]
    missing = set(runs) - {source.name for source in found if source.kind == "runs"}
    if missing:
        raise ExportRefused(
            f"Run {min(missing)} came with the program and is not in {workspace.root}: copy the program."
        )
    return found


def _control(workspace: Workspace, run: Run) -> list[Run]:
    found = None if run.spec.is_base else workspace.find(run.spec.base_spec())
    return [] if found is None else [found]


def _roots(workspace: Workspace) -> tuple[Path, ...]:
    return workspace.root, *workspace.shared


def _imported(folder: Path) -> bool:
    """Whether a run's or cohort's folder is about imported notes; also if that cannot be determined."""
    if folder.parent.name == "runs":
        about = cohort_of(folder)
        return about is None or about[1]
    taken = Checksums.read(folder)
    if (folder / UPLOADED).exists() or (taken is not None and taken.imported):
        return True
    return _names_imported(folder / "spec.json", ())


def _ledger_imported(folder: Path) -> bool:
    return _names_imported(folder / "0001.json", ("corpus",))


def _names_imported(path: Path, within: tuple[str, ...]) -> bool:
    """Whether settings in a JSON file are of imported notes; also if they cannot be read."""
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
        for key in within:
            settings = settings[key]
        return settings.get("imported") is not None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return True


# Writing one item ----------------------------------------------------------------------------------------------------


def _problem(workspace: Workspace, source: Source) -> str | None:
    """Why an item cannot be exported now, or None."""
    if source.kind == "uploads":
        return _record_problem(source)
    if source.kind == "audits" and _is_attacked(workspace, source):
        return "it is being made at this moment; export it again when it is done"
    if not _has_record(workspace, source):
        return "it was uploaded on a page, and nothing says until when it may be kept"
    if source.kind == "references" and source.imported and not may_be_kept(workspace.root, source.folder.parent.name):
        return "nothing says that the notes that it was made from may still be kept"
    known, unknown = files_of(source.kind, source.folder)
    if unknown:
        return f"it has a file that does not belong to it, {unknown[0]}"
    if source.kind == "runs" and CHECKSUMS in known:
        listed = set((Checksums.read(source.folder) or Checksums(corpus="", imported=False, sha256={})).sha256)
        if odd := sorted(set(known) - listed - {CHECKSUMS}):
            return f"its file {odd[0]} is not among its checksums"
    found = next(iter(_damage(source).items()), None)
    return None if found is None else f"{' '.join(found)}; `python -m core verify` says more"


def _record_problem(source: Source) -> str | None:
    try:
        record = read_record(source.folder)
    except RecordBroken:
        return "the upload's record cannot be read"
    return "the upload is being deleted" if record is None or record.leaving else None


def _has_record(workspace: Workspace, source: Source) -> bool:
    """Whether something made from an upload has the record that limits how long it is kept."""
    if not (source.folder / UPLOADED).exists():
        return True
    about = cohort_of(source.folder) if source.kind == "runs" else (source.name, True)
    record = None if about is None else Source("uploads", about[0], record_file(workspace.root, about[0]), True)
    return record is not None and _record_problem(record) is None


def _damage(source: Source) -> dict[str, str]:
    match source.kind:
        case "runs":
            return run_problems(source.folder)
        case "corpora":
            return cohort_problems(source.folder)
        case "audits":
            audit = StoredAudit(source.name, source.folder)
            return {str(path.relative_to(source.folder)): what for path, what in audit.problems()}
    return {}


def _is_attacked(workspace: Workspace, source: Source) -> bool:
    return in_use(workspace.audit_lock_file(source.name)) or bool(inner_work(source.folder))


def _stored(archive: Writer, source: Source, weights: bool) -> dict[str, StoredFile]:
    """Write an item's files to the archive; none are left of a model in an archive without weights."""
    if source.kind == "uploads":
        return {RECORD: _copy(archive, source, RECORD, source.folder)}
    with locked(source.folder) if source.kind == "ledger" else nullcontext():  # no release is entered meanwhile
        files = files_of(source.kind, source.folder)[0]
        kept = [file for file in files if weights or not is_weights(source.kind, source.name, file)]
        first = sorted(kept, key=lambda file: not file.endswith(ATTACKS_FILE))  # an entry's tables are there before it
        stored = {
            file: _without_weights(archive, source)
            if file == CHECKSUMS and source.kind == "runs" and len(kept) < len(files)
            else _copy(archive, source, file, source.folder / file)
            for file in first
        }
    if source.kind == "audits" and ATTACKS_FILE in stored:
        _unchanged(source, stored[ATTACKS_FILE])
    return dict(sorted(stored.items()))


def _copy(archive: Writer, source: Source, file: str, path: Path) -> StoredFile:
    try:
        with path.open("rb") as content:
            return archive.add(f"{source.path}/{file}", content, path.stat().st_size)
    except (FileNotFoundError, ValueError):
        raise _moving(source) from None


def _without_weights(archive: Writer, source: Source) -> StoredFile:
    """A run's checksums without those of its model."""
    taken = Checksums.read(source.folder)
    if taken is None:
        raise _moving(source)
    kept = {file: sha for file, sha in taken.sha256.items() if not is_weights(source.kind, source.name, file)}
    content = taken.model_copy(update={"sha256": kept}).model_dump_json(indent=1).encode()
    return archive.add(f"{source.path}/{CHECKSUMS}", io.BytesIO(content), len(content))


def _unchanged(source: Source, stored: StoredFile) -> None:
    """Raise if an audit got another result while its files were copied."""
    if sha256(source.folder / ATTACKS_FILE) != stored.sha256:
        raise _moving(source)


def _moving(source: Source) -> OSError:
    return OSError(f"{source.path} was changed or deleted while it was exported. Nothing was written: export again.")
