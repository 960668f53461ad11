"""Text with exact spans: a `SpanWriter` records the position of each value as it writes, so none is searched for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

Span = tuple[int, int, str]  # start, end, name


class Value(NamedTuple):
    """What fills a slot: `text` has the span, and `tail` follows it without one ('metformin 500 mg', ' twice daily').

    `marks` are entities inside the text, counted from its start.
    """

    text: str
    tail: str = ""
    phi: str | None = None
    entity: str | None = None
    marks: tuple[Span, ...] = ()


class Slot(NamedTuple):
    """A placeholder in a phrase; `capital` if it starts a sentence."""

    name: str
    capital: bool


Phrase = tuple[str | Slot | Value, ...]

_PART = re.compile(r"\{(\w+)\}|\[(problem|test|treatment):([^\]]+)\]")


def compile_phrase(text: str) -> Phrase:
    """Parse '{Slot}' and '[problem:words]' in a phrase of wording.toml, once."""
    parts: list[str | Slot | Value] = []
    end = 0
    for match in _PART.finditer(text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        slot, entity, words = match.groups()
        parts.append(Slot(slot.lower(), slot[0].isupper()) if slot else Value(words, entity=entity))
        end = match.end()
    if end < len(text):
        parts.append(text[end:])
    return tuple(parts)


def marked_value(text: str) -> Value:
    """A value from a phrase that may have '[test:words]' marks."""
    writer = SpanWriter()
    writer.write(compile_phrase(text), {})
    return Value("".join(writer.parts), marks=tuple(writer.entities))


@dataclass
class Paragraph:
    """Finished text with its spans, counted from the start of the paragraph."""

    text: str
    phi: list[Span]
    entities: list[Span]


@dataclass
class SpanWriter:
    """Collects text and records where each value begins and ends."""

    parts: list[str] = field(default_factory=list)
    length: int = 0
    phi: list[Span] = field(default_factory=list)
    entities: list[Span] = field(default_factory=list)

    def write(self, phrase: Phrase, slots: dict[str, Value]) -> None:
        """Append a phrase with its slots filled. Raises KeyError for a slot without a value."""
        parts, length = self.parts, self.length
        for part in phrase:
            if isinstance(part, str):
                parts.append(part)
                length += len(part)
                continue
            if isinstance(part, Slot):
                text, tail, phi, entity, marks = slots[part.name]
                if part.capital:
                    text = text[0].upper() + text[1:]
            else:
                text, tail, phi, entity, marks = part
            end = length + len(text)
            if phi is not None:
                self.phi.append((length, end, phi))
            if entity is not None:
                self.entities.append((length, end, entity))
            for start, stop, name in marks:
                self.entities.append((length + start, length + stop, name))
            parts.append(text)
            length = end
            if tail:
                parts.append(tail)
                length += len(tail)
        self.length = length

    def space(self) -> None:
        """Separate the next phrase from the text so far."""
        if self.parts:
            self.parts.append(" ")
            self.length += 1

    def paragraph(self) -> Paragraph:
        """The text written so far, with its spans."""
        return Paragraph("".join(self.parts), self.phi, self.entities)


def join(paragraphs: list[Paragraph]) -> Paragraph:
    """One text, one line for each paragraph, with every span moved to its new place."""
    phi: list[Span] = []
    entities: list[Span] = []
    offset = 0
    for paragraph in paragraphs:
        phi += [(start + offset, end + offset, name) for start, end, name in paragraph.phi]
        entities += [(start + offset, end + offset, name) for start, end, name in paragraph.entities]
        offset += len(paragraph.text) + 1
    return Paragraph("\n".join(p.text for p in paragraphs), phi, entities)
