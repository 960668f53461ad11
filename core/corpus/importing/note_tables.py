"""Read one file of notes into rows of a cohort: identify its columns and check every row.

Every error is a `BadNotes` that names the file, the row and the column.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from core.corpus.importing.cells import DIFFERS, SHORTENED, id_text, is_placeholder, note_text, quoted, same_id_perhaps
from core.corpus.importing.columns import Column, Remarks
from core.corpus.importing.files import BadNotes, chunks, first_line, header, is_text, listed
from core.corpus.importing.memory import MemoryWatch
from core.corpus.importing.mimic import is_mimic
from core.corpus.importing.spool import RawNotes

COLUMNS = ("note", "patient", "admission", "date", "type", "note_id", "split")
FEWEST_PATIENTS = 4  # two to train on and two to compare with; the cohort's spec allows no fewer

StageReport = Callable[[str, int, int], None]  # (stage, done, total)

_LIKE_CANARIES = re.compile(r"C[0-9]{4,}")
_GUESSES: dict[str, tuple[str, ...]] = {
    "note": ("text", "note", "note_text", "report", "body"),
    "patient": ("patient_id", "patient", "subject_id", "person_id", "mrn"),
    "admission": ("admission_id", "hadm_id", "admission", "encounter_id", "visit_id"),
    "date": ("date", "chartdate", "note_date", "charttime"),
    "type": ("note_type", "type", "category"),
    "note_id": ("note_id", "row_id", "id"),
    "split": ("split",),
}


def guess_columns(names: list[str]) -> dict[str, str]:
    """Map each of `COLUMNS` to a column of the file by the usual names, in any case; unrecognised ones are left out."""
    by_name = {_plain(name): name for name in reversed(names)}
    found = {
        role: next((by_name[guess] for guess in guesses if guess in by_name), None)
        for role, guesses in _GUESSES.items()
    }
    return {role: name for role, name in found.items() if name is not None}


def _plain(name: str) -> str:
    return name.lower().strip().replace(" ", "_")


def read_file(
    path: Path, into: RawNotes, given: dict[str, str], most_bytes: int, report: StageReport, remarks: Remarks
) -> pd.DataFrame:
    """Read the notes of one file.

    Args:
        path: the file.
        into: receives the notes and their texts.
        given: the file's column for some of COLUMNS, "" for none; the others are guessed.
        most_bytes: largest expanded size of the file.
        report: called with (stage, done, total).
        remarks: receives the warnings.

    Returns:
        Columns row, note_id, patient_id, admission_id, split, note_type, date and `blank`.

    Raises:
        BadNotes: for anything wrong in the file.
    """
    chosen = _chosen_columns(path, given)
    notes_column, tabled = Column(path.name, chosen["note"], remarks), not is_text(path)
    watch, wordless = MemoryWatch(path.name), _Wordless(notes_column)
    dates = Column(path.name, chosen.get("date", ""), remarks)

    def progress(done: int, total: int) -> None:
        watch.read(done, total)
        report("reading", done, total)

    for cells in chunks(path, chosen.values(), most_bytes=most_bytes, on_progress=progress):
        watch.add(cells.columns[chosen["note"]], cells.columns[chosen["patient"]])
        empty = [""] * len(cells.rows)
        columns = (cells.columns[chosen[role]] if role in chosen else empty for role in COLUMNS)
        for row, text, patient, admission, date, kind, note_id, split in zip(cells.rows, *columns, strict=True):
            wordless.look(row, text)
            into.add(
                "" if tabled and notes_column.says_missing(row, text) else note_text(text),
                row=row,
                note_id=" ".join(note_id.split()),
                patient_id=id_text(patient),
                admission_id=id_text(admission) or id_text(patient),
                split=split.strip().lower(),
                note_type=kind.strip() or "note",
                date=dates.date(row, date).written if date.strip() else "",
            )
    wordless.judge()
    notes = into.frame()
    if "note_id" not in chosen:
        notes["note_id"] = "N" + notes.index.astype(str).str.zfill(max(4, len(str(len(notes)))))
    with_text = notes[~notes["blank"].astype(bool)]
    _check_ids(path, with_text, chosen)
    _remark_two_spellings(with_text, Column(path.name, chosen["patient"], remarks))
    return notes


def _chosen_columns(path: Path, given: dict[str, str]) -> dict[str, str]:
    """The file's column for each of COLUMNS. Raises BadNotes where it is missing or ambiguous."""
    names = header(path)
    if is_text(path) and {"note", "patient"} <= set(guess_columns(first_line(path))):
        raise BadNotes(
            f"{path.name}, row 1: this is the header of a table, and a .txt file is read as documents. If it is a "
            f"table, name it {path.stem}.csv."
        )
    if is_mimic(path.parent) and path.name.upper().startswith("NOTEEVENTS"):
        raise BadNotes(
            f"{path.name} belongs to MIMIC-III: give the folder {path.parent}, so that its codes are read too."
        )
    if unknown := set(given) - set(COLUMNS):
        raise BadNotes(f"There is no such column to map: {', '.join(sorted(unknown))}. Map {', '.join(COLUMNS)}.")
    chosen = {role: name for role, name in {**guess_columns(names), **given}.items() if name}
    for role in ("note", "patient"):
        if role not in chosen:
            raise BadNotes(f"{path.name}: say which column holds the {role}. Its columns are {listed(names)}.")
    for role in set(chosen) - set(given):
        alike = [name for name in dict.fromkeys(names) if _plain(name) == _plain(chosen[role])]
        if len(alike) > 1:
            raise BadNotes(f"{path.name} has several columns for the {role}: {listed(alike)}. Say which one to read.")
    return chosen


