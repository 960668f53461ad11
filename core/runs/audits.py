"""Results of a run's full audit: one small table file per attack, and a list of how each attack ended.

A run never changes once it is complete, and shipped runs are read-only, so audits are stored beside the runs, in
`audits/<run id>/` of the data folder or of a shared one: `attacks.json` and `tables/<table>/<attack>.parquet`. Every
file is replaced as a whole, so an audit that is stopped at any moment loses only the attack in progress.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from core.common.files import make_folder, replace_text, replaced
from core.runs.integrity.whole import table_problem

ATTACKS_FILE = "attacks.json"
REMEDY = "`python -m core verify --repair` moves it to damaged/; then audit the run again."


@dataclass(frozen=True)
class Outcome:
    """How one attack ended; `not possible`: the cohort lacks something the attack needs, which `message` names.

    `version` is that of the attack's code, `finished` is in Unix seconds.
    """

    attack: str
    state: Literal["done", "failed", "not possible"]
    seconds: float
    message: str
    tables: tuple[str, ...]
    version: int
    finished: float


class AuditBroken(ValueError):
    """A file of a stored audit is damaged. The message is a sentence that names the file."""


@dataclass(frozen=True)
class StoredAudit:
    """The audit of one run: results in its own folder first, then shipped ones, which are read-only.

    An attack that was run here hides a shipped result of the same attack. A `lenient` audit, for pages, leaves out
    damaged results (`problems` lists them) instead of raising: an attack whose table cannot be read counts as failed.
    """

    run_id: str
    folder: Path
    shared: tuple[Path, ...] = ()
    lenient: bool = False

    def forgetting(self, patient: str) -> StoredAudit:
        """What was measured of taking this patient out of the run (`core.pipeline.forgetting`).

        It is a folder within the audit's, as private as that is and deleted with it.
        """
        place = Path("forget") / hashlib.sha256(patient.encode()).hexdigest()[:12]  # an id may hold any character
        return replace(self, folder=self.folder / place, shared=tuple(folder / place for folder in self.shared))

    def outcomes(self) -> dict[str, Outcome]:
        """How every attack ended, by name, in the order in which they finished. Raises AuditBroken."""
        return _joined(self._by_folder())

    def _by_folder(self) -> dict[Path, dict[str, Outcome]]:
        """The outcomes in each folder, this run's own first. Each call looks at every file of the audit."""
        return {folder: self._outcomes_in(folder) for folder in (self.folder, *self.shared)}

    def problems(self) -> list[tuple[Path, str]]:
        """(file, what is wrong with it) for every file that cannot be read."""
        found: list[tuple[Path, str]] = []
        for folder in (self.folder, *self.shared):
            try:
                outcomes = self._listed(folder)
            except AuditBroken:
                found.append((folder / ATTACKS_FILE, "is damaged"))
                continue
            for outcome in outcomes.values():
                found += _table_problems(folder, outcome)
        return found

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
        if not self.lenient:
            return self._listed(folder)
        try:
            listed = self._listed(folder)
        except AuditBroken:
            return {}
        return {name: _failed_if_damaged(folder, outcome) for name, outcome in listed.items()}

    def _listed(self, folder: Path) -> dict[str, Outcome]:
        try:
            rows = json.loads((folder / ATTACKS_FILE).read_text(encoding="utf-8"))
            return {row["attack"]: Outcome(**{**row, "tables": tuple(row["tables"])}) for row in rows}
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
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
                if outcome.state == "done":
                    found.setdefault(attack, _path(folder, name, attack) if name in outcome.tables else None)
        return {attack: path for attack, path in found.items() if path is not None and path.exists()}

    def table_of(self, attack: str, name: str) -> pd.DataFrame | None:
        """The rows of one attack in a table; None if it wrote none. Raises AuditBroken."""
        there = ((folder, self._outcomes_in(folder)) for folder in (self.folder, *self.shared))
        return self._rows(there, attack, name)

    def _rows(self, there: Iterable[tuple[Path, Mapping[str, Outcome]]], attack: str, name: str) -> pd.DataFrame | None:
        for folder, outcomes in there:
            outcome = outcomes.get(attack)
            if outcome is None or outcome.state != "done":
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
        """Store an attack's tables, then its entry. Tables come first, so an entry `done` always has all its files."""
        for name, frame in tables.items():
            _write(_path(self.folder, name, outcome.attack), frame)
        rows = [row for row in self._outcomes_in(self.folder).values() if row.attack != outcome.attack]
        make_folder(self.folder)
        replace_text(self.folder / ATTACKS_FILE, json.dumps([asdict(row) for row in (*rows, outcome)], indent=1))


def _joined(by_folder: Mapping[Path, Mapping[str, Outcome]]) -> dict[str, Outcome]:
    """The outcome that counts for every attack, in the order in which they finished."""
    found: dict[str, Outcome] = {}
    for outcomes in by_folder.values():
        for name, outcome in outcomes.items():
            if name not in found or (found[name].state == "failed" and outcome.state == "done"):
                found[name] = outcome
    return dict(sorted(found.items(), key=lambda item: item[1].finished))


def _table_problems(folder: Path, outcome: Outcome) -> Iterator[tuple[Path, str]]:
    if outcome.state == "done":
        for table in outcome.tables:
            path = _path(folder, table, outcome.attack)
            if (problem := table_problem(path)) is not None:
                yield path, problem


def _failed_if_damaged(folder: Path, outcome: Outcome) -> Outcome:
    for path, problem in _table_problems(folder, outcome):
        return replace(outcome, state="failed", message=f"its file {path.name} {problem}", tables=())
    return outcome


def _path(folder: Path, table: str, attack: str) -> Path:
    return folder / "tables" / table / f"{file_name(attack)}.parquet"


def file_name(attack: str) -> str:
    """File name for an attack: `min-k++ 20 %` → `min-k-plus-plus-20`."""
    return re.sub(r"[^a-z0-9]+", "-", attack.lower().replace("+", "-plus")).strip("-")


def _write(path: Path, frame: pd.DataFrame) -> None:
    for folder in (path.parent.parent.parent, path.parent.parent, path.parent):  # the audit, its tables, this one
        make_folder(folder)
    with replaced(path) as beside:
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), beside, compression="zstd")
