"""Where a written value stands in training notes, and how much of the text around it stands there word for word."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Passage:
    """A note that holds a value.

    `times` is how often it does. [start, end) are the note's characters of the longest stretch of whole words around
    one of these places that the text shares with it, upper and lower case alike, and `words` the number of its words.
    """

    note_id: str
    patient_id: str
    times: int
    start: int
    end: int
    words: int


def passages(text: str, start: int, end: int, notes: pd.DataFrame) -> list[Passage]:
    """The notes that hold the value `text[start:end]` as whole words, most shared words first, then in file order.

    Upper and lower case are alike, and so are all white spaces; other spellings of a value (`Lee, Ann` for `Ann Lee`)
    are not found.

    Args:
        text: all that was written, the prompt before it included.
        start: of the value in `text`.
        end: of the value in `text`.
        notes: columns note_id, patient_id and text.
    """
    value = text[start:end].split()
    if not value:
        return []
    pattern = re.compile(r"(?<!\w)" + r"\s+".join(map(re.escape, value)) + r"(?!\w)", re.IGNORECASE)
    found = []
    for note_id, patient_id, note in zip(notes["note_id"], notes["patient_id"], notes["text"], strict=True):
        places = [match.span() for match in pattern.finditer(note)]
        if places:
            shared = max((_shared(text, start, end, note, *place) for place in places), key=lambda one: one[2])
            found.append(Passage(note_id, patient_id, len(places), *shared))
    return sorted(found, key=lambda passage: -passage.words)


def _shared(text: str, start: int, end: int, note: str, first: int, last: int) -> tuple[int, int, int]:
    """Grow the value's place in a note to the longest shared stretch of whole words: (start, end, number of words)."""
    left = 0
    while left < min(start, first) and _alike(text[start - left - 1], note[first - left - 1]):
        left += 1
    while left and not (_begins_word(text, start - left) and _begins_word(note, first - left)):
        left -= 1
    right = 0
    while right < min(len(text) - end, len(note) - last) and _alike(text[end + right], note[last + right]):
        right += 1
    while right and not (_ends_word(text, end + right) and _ends_word(note, last + right)):
        right -= 1
    return first - left, last + right, len(note[first - left : last + right].split())


def _alike(one: str, other: str) -> bool:
    return one.lower() == other.lower() or (one.isspace() and other.isspace())


def _begins_word(text: str, place: int) -> bool:
    return not text[place].isspace() and (place == 0 or text[place - 1].isspace())


def _ends_word(text: str, place: int) -> bool:
    return not text[place - 1].isspace() and (place == len(text) or text[place].isspace())
