"""PHI by its shape alone, with no record to compare with: dates, numbers, e-mails, addresses, names after a cue.

Conservative on purpose: a name counts only after a cue ("Patient:", "Mr.") or before an identifier ("…, MRN"), and a
record number only after "MRN".
"""

from __future__ import annotations

import re

from faker.providers.address.en_US import Provider as Addresses

from core.phi.dates import full_dates
from core.phi.normalise import fold
from core.phi.spans import Span, without_overlaps

_NAME = r"(?:[A-Z]['’]|Mc|Mac)?[A-Z][a-z]+(?:['’-][A-Z][a-z]+)*"
_NO_NAME = (
    r"(?!(?:Date|Age|Sex|Phone|Record|Admission|Discharge|Born|Address|Email|Room|Ward|Visit|Clinic|Was|Is|Has|The)\b)"
)
_NAMES = rf"{_NAME}(?: (?:[A-Z]\.? )?{_NO_NAME}{_NAME}){{1,2}}"
_SUFFIXES = {*Addresses.street_suffixes, "Ave", "Blvd", "Ct", "Dr", "Ln", "Pl", "Rd", "Row", "St", "Way"}
_STREET = "|".join(sorted(_SUFFIXES))
_CUE = (
    r"(?:Patient(?: [Nn]ame)?|PATIENT(?: NAME)?|Pt|PT|Name|NAME|Re|RE|Subject|Regarding|Concerning|[Nn]amed|"
    r"[Nn]ote for|Mrs?|Ms|Miss)"
)
_IDENTIFIER = r"(?:MRN|DOB|SSN|born|date of birth)"

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("email", re.compile(r"(?<![\w.%+-])[A-Za-z0-9][\w.%+-]{0,63}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")),
    ("ssn", re.compile(r"(?<![\w./-])[0-9]{3} ?- ?[0-9]{2} ?- ?[0-9]{4}(?![\w/-])")),
    (
        "phone",
        re.compile(
            r"(?<![\w./-])(?:\+?1[ .-]?)?(?:\( ?[0-9]{3} ?\) ?|[0-9]{3} ?[.-] ?)[0-9]{3} ?[.-] ?[0-9]{4}(?![0-9/-])"
        ),
    ),
    (
        "mrn",
        re.compile(
            r"\b(?:MRN|[Mm]edical [Rr]ecord (?:[Nn]umber|[Nn]o\.?))[\s:#.-]{0,4}(?P<value>[0-9]{5,10})(?![\w-])"
        ),
    ),
    ("address", re.compile(rf"\b[0-9]{{1,6}}[ \t]+(?:[A-Z][A-Za-z.']+[ \t]+){{1,3}}(?:{_STREET})\b")),
    (
        "full_name",
        re.compile(
            rf"\b{_CUE}\b(?:[ \t]*[.:][ \t]*|[ \t]+)(?:your patient )?(?:(?:Mrs?|Ms|Miss)\.?[ \t]+)?"
            rf"(?P<value>{_NAMES}|{_NAME},[ \t]*{_NAME})"
        ),
    ),
    ("full_name", re.compile(rf"\b(?P<value>{_NAMES})(?=,? \(?{_IDENTIFIER}\b)")),
    ("full_name", re.compile(rf"\b(?:Mrs?|Ms|Miss)\.?[ \t]+(?P<value>{_NAME})(?![ \t]+[A-Z][a-z])")),
)


def find_shaped(text: str) -> list[Span]:
    """Spans of `text` that have the shape of PHI, in order and without overlaps; all are of the kind "invented".

    "Invented" says no more than that: the shape is PHI's, and no record was asked. `value` is the text itself.
    """
    found = [
        _span(text, *match.span("value" if "value" in match.groupdict() else 0), field)
        for field, shape in _SHAPES
        for match in shape.finditer(text)
    ]
    folded, offsets = fold(text)
    for start, end, _ in full_dates(folded):
        if offsets is not None:
            start, end = offsets[start], offsets[end - 1] + 1
        found.append(_span(text, start, end, "date_of_birth"))
    return without_overlaps(found, lambda span: ())


def _span(text: str, start: int, end: int, field: str) -> Span:
    return Span(start, end, field, text[start:end], "invented")
