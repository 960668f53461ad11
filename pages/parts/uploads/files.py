"""Uploaded files, on disk while they are in use: one file of notes, or the tables of MIMIC-III."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from core.common.files import create
from core.corpus.importing.files import BadNotes, listed
from core.corpus.importing.mimic import TABLES, is_mimic
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.uploads.scratch import Scratch
from pages.parts.session import owner, resources

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

KINDS = ["csv", "gz", "parquet"]
_KEPT = "own_files"
FIRST_ROWS = "own_first_rows"  # session key of a file's path and its first rows
LABELS_OF = "own_labels-"  # before the digest of a cohort: its labels in this session (pages.parts.cohort.labelling)


def notes() -> list[UploadedFile]:
    """The upload box for notes."""
    return st.file_uploader(
        "Notes: one CSV or Parquet file, or the tables of MIMIC-III",
        type=KINDS,
        key=owner.box("own_file"),
        accept_multiple_files=True,
        help="One note per row, in UTF-8; a CSV file may be compressed (.gz). At most 200 MB per file "
        "here. From MIMIC-III: NOTEEVENTS, PATIENTS, ADMISSIONS, DIAGNOSES_ICD, and D_ICD_DIAGNOSES if you have it.",
    )


def identifiers() -> UploadedFile | None:
    """The upload box for the patients' identifiers."""
    return st.file_uploader(
        "Optional: the patients' identifiers, one patient per row",
        type=KINDS,
        key=owner.box("own_identifiers"),
        help="Columns patient_id, full_name, date_of_birth, ssn, mrn, phone, email, address, diagnosis, icd_codes, … "
        "With a column admission_id, the table can have one row per admission, each with its own codes. "
        "Without this table, identifiers are found in the notes by the detector.",
    )


def on_disk(box: str, files: Sequence[UploadedFile]) -> Path:
    """Write the files of an upload box to a folder that is removed with the session.

    The box's earlier files are removed.

    Args:
        box: The upload box.
        files: Its files.

    Returns:
        The path of a single file, or the folder of several.

    Raises:
        BadNotes: There are several files that are not the tables of MIMIC-III, or two of one table.
        DiskFull: The disk is full.
    """
    key = tuple(sorted(file.file_id for file in files))
    kept = st.session_state.setdefault(_KEPT, {})
    known, scratch = kept.get(box, (None, None))
    if known != key or not scratch.path.is_dir():
        kept.pop(box, None)
        if scratch is not None:
            scratch.cleanup()
        scratch = _written(files)
        kept[box] = key, scratch
    folder = scratch.path
    if len(files) == 1 and not is_mimic(folder):
        return folder / Path(files[0].name).name
    if not is_mimic(folder):
        raise BadNotes(_too_many([file.name for file in files]))
    times = Counter(_table(file.name) for file in files)
    if twice := [file.name for file in files if times[_table(file.name)] > 1]:
        raise BadNotes(
            f"The box has several files of one table ({listed(twice)}), and only one can be read. Remove the others "
            "with ×."
        )
    return folder


def _table(name: str) -> str:
    return name.upper().split(".")[0]


def _too_many(names: list[str]) -> str:
    kept = f"The box has {len(names)} files ({listed(names)}), since an earlier file stays in it until you remove it "
    if any(_table(name) in TABLES for name in names):
        return f"{kept}with ×. The tables of MIMIC-III are {listed(list(TABLES))}; NOTEEVENTS is missing."
    return f"{kept}with ×. Upload notes as one file: remove the others."


def _written(files: Sequence[UploadedFile]) -> Scratch:
    """A new folder with all of these files, or none if one of them cannot be written."""
    root = resources.every_workspace().root
    with full_disk_as_sentence("the uploaded file", root):
        scratch = Scratch(root, owner.session_lives())
        try:
            for file in files:
                create(scratch.path / Path(file.name).name).write_bytes(file.getbuffer())
        except BaseException:
            scratch.cleanup()
            raise
    return scratch


def forget() -> None:
    """Remove the uploaded files from the disk, the session and the boxes."""
    st.session_state.pop(FIRST_ROWS, None)
    for _, scratch in st.session_state.pop(_KEPT, {}).values():
        scratch.cleanup()
        st.session_state[owner.EMPTIED] = st.session_state.get(owner.EMPTIED, 0) + 1
