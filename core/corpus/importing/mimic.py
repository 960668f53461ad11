"""A MIMIC-III folder: NOTEEVENTS, PATIENTS, ADMISSIONS and DIAGNOSES_ICD, each as .csv or .csv.gz.

D_ICD_DIAGNOSES, if present, gives the descriptions of the codes; otherwise they come from the official lists
(`core.corpus.icd_codes`).

The notes have placeholders in place of identifiers (`[**Known lastname 658**]`). They are filled with surrogates
(`core.corpus.importing.surrogates`; Lehman 2021, §3), so every patient gets a record whose values occur in their notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from core.corpus.icd_codes import dotted
from core.corpus.importing.cells import check_code, note_text, quoted, read_sex
from core.corpus.importing.columns import Column
from core.corpus.importing.files import BadNotes, chunks, header
from core.corpus.importing.identifiers import RECORD_COLUMNS
from core.corpus.importing.memory import MemoryWatch
from core.corpus.importing.spool import RawNotes
from core.corpus.importing.surrogates import Surrogates
from core.corpus.tables import DIAGNOSES

TABLES = ("NOTEEVENTS", "PATIENTS", "ADMISSIONS", "DIAGNOSES_ICD")


@dataclass(frozen=True)
class Mimic:
    """The notes and records of a folder, in the form that `core.corpus.importing.importer` expects."""

    notes: pd.DataFrame  # as `core.corpus.importing.note_tables.read_file` returns them
    records: pd.DataFrame
    diagnoses: pd.DataFrame  # core.corpus.tables.DIAGNOSES, of the patients who have notes
    marked_wrong: int
    unknown: int  # placeholders of a kind that has no surrogate


def is_mimic(folder: Path) -> bool:
    """True if the folder contains NOTEEVENTS."""
    return folder.is_dir() and bool(_files(folder, "NOTEEVENTS"))


def read_mimic(
    folder: Path, into: RawNotes, *, seed: int, most_bytes: int, on_progress: Callable[[str, int, int], None]
) -> Mimic:
    """Read the four tables; the notes' texts go into `into`.

    Raises:
        BadNotes: naming the missing file, or the file, row and column of what is wrong.
    """
    files = {name: _needed(folder, name) for name in TABLES}
    people = _people(files["PATIENTS"], most_bytes)
    admitted = _first_admissions(files["ADMISSIONS"], most_bytes)
    diagnoses = _diagnoses(files["DIAGNOSES_ICD"], _file(folder, "D_ICD_DIAGNOSES"), most_bytes)
    surrogates = Surrogates(seed, {who: sex for who, (sex, _) in people.items()})
    wrong, watch, dates = 0, MemoryWatch(files["NOTEEVENTS"].name), Column(files["NOTEEVENTS"].name, "CHARTDATE")

    def report(done: int, total: int) -> None:
        watch.read(done, total)
        on_progress("reading", done, total)

    wanted = ("ROW_ID", "SUBJECT_ID", "HADM_ID", "CHARTDATE", "CATEGORY", "TEXT")
    for row, cells in _rows(files["NOTEEVENTS"], wanted, most_bytes, report, optional=("ISERROR",)):
        if cells["ISERROR"] == "1":
            wrong += 1
            continue
        who = cells["SUBJECT_ID"]
        watch.add((cells["TEXT"],), (who,))
        if who not in people:
            raise BadNotes(
                f"{files['NOTEEVENTS'].name}, row {row}, column “SUBJECT_ID”: patient "
                f"{quoted(who) if who else '(none)'} is not in {files['PATIENTS'].name}."
            )
        into.add(
            surrogates.fill(who, note_text(cells["TEXT"])),
            row=row,
            note_id=cells["ROW_ID"],
            patient_id=who,
            admission_id=cells["HADM_ID"] or who,
            split="",
            note_type=cells["CATEGORY"].lower() or "note",
            date=_iso(dates, row, cells["CHARTDATE"]),
        )
    notes = into.frame()
    again = notes[notes["note_id"].duplicated()] if len(notes) else notes
    if len(again):
        raise BadNotes(
            f"{files['NOTEEVENTS'].name}, row {again['row'].iloc[0]}, column “ROW_ID”: note "
            f"{quoted(again['note_id'].iloc[0])} appears twice."
        )
    codes = diagnoses.drop_duplicates(["patient_id", "code"]).groupby("patient_id")["code"].agg(list).to_dict()
    with_notes = list(dict.fromkeys(notes["patient_id"])) if len(notes) else []
    records = [
        {
            "patient_id": who,
            **surrogates.record(who, people[who][1]),
            "age": _age(people[who][1], admitted.get(who, "")),
            "sex": people[who][0],
            "icd_codes": codes.get(who, []),
        }
        for who in with_notes
    ]
    frame = pd.DataFrame(records, columns=list(RECORD_COLUMNS)).astype(object)
    diagnoses = diagnoses[diagnoses["patient_id"].isin(with_notes) & (diagnoses["admission_id"] != "")]
    return Mimic(notes, frame.where(frame.notna(), None), diagnoses, wrong, surrogates.unknown)


def _files(folder: Path, name: str) -> list[Path]:
    wanted = (f"{name}.CSV", f"{name}.CSV.GZ")
    return [path for path in sorted(folder.iterdir()) if path.name.upper() in wanted]


def _file(folder: Path, name: str) -> Path | None:
    """The table's file, if there is one. Raises BadNotes if there are two: they may differ."""
    found = _files(folder, name)
    if len(found) > 1:
        raise BadNotes(f"{folder.name} has {found[0].name} and {found[1].name}. Remove one: only one can be read.")
    return found[0] if found else None


