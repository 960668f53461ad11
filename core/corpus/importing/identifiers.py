"""A table of the patients' identifiers, as somebody brings it beside their notes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from core.corpus.icd_codes import codes_in, dotted, revision_of
from core.corpus.importing.cells import check_code, read_age, read_sex
from core.corpus.importing.columns import Column, Remarks
from core.corpus.importing.files import BadNotes, chunks, header, listed
from core.corpus.tables import DIAGNOSES
from core.phi.dates import full_dates
from core.phi.fields import DIRECT, FIELDS
from core.phi.normalise import fold
from core.phi.patterns import forms

RECORD_COLUMNS = ("patient_id", *(field.name for field in FIELDS), "age", "sex", "icd_codes")
_PATIENT_NAMES = ("patient_id", "patient", "subject_id", "mrn")


@dataclass(frozen=True)
class Identifiers:
    """A table of identifiers: a record a patient, and which admission has which codes where it says so."""

    records: pd.DataFrame  # RECORD_COLUMNS
    diagnoses: pd.DataFrame  # core.corpus.tables.DIAGNOSES
    rows: dict[str, int]  # where each patient comes first
    column: str  # the one that tells patients apart


def identifiable(records: pd.DataFrame) -> int:
    """How many patients have at least one direct identifier that can be found in a text.

    A row alone is not enough, nor is a value that names nobody: one word of a name, a date of birth without its day.
    """
    fields = [field for field in DIRECT if field in records.columns]
    values = records[fields].to_dict("records")
    return sum(any(cell and forms(field, str(cell))[1] for field, cell in row.items()) for row in values)


def read_identifiers(path: Path, remarks: Remarks | None = None) -> Identifiers:
    """Read a table of identifiers: columns named as `RECORD_COLUMNS` (any order, case, and part of them).

    One row a patient; with a column `admission_id` one row an admission or more, whose `icd_codes` are those of that
    admission, and which may leave out what an earlier row of the patient said. `icd_codes` holds codes separated by
    blanks, commas, semicolons or bars. Raises BadNotes for a patient without an id, one who comes twice without
    admissions, one of whom two rows say different things, an admission of two patients, a cell that is no date, age,
    sex or code, and a table that has no column to tell patients by, no column that is known, or one of them twice.
    """
    names = header(path)
    there = {name.lower().strip().replace(" ", "_"): name for name in names}
    key = next((there[name] for name in _PATIENT_NAMES if name in there), None)
    if key is None:
        raise BadNotes(f"{path.name} has no column “patient_id”. Its columns are {listed(list(there.values()))}.")
    known = {name: there[name] for name in (*RECORD_COLUMNS[1:], "admission_id") if name in there}
    if not known:
        raise BadNotes(
            f"{path.name} has no column of identifiers beside “{key}”. Known are {', '.join(RECORD_COLUMNS[1:])} and "
            f"admission_id; its columns are {listed(names)}."
        )
    for plain, name in {**known, "patient_id": key}.items():
        alike = [other for other in names if other.lower().strip().replace(" ", "_") == name.lower().replace(" ", "_")]
        if len(alike) > 1:
            raise BadNotes(f"{path.name} has {len(alike)} columns for {plain}: {listed(alike)}. Keep one of them.")
    people = _People(path.name, key, known, Remarks() if remarks is None else remarks)
    for cells in chunks(path, [key, *known.values()]):
        for place, row in enumerate(cells.rows):
            said = {name: cells.columns[column][place].strip() or None for name, column in known.items()}
            people.add(row, cells.columns[key][place].strip(), said)
    return people.identifiers()


class _People:
    """Collects the rows of a table of identifiers, and refuses those that contradict each other."""

    def __init__(self, file: str, key: str, columns: dict[str, str], remarks: Remarks) -> None:
        self._file, self._key, self._columns = file, key, columns
        self._checked = {name: Column(file, column, remarks) for name, column in columns.items()}
        self._by_admission = "admission_id" in columns
        self._records: dict[str, dict[str, object]] = {}
        self._row: dict[tuple[str, str], int] = {}  # where a patient's field was said first
        self._admissions: dict[str, tuple[str, int]] = {}
        self._codes: dict[tuple[str, str | None, str], None] = {}  # patient, admission, code

    def add(self, row: int, who: str, said: dict[str, str | None]) -> None:
        """One row: what it says of whom."""
        if not who:
            raise self._wrong(row, self._key, "there is no patient id.")
        stay = said.pop("admission_id", None)
        codes = codes_in(said.get("icd_codes") or "")
        for code in codes:
            self._checked["icd_codes"].read(row, code, check_code)
        if self._by_admission:
            said.pop("icd_codes", None)
            for code in codes:
                self._codes[who, stay, code] = None
            if stay is not None and self._admissions.setdefault(stay, (who, row))[0] != who:
                other, at = self._admissions[stay]
                raise self._wrong(row, "admission_id", f"admission {stay} is of patient {other} in row {at}.")
        elif who in self._records:
            raise self._wrong(row, self._key, f"patient {who} stands in row {self._row[who, 'patient_id']} too.")
        told: dict[str, object] = {**said, **self._read(row, said)}
        record = self._records.setdefault(who, {"patient_id": who})
        self._row.setdefault((who, "patient_id"), row)
        for name, value in told.items():
            if value is None:
                continue
            if record.setdefault(name, value) != value:
                at = self._row[who, name]
                raise self._wrong(row, name, f"row {at} says something else of patient {who}. Which of them is right?")
            self._row.setdefault((who, name), row)

    def _read(self, row: int, said: dict[str, str | None]) -> dict[str, object]:
        """Those fields of a row whose cells are not just any text."""
        found: dict[str, object] = {}
        fields: tuple[tuple[str, Callable[[str], object]], ...] = (("age", read_age), ("sex", read_sex))
        for name, by in fields:
            if (cell := said.get(name)) is not None:
                found[name] = self._checked[name].read(row, cell, by)
        if (born := said.get("date_of_birth")) is not None:
            found["date_of_birth"] = self._birth(row, born)
        return found

    def _birth(self, row: int, born: str) -> str:
        """As it was written where a search in texts reads it as a day, else in the form that it does read."""
        column = self._checked["date_of_birth"]
        day = column.date(row, born)
        if day.order == "day first":
            column.remarks.add(
                "the date of birth has the day first, while texts are searched month first where both are possible, so "
                "that mentions may be missed",
                column.where(row),
            )
        return born if not day.whole or full_dates(fold(born)[0]) else day.first.isoformat()

    def _wrong(self, row: int, column: str, what: str) -> BadNotes:
        return BadNotes(f"{self._file}, row {row}, column “{self._columns.get(column, column)}”: {what}")

    def identifiers(self) -> Identifiers:
        """Everything that was added. Codes by admission have their dot; a cell of a patient's codes is as it came."""
        revision = revision_of(code for _, _, code in self._codes)
        rows = [(who, stay, dotted(code, revision), None) for who, stay, code in self._codes]
        diagnoses = pd.DataFrame(rows, columns=DIAGNOSES.names).astype(object)
        if self._by_admission:
            codes: dict[str, list[str]] = {who: [] for who in self._records}
            for who, code in dict.fromkeys((who, code) for who, _, code, _ in rows):
                codes[who].append(code)
            for who, record in self._records.items():
                record["icd_codes"] = codes[who]
        records = pd.DataFrame(list(self._records.values()), columns=list(RECORD_COLUMNS)).astype(object)
        return Identifiers(
            records.where(records.notna(), None),
            diagnoses[diagnoses["admission_id"].notna()],
            {who: self._row[who, "patient_id"] for who in self._records},
            self._key,
        )
