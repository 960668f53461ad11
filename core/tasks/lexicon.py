"""Entities by a list of terms: labels for texts that nobody labelled, such as notes that a model wrote.

The terms are those that the hospital's writer marks (diseases, symptoms, abnormal findings, tests, laboratory values,
drugs with a dose, procedures, and the words marked in its phrases), so the list stands for a vocabulary that a hospital
has anyway. It knows no patient. What it labels in real notes can be compared with the spans that the writer recorded.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from core.corpus.synthetic.conditions import catalogue
from core.corpus.synthetic.wording import care_words, marked_terms
from core.tasks.entities import Tagged
from core.tasks.tagging import tags_of, word_spans

_DOSE = re.compile(r"^(.*?) (\d.*)$")
_NUMBER = re.compile(r"\d[\d.,]*")


class Term(NamedTuple):
    """A phrase of the list in words in lower case; a `drug` may have a dose after it."""

    words: tuple[str, ...]
    field: str  # problem | test | treatment
    drug: bool


def term_spans(text: str) -> list[dict[str, int | str]]:
    """The terms of a text as rows of `entity_spans`, in order and without overlaps.

    At each word the longest term counts. A drug takes the dose after it along, whatever its number.
    """
    places = word_spans(text)
    words = [text[start:end].lower() for start, end in places]
    terms, dose = _terms()
    found: list[dict[str, int | str]] = []
    at = 0
    while at < len(words):
        term = next(
            (one for one in terms.get(words[at], ()) if tuple(words[at : at + len(one.words)]) == one.words), None
        )
        if term is None:
            at += 1
            continue
        start, end = places[at][0], places[at + len(term.words) - 1][1]
        taken = dose.match(text, end) if term.drug else None
        end = end if taken is None else taken.end()
        found.append({"start": start, "end": end, "field": term.field})
        at += len(term.words)
        while at < len(words) and places[at][0] < end:
            at += 1
    return found


def labelled(texts: Sequence[str]) -> list[Tagged]:
    """The texts that have words, tagged by the list; each is its own unit, named by its number."""
    found = []
    for number, text in enumerate(texts):
        words = word_spans(text)
        if words:
            found.append(Tagged(text, tuple(words), tuple(tags_of(words, term_spans(text))), str(number)))
    return found


@cache
def _terms() -> tuple[dict[str, tuple[Term, ...]], re.Pattern[str]]:
    """All terms by first word, longest first, and the pattern of a dose.

    A phrase that is a treatment of one disease and a test of another has the type that it has more often.
    """
    types: dict[tuple[tuple[str, ...], bool], Counter[str]] = defaultdict(Counter)
    doses: set[str] = set()
    for phrase, field in _phrases():
        named = _DOSE.match(phrase) if field == "drug" else None
        if named is not None:
            doses.add(_NUMBER.pattern.join(map(re.escape, _NUMBER.split(named.group(2)))))
        words = tuple(phrase[start:end].lower() for start, end in word_spans(named.group(1) if named else phrase))
        types[words, named is not None]["treatment" if field == "drug" else field] += 1
    begun: dict[str, list[Term]] = defaultdict(list)
    for (words, drug), of_phrase in types.items():
        begun[words[0]].append(Term(words, of_phrase.most_common(1)[0][0], drug))
    terms = {
        first: tuple(sorted(of, key=lambda term: (-len(term.words), not term.drug))) for first, of in begun.items()
    }
    return terms, re.compile(rf" (?:{'|'.join(sorted(doses, key=len, reverse=True))})(?!\w)")


def _phrases() -> Iterator[tuple[str, str]]:
    """(phrase, problem | test | treatment | drug) for every condition of the catalogue, and the marked words."""
    yield from marked_terms()
    for condition in catalogue().conditions:
        care, words = condition.care, care_words(condition)
        yield condition.wording, "problem"
        for value in (*words.symptoms, *words.signs):
            yield value.text, "problem"
        for plan in words.plans:
            for start, end, field in plan.marks:
                yield plan.text[start:end], field
        for test in (*care.tests, *(lab.name for lab in care.labs)):
            yield test, "test"
        for procedure in care.procedures:
            yield procedure, "treatment"
        for forms, _ in care.medications:
            for form in forms:
                yield form, "drug"
