"""The usual written forms of a patient's direct identifiers: what a text must begin with to have written one of them.

`core.phi.patterns` decides whether a text contains a value, in any of unlimited ways. A probability needs the ways one
by one, so this is a list of the usual ones. Each is found by the search for PHI (a test), so what is counted by it is
never more than what the search would count.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator

from core.phi.dates import MONTH_NUMBER
from core.phi.fields import DIRECT
from core.phi.normalise import digits
from core.phi.patterns import forms, mail_alone, street_line, without_extension

_LETTER_START = re.compile(r"^[^0-9]*")
_NAMES_OF_MONTHS = {
    number: sorted((name for name, at in MONTH_NUMBER.items() if at == number and name != "sept"), key=len)
    for number in range(1, 13)
}


def written_forms(field: str, value: str) -> tuple[str, ...]:
    """The usual written forms of a direct identifier, the stored one first; empty if it identifies nobody.

    Upper and lower case are not listed apart.

    - name: as stored, “Last, First”, and both without middle names or with their initials;
    - date of birth: year, month, day with “-”, “/” or “.”; American order with “/”, “-” or “.”, days and months also
      without a leading zero; “22 March 1957”, “March 22, 1957”, both also with the short month;
    - record number: as stored, its digits alone, and these after “MRN”, “MRN-”, “MRN ” or “#”;
    - social security number: with “-”, with spaces, and unseparated;
    - telephone: “(415) 555-0142” and with “-”, “.”, spaces or nothing, each also after “+1 ” or “1-”;
    - e-mail address: as stored; street address: its street line, also without the flat.

    Raises:
        ValueError: the field is no direct identifier.
    """
    if field not in DIRECT:
        raise ValueError(f"“{field}” is no direct identifier: choose {', '.join(DIRECT)}")
    value = value.strip()
    identity, patterns = forms(field, value)
    if not patterns:
        return ()
    if field == "full_name":
        found = _names(value, [(form.pattern.split(), form.comma_before) for form in patterns])
    elif field == "date_of_birth":
        found = _dates(datetime.date.fromisoformat(identity))
    elif field == "address":
        found = iter([street_line(value), *(form.pattern.strip() for form in patterns)])
    elif field == "email":
        found = iter([mail_alone(value)])
    else:
        found = {"mrn": _record_numbers, "ssn": _social_security_numbers, "phone": _telephones}[field](value)
    return tuple(dict.fromkeys(found))


def _names(value: str, orders: list[tuple[list[str], int]]) -> Iterator[str]:
    yield value
    for parts, comma_before in orders:
        if comma_before:
            yield f"{' '.join(parts[:comma_before])}, {' '.join(parts[comma_before:])}"
        else:
            yield " ".join(parts)


def _dates(date: datetime.date) -> Iterator[str]:
    year, month, day = date.year, date.month, date.day
    padded = (f"{month:02d}", f"{day:02d}")
    for mark in "-/.":
        for one, other in dict.fromkeys((padded, (str(month), str(day)))):
            yield mark.join((str(year), one, other))
            yield mark.join((one, other, str(year)))
    for name in _NAMES_OF_MONTHS[month]:
        for number in dict.fromkeys((str(day), padded[1])):
            yield f"{number} {name} {year}"
            yield f"{name} {number}, {year}"


def _record_numbers(value: str) -> Iterator[str]:
    number = _LETTER_START.sub("", value)
    if any(map(str.isalpha, number)):  # “12A4567” is no number without its letters
        yield from (value, *(f"MRN{gap}{value}" for gap in (" ", "-", ": ")))
        return
    if len(digits(number)) >= 6:  # a shorter number counts only after the word “MRN”
        yield from (value, number, f"#{number}", f"MRN{number}")
    yield from (f"MRN{gap}{number}" for gap in (" ", "-", ": "))


def _social_security_numbers(value: str) -> Iterator[str]:
    yield value
    number = digits(value)
    if len(number) == 9:
        yield from (mark.join((number[:3], number[3:5], number[5:])) for mark in ("-", " ", ""))


def _telephones(value: str) -> Iterator[str]:
    yield value
    number = digits(without_extension(value))[-10:]
    if len(number) == 10:
        area, first, last = number[:3], number[3:6], number[6:]
        for national in (f"({area}) {first}-{last}", *(mark.join((area, first, last)) for mark in ("-", ".", " ", ""))):
            yield national
            yield f"+1 {national}"
            yield f"1-{national}"
