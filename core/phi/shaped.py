"""PHI by its shape alone, without a record to compare with.

| field | shape |
|---|---|
| full_name, clinician | `core.phi.shaped_names` |
| date_of_birth, date | `core.phi.shaped_dates`: whole dates, parts of them, and which are a birthday |
| ssn, phone, mrn, number | digits in their usual groups, or after a word that names their type |
| email, url, ip | as defined by the standards |
| address, hospital | capitalised words before a street's suffix, a ZIP code, “Hospital”, “Clinic”, … |
| age | over 89 (HIPAA's limit) |

Recall and precision are measured, not assumed: `core.evaluation.detection.phi_detection`, docs/methods/phi.md.
"""

from __future__ import annotations

import ipaddress
import re

from faker.providers.address.en_US import Provider as Addresses

from core.phi.shaped_dates import dates
from core.phi.shaped_names import cued_names, names, word_list
from core.phi.spans import Span, without_overlaps

_SUFFIXES = {*Addresses.street_suffixes, "Ave", "Blvd", "Ct", "Dr", "Ln", "Pl", "Rd", "Row", "St", "Way"}
_STREET = "|".join(sorted(_SUFFIXES))
_STATE = "|".join(sorted({*Addresses.states_abbr, *Addresses.states}))
# Possessive: no part begins with a blank, and a row of blanks could be shared among them in many ways.
_NUMBER_IS = r"[ \t]*+(?:[Nn]umber|[Nn]o\.?|NO\.?|ID|[Ii]d|#)?[ \t]*+[:#=.]?[ \t]*+(?:is[ \t]++)?"
_HOSPITAL = (
    r"(?:Hospital|Medical Cent(?:er|re)|Clinic|Infirmary|Healthcare|Health System|Hospice|Nursing Home|"
    r"Rehab(?:ilitation)? Cent(?:er|re)|Rehab(?:ilitation)?|Surgery Cent(?:er|re))"
)
_NO_PLACE = word_list("no_place")  # “Pain Clinic” and “the Emergency Hospital” are not names of places

