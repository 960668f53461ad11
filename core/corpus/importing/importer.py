"""Import users' notes into a `Corpus` like any other, so that the rest of the app works on it unchanged.

`import_notes` reads a CSV or Parquet file of notes (`core.corpus.importing.files`) or a MIMIC-III folder
(`core.corpus.importing.mimic`), checks it, splits it by patient (Jagannatha 2021, A.1), writes the cohort and reports
what it found.
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
from core.corpus.importing.memory import best_that_fits
from core.corpus.importing.note_tables import COLUMNS, FEWEST_PATIENTS, StageReport, check_patients
from core.corpus.importing.phi_passes import annotate, detect_phi, insert_canaries
from core.corpus.importing.reading import Deduplicate, read, with_text
from core.corpus.importing.records import Evidence
from core.corpus.importing.spool import RawNotes, SpanSpool
from core.corpus.importing.writer import CohortWriter
from core.corpus.synthetic.canaries import draw
from core.corpus.tables import PATIENTS, Corpus
from core.phi.detector.engine import SHAPES, named
from core.spec import MEMBER_SHARE, CorpusSpec

COPIES_SHARE = 0.05  # of the training notes: what inserted canaries are at most, on average over the coins
MEAN_COPIES = 15 / 8  # mean copies of a canary: 1, 2, 4 or 8, inserted with probability ½
MOST_CANARIES = 48

SPLIT_GIVEN = (
    "Your file says who is a member. If chance did not decide that, attacks may tell the groups apart by what else "
    "differs between them, such as their ward or year: that is no leak."
)

STAGES = {  # stages reported to on_progress, in this order, with about their share of the time
    "reading": 0.04,
    "looking for copies": 0.09,
    "looking for identifiers": 0.68,
    "marking what identifies them": 0.19,
}


class Seen(BaseModel):
    """Counts of what an import made and found, for users to check before they train on it."""

    model_config = ConfigDict(frozen=True)

    spec: CorpusSpec
    patients: int
    members: int
    heldout: int
    notes: int  # without canaries
    notes_with_phi: int
    found: dict[str, int]  # spans in the notes by field: values of records and PHI shapes
    canaries: int
    planted: int  # canaries that the coin inserted
    training_notes: int  # of members, without canaries
    rows: int  # notes in the file
    blank: int  # notes without text, left out
    marked_wrong: int  # notes that MIMIC-III marks as errors, left out
    copies: int  # notes that repeat an earlier one word for word, counted before anything was removed
    near_copies: int  # the same, word for word or nearly
    removed: int  # copies left out
    records: Literal["table", "surrogates", "notes"]  # source of the patients' details
    without_record: int  # patients without a row in the table of identifiers
    without_identifier: int  # patients without any known identifier that could be found in a text
    unknown_placeholders: int  # MIMIC-III placeholders of a kind that has no surrogate
    detector: str  # name of the detector that searched the notes
    detector_lacks: str  # why the tagger of names was not used; empty if it was
    remarks: tuple[str, ...]  # warnings, as sentences: what was accepted but you should know


def read_notes(path: Path | str, **columns: Any) -> Corpus:
    """The cohort of a CSV or Parquet file of notes, or of a MIMIC-III folder, in memory.

    Args:
        path: the file or folder.
        **columns: the column of each of `COLUMNS` by name (`note="TEXT", patient="SUBJECT_ID"`), and any option of
            `import_notes`.

    Raises:
        BadNotes: with a sentence that names the file, row and column; nothing is kept.
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
    detector: str | None = None,
    most_bytes: int = MOST_BYTES,
    on_progress: StageReport | None = None,
) -> Seen:
    """Read, check and split a cohort, and write it into `folder` as `Corpus.write` does.

    Args:
        path: a CSV (.gz too) or Parquet file of notes, or a folder with NOTEEVENTS, PATIENTS, ADMISSIONS and
            DIAGNOSES_ICD (and D_ICD_DIAGNOSES, for the descriptions of its codes).
        folder: an empty folder for the tables and the spec; only its owner can open it from now on. If this raises,
            delete the folder's contents.
        columns: the file's column for each of `COLUMNS`, "" for none; missing ones are guessed (`guess_columns`).
        identifiers: a table of patients' identifiers (`read_identifiers`); without it they are read from the notes.
        population: share (0 to 0.5) of patients set aside for thresholds and reference models.
        seed: of the split, the canaries and the surrogates.
        canaries: how many canary sentences to draw, each inserted by a coin; None: as many as fit (`fitting_canaries`).
        deduplicate: leave out copies: "exact" (the same words) or "near" (`core.corpus.transforms.near_copies`).
        owner: the notes' owner; the same notes of two owners are two cohorts.
        detector: name of the detector that searches the notes (`core.phi.detector.engine`); None: the best that can be
            used here. It is stored in the spec unless it is the shapes alone, which older cohorts were searched for.
        most_bytes: largest expanded size of a file.
        on_progress: called with (one of STAGES, done, total) from time to time; an exception from it stops the import.

    Raises:
        BadNotes: with a sentence that names the file, row and column.
        ValueError: an option out of range.
    """
    path = Path(path)
    _check_options(population, canaries, deduplicate)
    report = on_progress or (lambda what, done, total: None)
    finder = best_that_fits() if detector is None else named(detector)
    finder.load()  # before the file, whose notes may use what is free then
    make_folder(folder, private=True)
    raw, shaped = RawNotes(folder), SpanSpool(folder)
    loaded = read(path, raw, columns or {}, identifiers, seed, most_bytes, report)
    notes, counts = with_text(loaded.notes, raw, deduplicate, report)
    check_patients(path, notes)
    evidence = Evidence() if loaded.records is None else None
    number, who = pd.factorize(notes["patient_id"])
    detect_phi(raw, number, shaped, evidence, finder, report)
    records = loaded.records if evidence is None else evidence.records(who.tolist())
    assert records is not None  # `evidence` is None only where they were brought
    patients = _patients(path, notes, records, population, seed)
    writer = CohortWriter(folder, patients, owner)
    marked = annotate(notes, patients, raw, shaped, writer, report)
    raw.remove()
    shaped.remove()
    described = _described(notes, patients, marked.named, canaries, seed, deduplicate)
    if _split_is_given(notes):
        described = described.model_copy(update={"split": "given"})
    if loaded.source == "table":
        described = described.model_copy(update={"identifiers": "table"})
    if finder.name != SHAPES:
        described = described.model_copy(update={"detector": finder.name})
    secrets = draw(described)
    insert_canaries(described, secrets, writer)
    diagnoses = loaded.diagnoses[loaded.diagnoses["admission_id"].isin(notes["admission_id"])].reset_index(drop=True)
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
        marked_wrong=loaded.marked_wrong,
        unknown_placeholders=loaded.unknown,
        records=loaded.source,
        without_record=int((~patients["patient_id"].isin(set(records["patient_id"]))).sum()),
        without_identifier=len(patients) - identifiable(patients),
        remarks=(*loaded.remarks, SPLIT_GIVEN) if described.split == "given" else loaded.remarks,
        detector=finder.name,
        detector_lacks=finder.lacks,
        **counts,
    )