def _needed(folder: Path, name: str) -> Path:
    if (path := _file(folder, name)) is None:
        if is_mimic(folder):
            raise BadNotes(f"There is no file {name}.csv or {name}.csv.gz next to NOTEEVENTS: MIMIC-III has one.")
        raise BadNotes(f"{folder} has no file {name}.csv or {name}.csv.gz, which a MIMIC-III folder has.")
    return path


def _rows(
    path: Path,
    names: tuple[str, ...],
    most_bytes: int,
    progress: Callable[[int, int], None] | None = None,
    *,
    optional: tuple[str, ...] = (),
) -> Iterator[tuple[int, dict[str, str]]]:
    """(row number, cells by upper-case name); some copies of MIMIC-III have lower-case names."""
    by_name = {name.upper(): name for name in header(path)}
    columns = {name: by_name.get(name, name) for name in names}
    columns |= {name: by_name[name] for name in optional if name in by_name}
    for cells in chunks(path, columns.values(), most_bytes=most_bytes, on_progress=progress):
        for place, row in enumerate(cells.rows):
            found = {name: cells.columns[column][place].strip() for name, column in columns.items()}
            yield row, {**dict.fromkeys(optional, ""), **found}


def _people(path: Path, most_bytes: int) -> dict[str, tuple[str, str]]:
    """Sex and date of birth of every patient."""
    found: dict[str, tuple[str, str]] = {}
    sexes, births = Column(path.name, "GENDER"), Column(path.name, "DOB")
    for row, cells in _rows(path, ("SUBJECT_ID", "GENDER", "DOB"), most_bytes):
        if cells["SUBJECT_ID"] in found:
            who = quoted(cells["SUBJECT_ID"])
            raise BadNotes(f"{path.name}, row {row}, column “SUBJECT_ID”: patient {who} appears twice.")
        sex = sexes.read(row, cells["GENDER"], read_sex)
        if sex not in ("M", "F"):
            raise BadNotes(f"{sexes.where(row)}: {quoted(sex)} is neither M nor F, which MIMIC-III uses.")
        found[cells["SUBJECT_ID"]] = (sex, _iso(births, row, cells["DOB"]))
    return found


def _iso(column: Column, row: int, cell: str) -> str:
    """The ISO date in a cell of MIMIC-III, whose dates are shifted into the future; empty if the cell is empty."""
    return column.date(row, cell, shifted=True).first.isoformat() if cell else ""


def _first_admissions(path: Path, most_bytes: int) -> dict[str, str]:
    first: dict[str, str] = {}
    times = Column(path.name, "ADMITTIME")
    for row, cells in _rows(path, ("SUBJECT_ID", "ADMITTIME"), most_bytes):
        if day := _iso(times, row, cells["ADMITTIME"]):
            first[cells["SUBJECT_ID"]] = min(first.get(cells["SUBJECT_ID"], day), day)
    return first


def _diagnoses(path: Path, names: Path | None, most_bytes: int) -> pd.DataFrame:
    """The distinct codes of every admission (DIAGNOSES), in file order, with their dot and description."""
    described = {} if names is None else _descriptions(names, most_bytes)
    column = _code_column(path)
    found: dict[tuple[str, str, str], None] = {}
    checked = Column(path.name, column)
    for row, cells in _rows(path, ("SUBJECT_ID", column), most_bytes, optional=("HADM_ID", "ICD_VERSION")):
        if cells[column]:
            checked.read(row, cells[column].upper(), check_code)
            found[cells["SUBJECT_ID"], cells["HADM_ID"], _dotted(cells, column)] = None
    rows = [(*key, described.get(key[2])) for key in found]
    return pd.DataFrame(rows, columns=["patient_id", "admission_id", "code", "wording"])[DIAGNOSES.names]


def _descriptions(path: Path, most_bytes: int) -> dict[str, str]:
    """Code (with its dot) → long title."""
    column = _code_column(path)
    rows = _rows(path, (column, "LONG_TITLE"), most_bytes, optional=("ICD_VERSION",))
    return {_dotted(cells, column): cells["LONG_TITLE"] for _, cells in rows if cells["LONG_TITLE"]}


def _code_column(path: Path) -> str:
    """ICD9_CODE in MIMIC-III; ICD_CODE in MIMIC-IV, which has a separate column for the revision."""
    return "ICD9_CODE" if "ICD9_CODE" in {name.upper() for name in header(path)} else "ICD_CODE"


def _dotted(cells: dict[str, str], column: str) -> str:
    version = "9" if column == "ICD9_CODE" else cells["ICD_VERSION"]
    return dotted(cells[column], "ICD-9" if version == "9" else "ICD-10")


def _age(born: str, admitted: str) -> int | None:
    """Age in years at first admission, None if it is not known or before birth.

    MIMIC-III moves births of people over 89 back 300 years; they are 90 here.
    """
    try:
        birth, day = pd.Timestamp(born), pd.Timestamp(admitted)
    except ValueError:
        return None
    if pd.isna(birth) or pd.isna(day):
        return None
    years = day.year - birth.year - ((day.month, day.day) < (birth.month, birth.day))
    return min(years, 90) if years >= 0 else None
