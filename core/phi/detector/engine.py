"""The detector: the places of all recognisers, without overlaps, for one text at a time.

| engine | what finds |
|---|---|
| `SHAPES` | `core.phi.shaped` alone: for synthetic cohorts, and for marks in a text that is being written |
| `RULES` | the shapes, and the clinical rules for people, numbers and places of this package |
| `RULES` with the tagger | these, and names that the tagger (`core.phi.detector.tagger`) finds |

What is found in a text depends on that text alone. The name of the engine is stored wherever a figure depends on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from core.phi.detector import tagger
from core.phi.detector.contacts import contacts
from core.phi.detector.moments import moments
from core.phi.detector.numbers import numbers
from core.phi.detector.people import again, people
from core.phi.detector.places import places
from core.phi.shaped import find_shaped
from core.phi.spans import Place

SHAPES = "shapes 1"
RULES = "rules 2"  # raise the number whenever what the rules find changes
_FREE = re.compile(rb"\0+")
_PIECE = 10_000  # characters that are searched at once: the time grows with the length of a text, not with its square
_IN_TOWN = re.compile(r",?[ \t]+(?:in[ \t]+)?")
_NAMELIKE = re.compile(r"(?=.*[A-ZÀ-Þ0-9])(?:.*[^\W_]{2}|.*[0-9])", re.DOTALL)


@dataclass(frozen=True)
class Detector:
    """Finds identifiers.

    Attributes:
        name: which recognisers, with their versions, as stored beside figures.
        lacks: why the tagger is not used, as a sentence; empty if it is.
    """

    name: str
    lacks: str = ""

    @property
    def tags(self) -> bool:
        """Whether the tagger of names is used."""
        return self.name == WITH_TAGGER

    def load(self) -> None:
        """Load what the search needs now, so that its memory counts as used."""
        if self.tags:
            tagger.load()

    def find(self, text: str) -> list[Place]:
        """Places (start, end, field) in `text`, in order and without overlaps.

        `field` is one of `core.phi.fields.FIELDS` or clinician, date, hospital, place, organisation, age, url, ip,
        number.
        """
        if self.name == SHAPES:
            return [(span.start, span.end, span.field) for span in find_shaped(text)]
        found = [
            (start + offset, end + offset, field)
            for offset, piece in _pieces(text)
            for start, end, field in self._in_piece(piece)
        ]
        found += again(text, found)
        return list(_with_town(text, _apart(text, found)))

    def _in_piece(self, text: str) -> Iterator[Place]:
        yield from ((span.start, span.end, span.field) for span in find_shaped(text))
        for recogniser in (people, numbers, contacts, moments, places, *([tagger.tagged] if self.tags else [])):
            yield from recogniser(text)


WITH_TAGGER = f"{RULES} + {tagger.NAME}"


def shapes() -> Detector:
    """The shapes alone, as in version 1 of everything that is stored."""
    return Detector(SHAPES)


def rules(why: str = "") -> Detector:
    """The rules without the tagger; `why` it is not used."""
    return Detector(RULES, why)


def best() -> Detector:
    """The rules with the tagger, or without it where it cannot be used, saying why."""
    try:
        tagger.model_folder()
    except tagger.NoTagger as error:
        return rules(str(error))
    return Detector(WITH_TAGGER)


def named(name: str) -> Detector:
    """The detector with this name.

    Raises:
        ValueError: with the names there are.
        NoTagger: if it needs the tagger and that cannot be used.
    """
    if name == WITH_TAGGER:
        tagger.model_folder()
    elif name not in (SHAPES, RULES):
        raise ValueError(
            f"There is no detector “{name}”. The detectors are: {', '.join((WITH_TAGGER, RULES, SHAPES))}."
        )
    return Detector(name)


def _apart(text: str, found: Iterable[Place]) -> list[Place]:
    """Places without overlaps: the longest keeps its field, and what others cover beyond it is kept beside it.

    So whatever any recogniser found is covered.
    """
    covered = bytearray(len(text))
    kept: list[Place] = []
    for start, end, field in sorted(set(found), key=lambda place: (place[0] - place[1], place)):
        free = [match.span() for match in _FREE.finditer(covered, start, end)]
        whole = free == [(start, end)]
        kept += [(left, right, field) for left, right in free if whole or _NAMELIKE.match(text[left:right])]
        covered[start:end] = b"\1" * (end - start)
    return sorted(kept)


def _with_town(text: str, found: list[Place]) -> Iterator[Place]:
    """A hospital and the town after it as one place: “St. Mary's Hospital in Chicago”."""
    waiting: Place | None = None
    for place in found:
        town = waiting is not None and waiting[2] == "hospital" and place[2] == "place"
        if waiting is not None and town and _IN_TOWN.fullmatch(text[waiting[1] : place[0]]):
            waiting = (waiting[0], place[1], "hospital")
            continue
        if waiting is not None:
            yield waiting
        waiting = place
    if waiting is not None:
        yield waiting


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """The text in pieces of at most `_PIECE` characters, cut at ends of lines or between words where it can be."""
    at = 0
    while len(text) - at > _PIECE:
        least, most = at + _PIECE // 2, at + _PIECE
        cut = max(text.rfind("\n", least, most), 0) or max(text.rfind(" ", least, most), 0) or most - 1
        yield at, text[at : cut + 1]
        at = cut + 1
    yield at, text[at:]
