"""Telephone numbers as several countries write them, and postal codes.

A telephone number needs a word for it nearby (“phone”, “office”), or a form that other numbers seldom have: a trunk
prefix 0 and 9 to 12 digits, an area code in brackets, the international prefix 00, or the groups of North America.
A postal code by itself counts in the forms of the United States (ZIP+4), the United Kingdom and Canada; five digits
count after a word for them or beside a listed city.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.phi.detector.numbers import DATE
from core.phi.detector.vocabulary import cities
from core.phi.spans import Place

_PHONE = re.compile(r"(?<![\w.+/-])(?P<value>\(?\+?[0-9]{1,4}\)?(?:[ .-]?\(?[0-9]{1,5}\)?){1,5})(?![\w/-]|\.[0-9])")
_PHONE_CUE = re.compile(
    r"(?:phone|tel(?:ephone)?|mobile|cell|fax|pager|contact|call(?:ed)?(?: (?:me|us|her|him|them))?|ring|"
    r"reach(?:ed)?(?: \w+)?|answer(?:ing)?|dial|text|number)(?: (?:is|at|on|number|no\.?))*[ \t:]*(?:at|on)?[ \t:(]*\Z",
    re.IGNORECASE,
)
_PHONE_AFTER = re.compile(r"[ \t]*\(?(?:office|fax|mobile|cell|home|work|tel)\b", re.IGNORECASE)
_EXTENSION = r"(?:,?[ \t]?(?:x|ext\.?)[ \t]?[0-9]{1,6}\b)?"
_PHONE_SHAPES = (
    re.compile(rf"(?<![\w./+:-])\(?0[0-9]{{1,5}}\)?(?:[ /-][0-9]{{2,8}}){{1,4}}{_EXTENSION}(?![\w/-]|[.,:][0-9])"),
    re.compile(r"(?<![\w./+:-])0[1-9](?:\.[0-9]{2}){4}(?![\w/-]|[.,:][0-9])"),
    re.compile(r"(?<![\w./+:-])0[1-9][0-9]{8,9}(?![\w/-]|[.,:][0-9])"),
    re.compile(r"(?<![\w./+:-])00[1-9][0-9]{0,2}(?:[ .-]\(?[0-9]{1,8}\)?){2,5}(?![\w/-]|[.,:][0-9])"),
    re.compile(r"(?<![\w./+:-])\([0-9]{2,5}\)[ ]?[0-9]{3,5}(?:[ -]?[0-9]{2,5}){0,2}(?![\w/-]|[.,:][0-9])"),
    re.compile(
        r"(?<![\w./+:-])(?:(?:00)?1[ .-]?)?[2-9][0-9]{2}(?P<sep>[ .-]?)[2-9][0-9]{2}(?P=sep)[0-9]{4}"
        rf"{_EXTENSION}(?![\w/-]|[.,:][0-9])"
    ),
    re.compile(r"(?<![\w./+:-])1[38]00[ -][0-9]{3}[ -][0-9]{3}(?![\w/-]|[.,:][0-9])"),
)
_POST_CODE = re.compile(
    r"(?<![\w-])(?:[0-9]{5}-[0-9]{4}|(?:[A-PR-UWYZ][0-9][0-9A-HJKPSTUW]?|[A-PR-UWYZ][A-HK-Y][0-9][0-9ABEHMNPRVWXY]?)"
    r"[ ](?!1ST|2ND|3RD|[0-9]TH)[0-9][ABD-HJLNP-UW-Z]{2}|"
    r"[ABCEGHJ-NPRSTVXY][0-9][ABCEGHJ-NPRSTV-Z][ -]?[0-9][ABCEGHJ-NPRSTV-Z][0-9])(?![\w-])"
)
_POST_CODE_CUED = re.compile(
    r"\b(?:(?:zip|post|postal|area)(?:[ \t-]?code)|zip|PLZ|CAP)(?:[ \t]*(?:is|was|:|of|=|#)){0,2}[ \t]*"
    r"(?P<value>(?=[A-Z0-9 -]{0,8}[0-9])[A-Z0-9]{3,7}(?:[ -][A-Z0-9]{2,4})?)(?!\w)",
    re.IGNORECASE,
)
_CODE_OF = re.compile(
    r"\b(?:liv(?:es?|ing|ed)|resid(?:es?|ing|ed)|moved|from|located)[ \t]+(?:(?:in|at|to|near)[ \t]+)?"
    r"(?P<value>[0-9]{5})(?![\w/-]|[.,:][0-9])"
)
_CITY = r"(?P<city>[A-ZÀ-Þ][\w.'’-]+(?:[ \t]+[A-ZÀ-Þ][\w.'’-]+){0,2})"
_CODE_CITY = re.compile(rf"(?<![\w./-])[0-9]{{5}}[ \t]+{_CITY}")
# A word without a code after it is skipped as a whole: no later part of it has one, and “A.A.A.…” has many parts.
_CITY_CODE = re.compile(rf"(?<![\w'’-])(?:{_CITY},?[ \t]+[0-9]{{5}}(?![\w/-]|[.,:][0-9])|[A-ZÀ-Þ][\w.'’-]*+)")


def contacts(text: str) -> Iterator[Place]:
    """Telephone numbers and postal codes in `text`, as (start, end, "phone" or "address"); places may overlap."""
    yield from ((start, end, "phone") for start, end in _phones(text))
    for match in _POST_CODE.finditer(text):
        yield *match.span(), "address"
    for shape in (_POST_CODE_CUED, _CODE_OF):
        for match in shape.finditer(text):
            yield *match.span("value"), "address"
    for shape in (_CODE_CITY, _CITY_CODE):
        for match in shape.finditer(text):
            if match["city"] is not None and match["city"].rstrip(".,") in cities():
                yield *match.span(), "address"


def _phones(text: str) -> Iterator[tuple[int, int]]:
    for match in _PHONE.finditer(text):
        cued = _PHONE_CUE.search(text, max(0, match.start() - 40), match.start())
        if (cued or _PHONE_AFTER.match(text, match.end())) and _may_be_phone(match["value"], 7):
            yield match.span("value")
    for shape in _PHONE_SHAPES:
        for match in shape.finditer(text):
            if _may_be_phone(re.split("x|ext|,", match.group())[0], 8):
                yield match.span()


def _may_be_phone(written: str, fewest: int) -> bool:
    """Whether it has `fewest` to 15 digits (ITU-T E.164 allows no more), and is no date."""
    return fewest <= sum(character.isdigit() for character in written) <= 15 and not DATE.fullmatch(written)
