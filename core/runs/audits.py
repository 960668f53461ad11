"""Results of a run's full audit: one small table file per attack, and a list of how each attack ended.

A run never changes once it is complete, and shipped runs are read-only, so audits are stored beside the runs, in
`audits/<run id>/` of the data folder or of a shared one: `attacks.json` and `tables/<table>/<attack>.parquet`. Every
file is replaced as a whole, so an audit that is stopped at any moment loses only the attack in progress.

A run with secret noise that is trained again has the same id and other weights. So each result says which training it
is about (`core.runs.run.Run.training`), and those of another are left out.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from core.common.files import make_folder, replace_text, replaced
from core.runs.integrity.whole import FolderIdentity, folder_identity, table_problem

ATTACKS_FILE, TABLES = "attacks.json", "tables"
ANY = "any"  # in place of a run's training: nothing is left out
REMEDY = "`python -m core verify --repair` moves it to damaged/; then audit the run again."


@dataclass(frozen=True)
class Outcome:
    """How one attack ended; `not possible`: the cohort lacks something the attack needs, which `message` names.

    `version` is that of the attack's code, `finished` is in Unix seconds, `training` that of the run
    (`core.runs.run.Run.training`).
    """

    attack: str
    state: Literal["done", "failed", "not possible"]
    seconds: float
    message: str
    tables: tuple[str, ...]
    version: int
    finished: float
    training: str | None = None


Problems = tuple[tuple[Path, str], ...]  # a file, and what is wrong with it
_Identity = tuple[tuple[int, int, int], FolderIdentity | None]

_checked: dict[Path, tuple[_Identity, tuple[dict[str, Outcome], Problems]]] = {}  # by folder of an audit


class AuditBroken(ValueError):
    """A file of a stored audit is damaged. The message is a sentence that names the file."""


@dataclass(frozen=True)
class StoredAudit:
    """The audit of one run: results in its own folder first, then shipped ones, which are read-only.

    An attack that was run here hides a shipped result of the same attack. A `lenient` audit, for pages, leaves out
    damaged results (`problems` lists them) instead of raising: an attack whose table cannot be read counts as failed.
    `training` is the run's: results of another training are not its own.
    """

    run_id: str
    folder: Path
    shared: tuple[Path, ...] = ()
    lenient: bool = False
    training: str | None = ANY

    def forgetting(self, patient: str) -> StoredAudit:
        """What was measured of taking this patient out of the run (`core.pipeline.forgetting`).

        It is a folder within the audit's, as private as that is and deleted with it.
        """
        return self._within("forget", hashlib.sha256(patient.encode()).hexdigest()[:12])  # an id may hold any character

    def proving(self) -> StoredAudit:
        """What gradients planted in the run's training proved about its ε (`core.pipeline.planted_gradients`).

        A folder within the audit's, too: this attacker sees every step, those of the audit only the finished model.
        """
        return self._within("prove")

    def _within(self, *place: str) -> StoredAudit:
        inside = Path(*place)
        return replace(self, folder=self.folder / inside, shared=tuple(folder / inside for folder in self.shared))

    def outcomes(self) -> dict[str, Outcome]:
        """How every attack ended, by name, in the order in which they finished. Raises AuditBroken."""
        return _joined(self._by_folder())

    def _by_folder(self) -> dict[Path, dict[str, Outcome]]:
        """The outcomes in each folder, this run's own first."""
        return {folder: self._outcomes_in(folder) for folder in (self.folder, *self.shared)}

    def problems(self) -> list[tuple[Path, str]]:
        """(file, what is wrong with it) for every file that cannot be read."""
        return [problem for folder in (self.folder, *self.shared) for problem in self._check(folder)[1]]

    def problem_sentences(self) -> list[str]:
        """`problems` as sentences, with the file's path within the audit's folder."""
        sentences = []
        for path, problem in self.problems():
            folder = next(one for one in (self.folder, *self.shared) if path.is_relative_to(one))
            sentences.append(f"its file {path.relative_to(folder)} {problem}.")
        return sentences

    def check(self) -> None:
        """Raise AuditBroken for anything a lenient audit leaves out: a report must not omit an attack silently."""
        for sentence in self.problem_sentences():
            raise AuditBroken(f"The audit of run {self.run_id}: {sentence} {REMEDY}")

    def _outcomes_in(self, folder: Path) -> dict[str, Outcome]:
        found = self._check(folder)[0] if self.lenient else self._listed(folder)
        return found if self.training == ANY else {n: one for n, one in found.items() if one.training == self.training}

    def _check(self, folder: Path) -> tuple[dict[str, Outcome], Problems]:
        """The outcomes in a folder, failed if one of their tables cannot be read, and what cannot be read.

        A folder whose files are the same as the last time is not read again: pages ask many times. Do not modify what
        is returned.
        """
        try:
            identity = _identity(folder)
        except OSError:
            _checked.pop(folder, None)
            return self._check_now(folder)
        known = _checked.get(folder)
        if known is None or known[0] != identity:
            known = _checked[folder] = (identity, self._check_now(folder))
        return known[1]

    def _check_now(self, folder: Path) -> tuple[dict[str, Outcome], Problems]:
        try:
            listed = self._listed(folder)
        except AuditBroken:
            return {}, ((folder / ATTACKS_FILE, "is damaged"),)
        damaged = {name: tuple(_table_problems(folder, outcome)) for name, outcome in listed.items()}
        outcomes = {name: _failed(outcome, damaged[name]) for name, outcome in listed.items()}
        return outcomes, tuple(itertools.chain.from_iterable(damaged.values()))

    def _listed(self, folder: Path) -> dict[str, Outcome]:
        try:
            rows = json.loads((folder / ATTACKS_FILE).read_text(encoding="utf-8"))
            return {row["attack"]: Outcome(**{**row, "tables": tuple(row["tables"])}) for row in rows}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise AuditBroken(
                f"The audit of run {self.run_id}: its file {folder / ATTACKS_FILE} is damaged. {REMEDY}"
            ) from None

    def table(self, name: str) -> pd.DataFrame:
        """The rows of all attacks (or summaries) in a table, in the attacks' order; an empty frame if there are none.

        An empty frame has no columns. Raises AuditBroken.
        """
        there = self._by_folder()
        frames = [
            self._rows(there.items(), outcome.attack, name)
            for outcome in _joined(there).values()
            if outcome.state == "done"
        ]
        frames = [frame for frame in frames if frame is not None]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()

    def files(self, name: str) -> dict[str, Path]:
        """The Parquet file of each attack (or summary) for a table, for use in queries. Raises AuditBroken."""
        found: dict[str, Path | None] = {}
        for folder in (self.folder, *self.shared):
            for attack, outcome in self._outcomes_in(folder).items():
                if outcome.state != "failed":
                    found.setdefault(attack, _path(folder, name, attack) if name in outcome.tables else None)
        return {attack: path for attack, path in found.items() if path is not None and path.exists()}

    def table_of(self, attack: str, name: str) -> pd.DataFrame | None:
        """The rows of one attack in a table; None if it wrote none. Raises AuditBroken."""
        there = ((folder, self._outcomes_in(folder)) for folder in (self.folder, *self.shared))
        return self._rows(there, attack, name)

    def _rows(self, there: Iterable[tuple[Path, Mapping[str, Outcome]]], attack: str, name: str) -> pd.DataFrame | None:
        for folder, outcomes in there:
            outcome = outcomes.get(attack)
            if outcome is None or outcome.state == "failed":
                continue
            if name not in outcome.tables:
                return None
            path = _path(folder, name, attack)
            try:
                return pq.read_table(path).to_pandas()
            except (OSError, pa.ArrowInvalid):
                raise AuditBroken(
                    f"The audit of run {self.run_id}: its file {path} is missing or damaged. {REMEDY}"
                ) from None
        return None

    def record(self, outcome: Outcome, tables: Mapping[str, pd.DataFrame]) -> None:
        """Store an attack's tables, then its entry. Tables come first, so an entry `done` always has all its files.

        The entry gets the run's training, and entries of another training go.
        """
        for name, frame in tables.items():
            _write(_path(self.folder, name, outcome.attack), frame)
        rows = [row for row in self._outcomes_in(self.folder).values() if row.attack != outcome.attack]
        make_folder(self.folder)
        if self.training != ANY:
            outcome = replace(outcome, training=self.training)
        replace_text(self.folder / ATTACKS_FILE, json.dumps([_row(one) for one in (*rows, outcome)], indent=1))


