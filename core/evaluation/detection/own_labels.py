"""A user's labels of a sample of their notes, and the detector's recall and precision on them.

A label is what was found and is right, or words that were missed. Recall and precision are those of
`core.evaluation.detection.phi_detection`, over the notes that were finished. Their Wilson intervals count identifiers;
those of one note resemble each other, so with few notes the true uncertainty is larger.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from core.evaluation.detection.phi_detection import judged
from core.phi.fields import FIELD
from core.phi.spans import Place

NOTES = 20
MOST_LETTERS = 200  # of missed words


@dataclass(frozen=True)
class LabelledNote:
    """One note: its text, what was found in it, and what its reader corrected.

    Attributes:
        text: the note.
        found: places that the detector found.
        wrong: those of them that identify nobody.
        missed: places of identifiers that it did not find.
    """

    text: str
    found: tuple[Place, ...]
    wrong: frozenset[Place] = frozenset()
    missed: tuple[Place, ...] = ()

    @property
    def labels(self) -> list[Place]:
        """Every identifier in the note, in order; one that was found in part is labelled once, as a whole."""
        right = [place for place in self.found if place not in self.wrong and not _inside(place, self.missed)]
        return sorted([*right, *self.missed])

    def places_of(self, words: str, field: str) -> list[Place]:
        """Every whole occurrence of `words` that is neither found nor labelled yet; white space and case may differ.

        Raises:
            ValueError: `words` has more than MOST_LETTERS characters. The search takes time in proportion to them and
                to the note together, and nothing else runs in the process meanwhile.
        """
        if len(words) > MOST_LETTERS:
            raise ValueError(f"missed words may have {MOST_LETTERS} characters at most, not {len(words):,}")
        parts = [re.escape(part) for part in words.split()]
        if not parts:
            return []
        taken = [place for place in self.found if place not in self.wrong] + list(self.missed)
        pattern = re.compile(r"(?<!\w)" + r"\s+".join(parts) + r"(?!\w)", re.IGNORECASE)
        free = [match.span() for match in pattern.finditer(self.text)]
        return [place for place in ((*span, field) for span in free) if not _inside(place, taken)]


def _inside(place: Place, others: Iterable[Place]) -> bool:
    return any(start <= place[0] and place[1] <= end for start, end, _ in others)


def sampled(notes: pd.DataFrame, seed: str) -> list[LabelledNote]:
    """Up to NOTES notes of a cohort's own, not canaries, drawn by `seed`, with what was found in them.

    Health details of a table of identifiers are left out: they are no finds of the detector.
    """
    own = notes[notes["split"] != "canary"]
    rows = sorted(random.Random(f"{seed}/labels").sample(range(len(own)), min(NOTES, len(own))))
    return [
        LabelledNote(
            text, tuple(sorted((one["start"], one["end"], one["field"]) for one in spans if _identifies(one["field"])))
        )
        for text, spans in zip(own["text"].iloc[rows], own["phi_spans"].iloc[rows], strict=True)
    ]


def _identifies(field: str) -> bool:
    return field not in FIELD or FIELD[field].role == "direct"


def on_labels(notes: Iterable[LabelledNote]) -> pd.DataFrame:
    """Recall and precision by field, `all` first, with the columns of `phi_detection.COLUMNS`."""
    return judged((note.text, note.labels, note.found) for note in notes)


def as_lines(notes: Sequence[LabelledNote]) -> str:
    """The labels as JSON lines that `bench detector --labelled` reads."""
    lines: list[Mapping[str, object]] = [
        {"text": note.text, "spans": [list(one) for one in note.labels]} for note in notes
    ]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
