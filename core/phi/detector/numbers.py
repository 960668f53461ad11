"""Numbers that identify: record, plan, account and card numbers, with letters too.

A value after a word for a record (“MRN: B-987654”, “record #UP-231500JR”) needs four digits in all. A code without such
a word needs letters and at least five digits, and the common codes of medicine that have this form are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.phi.spans import Place

_IS = (
    r"(?:[ \t]*(?:[Nn]umbers?|[Nn]o\.?|NO\.?|[Nn]r\.?|ID|[Ii]d|[Cc]ode|#))?"
    r"(?:[ \t]*(?:[:=#]|is\b|was\b|of\b)){0,3}[ \t]*\(?"
)
_VALUE = r"#?(?P<value>(?=(?:[A-Za-z/_.-]{0,8}[0-9]){4})[A-Za-z0-9]+(?:[-/_.][A-Za-z0-9]+){0,6})(?![\w@])"
_RECORD = re.compile(
    r"\b(?:MRN|MR|EMR|EHR|PMR|URN|UMRN|CRN|(?:[Mm]edical |[Hh]ealth )?[Rr]ecords?|[Cc]harts?|[Uu]nit|NHS|CHI|"
    r"(?:[Pp]atient|PATIENT|[Pp]t|PT|[Hh]ospital|[Cc]linic|[Ff]ile|[Cc]hart)[ \t]*"
    rf"(?:ID|[Ii]d|[Nn]umber|[Nn]o\.?|#|[Ii]dentifier)){_IS}{_VALUE}"
)
_OTHER = re.compile(
    r"\b(?:[Ii]ns(?:urance)?(?: [Pp]lan| [Pp]olicy)?|(?:[Hh]ealth )?[Pp]lan|[Pp]olicy|[Mm]ember|[Bb]eneficiary|"
    r"[Ss]ubscriber|[Mm]edic(?:are|aid)|MBI|HICN|[Cc]laims?|[Aa]cc(?:oun)?t|ACCT|[Ll]icen[cs]e|[Pp]assport|DEA|NPI|"
    r"[Cc]ertificate|[Cc]ase|[Rr]ef(?:erence|\.)?|[Ee]ncounter|[Vv]isit|[Aa]ccession|[Ss]pecimen|[Dd]evice|"
    rf"VIN|[Pp]late|[Cc]ard|[Ii]dentifier|ID|HMO|PPO|[Cc]onfirmation|[Tt]icket|[Oo]rder){_IS}{_VALUE}"
)
_CODE = re.compile(
    r"(?<![\w@/.-])#?(?P<value>[A-Z]{1,6}[-_]?[0-9]{5,12}(?:-?[A-Z0-9]{1,6})?|[0-9]{5,10}-[A-Z]{1,5})(?![\w-])"
)
_HASH = re.compile(r"(?<![\w&])#(?P<value>(?=(?:[A-Z-]*[0-9]){5})[A-Z0-9]+(?:-[A-Z0-9]+)*)(?![\w-])")
_NO_CODE = re.compile(
    r"(?:NCT|PMID|PMC|ISRCTN|ISBN|DOI|CPT|ICD|NDC|SCT|LOINC|RXCUI|HGNC|UMLS|CAS|ATC|RS|JAMA|GSE)", re.IGNORECASE
)
DATE = re.compile(r"(?:\d{1,2}[-/.]){2}\d{2,4}|\d{4}(?:[-/.]\d{1,2}){2}")
_CARD = re.compile(r"(?<![\w.-])(?:[0-9][ -]?){12,18}[0-9](?![\w-])")
_IBAN = re.compile(r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")


def numbers(text: str) -> Iterator[Place]:
    """Identifying numbers in `text`, as (start, end, field); places may overlap."""
    for field, shape in (("mrn", _RECORD), ("number", _OTHER)):
        for match in shape.finditer(text):
            if not DATE.fullmatch(match["value"]):
                yield *match.span("value"), field
    for shape in (_CODE, _HASH):
        for match in shape.finditer(text):
            if not _NO_CODE.match(match["value"]):
                yield *match.span("value"), "number"
    for match in _CARD.finditer(text):
        if _luhn(match.group()):
            yield *match.span(), "number"
    for match in _IBAN.finditer(text):
        if _iban(match.group()):
            yield *match.span(), "number"


def _luhn(written: str) -> bool:
    """Luhn's check digit (ISO/IEC 7812-1), which one in ten other numbers has too."""
    digits = [int(character) for character in written if character.isdigit()][::-1]
    return sum(digits[::2]) % 10 == -sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2]) % 10


def _iban(written: str) -> bool:
    """The check digits of an IBAN (ISO 13616): 1 modulo 97."""
    plain = written.replace(" ", "")
    return len(plain) >= 15 and int("".join(str(int(character, 36)) for character in plain[4:] + plain[:4])) % 97 == 1
