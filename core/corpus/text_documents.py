"""Documents of a plain text file, and the notes that a document is cut into.

A document ends at a blank line. Imported as a cohort (`core.corpus.importing.files`), each document stands for one
patient and its pieces for the patient's notes, so that no document is on both sides of a split.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

NOTE_WORDS = 100  # at most in one note of a document

_LOST_BREAK = re.compile(r"(?<=[.:?]),(?=[A-Z0-9])")  # the export of mtsamples has `,` for a line break
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+(?=[A-Z0-9])")


def mended(text: str) -> str:
    """The text with the line breaks that an export turned into commas."""
    return _LOST_BREAK.sub("\n", text)


def documents(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The documents between blank lines, each with the number of its first line (from 1)."""
    start, kept = 0, list[str]()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            start = start if kept else number
            kept.append(line.rstrip("\r\n"))
        elif kept:
            yield start, "\n".join(kept)
            kept = []
    if kept:
        yield start, "\n".join(kept)


def notes(document: str, most_words: int = NOTE_WORDS) -> list[str]:
    """A document in pieces of at most `most_words` words, cut at line ends, else at sentence ends, else at words.

    Pieces are filled from the beginning, so only the last one, or one before a long line, is much shorter.
    """
    found: list[str] = []
    words = 0
    for line in mended(document).splitlines():
        for number, piece in enumerate(_pieces(line.strip(), most_words)):
            count = len(piece.split())
            if count and found and words + count <= most_words:
                found[-1] += ("\n" if number == 0 else " ") + piece
                words += count
            elif count:
                found.append(piece)
                words = count
    return found


def _pieces(line: str, most_words: int) -> Iterator[str]:
    """The line, or its sentences if it is too long, or runs of `most_words` words of a sentence that is."""
    if len(line.split()) <= most_words:
        yield line
        return
    for sentence in _SENTENCE_END.split(line):
        split = sentence.split()
        if len(split) <= most_words:
            yield sentence
        else:
            yield from (" ".join(split[at : at + most_words]) for at in range(0, len(split), most_words))
