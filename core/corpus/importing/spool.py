"""Temporary files of an import, which reads the notes several times: one batch of notes after another.

Memory holds one batch of texts, and for all notes only their ids, in Arrow columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from core.common.files import create
from core.corpus.importing.files import CHUNK, CHUNK_CHARACTERS
from core.corpus.tables import SPAN, spans_array

PlacedSpans = list[tuple[int, int, str]]

IDS = ("row", "note_id", "patient_id", "admission_id", "split", "note_type", "date")

_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
_SPANS = pa.list_(SPAN)


class Spool:
    """One column of values in a file that is written once and can be read many times, in the same batches."""

    def __init__(self, path: Path, kind: pa.DataType) -> None:
        self._path = path
        self._schema = pa.schema([("value", kind)])
        self._writer = pa.ipc.new_file(str(create(path)), self._schema, options=_COMPRESSED)

    def add(self, values: pa.Array) -> None:
        """Append a batch."""
        self._writer.write_batch(pa.record_batch([values], schema=self._schema))

    def batches(self) -> Iterator[pa.Array]:
        """The batches in order; nothing can be added afterwards."""
        self._writer.close()
        with pa.OSFile(str(self._path)) as file:
            reader = pa.ipc.open_file(file)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number).column(0)

    def remove(self) -> None:
        """Delete the file."""
        self._writer.close()
        self._path.unlink(missing_ok=True)


class RawNotes:
    """Notes as they were read: texts on disk, everything else in memory."""

    def __init__(self, folder: Path) -> None:
        self._texts = Spool(folder / ".texts", pa.string())
        self._waiting: list[str] = []
        self._characters = 0
        self._ids: dict[str, list] = {}
        self._pieces: list[pd.DataFrame] = []
        self._kept: np.ndarray | None = None

    def add(self, text: str, **ids: str | int) -> None:
        """Add one note with its row and ids (the same names for every note); for a blank note only these are kept."""
        blank = not text.strip()
        for name, value in {**ids, "blank": blank}.items():
            self._ids.setdefault(name, []).append(value)
        if not blank:
            self._waiting.append(text)
            self._characters += len(text)
        if len(self._ids["blank"]) >= CHUNK or self._characters >= CHUNK_CHARACTERS:
            self._flush()

    def _flush(self) -> None:
        if self._ids:
            self._pieces.append(pd.DataFrame(self._ids))  # pandas stores the strings in Arrow
            self._ids = {}
        if self._waiting:
            self._texts.add(pa.array(self._waiting, pa.string()))
            self._waiting, self._characters = [], 0

    def frame(self) -> pd.DataFrame:
        """Row, ids and `blank` of every note, in the order of the file."""
        self._flush()
        return pd.concat(self._pieces, ignore_index=True) if self._pieces else pd.DataFrame(columns=[*IDS, "blank"])

    def leave_out(self, repeated: np.ndarray) -> None:
        """Leave out some of the notes with text (one flag for each)."""
        self._kept = ~repeated

    def texts(self) -> Iterator[list[str]]:
        """Texts of the notes that have one and were not left out, one batch at a time."""
        self._flush()
        done = 0
        for batch in self._texts.batches():
            kept = slice(None) if self._kept is None else self._kept[done : done + len(batch)]
            done += len(batch)
            yield batch.to_pylist() if self._kept is None else batch.filter(pa.array(kept)).to_pylist()

    def remove(self) -> None:
        """Delete what is on disk."""
        self._texts.remove()


class SpanSpool:
    """Spans of every note, in the batches in which they were added."""

    def __init__(self, folder: Path) -> None:
        self._spool = Spool(folder / ".spans", _SPANS)

    def add(self, spans: Sequence[PlacedSpans]) -> None:
        """Append a batch: one list of spans for each note."""
        self._spool.add(spans_array(spans))

    def batches(self) -> Iterator[list[PlacedSpans]]:
        """The batches, as they were added."""
        for batch in self._spool.batches():
            inside = batch.flatten()
            starts, ends, fields = (inside.field(place).to_pylist() for place in range(SPAN.num_fields))
            placed = list(zip(starts, ends, fields, strict=True))
            bounds = (batch.offsets.to_numpy() - batch.offsets[0].as_py()).tolist()
            yield [placed[start:end] for start, end in zip(bounds[:-1], bounds[1:], strict=True)]

    def remove(self) -> None:
        """Delete what is on disk."""
        self._spool.remove()
