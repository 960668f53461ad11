"""Whether the facts of a sentence belong together: do they fit one disease group of the hospital's catalogue?

A sentence counts if it states at least two different facts (`core.tasks.coherence`). It fits if at least one disease
group has all of them. Control: the same facts dealt at random among the same sentences, no fact twice in a sentence. A
repeated fact fits itself, and a sentence counts each fact once, so a deal with repeats would be above chance.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.tasks.coherence import Fact, facts_in, sentences

SHUFFLES = 20
SWAPS = 10  # tried for each fact in a shuffle, so that nearly every fact moves several times
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
    """The share of shuffles in which each sentence fits, (sentences,): facts keep their number in each sentence.

    Facts of random pairs of sentences are exchanged unless a sentence would get a fact that it has. Pairs are drawn
    symmetrically, so in the long run all such deals are equally likely.
    """
    dealt = [list(of_sentence) for of_sentence in stated]
    places = [(number, place) for number, of_sentence in enumerate(dealt) for place in range(len(of_sentence))]
    hits = np.zeros(len(dealt))
    for _ in range(SHUFFLES if places else 0):
        for one, other in rng.integers(len(places), size=(SWAPS * len(places), 2)).tolist():
            _exchange(dealt, *places[one], *places[other])
        hits += [fit_together(of_sentence) for of_sentence in dealt]
    return hits / SHUFFLES


def _exchange(dealt: Sequence[list[Fact]], left: int, at: int, right: int, there: int) -> None:
    """Exchange fact `at` of sentence `left` with fact `there` of sentence `right`, if neither then has one twice."""
    mine, other = dealt[left][at], dealt[right][there]
    if other.words not in {fact.words for fact in dealt[left]} and mine.words not in {
        fact.words for fact in dealt[right]
    }:
        dealt[left][at], dealt[right][there] = other, mine
