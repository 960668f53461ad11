"""Entities as tags of words (BIO), and back: exact spans, counted as CoNLL's scorer and seqeval's strict mode count.

A word is a run of letters and digits, or one other character. `B-problem` begins an entity, `I-problem` continues it,
`O` is outside. Source: Ramshaw & Marcus 1995 (the scheme); Tjong Kim Sang & De Meulder 2003 (whole spans are compared).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

Entity = tuple[int, int, str]  # first word, one past the last word, type

_WORD = re.compile(r"\w+|[^\w\s]")
OUTSIDE = "O"
TYPES = ("problem", "test", "treatment")


def word_spans(text: str) -> list[tuple[int, int]]:
    """(start, end) of each word of a text, in characters."""
    return [match.span() for match in _WORD.finditer(text)]


def tags_of(words: Sequence[tuple[int, int]], spans: Iterable[Mapping[str, int | str]]) -> list[str]:
    """The BIO tag of each word. A word belongs to an entity if the two share a character.

    Args:
        words: (start, end) of each word, in characters.
        spans: rows of the column `entity_spans`: start, end, field.
    """
    tags = [OUTSIDE] * len(words)
    for span in spans:
        inside = [
            place for place, (start, end) in enumerate(words) if start < int(span["end"]) and end > int(span["start"])
        ]
        for place in inside:
            tags[place] = f"{'B' if place == inside[0] else 'I'}-{span['field']}"
    return tags


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities that a sequence of tags says, read strictly: only `B-x` begins one, and only `I-x` continues it.

    An `I-x` without an entity of type x before it is no entity (seqeval: mode strict, scheme IOB2).
    """
    found: list[Entity] = []
    begun: tuple[int, str] | None = None
    for place, tag in enumerate([*tags, OUTSIDE]):
        prefix, _, name = tag.partition("-")
        if begun is not None and (prefix != "I" or name != begun[1]):
            found.append((begun[0], place, begun[1]))
            begun = None
        if prefix == "B":
            begun = (place, name)
    return found


def tag_set(types: Iterable[str]) -> tuple[str, ...]:
    """All tags of these types: `O`, then `B-` and `I-` of each."""
    return (OUTSIDE, *(f"{prefix}-{name}" for name in types for prefix in "BI"))