_SHAPES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("email", re.compile(r"(?<![\w.%+-])[A-Za-z0-9][\w.%+-]{0,63}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")),
    ("url", re.compile(r"\b(?:https?://|www\.)[^\s<>\"'“”)\]]*[^\s<>\"'“”)\].,;:]", re.IGNORECASE)),
    ("ssn", re.compile(r"(?<![\w./-])(?:[0-9]{3} ?- ?[0-9]{2}|[xX*]{3}-[xX*]{2}) ?- ?[0-9]{4}(?![\w/-])")),
    (
        "ssn",
        re.compile(rf"\b(?:SSN|SS|[Ss]ocial [Ss]ecurity){_NUMBER_IS}(?P<value>[0-9]{{3}} ?[0-9]{{2}} ?[0-9]{{4}})\b"),
    ),
    (
        "phone",
        re.compile(
            r"(?<![\w./-])(?:\+?1[ .-]?)?(?:\( ?[0-9]{3} ?\) ?|[0-9]{3} ?[.-] ?)[0-9]{3}(?: ?[.-] ?| )[0-9]{4}"
            r"(?![0-9/-])(?:,? ?(?:x|ext\.?) ?[0-9]{1,6}\b)?"
        ),
    ),
    ("phone", re.compile(r"(?<![\w+])\+[1-9][0-9]{0,2}(?:[ .-]?\(?[0-9]{1,4}\)?){2,5}(?![\w-])")),
    (
        "phone",
        re.compile(
            r"\b(?:[Pp]hone|PHONE|[Tt]el(?:ephone)?|TEL|[Cc]ell|[Mm]obile|[Ff]ax|FAX|[Pp]ager|[Bb]eeper|[Ee]xt(?:ension)?|"
            rf"[Cc]all(?:ed)?){_NUMBER_IS}(?:at[ \t]+)?"
            r"(?P<value>[0-9]{3}[ .-]?[0-9]{4}|[0-9]{10}|[0-9]{4,6})(?![\w/-])"
        ),
    ),
    (
        "mrn",
        re.compile(
            r"\b(?:MRN|MR ?#|[Rr]ecord(?: [Nn]umber| [Nn]o\.?)?|[Uu]nit (?:[Nn]o\.?|[Nn]umber)|"
            r"(?:[Pp]atient|PATIENT|Pt|PT|[Hh]ospital|[Cc]hart) (?:ID|[Nn]umber|[Nn]o\.?|#))"
            r"[\s:#.-]{0,4}(?P<value>[0-9]{5,10}|[0-9]{2,4}(?:-[0-9]{2,4}){1,3})(?![\w-])"
        ),
    ),
    (
        "number",
        re.compile(
            r"\b(?:[Aa]cc(?:oun)?t|ACCT|[Pp]olicy|[Mm]ember|[Ss]ubscriber|[Ii]nsurance|[Mm]edic(?:are|aid)|HICN|[Ll]icen[cs]e|"
            r"DL|DEA|NPI|[Ss]erial|VIN|[Pp]late|[Aa]ccession|[Ss]pecimen|[Ee]ncounter|[Cc]laim|[Cc]ertificate|[Pp]assport|"
            rf"[Cc]ase|[Gg]roup|[Dd]evice|[Ll]ot|[Rr]eference|[Vv]isit|[Oo]rder){_NUMBER_IS}"
            r"(?P<value>(?=(?:[A-Z-]*[0-9]){4})[A-Z0-9][A-Z0-9-]{3,24})(?![\w/])"
        ),
    ),
    (
        "address",
        re.compile(
            r"\b[0-9]{1,6}[A-Z]?[ \t]+(?:(?:[NSEW]|[NS][EW])\.?[ \t]+)?"
            rf"(?:(?:[A-Z][A-Za-z.']+|[0-9]+(?:st|nd|rd|th))[ \t]+){{1,3}}(?:{_STREET})\b"
            r"(?:\.?,?[ \t]+(?:Apt|Apartment|Unit|Suite|Ste|#)\.?[ \t]*[\w-]+)?"
            rf"(?:\.?,[ \t]*(?:[A-Z][a-z]+[ \t]?){{1,3}},?[ \t]+(?:{_STATE})(?:[ \t]+[0-9]{{5}}(?:-[0-9]{{4}})?)?)?"
        ),
    ),
    ("address", re.compile(rf"\b(?:[A-Z][a-z]+[ \t]?){{1,3}},[ \t]+(?:{_STATE})[ \t]+[0-9]{{5}}(?:-[0-9]{{4}})?\b")),
    ("address", re.compile(r"\b(?:P\.? ?O\.? Box|PO BOX)[ \t]+[0-9]+\b", re.IGNORECASE)),
    (
        "hospital",
        re.compile(
            rf"\b(?:[A-Z][\w.'’&-]{{0,40}}[ \t]+|of[ \t]+){{1,5}}{_HOSPITAL}\b(?:[ \t]+of(?:[ \t]+[A-Z][a-z]+){{1,3}})?"
        ),
    ),
    (
        "age",
        re.compile(
            r"\b(?P<value>9[0-9]|1[0-2][0-9])(?:[ -]?(?:years?|yrs?)[ -]?(?:old|of age)|[ -]?(?:y/?o|y\.o\.))(?![a-z])",
            re.IGNORECASE,
        ),
    ),
    ("age", re.compile(r"\b(?:[Aa]ged?|AGE)[ \t]*[:=]?[ \t]*(?P<value>9[0-9]|1[0-2][0-9])(?![\w/%-]|\.[0-9])")),
    ("ip", re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![\w.])")),
    ("ip", re.compile(r"(?<![\w:])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{1,4}(?![\w:])")),
)
_VERSION = re.compile(r"(?:\bv|version|release|section|§)[ .]*\Z", re.IGNORECASE)


def find_shaped(text: str, *, listed_names: bool = True) -> list[Span]:
    """Spans of `text` that have the shape of PHI, in order and without overlaps; all have the kind "invented".

    "Invented" only means that the shape is PHI's and no record was consulted. `value` is the text itself. `field` is
    one of `core.phi.fields.FIELDS` or clinician, date, hospital, age, url, ip, number. Without `listed_names`, a name
    needs a patient's cue ("Patient:", "Mr.", "…, MRN"), as for an attacker without a list of names.
    """
    places = [
        (*match.span("value" if "value" in match.groupdict() else 0), field)
        for field, shape in _SHAPES
        for match in shape.finditer(text)
    ]
    places = [(start, end, field) for start, end, field in places if _holds(text, start, end, field)]
    named = names(text) if listed_names else ((start, end, "full_name") for start, end in cued_names(text))
    places += [*named, *dates(text)]
    found = [Span(start, end, field, text[start:end], "invented") for start, end, field in places]
    return without_overlaps(found, lambda span: (span.field == "clinician",))


def _holds(text: str, start: int, end: int, field: str) -> bool:
    """Checks beyond the pattern: that an IP address is valid, and that a place has a name of its own."""
    if field == "ip":
        try:
            ipaddress.ip_address(text[start:end])
        except ValueError:
            return False
        return not _VERSION.search(text, max(0, start - 12), start)
    if field == "hospital":
        words = re.sub(_HOSPITAL + r"\Z", "", text[start:end]).replace("of ", " ").split()
        return any(word.casefold() not in _NO_PLACE for word in words)
    return True
