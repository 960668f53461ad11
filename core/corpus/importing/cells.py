"""Parsers for the cells of an imported table: texts, dates, ages, sexes, ICD codes.

Each parser returns the value, or raises ValueError with a sentence that says what is wrong with it. The caller, who
knows the file, the row and the column, puts them in front (`core.corpus.importing.files.BadNotes`).
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from functools import lru_cache
from typing import Literal, NamedTuple

from core.corpus.icd_codes import MARKS
from core.phi.dates import MONTH_NUMBER
from core.phi.normalise import fold

SHOWN = 20  # characters of a cell that a message quotes
EARLIEST, LATEST = 1700, 2300  # years; data sets shift dates of living patients to 2200, births of the oldest to 1800
OLDEST = 120

DateOrder = Literal["day first", "month first", ""]

# No-break and figure spaces, as word processors and web pages write them, and hyphens that are not the keyboard's.
_AS_TYPED = {**dict.fromkeys(map(ord, "\u00a0\u2007\u202f"), " "), **dict.fromkeys(map(ord, "\u2010\u2011"), "-")}


def note_text(cell: str) -> str:
    """A note as a keyboard writes it: line feeds, plain spaces and hyphens, and letters composed with their accents.

    The shapes of names and numbers are searched in this form, and nothing that a reader sees changes.
    """
    text = cell.replace("\r\n", "\n")
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_AS_TYPED)


def id_text(cell: str) -> str:
    """An id without what a reader cannot see: zero-width characters, double blanks, another form of an accent."""
    text = note_text(cell)
    if not text.isascii():
        text = "".join(character for character in text if unicodedata.category(character) != "Cf")
    return " ".join(text.split())


DIFFERS = "only in case, accents, blanks, dashes, leading zeros or a final “.0”"  # what `same_id_perhaps` leaves out


def same_id_perhaps(text: str) -> str:
    """The same for ids that may be one, written in two ways: “p007”, “P7” and “P 7.0”."""
    plain = "".join(fold(text)[0].split())
    return re.sub(r"(?<![0-9])0+(?=[0-9])|(?<=[0-9])\.0+\Z", "", plain)


SHORTENED = r"[0-9](?:[.,][0-9]+)?[eE]\+[0-9]+"  # 1.23E+11


def read_number(cell: str) -> str:
    """A number that identifies, without the “.0” that programs add to numbers where some are missing.

    Raises:
        ValueError: if a spreadsheet has shortened it, so that its digits are lost.
    """
    if re.fullmatch(SHORTENED, cell):
        raise ValueError(f"{quoted(cell)} is a number that a spreadsheet has shortened. Save the column as text.")
    return re.sub(r"\A([0-9]+)\.0+\Z", r"\1", cell)


_PLACEHOLDERS = {
    *(
        "n/a",
        "n / a",
        "n.a",
        "na",
        "tbd",
        "none",
        "null",
        "nil",
        "nan",
        "nat",
        "unknown",
        "unk",
        "missing",
        "redacted",
        "withheld",
        "blank",
        "empty",
    ),
    *("not available", "not applicable", "not known", "not given", "not recorded", "not provided", "not stated"),
    *(
        "not specified",
        "not on file",
        "not on record",
        "no name",
        "name unknown",
        "name withheld",
        "unknown unknown",
        "unknown patient",
    ),
    *("no phone", "no email", "no address", "address unknown", "no fixed address"),
}


def is_placeholder(cell: str) -> bool:
    """Whether a cell only says that its value is not known: “n/a”, “Not available”, “[UNKNOWN]”, “--”.

    As an identifier it would be searched for, and every text with these words would count as a leak.
    """
    plain = " ".join(fold(cell)[0].split()).strip("()[]<>.-_?*# ")
    return not plain or plain in _PLACEHOLDERS


class Day(NamedTuple):
    """A date as written, without its time."""

    written: str
    order: DateOrder  # what its numbers prove about their order; "" where they prove nothing
    first: datetime.date  # the day, or the first day it can mean
    whole: bool = True  # False for a year alone or with its month


_TIME = re.compile(
    r"(?:T|\s+|\s*,\s*)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?\s*(?:[AaPp]\.?[Mm]\.?)?\s*(?:Z|UTC|GMT|(?:UTC|GMT)?[+-][0-9]{2}:?[0-9]{2})?"
)
_YEAR_FIRST = re.compile(r"([0-9]{4})(?:([-/.])([0-9]{1,2})(?:\2([0-9]{1,2}))?)?")
_PACKED = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})")
_YEAR_LAST = re.compile(r"([0-9]{1,2})([-/.])([0-9]{1,2})\2([0-9]{4})")
_WORDS = re.compile(
    r"(?:([0-9]{1,2})(?:st|nd|rd|th)?[\s.-]+)?([a-z]{3,9})\.?[\s.-]+(?:([0-9]{1,2})(?:st|nd|rd|th)?[\s,]+)?([0-9]{4})"
)
_SHORT_YEAR = re.compile(r"(?:[0-9]{1,2}[-/.\s](?:[0-9]{1,2}|[a-z]{3,9})|[a-z]{3,9}\.?\s[0-9]{1,2})[-/.,\s]+'?[0-9]{2}")
_SERIAL = re.compile(r"[0-9]{5}(?:\.[0-9]+)?")
_WRITE = "Write dates as 2020-12-31."


@lru_cache(maxsize=4096)  # many notes share a date
def read_date(cell: str) -> Day:
    """A date in one of the usual forms, with or without a time. A year alone, or with its month, is a date too.

    Raises:
        ValueError: for a day that does not exist (31/31/2020), words (yesterday), a two-digit year, and a spreadsheet's
            serial number.
    """
    text = cell.strip()
    written = text
    if timed := re.fullmatch(rf"(.+?){_TIME.pattern}", text):
        written = timed.group(1).strip()
    folded = written.lower()
    if match := _YEAR_FIRST.fullmatch(folded) or _PACKED.fullmatch(folded):
        parts = match.groups()
        year, month, day = (parts[0], parts[2], parts[3]) if len(parts) == 4 else parts
        return Day(written, "", _day(text, int(year), int(month or 1), int(day or 1)), day is not None)
    if match := _YEAR_LAST.fullmatch(folded):
        return _either_order(text, written, int(match[1]), int(match[3]), int(match[4]))
    if (match := _WORDS.fullmatch(folded)) and match[2] in MONTH_NUMBER and not (match[1] and match[3]):
        day = match[1] or match[3]
        return Day(written, "", _day(text, int(match[4]), MONTH_NUMBER[match[2]], int(day or 1)), day is not None)
    if _SERIAL.fullmatch(folded):
        raise ValueError(f"{quoted(text)} looks like a spreadsheet's serial number for a date. {_WRITE}")
    if _SHORT_YEAR.fullmatch(folded):
        raise ValueError(f"{quoted(text)} has a two-digit year, so its century is unclear. {_WRITE}")
    raise ValueError(f"{quoted(text)} is not a date. {_WRITE}")


def _either_order(text: str, written: str, one: int, other: int, year: int) -> Day:
    """31/12/2020 and 12/31/2020 are dates, and so is the ambiguous 03/04/2020; 31/31/2020 is not."""
    if one > 12:
        return Day(written, "day first", _day(text, year, other, one))
    if other > 12:
        return Day(written, "month first", _day(text, year, one, other))
    return Day(written, "", min(_day(text, year, one, other), _day(text, year, other, one)))


def _day(text: str, year: int, month: int, day: int) -> datetime.date:
    if not EARLIEST <= year <= LATEST:
        raise ValueError(f"{quoted(text)} is not a date between the years {EARLIEST} and {LATEST}.")
    try:
        return datetime.date(year, month, day)
    except ValueError:
        raise ValueError(f"{quoted(text)} is not a day in the calendar. {_WRITE}") from None


_NUMBER = r"([0-9]{1,4}(?:\.[0-9]+)?)"
_YEARS = re.compile(rf"{_NUMBER}\s*(?:y|yr|yrs|year|years|y/?o|years? old)?\.?")
_OVER = re.compile(r"(?:>|over|above)\s*(89)|(?:>=?|over|above)\s*(9[0-9])|(9[0-9])\s*(?:\+|or (?:over|older|more))")
_PARTS = re.compile(
    rf"(?:{_NUMBER}\s*y(?:rs?|ears?)?[\s,]*(?:and\s*)?)?(?:{_NUMBER}\s*(?:m|mo|mos|mth|mths|month|months)[\s,]*(?:and\s*)?)?"
    rf"(?:{_NUMBER}\s*(?:w|wk|wks|week|weeks)[\s,]*(?:and\s*)?)?(?:{_NUMBER}\s*(?:d|day|days))?(?:\s*old)?\.?"
)


def read_age(cell: str) -> int:
    """Age in completed years: 70, "70.5", "18 months" (1), "6 weeks" (0), "1 year 8 months" (1), "> 89", "90+" (90).

    Raises:
        ValueError: for anything else, and for more than `OLDEST` years.
    """
    text = cell.strip()
    folded = text.lower()
    if over := _OVER.fullmatch(folded):
        return max(90, *(int(age) for age in over.groups() if age))  # HIPAA groups all ages over 89
    years = -1.0
    if match := _YEARS.fullmatch(folded):
        years = float(match[1])
    elif folded and (match := _PARTS.fullmatch(folded)) and any(match.groups()):
        of_years, months, weeks, days = (float(part or 0) for part in match.groups())
        years = of_years + months / 12 + (weeks * 7 + days) / 365
    if not 0 <= years < OLDEST + 1:
        raise ValueError(f"{quoted(text)} is not an age: write years (70) or give the unit (18 months).")
    return int(years)


_SEXES = {"m": "M", "male": "M", "man": "M", "f": "F", "female": "F", "woman": "F"}
_OTHER_SEXES = (
    *("other", "o", "unknown", "u", "x", "intersex", "diverse", "nonbinary", "non-binary"),
    *("undifferentiated", "ambiguous", "not stated", "not specified", "n/a"),
)


def read_sex(cell: str) -> str:
    """`M` or `F` for the usual spellings; other, unknown, X and the like unchanged. Raises ValueError otherwise."""
    text = cell.strip()
    folded = text.lower()
    if folded not in _SEXES and folded not in _OTHER_SEXES:
        raise ValueError(f"{quoted(text)} is not a sex. Write M, F, X, other or unknown, or leave the cell empty.")
    return _SEXES.get(folded, text)


_ICD = re.compile(
    r"[A-Z](?:[0-9][0-9A-Z]|[A-Z][0-9])(?:\.?[0-9A-Z]{1,4})?|[0-9]{3}(?:\.?[0-9]{1,2})?|V[0-9]{2}(?:\.?[0-9]{1,2})?|E[0-9]{3}(?:\.?[0-9])?"
)


def check_code(code: str) -> str:
    """An upper-case ICD-9 or ICD-10 code, with or without its dot. Raises ValueError if it does not have that form."""
    if not _ICD.fullmatch(code.rstrip(MARKS)):
        zeros = " A spreadsheet may have removed its zeros." if code.isdigit() else ""
        raise ValueError(f"{quoted(code)} is not an ICD-9 or ICD-10 code.{zeros}")
    return code


def quoted(cell: str) -> str:
    """A cell as quoted in a message, shortened to `SHOWN` characters."""
    return f"“{cell[:SHOWN]}{'…' * (len(cell) > SHOWN)}”"
