"""Defences on the training notes: deduplication, and scrubbing of PHI by placeholders.

Both leave the cohort unchanged: held-out notes, the index of values and every attack use the original notes, so that a
defended model is evaluated by what it knows of the real patients. docs/methods/defences.md gives the reason for
each rule.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from core.corpus.transforms.near_copies import WORDS, find_copies
from core.phi.fields import DIRECT
from core.phi.normalise import fold
from core.phi.patterns import forms
from core.spec import DefenceSpec

PLACEHOLDERS: dict[str, str] = {
    "full_name": "[NAME]",
    "date_of_birth": "[DATE]",
    "ssn": "[SSN]",
    "mrn": "[MRN]",
    "phone": "[PHONE]",
    "email": "[EMAIL]",
    "address": "[ADDRESS]",
}
SPAN_COLUMNS = ("phi_spans", "entity_spans")


class Span(NamedTuple):
    """Characters [start, end) of a text and their field."""

    start: int
    end: int
    field: str


def defended(notes: pd.DataFrame, defence: DefenceSpec | None) -> pd.DataFrame:
    """The training notes after the defence: deduplicated first, then scrubbed; unchanged if `defence` is None.

    In the other order, two patients' notes that differ only in the patient's identity would become copies.

    Args:
        notes: columns of the notes table.
        defence: the settings.

    Raises:
        ValueError: when no note is left.
    """
    if defence is None:
        return notes
    if defence.deduplicate:
        notes = deduplicate(notes)
    if defence.scrub_recall is not None:
        notes = scrub(notes, defence.scrub_recall, seed=defence.seed)
    if notes.empty:
        raise ValueError("the defence leaves no note to train on")
    return notes


# Deduplication -------------------------------------------------------------------------------------------------------


def deduplicate(notes: pd.DataFrame) -> pd.DataFrame:
    """The notes without copies and near copies of earlier notes, and without paragraphs that an earlier note had.

    Near copies are those of `core.corpus.transforms.near_copies` (Jaccard similarity of five-word shingles of at least
    0.8; Lee et al. 2022). A paragraph is a line. It is a repeat if an earlier line, of the same note or of a note kept
    before it, had the same words, ignoring white space and case. Lines of fewer than five words stay, as in the search
    for near copies. A note with nothing left is removed.
    """
    kept = notes[~find_copies(notes["text"].tolist()).repeats("near")].reset_index(drop=True)
    seen: set[str] = set()
    edited = [
        _edited(text, [(start, end, "") for start, end in _repeated_lines(text, seen)], *spans)
        for text, *spans in zip(kept["text"], *(kept[column] for column in SPAN_COLUMNS), strict=True)
    ]
    changed = _with_texts(kept, edited)
    return changed[changed["text"].str.strip() != ""].reset_index(drop=True)


def _repeated_lines(text: str, seen: set[str]) -> list[tuple[int, int]]:
    """Places of the lines (with one line break each) that are in `seen`; the others are added to it."""
    places, start = [], 0
    for line in text.split("\n"):
        end = start + len(line)
        plain = " ".join(line.split()).lower()
        if plain.count(" ") >= WORDS - 1:
            if plain in seen:
                places.append((start, end + 1) if end < len(text) else (max(0, start - 1), end))
            seen.add(plain)
        start = end + 1
    return _disjoint(places)


def _disjoint(places: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Remove overlaps: the last line includes the break before it, which the previous line may include as its own."""
    return [(max(start, places[at - 1][1] if at else 0), end) for at, (start, end) in enumerate(places)]


# Scrubbing -----------------------------------------------------------------------------------------------------------


def scrub(notes: pd.DataFrame, recall: float, *, seed: int = 0) -> pd.DataFrame:
    """The notes with a typed placeholder (`[NAME]`) for every direct identifier that is found.

    Each *value* of a patient is found with probability `recall`, by its own draw from `seed`: all of its mentions, in
    all of its forms, are found or missed together. A higher recall finds everything that a lower one finds. Health
    details stay, because they are what a note is for.
    """
    edited = []
    columns = [notes[column] for column in ("patient_id", "text", *SPAN_COLUMNS)]
    for patient, text, phi, entities in zip(*columns, strict=True):
        found = [
            (span.start, span.end, PLACEHOLDERS[span.field])
            for span in _spans(phi)
            if span.field in DIRECT and is_found(patient, span.field, text[span.start : span.end], recall, seed=seed)
        ]
        edited.append(_edited(text, found, phi, entities))
    return _with_texts(notes, edited)


def is_found(patient_id: str, field: str, value: str, recall: float, *, seed: int = 0) -> bool:
    """Whether scrubbing with this recall finds this patient's value; the same answer for every form of the value."""
    identity = forms(field, value)[0] or fold(value)[0]
    return random.Random(f"{seed}/scrub/{patient_id}/{field}/{identity}").random() < recall


# Texts with spans ----------------------------------------------------------------------------------------------------

Edit = tuple[int, int, str]  # replaces characters [start, end) by the string
Edited = tuple[str, list[dict], list[dict]]


def _edited(text: str, edits: Iterable[Edit], phi: Iterable, entities: Iterable) -> Edited:
    """The text after its edits, with its spans moved along; a span that overlaps an edit is dropped.

    Overlapping edits become one, with the replacement of the first.
    """
    merged: list[Edit] = []
    for start, end, put in sorted(edits, key=lambda edit: (edit[0], -edit[1])):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
        else:
            merged.append((start, end, put))
    parts, at = [], 0
    for start, end, put in merged:
        parts += [text[at:start], put]
        at = end
    return "".join([*parts, text[at:]]), _moved(_spans(phi), merged), _moved(_spans(entities), merged)


def _moved(spans: Sequence[Span], edits: Sequence[Edit]) -> list[dict]:
    """The spans' places after the edits (in order, without overlaps)."""
    kept = []
    for span in spans:
        if any(start < span.end and span.start < end for start, end, _ in edits):
            continue
        by = sum(len(put) - (end - start) for start, end, put in edits if end <= span.start)
        kept.append({"start": span.start + by, "end": span.end + by, "field": span.field})
    return kept


def _spans(rows: Iterable) -> list[Span]:
    return [Span(int(row["start"]), int(row["end"]), row["field"]) for row in rows]


def _with_texts(notes: pd.DataFrame, edited: Sequence[Edited]) -> pd.DataFrame:
    """The notes with these texts and spans."""
    changed = notes.copy()
    for place, column in enumerate(("text", *SPAN_COLUMNS)):
        changed[column] = pd.Series([row[place] for row in edited], index=notes.index, dtype=notes[column].dtype)
    return changed
