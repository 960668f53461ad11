"""The passes of an import over its notes, one batch of texts at a time: find PHI shapes, then attribute them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from core.corpus.importing.note_tables import StageReport
from core.corpus.importing.records import Evidence, Marker
from core.corpus.importing.spool import IDS, PlacedSpans, RawNotes, SpanSpool
from core.corpus.importing.writer import CohortWriter
from core.corpus.synthetic.canaries import canary_notes
from core.corpus.tables import NOTES, spans_array
from core.phi.detector.engine import Detector
from core.spec import CorpusSpec

TELL = 100  # notes between two progress reports


def detect_phi(
    raw: RawNotes,
    number: np.ndarray,
    shaped: SpanSpool,
    evidence: Evidence | None,
    detector: Detector,
    report: StageReport,
) -> None:
    """Store what the detector finds in every note; `number` is the number of each note's patient."""
    done = 0
    for texts in raw.texts():
        places = []
        for text in texts:
            places.append(detector.find(text))
            if len(places) % TELL == 0:
                report("looking for identifiers", done + len(places), len(number))
        if evidence is not None:
            evidence.add(number[done : done + len(texts)].tolist(), texts, places)
        shaped.add(places)
        done += len(texts)
        report("looking for identifiers", done, len(number))


@dataclass(frozen=True)
class Marked:
    """What was annotated: spans by field, notes with any span, and notes with the name of a patient."""

    found: dict[str, int]
    identifying: int
    named: int


def annotate(
    notes: pd.DataFrame,
    patients: pd.DataFrame,
    raw: RawNotes,
    shaped: SpanSpool,
    writer: CohortWriter,
    report: StageReport,
) -> Marked:
    """Write the notes with their spans."""
    marker = Marker(patients)
    split = notes["patient_id"].map(dict(zip(patients["patient_id"], patients["split"], strict=True)))
    notes = notes.assign(split=split)[[name for name in NOTES.names if name in IDS]]
    found: Counter[str] = Counter()
    done = identifying = named = 0
    for texts, places in zip(raw.texts(), shaped.batches(), strict=True):
        part = notes.iloc[done : done + len(texts)]
        spans = []
        for who, text, shaped_spans in zip(part["patient_id"], texts, places, strict=True):
            spans.append(marker.spans(who, text, shaped_spans))
            if len(spans) % TELL == 0:
                report("marking what identifies them", done + len(spans), len(notes))
        fields = [{field for _, _, field in of_note} for of_note in spans]
        found.update(field for of_note in spans for _, _, field in of_note)
        identifying += sum(map(bool, fields))
        named += sum("full_name" in of_note for of_note in fields)
        writer.add_notes(_table(part, texts, spans))
        done += len(texts)
        report("marking what identifies them", done, len(notes))
    return Marked(dict(found), identifying, named)


def _table(ids: pd.DataFrame, texts: list[str], spans: list[PlacedSpans]) -> pa.Table:
    """Notes in the schema NOTES; their clinical entities are unknown."""
    columns = {name: pa.array(ids[name], pa.string()) for name in ids.columns}
    columns |= {"text": pa.array(texts, pa.string()), "phi_spans": spans_array(spans)}
    columns["entity_spans"] = spans_array([[] for _ in spans])
    return pa.table({name: columns[name] for name in NOTES.names}, schema=NOTES)


def insert_canaries(described: CorpusSpec, secrets: pd.DataFrame, writer: CohortWriter) -> None:
    """Write the notes of the canaries that the coin inserted."""
    planted = pd.DataFrame([asdict(note) for note in canary_notes(described, secrets)])
    if len(planted):
        ids = planted[[name for name in NOTES.names if name in IDS]]
        writer.add_notes(_table(ids, planted["text"].tolist(), planted["phi"].tolist()))
