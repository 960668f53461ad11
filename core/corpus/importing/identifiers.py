"""A table of the patients' identifiers that a user supplies with the notes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from core.corpus.icd_codes import codes_in, dotted, revision_of
from core.corpus.importing.cells import check_code, id_text, is_placeholder, quoted, read_age, read_number, read_sex
from core.corpus.importing.columns import Column, Remarks
from core.corpus.importing.files import MOST_BYTES, BadNotes, chunks, header, listed
from core.corpus.tables import DIAGNOSES
from core.phi.dates import full_dates
from core.phi.fields import DIRECT, FIELDS
from core.phi.normalise import fold
from core.phi.patterns import forms

RECORD_COLUMNS = ("patient_id", *(field.name for field in FIELDS), "age", "sex", "icd_codes")
_PATIENT_NAMES = ("patient_id", "patient", "subject_id", "mrn")


_OWN = {"full_name", "ssn", "mrn", "phone", "email"}  # what two patients should not share, as relatives an address


@dataclass(frozen=True)
class Identifiers:
    """A table of identifiers: one record per patient, and the codes of each admission where the table gives them."""

    records: pd.DataFrame  # RECORD_COLUMNS
    diagnoses: pd.DataFrame  # core.corpus.tables.DIAGNOSES
    rows: dict[str, int]  # the first row of each patient
    column: str  # the column of patient ids


def identifiable(records: pd.DataFrame) -> int:
    """Number of patients with at least one direct identifier that can be found in a text.

    A row alone is not enough, nor is a value that identifies nobody: one word of a name, or a date of birth without its
    day.
    """
    fields = [field for field in DIRECT if field in records.columns]
    values = records[fields].to_dict("records")
    return sum(any(cell and forms(field, str(cell))[1] for field, cell in row.items()) for row in values)


def identity(field: str, value: str) -> str:
    """The same for every form of a value that the index searches for as one: “(617) 555-0100” and “617-555-0100”."""
    one, found = forms(field, value)
    return f"{field}\n{one if found else value.lower()}"


def read_identifiers(path: Path, remarks: Remarks | None = None, *, most_bytes: int = MOST_BYTES) -> Identifiers:
    """Read a table of identifiers with columns named as in `RECORD_COLUMNS` (any order and case; not all are needed).

    There is one row per patient. With a column `admission_id` there are one or more rows per admission, whose
    `icd_codes` belong to that admission; such a row may omit what an earlier row of the patient gave. `icd_codes` holds
    codes separated by blanks, commas, semicolons or vertical bars.

    Raises:
        BadNotes: for a patient without an id; a patient who appears twice although there is no column `admission_id`;
            two rows that contradict each other about a patient; an admission of two patients; a cell that is not a
            valid date, age, sex or code; and a table without a column of patient ids, without any known column, or with
            one of them twice.
    """
    names = header(path)
    by_name = {name.lower().strip().replace(" ", "_"): name for name in names}
    key = next((by_name[name] for name in _PATIENT_NAMES if name in by_name), None)
    if key is None:
        raise BadNotes(f"{path.name} has no column “patient_id”. Its columns are {listed(list(by_name.values()))}.")
    known = {name: by_name[name] for name in (*RECORD_COLUMNS[1:], "admission_id") if name in by_name}
    if not known:
        raise BadNotes(
            f"{path.name} has no column of identifiers besides “{key}”. Known columns: {', '.join(RECORD_COLUMNS[1:])} "
            f"and admission_id; its columns are {listed(names)}."
        )
    for plain, name in {**known, "patient_id": key}.items():
        same = [other for other in names if other.lower().strip().replace(" ", "_") == name.lower().replace(" ", "_")]
        if len(same) > 1:
            raise BadNotes(f"{path.name} has {len(same)} columns for {plain}: {listed(same)}. Keep one of them.")
    people = _People(path.name, key, known, Remarks() if remarks is None else remarks)
    for cells in chunks(path, [key, *known.values()], most_bytes=most_bytes):
        for place, row in enumerate(cells.rows):
            given = {name: cells.columns[column][place].strip() or None for name, column in known.items()}
            people.add(row, id_text(cells.columns[key][place]), given)
    people.remark_shared()
    return people.identifiers()


class _People:
    """Collects the rows of a table of identifiers and rejects rows that contradict each other."""

    def __init__(self, file: str, key: str, columns: dict[str, str], remarks: Remarks) -> None:
        self._file, self._key, self._columns = file, key, columns
        self._id = Column(file, key, remarks)
        self._checked = {name: Column(file, column, remarks) for name, column in columns.items()}
        self._by_admission = "admission_id" in columns
        self._records: dict[str, dict[str, object]] = {}
        self._row: dict[tuple[str, str], int] = {}  # the row that first gave a patient's field
        self._admissions: dict[str, tuple[str, int]] = {}
        self._codes: dict[tuple[str, str | None, str], None] = {}  # patient, admission, code

    def add(self, row: int, who: str, given: dict[str, str | None]) -> None:
        """Add one row: the values `given` for the patient `who`."""
        if is_placeholder(who):
            raise self._wrong(row, self._key, "there is no patient id.")
        self._id.read(row, who, read_number)  # only refuses shortened ids: they stay as typed
        stay: str | None = id_text(given.pop("admission_id", None) or "")
        stay = None if is_placeholder(stay or "") else stay
        if stay is not None:
            self._checked["admission_id"].read(row, stay, read_number)
        self._drop_placeholders(row, given)
        codes = codes_in(given.get("icd_codes") or "")
        for code in codes:
            self._checked["icd_codes"].read(row, code, check_code)
        if self._by_admission:
            given.pop("icd_codes", None)
            for code in codes:
                self._codes[who, stay, code] = None
            if stay is not None and self._admissions.setdefault(stay, (who, row))[0] != who:
                at = self._admissions[stay][1]
                raise self._wrong(row, "admission_id", f"admission {quoted(stay)} is another patient's in row {at}.")
        elif who in self._records:
            at = self._row[who, "patient_id"]
            raise self._wrong(row, self._key, f"patient {quoted(who)} is already in row {at}.")
        found: dict[str, object] = {**given, **self._read(row, given)}
        record = self._records.setdefault(who, {"patient_id": who})
        self._row.setdefault((who, "patient_id"), row)
        for name, value in found.items():
            if value is None:
                continue
            if record.setdefault(name, value) != value:
                at = self._row[who, name]
                raise self._wrong(row, name, f"row {at} has another value for patient {quoted(who)}. Keep one.")
            self._row.setdefault((who, name), row)

    def _drop_placeholders(self, row: int, given: dict[str, str | None]) -> None:
        """Empty the cells of identifiers that only say that the value is not known, and warn of them."""
        for name in (field for field in DIRECT if field in given):
            cell = given[name]
            if cell is not None and is_placeholder(cell):
                given[name] = None
                column = self._checked[name]
                column.remarks.add(
                    f"{quoted(cell)} says that the value is not known, so the cell counts as empty", column.where(row)
                )

    def _read(self, row: int, given: dict[str, str | None]) -> dict[str, object]:
        """The parsed fields of a row, for those that are not free text."""
        found: dict[str, object] = {}
        fields: tuple[tuple[str, Callable[[str], object]], ...] = (("age", read_age), ("sex", read_sex))
        for name, by in fields:
            if (cell := given.get(name)) is not None:
                found[name] = self._checked[name].read(row, cell, by)
        for name in ("ssn", "mrn", "phone"):
            if (cell := given.get(name)) is not None:
                found[name] = self._checked[name].read(row, cell, read_number)
        if (born := given.get("date_of_birth")) is not None:
            found["date_of_birth"] = self._birth(row, born)
        return found

    def _birth(self, row: int, born: str) -> str:
        """The date as written if a search in texts would read it as a day, otherwise in a form that it can read."""
        column = self._checked["date_of_birth"]
        day = column.date(row, born)
        if day.order == "day first":
            column.remarks.add(
                "the date of birth has the day first, but texts are searched month first where both are possible, so "
                "mentions may be missed",
                column.where(row),
            )
        return born if not day.whole or full_dates(fold(born)[0]) else day.first.isoformat()

    def remark_shared(self) -> None:
        """Warn where a value is another patient's, too: one person under two ids, or a placeholder."""
        first: dict[str, str] = {}
        for who, record in self._records.items():
            for field in _OWN & record.keys():
                if first.setdefault(identity(field, str(record[field])), who) != who:
                    column = self._checked[field]
                    column.remarks.add(
                        "the value is an earlier patient's, too. If both are one person, they count as two, of whom "
                        "one may be trained on and one held out; if it only fills the cell, leave that empty",
                        column.where(self._row[who, field]),
                    )

    def _wrong(self, row: int, column: str, what: str) -> BadNotes:
        return BadNotes(f"{self._file}, row {row}, column “{self._columns.get(column, column)}”: {what}")

    def identifiers(self) -> Identifiers:
        """All added records. Codes by admission get their dot; codes by patient stay as in their cell."""
        revision = revision_of(code for _, _, code in self._codes)
        given = dict.fromkeys((who, stay, dotted(code, revision)) for who, stay, code in self._codes)
        rows = [(*one, None) for one in given]
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
