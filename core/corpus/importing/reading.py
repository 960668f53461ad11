"""Read the input of an import: notes of a file or of a MIMIC-III folder, and the records that come with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pandas as pd

from core.corpus.importing.cells import DIFFERS, quoted, same_id_perhaps
from core.corpus.importing.columns import Remarks
from core.corpus.importing.files import BadNotes
from core.corpus.importing.identifiers import Identifiers, read_identifiers
from core.corpus.importing.mimic import read_mimic
from core.corpus.importing.note_tables import StageReport, read_file
from core.corpus.importing.spool import RawNotes
from core.corpus.tables import no_diagnoses
from core.corpus.transforms.near_copies import copies_in

Deduplicate = Literal["no", "exact", "near"]


@dataclass(frozen=True)
class ImportInput:
    """Notes without their texts, and the patients' records unless these must be read from the notes."""

    notes: pd.DataFrame
    source: Literal["table", "surrogates", "notes"] = "notes"
    records: pd.DataFrame | None = None
    diagnoses: pd.DataFrame = field(default_factory=no_diagnoses)
    marked_wrong: int = 0
    unknown: int = 0
    remarks: tuple[str, ...] = ()  # warnings, as sentences: what was accepted but users should know


def read(
    path: Path,
    raw: RawNotes,
    columns: dict[str, str],
    identifiers: Path | str | None,
    seed: int,
    most_bytes: int,
    report: StageReport,
) -> ImportInput:
    """Read the notes, their texts into `raw`, and the records that come with them. Raises BadNotes."""
    report("reading", 0, 1)
    remarks = Remarks()
    if path.is_dir():
        if identifiers is not None:
            raise BadNotes(
                f"{path.name} is a folder of MIMIC-III's tables. Its patients get made-up identifiers in place of what "
                "was removed, and a table of identifiers would name others. Leave the table out."
            )
        mimic = read_mimic(path, raw, seed=seed, most_bytes=most_bytes, on_progress=report)
        found = ImportInput(
            mimic.notes, "surrogates", mimic.records, mimic.diagnoses, mimic.marked_wrong, mimic.unknown
        )
    else:
        found = ImportInput(read_file(path, raw, columns, most_bytes, report, remarks))
    if identifiers is None:
        return replace(found, notes=_own_admissions(found.notes), remarks=remarks.sentences())
    given = read_identifiers(Path(identifiers), remarks, most_bytes=most_bytes)
    _check_patients(Path(identifiers), path, found.notes, given, remarks)
    _check_admissions(path, found.notes, given.diagnoses)
    return replace(
        found,
        notes=_own_admissions(found.notes),
        source="table",
        records=given.records,
        diagnoses=given.diagnoses,
        remarks=remarks.sentences(),
    )


def _check_patients(table: Path, path: Path, notes: pd.DataFrame, given: Identifiers, remarks: Remarks) -> None:
    """Raise BadNotes if a table of identifiers has none of the notes' patients; warn of patients without notes."""
    with_notes = set(notes.loc[~notes["blank"].astype(bool), "patient_id"])
    strangers = [who for who in given.rows if who not in with_notes]
    if len(strangers) == len(given.rows):
        noted = notes["patient_id"].iloc[0] if len(notes) else ""
        raise BadNotes(
            f"{table.name}, row {given.rows[strangers[0]]}, column “{given.column}”: none of its {len(strangers):,} "
            f"patients has a note. It begins with patient {quoted(strangers[0])}, {path.name} with {quoted(noted)}. "
            "Both must write patient ids in the same way."
        )
    without_row = {same_id_perhaps(who) for who in with_notes - given.rows.keys()}
    for who in strangers:
        what = "the patient has no note"
        if same_id_perhaps(who) in without_row:
            what += f". A patient under an id that differs {DIFFERS} has notes and no row. If both are one person, "
            what += "write the id in one way"
        remarks.add(what, f"{table.name}, row {given.rows[who]}, column “{given.column}”")


def _check_admissions(path: Path, notes: pd.DataFrame, diagnoses: pd.DataFrame) -> None:
    """Raise BadNotes if an admission belongs to different patients in the notes and in the table of identifiers."""
    owners = notes["admission_id"].map(dict(zip(diagnoses["admission_id"], diagnoses["patient_id"], strict=True)))
    torn = notes[owners.notna() & (owners != notes["patient_id"])]
    if len(torn):
        note = torn.iloc[0]
        raise BadNotes(
            f"{path.name}, row {note['row']}: admission {quoted(note['admission_id'])} belongs to patient "
            f"{quoted(note['patient_id'])} here and to {quoted(owners[torn.index[0]])} in the table of identifiers. (A "
            "note without an admission has its patient's id as admission id.)"
        )


def _own_admissions(notes: pd.DataFrame) -> pd.DataFrame:
    """The notes with admission ids of one patient each: an id that several patients have gets the patient's before it.

    Many systems number visits from 1 for each patient, and everything that judges admissions groups by their id. Where
    two such ids meet again (visit 3 of P1/2 and visit 2/3 of P1), they get the patient's once more.
    """
    while (shared := notes.groupby("admission_id")["patient_id"].transform("nunique") > 1).any():
        own = notes["patient_id"] + "/" + notes["admission_id"]
        notes = notes.assign(admission_id=notes["admission_id"].mask(shared, own))
    return notes


def with_text(
    notes: pd.DataFrame, raw: RawNotes, deduplicate: Deduplicate, report: StageReport
) -> tuple[pd.DataFrame, dict[str, int]]:
    """The notes that are not blank, without copies if these are to be left out, and counts for `Seen`."""
    rows = len(notes)
    notes = notes[~notes["blank"].astype(bool)]
    blank = rows - len(notes)
    copies = copies_in(raw.texts, lambda done: report("looking for copies", done, len(notes)))
    if deduplicate != "no":
        raw.leave_out(copies.repeats(deduplicate))
        notes = notes[~copies.repeats(deduplicate)]
    removed = rows - blank - len(notes)
    counts = {"rows": rows, "blank": blank, "copies": copies.exact, "near_copies": copies.near, "removed": removed}
    return notes.reset_index(drop=True), counts