def _row(outcome: Outcome) -> dict[str, Any]:
    """An entry as it is stored; without a training it is as older versions wrote it."""
    return {key: value for key, value in asdict(outcome).items() if key != "training" or value is not None}


def _joined(by_folder: Mapping[Path, Mapping[str, Outcome]]) -> dict[str, Outcome]:
    """The outcome that counts for every attack, the first that has not failed, in the order in which they finished."""
    found: dict[str, Outcome] = {}
    for outcomes in by_folder.values():
        for name, outcome in outcomes.items():
            if name not in found or (found[name].state == "failed" and outcome.state != "failed"):
                found[name] = outcome
    return dict(sorted(found.items(), key=lambda item: item[1].finished))


def _table_problems(folder: Path, outcome: Outcome) -> Iterator[tuple[Path, str]]:
    if outcome.state == "done":
        for table in outcome.tables:
            path = _path(folder, table, outcome.attack)
            if (problem := table_problem(path)) is not None:
                yield path, problem


def _failed(outcome: Outcome, problems: Problems) -> Outcome:
    """The outcome, failed by the first of these problems if there is one."""
    for path, problem in problems[:1]:
        return replace(outcome, state="failed", message=f"its file {path.name} {problem}", tables=())
    return outcome


def _identity(folder: Path) -> _Identity:
    """What stays the same while no file of an audit changes. Raises OSError if it has no list of attacks."""
    there = (folder / ATTACKS_FILE).stat()
    try:
        tables = folder_identity(folder / TABLES)
    except FileNotFoundError:
        tables = None
    return (there.st_ino, there.st_size, there.st_mtime_ns), tables


def forget(root: Path) -> None:
    """Drop what is remembered of the audits in this data folder: their runs may have been deleted."""
    for folder in list(_checked):
        if folder.is_relative_to(root):
            _checked.pop(folder, None)


def _path(folder: Path, table: str, attack: str) -> Path:
    return folder / TABLES / table / f"{file_name(attack)}.parquet"


def file_name(attack: str) -> str:
    """File name for an attack: `min-k++ 20 %` → `min-k-plus-plus-20`."""
    return re.sub(r"[^a-z0-9]+", "-", attack.lower().replace("+", "-plus")).strip("-")


def _write(path: Path, frame: pd.DataFrame) -> None:
    for folder in (path.parent.parent.parent, path.parent.parent, path.parent):  # the audit, its tables, this one
        make_folder(folder)
    with replaced(path) as beside:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), beside, compression="zstd")
