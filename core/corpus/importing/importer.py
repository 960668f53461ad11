"""Notes that somebody brought → a `Corpus` like any other, so that everything downstream works on it.

`import_notes` reads a CSV or Parquet file of notes (`core.corpus.importing.files`) or a folder shaped like MIMIC-III
(`core.corpus.importing.mimic`), checks it, splits it by patient (row J1), writes the cohort and says what it saw.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd
from pydantic import BaseModel, ConfigDict

from core.common.files import make_folder
from core.corpus.icd_codes import codes_in, dotted, revision_of
from core.corpus.importing.files import MOST_BYTES, BadNotes
from core.corpus.importing.identifiers import identifiable
from core.corpus.importing.note_tables import COLUMNS, FEWEST_PATIENTS, Progress, check_patients
from core.corpus.importing.phi_passes import annotate, detect_phi, insert_canaries
from core.corpus.importing.reading import Deduplicate, read, with_text
from core.corpus.importing.records import Evidence
from core.corpus.importing.spool import RawNotes, SpanSpool
from core.corpus.importing.writer import CohortWriter
from core.corpus.synthetic.canaries import draw
from core.corpus.tables import PATIENTS, Corpus
from core.spec import CorpusSpec

MEMBER_SHARE = 0.7  # row J1
COPIES_SHARE = 0.05  # planted canaries are at most this share of the training notes
MEAN_COPIES = 15 / 8  # of a canary: 1, 2, 4 or 8 copies, put in by a fair coin
MOST_CANARIES = 48

STAGES = {  # what on_progress is told, in this order, and about which share of the time it takes
    "reading": 0.04,
    "looking for copies": 0.09,
    "looking for identifiers": 0.68,
    "marking what identifies them": 0.19,
}


class Seen(BaseModel):
    """What an import made and saw on the way: counts for people to look at before they train on it."""

    model_config = ConfigDict(frozen=True)

    spec: CorpusSpec
    patients: int
    members: int
    heldout: int
    notes: int  # without canaries
    notes_with_phi: int
    found: dict[str, int]  # places in the notes by field: those of records and those of shapes
    canaries: int
    planted: int  # canaries that the coin put in
    training_notes: int  # of members, without canaries
    rows: int  # notes in the file
    blank: int  # notes without any text, left out
    marked_wrong: int  # notes that MIMIC-III marks as errors, left out
    copies: int  # notes that repeat an earlier one word for word, before anything was removed
    near_copies: int  # the same, or nearly
    removed: int  # copies left out
    records: Literal["table", "surrogates", "notes"]  # where the patients' details are from
    without_record: int  # patients who have no row in the table of identifiers
    without_identifier: int  # patients of whom nothing is known that could be found in a text
    unknown_placeholders: int  # of MIMIC-III: of a kind that no surrogate stands for
    remarks: tuple[str, ...]  # sentences: what was accepted, and should be known


def read_notes(path: Path | str, **columns: Any) -> Corpus:
    """The cohort of a CSV or Parquet file of notes, or of a folder shaped like MIMIC-III, in memory.

    Args:
        path: the file or folder.
        **columns: the column of each of `COLUMNS` by name (`note="TEXT", patient="SUBJECT_ID"`), and any option of
            `import_notes`.

    Raises:
        BadNotes: a sentence naming file, row and column; nothing is kept.

    """
    mapping = {name: columns.pop(name) for name in COLUMNS if name in columns}
    with tempfile.TemporaryDirectory(prefix="phi-leak-lab-") as folder:
        import_notes(path, Path(folder), columns=mapping, **columns)
        return Corpus.read(Path(folder))


def import_notes(
    path: Path | str,
    folder: Path,
    *,
    columns: dict[str, str] | None = None,
    identifiers: Path | str | None = None,
    population: float = 0.0,
    seed: int = 0,
    canaries: int | None = None,
    deduplicate: Deduplicate = "no",
    owner: str = "",
    most_bytes: int = MOST_BYTES,
    on_progress: Progress | None = None,
) -> Seen:
    """Read, check and split a cohort, and write it into `folder` as `Corpus.write` does.

    Args:
        path: a CSV (.gz too) or Parquet file of notes, or a folder with NOTEEVENTS, PATIENTS, ADMISSIONS and
            DIAGNOSES_ICD (and D_ICD_DIAGNOSES, for the words of its codes).
        folder: an empty one, for the tables and the spec; from now on only its owner can open it. When this raises,
            what it holds is to be thrown away.
        columns: the file's column for each of `COLUMNS`; those not given are guessed (`guess_columns`).
        identifiers: a table of patients' identifiers (`read_identifiers`); without one they are read from the notes.
        population: share (0 to 0.5) of patients kept apart for thresholds and reference models.
        seed: of the split, the canaries and the surrogates.
        canaries: how many canary sentences to plant by coin; None: as many as fit (`fitting_canaries`).
        deduplicate: leave out copies: "exact" (the same words) or "near" (`core.corpus.transforms.near_copies`).
        owner: whose notes these are; the same notes of two owners are two cohorts.
        most_bytes: how far a file may expand.
        on_progress: told (one of STAGES, done, total) now and then; what it raises stops the import.

    Raises:
        BadNotes: a sentence naming file, row and column.
        ValueError: an option out of range.

    """
    path = Path(path)
    _check_options(population, canaries, deduplicate)
    tell = on_progress or (lambda what, done, total: None)
    make_folder(folder, private=True)
    raw, shaped = RawNotes(folder), SpanSpool(folder)
    brought = read(path, raw, columns or {}, identifiers, seed, most_bytes, tell)
    notes, counts = with_text(brought.notes, raw, deduplicate, tell)
    check_patients(path, notes)
    evidence = Evidence() if brought.records is None else None
    number, who = pd.factorize(notes["patient_id"])
    detect_phi(raw, number, shaped, evidence, tell)
    records = brought.records if evidence is None else evidence.records(who.tolist())
    assert records is not None  # `evidence` is None only where they were brought
    patients = _patients(path, notes, records, population, seed)
    writer = CohortWriter(folder, patients, owner)
    marked = annotate(notes, patients, raw, shaped, writer, tell)
    raw.remove()
    shaped.remove()
    described = _described(notes, patients, marked.named, canaries, seed, deduplicate)
    if brought.source == "table":
        described = described.model_copy(update={"identifiers": "table"})
    secrets = draw(described)
    insert_canaries(described, secrets, writer)
    diagnoses = brought.diagnoses[brought.diagnoses["admission_id"].isin(notes["admission_id"])].reset_index(drop=True)
    splits = patients["split"].value_counts()
    return Seen(
        spec=writer.finish(described, secrets, diagnoses),
        patients=len(patients),
        members=splits["member"],
        heldout=splits["heldout"],
        notes=len(notes),
        notes_with_phi=marked.identifying,
        found=marked.found,
        canaries=len(secrets),
        planted=int(secrets["inserted"].sum()),
        training_notes=_of_members(notes, patients),
        marked_wrong=brought.marked_wrong,
        unknown_placeholders=brought.unknown,
        records=brought.source,
        without_record=int((~patients["patient_id"].isin(set(records["patient_id"]))).sum()),
        without_identifier=len(patients) - identifiable(patients),
        remarks=brought.remarks,
        **counts,
    )


def fitting_canaries(training_notes: int) -> int:
    """How many canary sentences a cohort of so many training notes bears: planted copies are at most 5 % of them."""
    return min(MOST_CANARIES, int(COPIES_SHARE * training_notes / MEAN_COPIES) // 6 * 6)


def _check_options(population: float, canaries: int | None, deduplicate: str) -> None:
    if not 0 <= population <= 0.5:
        raise ValueError(f"population must be a share between 0 and 0.5, not {population}")
    if canaries is not None and canaries < 0:
        raise ValueError(f"the number of canaries cannot be {canaries}")
    if deduplicate not in get_args(Deduplicate):
        raise ValueError(f"deduplicate: “{deduplicate}” is not one of {', '.join(get_args(Deduplicate))}")


# Putting a cohort together -------------------------------------------------------------------------------------------


def split_patients(patients: list[str], *, population: float, seed: int) -> dict[str, str]:
    """Split of every patient: a share of population, and of the rest 70 % members and 30 % held out (row J1).

    Depends on who the patients are and on `seed`, not on the order of the file.
    """
    order = sorted(set(patients))
    random.Random(f"{seed}/split").shuffle(order)
    apart = min(round(population * len(order)), len(order) - FEWEST_PATIENTS)
    members = round(MEMBER_SHARE * (len(order) - apart))
    labels = ["population"] * apart + ["member"] * members + ["heldout"] * (len(order) - apart - members)
    return dict(zip(order, labels, strict=True))


def _patients(path: Path, notes: pd.DataFrame, records: pd.DataFrame, population: float, seed: int) -> pd.DataFrame:
    """The patients table: everybody who has a note, in the order of their first one, with a record if there is one."""
    who = notes["patient_id"].drop_duplicates()
    if (notes["split"] != "").all():
        splits = dict(zip(notes["patient_id"], notes["split"], strict=True))
    else:
        splits = split_patients(who.tolist(), population=population, seed=seed)
    counts = pd.Series(splits).value_counts()
    member, heldout = int(counts.get("member", 0)), int(counts.get("heldout", 0))
    if not (member and heldout and member + heldout >= FEWEST_PATIENTS):
        raise BadNotes(
            f"{path.name}: there must be members and held-out patients, at least {FEWEST_PATIENTS} together; there are "
            f"{member} and {heldout}."
        )
    table = records.set_index("patient_id").reindex(who).reset_index()
    table["split"] = table["patient_id"].map(splits)
    table["icd_codes"] = _codes(table["icd_codes"].tolist())
    table["age"] = table["age"].astype("Int16")
    return table[PATIENTS.names]


def _codes(given: list[object]) -> list[list[str]]:
    """Everybody's ICD codes with their dot: lists as MIMIC-III's reader makes them, or cells of a table."""
    if any(isinstance(cell, list) for cell in given):
        return [cell if isinstance(cell, list) else [] for cell in given]
    found = [codes_in(cell) if isinstance(cell, str) else [] for cell in given]
    revision = revision_of(code for codes in found for code in codes)
    return [[dotted(code, revision) for code in codes] for codes in found]


def _of_members(notes: pd.DataFrame, patients: pd.DataFrame) -> int:
    """How many of the notes are trained on."""
    return int(notes["patient_id"].isin(patients.loc[patients["split"] == "member", "patient_id"]).sum())


def _described(
    notes: pd.DataFrame, patients: pd.DataFrame, named: int, canaries: int | None, seed: int, copies: Deduplicate
) -> CorpusSpec:
    """The spec of the cohort, but for the id of its content."""
    splits = patients["split"].value_counts()
    return CorpusSpec(
        patients=int(splits["member"] + splits["heldout"]),
        population=int(splits.get("population", 0)),
        notes_per_patient=min(200.0, round(len(notes) / len(patients), 2)),
        naming_rate=round(named / len(notes), 4),
        generic_rate=0.0,
        copy_forward=0.0,
        canary_patients=0,
        seed=seed,
        canaries=fitting_canaries(_of_members(notes, patients)) if canaries is None else canaries,
        deduplicated=None if copies == "no" else copies,
    )
