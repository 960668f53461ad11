"""Further mentions of names that were found in a text: one pass over it, however many names there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import ahocorasick

_GLUED_BEFORE, _GLUED_AFTER = re.compile(r"[\w'’.@-]"), re.compile(r"[\w@-]")


def mentions(text: str, names: Iterable[str]) -> Iterator[tuple[int, int]]:
    """(start, end) of each place that is one of the names and no part of a longer word, in the order of the ends."""
    automaton = ahocorasick.Automaton()
    for name in names:
        automaton.add_word(name, len(name))
    if not len(automaton):
        return
    automaton.make_automaton()
    for last, length in automaton.iter(text):
        start, end = last + 1 - length, last + 1
        if not (_GLUED_BEFORE.match(text[start - 1 : start]) or _GLUED_AFTER.match(text[end : end + 1])):
            yield start, end


def words_again(text: str, words: Iterable[str]) -> Iterator[tuple[int, int]]:
    """As `mentions`, for words without blanks: of “Mary” and “Mary'Ann” at one place, only the shorter."""
    previous = -1
    for start, end in mentions(text, words):
        if start != previous:
            yield start, end
        previous = start
