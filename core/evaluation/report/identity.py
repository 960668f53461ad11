"""What a report is about: the cohort in numbers, and SHA-256 of the files of run and cohort on this disk now."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import pandas as pd

from core.corpus.tables import Corpus, notes_by_patient
from core.corpus.transforms.defences import defended
from core.runs.integrity.checksums import Checksums, sha256
from core.runs.run import PRIVACY_FILE, SPEC_FILE, TRAINED_BY_FILE, VOCABULARY_FILE, WEIGHTS_FILE, Run
from core.runs.store import Workspace

OF_A_RUN = (WEIGHTS_FILE, SPEC_FILE, PRIVACY_FILE, VOCABULARY_FILE, TRAINED_BY_FILE)
OF_A_COHORT = ("patients.parquet", "notes.parquet", "canaries.parquet", "diagnoses.parquet")
COLUMNS = ("run", "file", "sha256", "recorded")


class Cohort(TypedDict):
    """The cohort in numbers. Training notes are those that the subject of the report read."""

    digest: str
    kind: str
    patients: dict[str, int]  # by split
    notes: int
    training_notes: int
    training_patients: int
    most_training_notes_of_a_patient: int
    canaries: int
    canaries_planted: int


class Identity(TypedDict):
    """The subject's weights and cohort by their checksums."""

    weights_sha256: str | None
    cohort_sha256: dict[str, str]  # by file
    cohort_digest: str
    sentences: list[str]  # on what is missing or has changed


def cohort(corpus: Corpus, run: Run) -> Cohort:
    """The cohort in numbers, and what the run read of it."""
    spec = run.spec.corpus
    splits = corpus.without(run.spec.without).patients["split"].value_counts().to_dict()
    training = _training_notes(corpus, run)
    kind = "uploaded or imported notes" if spec.imported else "a synthetic hospital: no patient in it exists"
    return {
        "digest": spec.digest(),
        "kind": kind,
        "patients": {str(split): int(count) for split, count in splits.items()},
        "notes": len(corpus.notes),
        "training_notes": len(training),
        "training_patients": len(notes_by_patient(training)),
        "most_training_notes_of_a_patient": _most_of_one(training),
        "canaries": len(corpus.canaries),
        "canaries_planted": int(training.loc[training["split"] == "canary", "patient_id"].nunique()),
    }


def most_notes(corpus: Corpus, run: Run) -> int:
    """Most training notes of one patient; runs may have different caps (Jagannatha 2021, §2 and §A.1)."""
    return _most_of_one(_training_notes(corpus, run))


def _most_of_one(notes: pd.DataFrame) -> int:
    return int(notes_by_patient(notes).max())


def _training_notes(corpus: Corpus, run: Run) -> pd.DataFrame:
    """The notes that the run was trained on: of its patients, up to its cap, and after its defence."""
    return defended(corpus.without(run.spec.without).training_notes(run.note_cap), run.spec.defence)


def checksums(workspace: Workspace, run: Run) -> pd.DataFrame:
    """One row per file of a run and of its cohort, with COLUMNS; files that are not kept are left out.

    `run` is empty for the cohort's files. `recorded` says whether the file is what was written when run or cohort were
    complete: `same`, `differs`, or `none` where nothing was recorded (shipped ones, and those of older versions).
    """
    rows = _rows(run.folder, OF_A_RUN, run.id)
    folder = workspace.corpus_folder(run.spec.corpus)
    if folder is not None:
        rows += _rows(folder, OF_A_COHORT, "")
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _rows(folder: Path, names: tuple[str, ...], run_id: str) -> list[tuple[str, str, str, str]]:
    written = Checksums.read(folder)
    rows = []
    for name in names:
        if (folder / name).is_file():
            found, expected = sha256(folder / name), None if written is None else written.sha256.get(name)
            recorded = "none" if expected is None else "same" if expected == found else "differs"
            rows.append((run_id, name, found, recorded))
    return rows


def identity(table: pd.DataFrame, run: Run, digest: str) -> Identity:
    """The subject's weights and cohort by their checksums, with sentences for what is missing or has changed."""
    weights = table.loc[(table["run"] == run.id) & (table["file"] == WEIGHTS_FILE), "sha256"]
    files = table.loc[table["run"] == "", ["file", "sha256"]]
    sentences = []
    if weights.empty and not run.spec.is_base:
        sentences.append("No weights are kept here, so there is no checksum to compare a released model with.")
    if files.empty:
        sentences.append(f"The cohort is not on this disk: it is built from its settings, whose digest is {digest}.")
    changed = table.loc[table["recorded"] == "differs", "file"].tolist()
    if changed:
        sentences.append(f"Changed since it was written: {', '.join(changed)}. Run `python -m core verify`.")
    return {
        "weights_sha256": None if weights.empty else str(weights.iloc[0]),
        "cohort_sha256": dict(zip(files["file"], files["sha256"], strict=True)),
        "cohort_digest": digest,
        "sentences": sentences,
    }
