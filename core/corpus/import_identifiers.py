"""A table of the patients' identifiers, as somebody brings it beside their notes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from core.corpus.import_codes import codes_in, dotted, revision_of
from core.corpus.import_files import BadNotes, chunks, header, listed
from core.corpus.tables import DIAGNOSES
from core.phi.fields import FIELDS

RECORD_COLUMNS = ("patient_id", *(field.name for field in FIELDS), "age", "sex", "icd_codes")
_PATIENT_NAMES = ("patient_id", "patient", "subject_id", "mrn")


@dataclass(frozen=True)
class Identifiers:
    """A table of identifiers: a record a patient, and which admission has which codes where it says so."""

    records: pd.DataFrame  # RECORD_COLUMNS
    diagnoses: pd.DataFrame  # core.corpus.tables.DIAGNOSES


def read_identifiers(path: Path) -> Identifiers:
    """Read a table of identifiers: columns named as `RECORD_COLUMNS` (any order, case, and part of them).

    One row a patient; with a column `admission_id` one row an admission or more, whose `icd_codes` are those of that
    admission, and which may leave out what an earlier row of the patient said. `icd_codes` holds codes separated by
    blanks, commas, semicolons or bars. Raises BadNotes for a patient without an id, one who comes twice without
    admissions, one of whom two rows say different things, an admission of two patients, and a table that has no column
    to tell patients by.
    """
    there = {name.lower().strip().replace(" ", "_"): name for name in header(path)}
    key = next((there[name] for name in _PATIENT_NAMES if name in there), None)
    if key is None:
        raise BadNotes(f"{path.name} has no column “patient_id”. Its columns are {listed(list(there.values()))}.")
    known = {name: there[name] for name in (*RECORD_COLUMNS[1:], "admission_id") if name in there}
    people = _People(path.name, key, known)
    for cells in chunks(path, [key, *known.values()]):
        for place, row in enumerate(cells.rows):
            said = {name: cells.columns[column][place].strip() or None for name, column in known.items()}
            people.add(row, cells.columns[key][place].strip(), said)
    return people.identifiers()


class _People:
    """Collects the rows of a table of identifiers, and refuses those that contradict each other."""

    def __init__(self, file: str, key: str, columns: dict[str, str]) -> None:
        self._file, self._key, self._columns = file, key, columns
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
        if self._by_admission:
            for code in codes_in(said.pop("icd_codes", None) or ""):
                self._codes[who, stay, code] = None
            if stay is not None and self._admissions.setdefault(stay, (who, row))[0] != who:
                other, at = self._admissions[stay]
                raise self._wrong(row, "admission_id", f"admission {stay} is of patient {other} in row {at}.")
        elif who in self._records:
            raise self._wrong(row, self._key, f"patient {who} stands in row {self._row[who, 'patient_id']} too.")
        said["age"] = _age(said.get("age"), self._file, row)
        said["sex"] = _sex(said.get("sex"))
        record = self._records.setdefault(who, {"patient_id": who})
        self._row.setdefault((who, "patient_id"), row)
        for name, value in said.items():
            if value is None:
                continue
            if record.setdefault(name, value) != value:
                at = self._row[who, name]
                raise self._wrong(row, name, f"row {at} says something else of patient {who}. Which of them is right?")
            self._row.setdefault((who, name), row)

    def _wrong(self, row: int, column: str, what: str) -> BadNotes:
        return BadNotes(f"{self._file}, row {row}, column “{self._columns.get(column, column)}”: {what}")

    def identifiers(self) -> Identifiers:
        """Everything that was added. Codes by admission have their dot; a cell of a patient's codes is as it came."""
        revision = revision_of(code for _, _, code in self._codes)
        rows = [(who, stay, dotted(code, revision), None) for who, stay, code in self._codes]
        diagnoses = pd.DataFrame(rows, columns=DIAGNOSES.names).astype(object)
        if self._by_admission:
            for record in self._records.values():
                record["icd_codes"] = []
            for who, code in dict.fromkeys((who, code) for who, _, code, _ in rows):
                self._records[who]["icd_codes"].append(code)
        records = pd.DataFrame(list(self._records.values()), columns=list(RECORD_COLUMNS)).astype(object)
        return Identifiers(records.where(records.notna(), None), diagnoses[diagnoses["admission_id"].notna()])


def _age(given: str | None, file: str, row: int) -> int | None:
    if given is None:
        return None
    try:
        years = int(float(given))
    except ValueError:
        years = -1
    if not 0 <= years <= 120:
        raise BadNotes(f"{file}, row {row}, column “age”: “{given[:20]}” is not an age in years.")
    return years


def _sex(given: str | None) -> str | None:
    """`M` and `F` for the usual ways to write them; anything else as it came."""
    return None if given is None else _SEXES.get(given.strip().lower(), given)


_SEXES = {"m": "M", "male": "M", "man": "M", "f": "F", "female": "F", "woman": "F"}
