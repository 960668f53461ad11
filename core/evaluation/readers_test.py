"""A reader's test: pairs of a real held-out note and a text that a model wrote. Can a reader tell them apart?

Both texts of a pair begin with the same opening and are equally long, so that neither gives the answer away. The notes
are of patients that no model was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
import pandas as pd

from core.evaluation.stats.intervals import proportion_interval

PAIRS = 8
SHORTEST = 60  # characters: less of a note is too little to read


@dataclass(frozen=True)
class Pair:
    """Two texts with the same opening; `written_first` says whether the model's stands first.

    `generation_id` and `note_id` name their sources.
    """

    opening: str
    real: str
    written: str
    written_first: bool
    note_id: str
    generation_id: int

    @property
    def texts(self) -> tuple[str, str]:
        """Both texts in the order in which they are shown."""
        return (self.written, self.real) if self.written_first else (self.real, self.written)


def pairs(generations: pd.DataFrame, notes: pd.DataFrame, *, seed: int, count: int = PAIRS) -> list[Pair]:
    """Draw pairs; fewer than `count` if the texts do not suffice. The same seed gives the same pairs.

    No note and no generated text occurs twice. Both texts are cut to the shorter one's length, at a whole word.

    Args:
        generations: a run's table of generated texts.
        notes: the notes of held-out patients (note_id, text).
        seed: which pairs, in which order, and which of the two texts stands first.
        count: how many pairs.
    """
    rng = np.random.default_rng(seed)
    openings = _by_opening(generations["prompt"].unique(), notes)
    written = generations[generations["prompt"].isin(openings)]
    used: set[str] = set()
    found: list[Pair] = []
    for row in rng.permutation(len(written)):
        if len(found) == count:
            break
        chosen = written.iloc[row]
        opening = str(chosen["prompt"])
        free = [one for one in openings[opening] if one[0] not in used]
        if not free:
            continue
        note_id, note = free[rng.integers(len(free))]
        real, text = _equally_long(note, opening + str(chosen["text"]))
        if min(len(real), len(text)) < SHORTEST:
            continue
        used.add(note_id)
        first = bool(rng.integers(2))
        found.append(Pair(opening, real, text, first, note_id, int(chosen["generation_id"])))
    return found


@dataclass(frozen=True)
class Score:
    """How many pairs a reader got right, as a share with Wilson's 95 % interval, and how well a guess does.

    `chance` is the probability that someone who guesses gets at least as many right: Σ_{k ≥ right} C(of, k) / 2^of.
    """

    right: int
    of: int
    share: float
    low: float
    high: float
    chance: float


def score(right: int, of: int) -> Score:
    """The score of a reader who got `right` of `of` pairs right.

    Raises:
        ValueError: there are no pairs, or more right than there are.
    """
    low, high = proportion_interval(right, of)
    return Score(right, of, right / of, low, high, sum(comb(of, k) for k in range(right, of + 1)) / 2**of)


def _by_opening(prompts: Sequence[str], notes: pd.DataFrame) -> dict[str, list[tuple[str, str]]]:
    """For each prompt with which a line of a note begins: (note_id, the note from there on)."""
    found: dict[str, list[tuple[str, str]]] = {}
    for prompt in prompts:
        for note_id, text in zip(notes["note_id"], notes["text"], strict=True):
            at = f"\n{text}".find(f"\n{prompt}")
            if at >= 0:
                found.setdefault(str(prompt), []).append((str(note_id), str(text)[at:]))
    return found


def _equally_long(one: str, other: str) -> tuple[str, str]:
    """Both texts with single spaces, cut to the shorter one's length at a whole word."""
    one, other = (" ".join(text.split()) for text in (one, other))
    length = min(len(one), len(other))
    return _cut(one, length), _cut(other, length)


def _cut(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return text[: length + 1].rsplit(" ", 1)[0]
