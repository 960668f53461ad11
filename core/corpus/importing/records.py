"""The patients of an imported cohort: their records, and where their details occur in the notes.

With a table of identifiers, the records are that table. Without one they are read from the notes: for each field the
value that the detector finds (`core.phi.detector`), occurs in the notes of only one patient, and is in more of them
than any other value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa

from core.corpus.importing.identifiers import RECORD_COLUMNS, identity
from core.corpus.importing.spool import PlacedSpans
from core.phi.fields import DIRECT
from core.phi.index import PhiIndex
from core.phi.spans import Span, without_overlaps

_DIRECT_NUMBER = {field: number for number, field in enumerate(DIRECT)}


_TITLE = re.compile(r"(?:mr|mrs|ms|miss|mx|dr|prof|sir|madam)\.?", re.IGNORECASE)


def whole_name(value: str) -> bool:
    """Whether a found name is a full one: at least two words, besides a title, that are no initials."""
    parts = [part for part in value.split() if not _TITLE.fullmatch(part)]
    return len(parts) > 1 and sum(len(part.strip(".,")) > 1 for part in parts) > 1


class Evidence:
    """Collects which notes contain what looks like a direct identifier, and derives records from it.

    For each direct field, the value that occurs in most notes of a patient is taken, in whatever form, as most of them
    write it (the alphabetically first of equally frequent ones). A value that occurs in notes of several patients (a
    doctor's name, the ward's telephone), in whatever form, belongs to no single patient.
    """

    def __init__(self) -> None:
        self._notes = 0
        self._note: list[np.ndarray] = []
        self._who: list[np.ndarray] = []
        self._field: list[np.ndarray] = []
        self._value: list[pa.Array] = []

    def add(self, who: Iterable[int], texts: Iterable[str], places: Iterable[PlacedSpans]) -> None:
        """Add notes: the numbers of their patients, their texts, and the PHI shapes in them."""
        notes = list(zip(who, texts, places, strict=True))
        found = [
            (note, patient, _DIRECT_NUMBER[field], value)
            for note, (patient, text, spans) in enumerate(notes, start=self._notes)
            for field, value in {(field, text[start:end]) for start, end, field in spans if field in DIRECT}
            if field != "full_name" or whole_name(value)
        ]
        self._notes += len(notes)
        self._note.append(np.array([note for note, *_ in found], dtype=np.int64))
        self._who.append(np.array([patient for _, patient, *_ in found], dtype=np.int64))
        self._field.append(np.array([field for *_, field, _ in found], dtype=np.int8))
        self._value.append(pa.array([value for *_, value in found], pa.string()))

    def records(self, patients: Sequence[str]) -> pd.DataFrame:
        """A record for every patient, with the columns RECORD_COLUMNS; `patients` are their ids, by number."""
        own = dict.fromkeys(RECORD_COLUMNS)
        columns = {name: np.full(len(patients), None, dtype=object) for name in own} | {"patient_id": list(patients)}
        for patient, field, value in self._chosen(len(patients)):
            columns[DIRECT[field]][patient] = value
        return pd.DataFrame(columns, dtype=object)

    def _chosen(self, patients: int) -> Iterator[tuple[int, int, str]]:
        """(patient, field, value) of every record. Every row of the evidence is one note with a value in one form."""
        values = pa.chunked_array(self._value, pa.string()).combine_chunks().dictionary_encode()
        distinct = values.dictionary.to_pylist()
        if not distinct:
            return
        value = values.indices.to_numpy().astype(np.int64)
        slot = np.concatenate(self._who) * len(DIRECT) + np.concatenate(self._field)  # patient and field
        written, spelling = np.unique(value * len(DIRECT) + slot % len(DIRECT), return_inverse=True)
        known = [identity(DIRECT[pair % len(DIRECT)], distinct[pair // len(DIRECT)]) for pair in written.tolist()]
        same = pd.factorize(np.array(known, dtype=object))[0].astype(np.int64)[spelling]
        held = np.unique(same * patients + slot // len(DIRECT)) // patients
        own = ~np.isin(same, held[:-1][held[:-1] == held[1:]])  # the others occur in notes of several patients
        claims, claim = np.unique(slot[own] * (same.max() + 1) + same[own], return_inverse=True)
        saying = np.unique(claim * self._notes + np.concatenate(self._note)[own]) // self._notes  # a note counts once
        heard = np.bincount(saying, minlength=len(claims))  # notes that have the value in any form
        pairs, first, notes = np.unique(slot[own] * len(distinct) + value[own], return_index=True, return_counts=True)
        place = np.empty(len(distinct), dtype=np.int64)
        place[sorted(range(len(distinct)), key=distinct.__getitem__)] = np.arange(len(distinct))
        slot, value = pairs // len(distinct), pairs % len(distinct)
        order = np.lexsort((place[value], -notes, -heard[claim[first]], slot))
        for at in order[np.unique(slot[order], return_index=True)[1]]:
            yield int(slot[at]) // len(DIRECT), int(slot[at]) % len(DIRECT), distinct[value[at]]


class Marker:
    """Finds the values of a note's own patient, and everything else that the detector found.

    The spans depend only on the text and on that patient's record: two patients' spellings of the same value are
    searched for separately. Scrubbing by spans from a table of identifiers can therefore be combined with DP.
    """

    def __init__(self, patients: pd.DataFrame) -> None:
        self._index = PhiIndex.build(patients, apart=True)
        self._row_of = {who: row for row, who in enumerate(self._index.patient_ids)}

    def spans(self, who: str, text: str, shaped: PlacedSpans) -> PlacedSpans:
        """Spans of one note, in order and without overlaps; `shaped` is what the detector found in it."""
        own = [(span.start, span.end, span.field) for span in _own(text, self._index, self._row_of[who])]
        other = [place for place in shaped if not any(o[0] < place[1] and place[0] < o[1] for o in own)]
        return sorted([*own, *other])


def _own(text: str, index: PhiIndex, row: int) -> Iterator[Span]:
    places = []
    for match in index.search_all(text):
        mine = [index.values[number] for number in match.values if row in index.values[number].holders]
        if mine:
            places.append(Span(match.start, match.end, mine[0].field, mine[0].stored, "leak"))
    yield from without_overlaps(places, lambda span: ())
