"""Full calendar dates in text: a year of four digits, a month and a day, in the usual written forms.

Numeric dates are read month first, as in American records, unless only day first is possible (22/03/1957). A year
alone, or a date with a two-digit year, is never a date here, because it does not identify one day.
"""

from __future__ import annotations

import datetime
import re

MONTHS = (  # in English, whatever the machine's locale
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
MONTH_NUMBER = {name.lower(): number for number, name in enumerate(MONTHS, 1)}
MONTH_NUMBER |= {name[:3]: number for name, number in MONTH_NUMBER.items()} | {"sept": 9}
_NAMES = "|".join(sorted(MONTH_NUMBER, key=len, reverse=True))
_YEAR = r"(?:(?:1[89]|20|21)[0-9]{2}|22[01][0-9])"  # MIMIC moves dates to up to about 2210

_FORMS = (
    # 1957-03-22, 1957/3/22, and "1957 - 03 - 22" as written by a word-piece decoder
    re.compile(rf"(?P<y>{_YEAR})\s?(?P<sep>[-/.])\s?(?P<m>[0-9]{{1,2}})\s?(?P=sep)\s?(?P<d>[0-9]{{1,2}})"),
    # 03/22/1957
    re.compile(rf"(?P<a>[0-9]{{1,2}})\s?(?P<sep>[-/.])\s?(?P<b>[0-9]{{1,2}})\s?(?P=sep)\s?(?P<y>{_YEAR})"),
    # 22 March 1957, 22nd of March, 1957, 22-Mar-1957
    re.compile(
        rf"(?P<d>[0-9]{{1,2}})(?:st|nd|rd|th)?(?:\s+of)?[\s\-./]{{0,3}}(?P<month>{_NAMES})(?![a-z])[\s\-.,/]{{0,3}}"
        rf"(?P<y>{_YEAR})"
    ),
    # March 22, 1957, Mar-22-1957
    re.compile(
        rf"(?<![a-z])(?P<month>{_NAMES})[\s\-./]{{1,3}}(?P<d>[0-9]{{1,2}})(?:st|nd|rd|th)?[\s\-.,/]{{1,3}}(?P<y>{_YEAR})"
    ),
)
_ANY_YEAR = re.compile(_YEAR)
_RUNS_ON_BEFORE = re.compile(r"[0-9][-/.]?\Z")
_RUNS_ON_AFTER = re.compile(r"[-/.]?[0-9]")


def full_dates(folded: str) -> list[tuple[int, int, str]]:
    """Every full date in lower-case text as (start, end, ISO form), in order, without overlaps.

    A date inside a longer number ("1957-03-22-7", "4/1957-03-22") is not a date.
    """
    found: list[tuple[int, int, str]] = []
    if not _ANY_YEAR.search(folded):
        return found
    for form in _FORMS:
        for match in form.finditer(folded):
            start, end = match.span()
            runs_on = folded[start].isdigit() and _RUNS_ON_BEFORE.search(folded, max(0, start - 2), start)
            if runs_on or _RUNS_ON_AFTER.match(folded, end):
                continue
            iso = _iso(match)
            if iso:
                found.append((start, end, iso))
    apart: list[tuple[int, int, str]] = []
    for date in sorted(found):
        if not apart or date[0] >= apart[-1][1]:
            apart.append(date)
    return apart


def _iso(match: re.Match[str]) -> str | None:
    parts = match.groupdict()
    year = int(parts["y"])
    if "a" in parts:
        first, second = int(parts["a"]), int(parts["b"])
        month, day = (first, second) if first <= 12 else (second, first)
    else:
        month = MONTH_NUMBER[parts["month"]] if "month" in parts else int(parts["m"])
        day = int(parts["d"])
    try:
        return datetime.date(year, month, day).isoformat()
    except ValueError:  # for example the 31st of February: shaped like a date, but not a day
        return None
