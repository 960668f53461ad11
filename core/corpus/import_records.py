"""Who the patients of an imported cohort are: their records, and where their details stand in the notes.

With a table of identifiers the records are that table. Without one they are read out of the notes: what has the shape
of an identifier (`core.phi.shaped`), stands in the notes of one patient alone, and stands there most often.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from core.corpus.import_files import BadNotes, chunks, header, listed
from core.phi.fields import DIRECT, FIELDS
from core.phi.index import PhiIndex
from core.phi.shaped import find_shaped
from core.phi.spans import Span, without_overlaps

RECORD_COLUMNS = ("patient_id", *(field.name for field in FIELDS), "age", "sex", "icd_codes")
_PATIENT_NAMES = ("patient_id", "patient", "subject_id", "mrn")
TELL = 100  # notes between two words on progress
PlacedSpans = list[tuple[int, int, str]]


def read_identifiers(path: Path, patient: str | None = None) -> pd.DataFrame:
    """A table of identifiers: one row a patient, columns named as `RECORD_COLUMNS` (any order, case, and part of them).

    `icd_codes` holds codes separated by blanks, commas, semicolons or bars. Raises BadNotes for a patient who comes
    twice, a patient without an id, and a table that has no column to tell patients by.
    """
    there = {name.lower().strip().replace(" ", "_"): name for name in header(path)}
    key = patient or next((there[name] for name in _PATIENT_NAMES if name in there), None)
    if key is None:
        raise BadNotes(f"{path.name} has no column “patient_id”. Its columns are {listed(list(there.values()))}.")
    known = {name: there[name] for name in RECORD_COLUMNS[1:] if name in there}
    seen: dict[str, int] = {}
    rows = []
    for cells in chunks(path, [key, *known.values()]):
        for place, row in enumerate(cells.rows):
            who = cells.columns[key][place].strip()
            if not who:
                raise BadNotes(f"{path.name}, row {row}, column “{key}”: there is no patient id.")
            if who in seen:
                raise BadNotes(f"{path.name}, row {row}, column “{key}”: patient {who} stands in row {seen[who]} too.")
            seen[who] = row
            record = {name: cells.columns[column][place].strip() or None for name, column in known.items()}
            rows.append({"patient_id": who, **record, "age": _age(record.get("age"), path.name, row)})
    frame = pd.DataFrame(rows, columns=list(RECORD_COLUMNS)).astype(object)
    return frame.where(frame.notna(), None)


def _age(given: str | None, file: str, row: int) -> int | None:
    if given is None:
        return None
    try:
        years = int(float(given))
    except ValueError:
        years = -1
    if not 0 <= years <= 120:
        raise BadNotes(f"{file}, row {row}, column “age”: “{given[:20]}” is not an age in years.")
    return years


def shaped_places(texts: Sequence[str], on_progress: Callable[[int], None] | None = None) -> list[PlacedSpans]:
    """Where something is shaped like PHI (`core.phi.shaped`), a list a text: by far the slowest part of an import."""
    found = []
    for done, text in enumerate(texts, start=1):
        found.append([(span.start, span.end, span.field) for span in find_shaped(text)])
        if on_progress is not None and (done % TELL == 0 or done == len(texts)):
            on_progress(done)
    return found


def records_from_notes(notes: pd.DataFrame, shaped: Sequence[PlacedSpans]) -> pd.DataFrame:
    """A record for every patient, from what is shaped like an identifier in their notes alone (`shaped_places`).

    Of each direct field the value that most notes of this patient hold is taken (of equally frequent ones the first in
    the alphabet); a value that stands in notes of several patients (a doctor's name, the ward's telephone) is nobody's.
    """
    held: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    owners: dict[tuple[str, str], set[str]] = defaultdict(set)
    for who, text, places in zip(notes["patient_id"], notes["text"], shaped, strict=True):
        for field, value in {(field, text[start:end]) for start, end, field in places if field in DIRECT}:
            if field == "full_name" and " " not in value:  # one word of a name is nobody's name
                continue
            held[who, field][value] += 1
            owners[field, value.lower()].add(who)
    rows = []
    for who in notes["patient_id"].unique():
        row: dict[str, object] = {"patient_id": who}
        for field in DIRECT:
            own = [(value, n) for value, n in held[who, field].items() if len(owners[field, value.lower()]) == 1]
            row[field] = min(own, key=lambda pair: (-pair[1], pair[0]))[0] if own else None
        rows.append(row)
    frame = pd.DataFrame(rows, columns=list(RECORD_COLUMNS)).astype(object)
    return frame.where(frame.notna(), None)


def phi_spans(notes: pd.DataFrame, patients: pd.DataFrame, shaped: Sequence[PlacedSpans]) -> Iterator[PlacedSpans]:
    """For every note: where a value of its own patient's record stands, and what else is shaped like PHI."""
    index = PhiIndex.build(patients)
    row_of = {who: row for row, who in enumerate(index.patient_ids)}
    for who, text, places in zip(notes["patient_id"], notes["text"], shaped, strict=True):
        own = [(span.start, span.end, span.field) for span in _own(text, index, row_of[who])]
        other = [place for place in places if not any(o[0] < place[1] and place[0] < o[1] for o in own)]
        yield sorted([*own, *other])


def _own(text: str, index: PhiIndex, row: int) -> Iterator[Span]:
    places = []
    for match in index.search_all(text):
        mine = [index.values[number] for number in match.values if row in index.values[number].holders]
        if mine:
            places.append(Span(match.start, match.end, mine[0].field, mine[0].stored, "leak"))
    yield from without_overlaps(places, lambda span: ())
