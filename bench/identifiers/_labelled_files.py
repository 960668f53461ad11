"""Texts with labelled identifiers, from files that users bring: none of them is part of this project.

| file | read as |
|---|---|
| JSON lines of `{"text": …, "spans": [[start, end, type], …]}` | one corpus, by the name of the file |
| ASQ-PHI (Weatherhead 2026): queries between `===QUERY===` and `===PHI_TAGS===` | its development part, and the rest |
| presidio-research's generated set: a JSON list with `full_text` | the same, with all labels and with identifiers |

The rules were written with the development parts in view: the texts (for presidio-research, the templates) whose
SHA-256 begins with 0, 1, 2 or 3. Nobody looked at what is missed in the others.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from core.phi.detector.vocabulary import countries

Label = tuple[int, int, str]  # start, end, type
Labelled = tuple[str, list[Label]]
NEUTRAL = ""  # type of a label that counts neither as an identifier nor as a false find

_DEVELOPMENT = "0123"
_QUERY, _TAGS = "===QUERY===", "===PHI_TAGS==="
# Labels of presidio-research that HIPAA does not list: professions, nationalities, and years by themselves.
_NO_IDENTIFIERS = ("TITLE", "PREFIX", "NRP", "NATIONALITY", "RELIGION")
_FIRST_OF_AGES = 90  # HIPAA lists ages over 89, and no others (45 CFR 164.514(b)(2)(i)(C))


class BadLabels(ValueError):
    """A labelled file cannot be read; the message says where, and what to do."""


def read_labelled(path: Path) -> dict[str, list[Labelled]]:
    """The corpora of a labelled file, by name.

    Raises:
        BadLabels: with the file, the line and what is expected there.
        OSError: the file cannot be opened.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise BadLabels(f"{path.name} is not text in UTF-8.") from None
    if text.lstrip().startswith(_QUERY):
        return _in_two(path.stem, [(one[0], one) for one in _queries(path, text)])
    if text.lstrip().startswith("["):
        generated = list(_generated(path, text))
        every = [(template, labelled) for template, labelled in generated]
        strict = [
            (template, (text, [_strict(text, label) for label in labels])) for template, (text, labels) in generated
        ]
        return _in_two(f"{path.stem}, all labels", every) | _in_two(f"{path.stem}, identifiers", strict)
    found = [_line(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not found:
        raise BadLabels(f"{path.name} is empty: each line must hold a JSON object with text and spans.")
    return {path.stem: found}


def _in_two(name: str, keyed: list[tuple[str, Labelled]]) -> dict[str, list[Labelled]]:
    """Development and unseen part, by the first digit of the SHA-256 of each key."""
    parts: dict[str, list[Labelled]] = {f"{name}, development": [], f"{name}, unseen": []}
    for key, labelled in keyed:
        early = hashlib.sha256(key.encode()).hexdigest()[0] in _DEVELOPMENT
        parts[f"{name}, {'development' if early else 'unseen'}"].append(labelled)
    return {part: some for part, some in parts.items() if some}


def _line(path: Path, number: int, line: str) -> Labelled:
    where = f"{path.name}, line {number}"
    try:
        read = json.loads(line)
        text, spans = read["text"], read["spans"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise BadLabels(f"{where}: expected a JSON object with “text” and “spans”.") from None
    if not isinstance(text, str) or not isinstance(spans, list):
        raise BadLabels(f"{where}: “text” must be a text and “spans” a list.")
    return text, [_label(where, text, span) for span in spans]


def _label(where: str, text: str, span: Any) -> Label:
    expected = f"{where}: a span must be [start, end, type] with 0 ≤ start < end ≤ {len(text)}, not {str(span)[:80]}."
    if not isinstance(span, list) or len(span) != 3:
        raise BadLabels(expected)
    start, end, kind = span
    if not (type(start) is int and type(end) is int and isinstance(kind, str) and 0 <= start < end <= len(text)):
        raise BadLabels(expected)
    return start, end, kind


def _queries(path: Path, text: str) -> Iterator[Labelled]:
    """ASQ-PHI's queries; a tag's value is labelled where it occurs first in the query and is not labelled yet."""
    for number, part in enumerate(text.split(_QUERY)[1:], 1):
        query, _, tags = part.partition(_TAGS)
        query, labels = query.strip(), list[Label]()
        for line in tags.splitlines():
            if not line.strip():
                continue
            try:
                tag = json.loads(line)
                kind, value = str(tag["identifier_type"]), str(tag["value"])
            except (ValueError, TypeError, KeyError, RecursionError):
                raise BadLabels(f"{path.name}, query {number}: a tag must have identifier_type and value.") from None
            whole = [match.span() for match in re.finditer(rf"(?<!\w){re.escape(value)}(?!\w)", query)]
            places = whole or [match.span() for match in re.finditer(re.escape(value), query)]
            free = [place for place in places if (*place, kind) not in labels]
            if value and free:  # one of 2,973 values is not in its query
                labels.append((*free[0], kind))
        yield query, labels


def _generated(path: Path, text: str) -> Iterator[tuple[str, Labelled]]:
    """Template and labelled text of each sample of presidio-research."""
    try:
        samples = json.loads(text)
    except (ValueError, RecursionError):
        raise BadLabels(f"{path.name} is not JSON.") from None
    if not samples:
        raise BadLabels(f"{path.name} is empty: it must be a list of samples with full_text and spans.")
    for number, sample in enumerate(samples, 1):
        where = f"{path.name}, sample {number}"
        try:
            full = str(sample["full_text"])
            spans = [[one["start_position"], one["end_position"], one["entity_type"]] for one in sample["spans"]]
        except (TypeError, KeyError):
            raise BadLabels(f"{where}: expected full_text and spans with positions and a type.") from None
        yield str(sample.get("template_id")), (full, [_label(where, full, span) for span in spans])


def _strict(text: str, label: Label) -> Label:
    """The label, or a neutral one if what it covers identifies nobody by HIPAA's list."""
    start, end, kind = label
    value = text[start:end]
    year = kind == "DATE_TIME" and re.fullmatch(r"[0-9]{4}", value)
    country = kind in ("GPE", "LOCATION") and value.casefold() in {name.casefold() for name in countries()}
    young = kind == "AGE" and not _over_89(value)
    return (start, end, NEUTRAL) if kind in _NO_IDENTIFIERS or year or country or young else label


def _over_89(age: str) -> bool:
    """Whether a labelled age is 90 or more: by its first number in digits, else by a word such as “ninety”."""
    digits = re.search(r"[0-9]+", age)
    if digits:
        return int(digits.group()) >= _FIRST_OF_AGES and not re.search(r"month|week|day|hour", age, re.IGNORECASE)
    return re.search(r"\b(?:ninety|nineties|(?:one|a) hundred)", age, re.IGNORECASE) is not None
