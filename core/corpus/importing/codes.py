"""ICD codes as people write them: with or without their dot, of the ninth or the tenth revision."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

Revision = Literal["ICD-9", "ICD-10"]
_SEPARATORS = re.compile(r"[\s,;|]+")
_ONLY_NINTH = re.compile(r"[0-9]{3}[0-9.]*|E[89][0-9]{2}\.?[0-9]?")
_ONLY_TENTH = re.compile(r"[A-DF-UW-Z][0-9][0-9A-Z][0-9A-Z.]*|[EV][0-9][0-9A-Z]\.[0-9A-Z]+")


def codes_in(cell: str) -> list[str]:
    """The distinct codes of a cell, upper case, in order; blanks, commas, semicolons and bars part them."""
    return list(dict.fromkeys(code for code in _SEPARATORS.split(cell.upper()) if code))


def revision_of(codes: Iterable[str]) -> Revision:
    """Which revision a whole column of codes is of: the ninth as soon as more of them can only be of the ninth.

    A code alone does not always say (V10.1 is of both), a column does.
    """
    ninth = tenth = 0
    for code in codes:
        ninth += _ONLY_NINTH.fullmatch(code) is not None
        tenth += _ONLY_TENTH.fullmatch(code) is not None
    return "ICD-9" if ninth > tenth else "ICD-10"


def dotted(code: str, revision: Revision) -> str:
    """The code with its dot: after three characters, of ICD-9's external causes (E878.8) after four."""
    plain = code.strip().upper().replace(".", "")
    head = 4 if revision == "ICD-9" and plain.startswith("E") else 3
    return f"{plain[:head]}.{plain[head:]}" if len(plain) > head else plain