def fitting_canaries(training_notes: int) -> int:
    """How many canary sentences fit a cohort: their inserted copies are on average at most 5 % of the training notes.

    The coins decide how many there are: if all canaries are inserted, their copies are up to 10 %.
    """
    return min(MOST_CANARIES, int(COPIES_SHARE * training_notes / MEAN_COPIES) // 6 * 6)


def _check_options(population: float, canaries: int | None, deduplicate: str) -> None:
    if not 0 <= population <= 0.5:
        raise ValueError(f"population must be a share between 0 and 0.5, not {population}")
    if canaries is not None and canaries < 0:
        raise ValueError(f"the number of canaries cannot be {canaries}")
    if deduplicate not in get_args(Deduplicate):
        raise ValueError(f"deduplicate: “{deduplicate}” is not one of {', '.join(get_args(Deduplicate))}")


# Assembling a cohort -------------------------------------------------------------------------------------------------


def split_patients(patients: list[str], *, population: float, seed: int) -> dict[str, str]:
    """Split of every patient: a share of population, and of the rest 70 % members and 30 % held out.

    Source: Jagannatha 2021, A.1. Depends on the set of patients and on `seed`, not on the order of the file.
    """
    order = sorted(set(patients))
    random.Random(f"{seed}/split").shuffle(order)
    apart = min(round(population * len(order)), len(order) - FEWEST_PATIENTS)
    members = round(MEMBER_SHARE * (len(order) - apart))
    labels = ["population"] * apart + ["member"] * members + ["heldout"] * (len(order) - apart - members)
    return dict(zip(order, labels, strict=True))


def _split_is_given(notes: pd.DataFrame) -> bool:
    """True if the file says for every note which split its patient belongs to."""
    return bool((notes["split"] != "").all())


def _patients(path: Path, notes: pd.DataFrame, records: pd.DataFrame, population: float, seed: int) -> pd.DataFrame:
    """The patients table: everybody with a note, in the order of their first note, with their record if any."""
    who = notes["patient_id"].drop_duplicates()
    if _split_is_given(notes):
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
    """Every patient's ICD codes with their dot, from lists (MIMIC-III) or from the cells of a table."""
    if any(isinstance(cell, list) for cell in given):
        return [cell if isinstance(cell, list) else [] for cell in given]
    found = [codes_in(cell) if isinstance(cell, str) else [] for cell in given]
    revision = revision_of(code for codes in found for code in codes)
    return [list(dict.fromkeys(dotted(code, revision) for code in codes)) for codes in found]


def _of_members(notes: pd.DataFrame, patients: pd.DataFrame) -> int:
    """Number of notes of members, which are trained on."""
    return int(notes["patient_id"].isin(patients.loc[patients["split"] == "member", "patient_id"]).sum())


def _described(
    notes: pd.DataFrame, patients: pd.DataFrame, named: int, canaries: int | None, seed: int, copies: Deduplicate
) -> CorpusSpec:
    """The spec of the cohort, without the id of its content."""
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
