"""Whether the facts of a sentence belong together: do they fit one disease group of the hospital's catalogue?

A sentence counts if it states at least two different facts (`core.tasks.coherence`). It fits if at least one disease
group has all of them. Control: the same facts dealt at random among the same sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.tasks.coherence import Fact, facts_in, sentences

SHUFFLES = 20
_FINISHED = re.compile(r"[.!?;]\s*$")


@dataclass(frozen=True)
class Fitting:
    """Counts for each text, (texts,): sentences with two facts or more, how many fit, and how many after shuffling."""

    sentences: np.ndarray
    fits: np.ndarray
    shuffled: np.ndarray  # mean over `SHUFFLES` shuffles


def fitting(texts: Sequence[str], *, unfinished: bool, seed: int) -> Fitting:
    """Count the sentences of each text whose facts fit one disease group.

    Args:
        texts: generated texts, or notes.
        unfinished: leave out a text's last sentence if it does not end with a mark: a length limit may have cut it.
        seed: of the shuffles.
    """
    found: list[tuple[int, list[Fact]]] = []
    for number, text in enumerate(texts):
        parts = list(sentences(text))
        if unfinished and parts and not _FINISHED.search(text):
            parts.pop()
        for part in parts:
            stated = list(dict.fromkeys(facts_in(part)))
            if len(stated) > 1:
                found.append((number, stated))
    of_text = np.array([number for number, _ in found], dtype=np.int64)
    fits = np.array([fit_together(stated) for _, stated in found], dtype=float)
    shuffled = _shuffled([stated for _, stated in found], np.random.default_rng(seed))
    counts = [np.bincount(of_text, weights=weights, minlength=len(texts)) for weights in (fits, shuffled)]
    return Fitting(np.bincount(of_text, minlength=len(texts)), *counts)


def fit_together(stated: Sequence[Fact]) -> bool:
    """Whether some disease group has all of these facts."""
    return bool(frozenset.intersection(*(fact.groups for fact in stated)))


def _shuffled(stated: Sequence[Sequence[Fact]], rng: np.random.Generator) -> np.ndarray:
    """The share of shuffles in which each sentence fits, (sentences,): facts keep their number in each sentence."""
    pool = [fact for of_sentence in stated for fact in of_sentence]
    hits = np.zeros(len(stated))
    for _ in range(SHUFFLES):
        dealt = [pool[place] for place in rng.permutation(len(pool))]
        start = 0
        for number, of_sentence in enumerate(stated):
            hits[number] += fit_together(dealt[start : start + len(of_sentence)])
            start += len(of_sentence)
    return hits / SHUFFLES
