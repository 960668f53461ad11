"""A filter between a model and the readers of its answers: it blacks out what a detector finds or is a known value.

It does not change the model, so it does not affect anyone who has the weights or the token probabilities. It detects
only the forms and spellings it was given (Ippolito et al. 2023). docs/methods/defences.md has the figures, and says
which detector the compared filters use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import ahocorasick
import pandas as pd

from core.phi.detector.engine import Detector, shapes
from core.phi.fields import DIRECT
from core.phi.normalise import fold, unfolded

MOST_PROMPT = 10_000  # last characters of a prompt that are read along, which bounds the time of an answer
BLACKED = "█████"  # neither word nor digit, so letter counts and searches for values do not take it for text


class BlockList:
    """Values as written in the records, searched for literally, ignoring only case, accents and width.

    A record number is listed without its letters (“MRN-4410937” as “4410937”), as in the notes.
    """

    def __init__(self, values: Iterable[str]) -> None:
        self._automaton = ahocorasick.Automaton()
        for value in values:
            if folded := fold(value.strip())[0].removeprefix("mrn-"):
                self._automaton.add_word(folded, len(folded))
        if len(self._automaton):
            self._automaton.make_automaton()

    @classmethod
    def of(cls, patients: pd.DataFrame) -> BlockList:
        """The direct identifiers of every patient of the hospital, trained on or not: the list reveals no member."""
        columns = [patients[field] for field in DIRECT if field in patients.columns]
        return cls(value for column in columns for value in column if isinstance(value, str))

    def find(self, text: str) -> list[tuple[int, int]]:
        """Places of listed values that are not part of a longer word or number."""
        if not len(self._automaton):
            return []
        folded, offsets = fold(text)
        places = []
        for last, length in self._automaton.iter(folded):
            start, end = last + 1 - length, last + 1
            glued = (start and folded[start - 1].isalnum() and folded[start].isalnum()) or (
                end < len(folded) and folded[end].isalnum() and folded[end - 1].isalnum()
            )
            if not glued:
                places.append((start, end) if offsets is None else unfolded(offsets, len(text), start, end))
        return places


@dataclass(frozen=True)
class OutputFilter:
    """What to search for, and where.

    Attributes:
        detector: what searches for identifiers; None: only known values are blacked out.
        known: a block list of values.
        reads_prompt: also read the prompt, so that a value begun in it, or a name after a typed “Patient:”, is
            detected. Only the answer is ever changed.
    """

    detector: Detector | None = shapes()
    known: BlockList | None = None
    reads_prompt: bool = True

    def places(self, text: str, prompt: str = "") -> list[tuple[int, int]]:
        """Characters of the answer `text` to black out, in order and without overlaps."""
        before = prompt[-MOST_PROMPT:] if self.reads_prompt else ""
        seam, read = len(before), before + text
        found = [] if self.detector is None else [(start, end) for start, end, _ in self.detector.find(read)]
        if self.known is not None:
            found += self.known.find(read)
        merged: list[tuple[int, int]] = []
        for start, end in sorted((max(start, seam) - seam, end - seam) for start, end in found if end > seam):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    def apply(self, text: str, prompt: str = "") -> str:
        """The answer as its reader sees it."""
        parts, at = [], 0
        for start, end in self.places(text, prompt):
            parts += [text[at:start], BLACKED]
            at = end
        return "".join([*parts, text[at:]])
