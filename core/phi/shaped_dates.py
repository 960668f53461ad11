"""Dates by their shape, whole (`core.phi.dates`) or in part: HIPAA counts every element of a date except the year.

A day and month without a year count if the month is written out, or after a word such as “on”. A bare “4/5” is as often
a ratio as a day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.phi.dates import MONTHS, full_dates
from core.phi.normalise import fold
from core.phi.spans import Place

_SHORT = [*(name[:3] for name in MONTHS), "Sept"]
MONTH = rf"(?:{'|'.join([*MONTHS, *map(str.upper, MONTHS)])}|(?:{'|'.join([*_SHORT, *map(str.upper, _SHORT)])})\b\.?)"
DAY = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?"
YEAR = r"(?:(?:1[89]|20|21)[0-9]{2}|['’][0-9]{2})"
NOT_INSIDE = r"(?![\w/%]|[.,-][0-9])"

_PARTS = (
    # 03/22/57, 3-22-57
    re.compile(rf"(?<![\w./-])(?P<m>[0-9]{{1,2}})(?P<sep>[/-])(?P<d>[0-9]{{1,2}})(?P=sep)[0-9]{{2}}{NOT_INSIDE}"),
    # 03/1957
    re.compile(rf"(?<![\w./-])(?:0?[1-9]|1[0-2])/(?:1[89]|20|21)[0-9]{{2}}{NOT_INSIDE}"),
    # 19570322
    re.compile(rf"(?<![\w./-])(?:19|20)[0-9]{{2}}(?P<m>[0-9]{{2}})(?P<d>[0-9]{{2}}){NOT_INSIDE}"),
    # March 22 [’57], Mar 1957, 22 March, 22nd of March
    re.compile(rf"\b{MONTH}[ \t]+{DAY}(?:,?[ \t]+{YEAR})?{NOT_INSIDE}(?![ \t]*(?:mg|mL|ml|%))"),
    re.compile(rf"\b{MONTH},?[ \t]+(?:of[ \t]+)?{YEAR}{NOT_INSIDE}"),
    re.compile(rf"(?<![\w./-]){DAY}(?:[ \t]+(?:of[ \t]+)?|-){MONTH}(?:-[0-9]{{2}})?(?:,?[ \t]+{YEAR})?(?!\w)"),
    # on 3/22
    re.compile(
        r"\b(?:[Oo]n|[Ss]ince|[Uu]ntil|[Tt]ill|[Dd]ated?|[Tt]hrough|[Bb]efore|[Dd]ue)[ \t]*:?[ \t]+"
        rf"(?P<value>(?P<m>[0-9]{{1,2}})[/-](?P<d>[0-9]{{1,2}})){NOT_INSIDE}"
    ),
)
_BIRTH = re.compile(
    r"(?:\bdob|\bd\.o\.b\.?|\bborn(?: on)?|\bdate of birth|\bbirth ?da(?:te|y))(?: is| was)?[\s:=(]*\Z", re.IGNORECASE
)


def dates(text: str) -> Iterator[Place]:
    """Every date, whole or in part: `date_of_birth` after a word for it, otherwise `date`; places may overlap."""
    folded, offsets = fold(text)
    for start, end, _ in full_dates(folded):
        if offsets is not None:
            start, end = offsets[start], offsets[end - 1] + 1
        yield start, end, _field(text, start)
    for shape in _PARTS:
        for match in shape.finditer(text):
            parts = match.groupdict()
            if "m" in parts and not _is_day(int(parts["m"]), int(parts["d"])):
                continue
            start, end = match.span("value" if "value" in parts else 0)
            yield start, end, _field(text, start)


def _is_day(month: int, day: int) -> bool:
    return (1 <= month <= 12 and 1 <= day <= 31) or (1 <= day <= 12 and 1 <= month <= 31)


def _field(text: str, start: int) -> str:
    return "date_of_birth" if _BIRTH.search(text, max(0, start - 30), start) else "date"
