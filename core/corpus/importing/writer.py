"""Write a cohort's folder, one batch of notes at a time: the same tables and id as for a `Corpus` in memory."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from core.common.files import create, make_folder, replace_text
from core.corpus.tables import CANARIES, DIAGNOSES, NOTES, PATIENTS, ContentId, write_table
from core.spec import CorpusSpec


class CohortWriter:
    """Writes patients, then notes, then canaries and diagnoses, in the order in which the content id is computed."""

    def __init__(self, folder: Path, patients: pd.DataFrame, owner: str) -> None:
        self._folder = make_folder(folder, private=True)
        self._id = ContentId(owner)
        self._table("patients", patients, PATIENTS)
        self._id.begin("notes")
        self._notes = pq.ParquetWriter(create(folder / "notes.parquet"), NOTES, compression="zstd")

    def add_notes(self, notes: pa.Table) -> None:
        """Append notes (schema NOTES) as one row group."""
        self._id.add(notes)
        self._notes.write_table(notes)

    def finish(self, described: CorpusSpec, canaries: pd.DataFrame, diagnoses: pd.DataFrame) -> CorpusSpec:
        """Write the rest, and return the cohort's spec: `described` with the content id."""
        self._notes.close()
        self._table("canaries", canaries, CANARIES)
        if len(diagnoses):
            self._table("diagnoses", diagnoses, DIAGNOSES)
        spec = described.model_copy(update={"imported": self._id.digest()})
        replace_text(self._folder / "spec.json", spec.model_dump_json(indent=2))
        return spec

    def _table(self, name: str, frame: pd.DataFrame, schema: pa.Schema) -> None:
        self._id.begin(name)
        self._id.add(write_table(self._folder, name, frame, schema))
