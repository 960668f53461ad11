"""Which disease groups the facts of a sentence belong to: drugs, tests, symptoms and so on of conditions.toml.

A fact is one of the catalogue's phrases: a disease, a drug (without its dose), a test, a procedure, a laboratory value,
a symptom or an abnormal finding. Some belong to several groups.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from core.corpus.synthetic.conditions import catalogue
from core.corpus.synthetic.wording import care_words

_WORD = re.compile(r"[^\W_]+|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_DOSE = re.compile(r"^(.*?) \d.*$")


class Fact(NamedTuple):
    """A phrase of the catalogue that was found in a text."""

    words: tuple[str, ...]
    groups: frozenset[str]


@cache
def phrases() -> dict[str, tuple[Fact, ...]]:
    """All phrases with their disease groups, by first word, longest first."""
    groups: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for condition in catalogue().conditions:
        care = condition.care
        found = [condition.wording, *care.tests, *care.procedures, *care.symptoms, *(lab.name for lab in care.labs)]
        found += [finding.text for finding in care_words(condition).signs]  # a normal finding points to no disease
        for doses, _ in care.medications:
            named = _DOSE.match(doses[0])
            found.append(named.group(1) if named else doses[0])
        for phrase in found:
            groups[tuple(_words(phrase))].add(condition.group.name)
    begun: dict[str, list[Fact]] = defaultdict(list)
    for words, of_phrase in groups.items():
        begun[words[0]].append(Fact(words, frozenset(of_phrase)))
    return {
        first: tuple(sorted(found, key=lambda fact: (-len(fact.words), fact.words))) for first, found in begun.items()
    }


def facts_in(text: str) -> list[Fact]:
    """The facts of a text, from left to right; the longest phrase counts, and phrases do not overlap."""
    words = _words(text)
    known = phrases()
    found, place = [], 0
    while place < len(words):
        for fact in known.get(words[place], ()):
            if tuple(words[place : place + len(fact.words)]) == fact.words:
                found.append(fact)
                place += len(fact.words)
                break
        else:
            place += 1
    return found


def groups_in(text: str) -> list[str]:
    """Disease groups that a text surely speaks of: those of facts that belong to one group alone."""
    return sorted({group for fact in facts_in(text) if len(fact.groups) == 1 for group in fact.groups})


def sentences(text: str) -> Iterator[str]:
    """Sentences of a text: lines, and parts of lines that end with a mark and a space."""
    for part in _SENTENCE_END.split(text):
        if part.strip():
            yield part.strip()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
