"""Compares every stored file with what was written: `python -m core verify`.

Runs and cohorts with checksums are compared byte by byte. For older ones without, for shipped ones and for audits
(which grow), every table is read to its end instead. Ledgers have a hash chain of their own.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from core.common.files import make_folder, sync
from core.common.folders import folders_in
from core.runs.audits import StoredAudit
from core.runs.events import read_status
from core.runs.figures_only import schemas_of
from core.runs.integrity.checksums import FILE as CHECKSUMS
from core.runs.integrity.checksums import Checksums
from core.runs.integrity.upkeep import DAMAGED, DIGEST
from core.runs.integrity.whole import table_problem
from core.runs.run import PRIVACY_FILE, RUN_ID, SPEC_FILE, RunBroken, file_problems, read_privacy, read_spec
from core.runs.store import COHORT_TABLES, Workspace
from core.runs.uploads.records import damaged_records

Kind = Literal["run", "audit", "cohort", "upload", "ledger"]


@dataclass(frozen=True)
class Damage:
    """Something that cannot be trusted: `files` maps paths in `folder` to what is wrong with each file."""

    kind: Kind
    name: str
    folder: Path
    files: dict[str, str]
    shipped: bool = False

    def sentences(self) -> list[str]:
        """One sentence per file."""
        of = f"{'Shipped ' if self.shipped else ''}{self.kind} {self.name}"
        return [f"{of[0].upper()}{of[1:]}: {f'{file} {problem}'.strip()}." for file, problem in self.files.items()]


def damages(workspace: Workspace) -> Iterator[Damage]:
    """Everything in the data folder and among the shipped runs that differs from what was written."""
    for root in (workspace.root, *workspace.shared):
        shipped = root != workspace.root
        for folder in folders_in(root / "runs"):
            if RUN_ID.fullmatch(folder.name) and (files := run_problems(folder)):
                yield Damage("run", folder.name, folder, files, shipped)
        for folder in folders_in(root / "audits"):
            if RUN_ID.fullmatch(folder.name) and (files := _of_audit(folder)):
                yield Damage("audit", folder.name, folder, files, shipped)
        for folder in folders_in(root / "corpora"):
            if DIGEST.fullmatch(folder.name) and (files := cohort_problems(folder)):
                yield Damage("cohort", folder.name, folder, files, shipped)
    for folder in folders_in(workspace.root / "ledger"):
        if problem := _of_ledger(folder):
            yield Damage("ledger", folder.name, folder, {"": problem})
    if records := damaged_records(workspace.root, aside=False):
        folder = workspace.root / "uploads"
        yield Damage("upload", "records", folder, {sentence.removesuffix("."): "" for sentence in records})


def checked(workspace: Workspace) -> dict[str, int]:
    """Numbers of runs, audits, cohorts and ledgers to check, including shipped ones."""
    roots = (workspace.root, *workspace.shared)
    places = {"runs": RUN_ID, "audits": RUN_ID, "corpora": DIGEST, "ledger": DIGEST}
    return {
        place: sum(bool(name.fullmatch(folder.name)) for root in roots for folder in folders_in(root / place))
        for place, name in places.items()
    }


def put_aside(workspace: Workspace, folder: Path) -> Path:
    """Move a folder or file of the data folder to `damaged/`, under its path and the time, and return the new path."""
    place = make_folder(workspace.root / DAMAGED, private=True)
    for part in folder.relative_to(workspace.root).parent.parts:
        place = make_folder(place / part, private=True)
    stamp = time.strftime("%Y%m%dT%H%M%S")
    target = place / f"{folder.name}.{stamp}"
    shutil.move(folder, target)
    sync(folder.parent)
    return target


def run_problems(folder: Path) -> dict[str, str]:
    """What is wrong with which file of a run: by its checksums, or, without them, by reading everything."""
    taken = Checksums.read(folder)
    if taken is not None:
        found = taken.damaged(folder)
        if found and Checksums.read(folder) != taken:  # weights were pruned, or figures made again, at this moment
            return run_problems(folder)
        return found
    try:
        spec = read_spec(folder)
    except RunBroken as error:
        return {SPEC_FILE: f"cannot be used ({error})"}
    columns = {name: schema.names for name, schema in schemas_of(folder, spec).items()}
    found = _tables(folder / "tables", columns, "tables/")
    found |= dict(file_problems(folder, spec))
    if read_status(folder) is None:
        found["status.json"] = "is missing or damaged"
    if spec.privacy.private and PRIVACY_FILE not in found:
        try:
            read_privacy(folder)
        except RunBroken:
            found[PRIVACY_FILE] = "is damaged"
    return found | _lost_checksums(folder)


def _lost_checksums(folder: Path) -> dict[str, str]:
    return {CHECKSUMS: "is damaged"} if (folder / CHECKSUMS).exists() else {}


def _of_audit(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): problem for path, problem in StoredAudit(folder.name, folder).problems()}


def cohort_problems(folder: Path) -> dict[str, str]:
    """As `run_problems`, for a cohort."""
    taken = Checksums.read(folder)
    if taken is not None:
        return taken.damaged(folder)
    return _tables(folder, {name: schema.names for name, schema in COHORT_TABLES.items()}, "") | _lost_checksums(folder)


def _tables(folder: Path, columns: dict[str, list[str]], prefix: str) -> dict[str, str]:
    problems = {
        name: table_problem(folder / f"{name}.parquet", names, to_the_end=True) for name, names in columns.items()
    }
    return {f"{prefix}{name}.parquet": problem for name, problem in problems.items() if problem is not None}


def _of_ledger(folder: Path) -> str | None:
    from core.runs.ledger.entries import Ledger, LedgerBroken, Release

    entries = sorted(path for path in folder.glob("*.json"))
    if not entries:
        return None
    try:
        corpus = Release.model_validate_json(entries[0].read_bytes()).corpus
        Ledger(folder, corpus).releases()
    except LedgerBroken as error:
        return str(error).removesuffix(".")
    except (OSError, ValueError):
        return f"The ledger's entry {entries[0]} is damaged. Restore the file from a backup"
    return None