class _Wordless:
    """Counts notes without a letter: a column of numbers is not a column of notes."""

    def __init__(self, column: Column) -> None:
        self._column = column
        self._notes = self._wordless = 0
        self._first: tuple[int, str] | None = None

    def look(self, row: int, text: str) -> None:
        """Check the next note."""
        if not text.strip():
            return
        self._notes += 1
        if not any(map(str.isalpha, text)):
            self._wordless += 1
            self._first = self._first or (row, text.strip())
            self._column.remarks.add("the note contains no letter", self._column.where(row))

    def judge(self) -> None:
        """Raise BadNotes if most notes have no letter."""
        if self._first is not None and 2 * self._wordless > self._notes:
            row, text = self._first
            raise BadNotes(
                f"{self._column.where(row)}: {quoted(text)} contains no letter, nor do {self._wordless:,} of the "
                f"{self._notes:,} notes. Choose the column that contains the text of the notes."
            )


def _check_ids(path: Path, notes: pd.DataFrame, chosen: dict[str, str]) -> None:
    """Check that every note with text has a patient and a unique id, and that no patient is in two splits."""
    for column, role in (("patient_id", "patient"), ("note_id", "note_id")):
        missing = notes.loc[notes[column] == "", "row"]
        if len(missing):
            raise BadNotes(f"{path.name}, row {missing.iloc[0]}, column “{chosen[role]}”: the cell is empty.")
    unknown = notes[notes["patient_id"].isin({who for who in notes["patient_id"].unique() if is_placeholder(who)})]
    if len(unknown):
        row, who = unknown[["row", "patient_id"]].iloc[0]
        raise BadNotes(
            f"{path.name}, row {row}, column “{chosen['patient']}”: {quoted(who)} is not a patient's id. It says that "
            "the patient is not known, and notes of several people would count as one patient's. Give these rows an "
            "id, or leave them out."
        )
    for column, role, what in (("patient_id", "patient", "patients"), ("admission_id", "admission", "admissions")):
        shortened = notes.loc[notes[column].str.fullmatch(SHORTENED), ["row", column]]
        if len(shortened) and role in chosen:
            row, one = shortened.iloc[0]
            raise BadNotes(
                f"{path.name}, row {row}, column “{chosen[role]}”: {quoted(one)} is a number that a spreadsheet has "
                f"shortened, so several {what} may have the same id. Save the ids as text."
            )
    again = notes[notes["note_id"].duplicated()]
    if len(again):
        first = notes.loc[notes["note_id"] == again["note_id"].iloc[0], "row"].iloc[0]
        raise BadNotes(
            f"{path.name}, row {again['row'].iloc[0]}, column “{chosen['note_id']}”: note "
            f"{quoted(again['note_id'].iloc[0])} is already in row {first}. Every note needs a unique id, "
            "or choose no column for it."
        )
    if "split" in chosen:
        _check_splits(path, notes, chosen["split"])


def _remark_two_spellings(notes: pd.DataFrame, column: Column) -> None:
    """Warn of ids that may be another patient's, written in another way. Only the user can know."""
    first: dict[str, str] = {}
    names = list(notes["patient_id"].unique())
    again = {name for name in names if first.setdefault(same_id_perhaps(name), name) != name}
    for row in notes.loc[notes["patient_id"].isin(again), "row"]:
        column.remarks.add(
            f"the patient id differs from an earlier one {DIFFERS}. If both are one person, they count as two, of whom "
            "one may be trained on and one held out",
            column.where(row),
        )


def _check_splits(path: Path, notes: pd.DataFrame, column: str) -> None:
    allowed = ("member", "heldout", "population")
    wrong = notes[~notes["split"].isin(allowed)]
    if len(wrong):
        raise BadNotes(
            f"{path.name}, row {wrong['row'].iloc[0]}, column “{column}”: {quoted(wrong['split'].iloc[0])} is not a "
            f"split. Write {', '.join(allowed)}, or choose no column for it."
        )
    first = notes.groupby("patient_id")["split"].transform("first")
    torn = notes[notes["split"] != first]
    if len(torn):
        who, split = torn["patient_id"].iloc[0], torn["split"].iloc[0]
        raise BadNotes(
            f"{path.name}, row {torn['row'].iloc[0]}, column “{column}”: patient {quoted(who)} is “{split}” here and "
            f"“{first[torn.index[0]]}” before. "
            "A patient belongs to one split."
        )


def check_patients(path: Path, notes: pd.DataFrame) -> None:
    """Raise BadNotes if there are fewer than FEWEST_PATIENTS patients, or if an id looks like a canary's."""
    patients = notes["patient_id"].nunique()
    if patients < FEWEST_PATIENTS:
        raise BadNotes(
            f"{path.name} has notes of {patients} patient{'s' * (patients != 1)}. At least {FEWEST_PATIENTS} are "
            "needed: some are trained on, the others are held out for comparison."
        )
    names = pd.Series(notes["patient_id"].unique())
    reserved = names[[_LIKE_CANARIES.fullmatch(name) is not None for name in names]]
    if len(reserved):
        row = notes.loc[notes["patient_id"] == reserved.iloc[0], "row"].iloc[0]
        raise BadNotes(
            f"{path.name}, row {row}: the patient id {quoted(reserved.iloc[0])} looks like a canary's (C0000 and up). "
            "Rename the patients."
        )
