"""The synthetic hospital: patients, their notes and the canaries, in memory (`build`) or streamed to disk."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from core.corpus.synthetic.assembling import Note, notes_of_patient
from core.corpus.synthetic.canaries import canary_notes, canary_patients, draw
from core.corpus.synthetic.records import Patient, Registry
from core.corpus.tables import CANARIES, NOTES, PATIENTS, Corpus, spans_array
from core.spec import MEMBER_SHARE, CorpusSpec

CHUNK = 500  # patients generated, written and released together


def build(spec: CorpusSpec) -> Corpus:
    """The whole cohort in memory; the same spec gives the same bytes on every machine."""
    canaries = draw(spec)
    pieces = list(_pieces(spec, canaries))
    patients, notes = (pa.concat_tables(tables).to_pandas() for tables in zip(*pieces, strict=True))
    return Corpus(spec=spec, patients=patients, notes=notes, canaries=canaries)


def write_large(spec: CorpusSpec, folder: Path, on_progress: Callable[[int, int], None] | None = None) -> None:
    """Write the cohort of `build` into `folder` (which must exist) as Parquet, one row group per chunk of patients.

    Memory does not grow with the cohort. If this fails or is stopped, no file of an unfinished cohort is left behind.

    Args:
        spec: the cohort.
        folder: an existing folder.
        on_progress: called with (patients done, patients) after every chunk; an exception from it stops the work.
    """
    canaries = draw(spec)
    total = spec.patients + spec.population + spec.canary_patients
    parts = {name: folder / f"{name}.parquet.part" for name in ("patients", "notes", "canaries")}
    try:
        done = 0
        with (
            pq.ParquetWriter(parts["patients"], PATIENTS, compression="zstd") as patient_file,
            pq.ParquetWriter(parts["notes"], NOTES, compression="zstd") as note_file,
        ):
            for patients, notes in _pieces(spec, canaries):
                patient_file.write_table(patients)
                note_file.write_table(notes)
                done += patients.num_rows
                if on_progress is not None:
                    on_progress(done, total)
        table = pa.Table.from_pandas(canaries, schema=CANARIES, preserve_index=False)
        pq.write_table(table, parts["canaries"], compression="zstd")
        for part in parts.values():
            part.rename(part.with_suffix(""))
        (folder / "spec.json").write_text(spec.model_dump_json(indent=2))
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def splits(spec: CorpusSpec) -> list[str]:
    """Split of every patient by number: 70 % members, 30 % held out (exactly, up to rounding), then the population."""
    members = round(MEMBER_SHARE * spec.patients)
    labels = ["member"] * members + ["heldout"] * (spec.patients - members)
    random.Random(f"{spec.seed}/split").shuffle(labels)
    return labels + ["population"] * spec.population


def _pieces(spec: CorpusSpec, canaries: pd.DataFrame) -> Iterator[tuple[pa.Table, pa.Table]]:
    """(patients, notes) of `CHUNK` patients at a time, in the order of their numbers; the canaries come last."""
    registry, labels = Registry(spec.seed), splits(spec)
    width = max(4, len(str(len(labels) - 1)))
    for start in range(0, len(labels), CHUNK):
        numbers = range(start, min(start + CHUNK, len(labels)))
        people = [registry.patient(number, f"P{number:0{width}d}", labels[number]) for number in numbers]
        yield _patients_table(people), _notes_table([note for who in people for note in notes_of_patient(spec, who)])
    if len(canaries):
        yield _patients_table(canary_patients(spec)), _notes_table(canary_notes(spec, canaries))


def _patients_table(people: list[Patient]) -> pa.Table:
    return pa.Table.from_pylist([person.row() for person in people], schema=PATIENTS)


def _notes_table(notes: list[Note]) -> pa.Table:
    columns = {name: [getattr(note, name) for note in notes] for name in NOTES.names if not name.endswith("_spans")}
    columns["phi_spans"] = spans_array([note.phi for note in notes])
    columns["entity_spans"] = spans_array([note.entities for note in notes])
    return pa.table(columns, schema=NOTES)
