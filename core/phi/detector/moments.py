"""Dates in forms that the shapes leave: with a weekday, a time, a year of two digits, or a month alone.

HIPAA counts every element of a date except the year (45 CFR 164.514(b)(2)(i)(C)). A month alone counts after a word
such as “in” or “last”, since “may” and “march” are other words too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.phi.shaped_dates import DAY, MONTH, NOT_INSIDE, YEAR
from core.phi.spans import Place

_WEEKDAY = (
    r"(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day|MONDAY|TUESDAY|WEDNESDAY|THURSDAY|FRIDAY|SATURDAY|SUNDAY|"
    r"(?:Mon|Tue|Tues|Wed|Thu|Thurs|Fri|Sat|Sun)\b\.?)"
)
_TIME = (
    r"(?:[T,]?[ \t]*(?:at[ \t]+)?(?:[01]?[0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]+)?)?"
    r"(?:[ \t]?[AaPp]\.?[Mm]\b\.?|Z\b)?)"
)
_SHORT_YEAR = rf"(?:{YEAR}|[0-9]{{2}}(?![0-9:]))"
_WRITTEN = rf"(?:{DAY}(?:[ \t]+of)?[ \t]+{MONTH}|{MONTH}[ \t]+(?:the[ \t]+)?{DAY}(?![0-9:]))(?:,?[ \t]+{_SHORT_YEAR})?"
_FIGURES = r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}"
_SHAPES = (
    re.compile(rf"\b{_WEEKDAY},?[ \t]+(?:the[ \t]+)?(?:{_WRITTEN}|{_FIGURES})(?:,?{_TIME})?(?!\w)"),
    re.compile(rf"(?<![\w./-])(?:{_WRITTEN}|{_FIGURES}),?{_TIME}(?!\w)"),
    # 22 Mar 57, 22-Mar-57
    re.compile(
        rf"(?<![\w./-]){DAY}(?P<sep>[ \t/-]){MONTH}(?P=sep)(?:{YEAR}|[0-9]{{2}}){NOT_INSIDE}"
        r"(?![ \t]*(?:mg|mL|ml|%|:))"
    ),
    re.compile(rf"\b{MONTH}[-/](?:{YEAR}|[0-9]{{2}}){NOT_INSIDE}"),
    re.compile(rf"\b{MONTH}[ \t]+the[ \t]+{DAY}(?!\w)"),
    re.compile(rf"(?<![\w./-])(?:19|20)[0-9]{{2}}[-/](?:1[3-9]|2[0-9]|3[01])[-/](?:0?[1-9]|1[0-2]){NOT_INSIDE}"),
    re.compile(
        r"\b(?:[Ii]n|[Ss]ince|[Uu]ntil|[Tt]ill|[Dd]uring|[Ll]ast|[Nn]ext|[Tt]his|[Ee]arly|[Ll]ate|[Mm]id|[Bb]y|[Ff]rom|"
        rf"[Bb]efore|[Aa]fter|[Ee]very)[ \t-]+(?P<value>{MONTH})(?![\w'’-])(?![ \t]+[A-Z])"
    ),
)


def moments(text: str) -> Iterator[Place]:
    """Further dates in `text`, as (start, end, "date"); places may overlap."""
    for shape in _SHAPES:
        for match in shape.finditer(text):
            yield *match.span("value" if "value" in match.groupdict() else 0), "date"
