"""Surrogates for the placeholders of MIMIC-III notes (Lehman 2021, §3): `[**Known lastname 658**]` → a surname.

Every patient gets one fictional identity (`core.corpus.synthetic.records`), unique in the cohort. It fills only the
placeholders that stand for the patient: `Known firstname`, `Known lastname`, the medical record number and the social
security number. Every other kind (`KINDS`) gets a value of the same type from ranges that no patient's identity uses:
for example a surname that no patient has, or a telephone number with an area code that no patient has. A placeholder
with a number means the same in every note, so a doctor keeps the same name. Dates in placeholders are surrogates
already and stay. The same seed gives the same text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module

from faker.providers.address.en_US import Provider as Addresses
from faker.providers.person.en_US import Provider as People

from core.corpus.synthetic.records import Registry
from core.phi.dates import MONTHS

UNKNOWN = "___"  # replaces placeholders of a kind that has no surrogate, as in MIMIC-IV

_PLACEHOLDER = re.compile(r"\[\*\*((?:(?!\[\*\*).){0,200}?)\*\*\]", re.DOTALL)  # an unclosed one stays
_DATE = re.compile(r"[-/]?[0-9]{1,4}(?:[-/]{1,2}[0-9]{1,4}){0,2}[-/]?")  # "2151-7-16", "7-16", "2151", "7-/2151"
_NAMED_MONTHS = {month.lower() for month in MONTHS}
_DAY_OR_YEAR = re.compile(r"[0-9]{1,4}(?:st|nd|rd|th)?")
_HOSPITAL_KINDS = ("General Hospital", "Medical Center", "Memorial Hospital", "Community Hospital")
_WARDS = ("North", "South", "East", "West")
_UNITS = ("Cardiac Care Unit", "Medical Unit", "Surgical Unit", "Step-Down Unit", "Intensive Care Unit")
_STREETS = ("Cedar Avenue", "Elm Street", "Maple Drive", "Chestnut Lane", "Harbor Road", "Willow Court", "Park Street")
_COUNTRIES = ("Brazil", "Canada", "Ethiopia", "Greece", "India", "Ireland", "Poland", "Portugal", "Thailand", "Vietnam")
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FIRST = {"M": sorted(set(People.first_names_male)), "F": sorted(set(People.first_names_female))}
_LAST = sorted(set(People.last_names))  # for hospitals, places and companies, which are not mistaken for patients


class Surrogates:
    """Fills placeholders. `unknown` counts those of a kind without a surrogate, which become `UNKNOWN`."""

    def __init__(self, seed: int, sexes: dict[str, str]) -> None:
        """`sexes` is F or M of every patient by id; the first patient of each sex gets its first identity."""
        self.seed = seed
        self.unknown = 0
        self._fields = dict(zip(sexes, _identities(seed, list(sexes.values())), strict=True))

    def record(self, patient: str, born: str) -> dict[str, str | None]:
        """The direct identifiers that the notes may contain of a patient; `born` is the birth date in the data set."""
        return {**self._fields[patient], "date_of_birth": born or None}

    def fill(self, patient: str, text: str) -> str:
        """`text` with every placeholder filled."""
        return _PLACEHOLDER.sub(lambda match: self._surrogate(patient, " ".join(match.group(1).split())), text)

    def _surrogate(self, patient: str, inside: str) -> str:
        if _DATE.fullmatch(inside) or _names_a_month(inside):
            return inside.strip("-/").replace("-/", "/")
        kind = kind_of(inside)
        own = _OWN.get(kind)
        if own is not None:
            return own(self._fields[patient])
        make = KINDS.get(kind) or _date_maker(kind)
        if make is None:
            self.unknown += 1
            return UNKNOWN
        return make(self._draw(patient, inside), inside.lower())

    def _draw(self, patient: str, inside: str) -> random.Random:
        """Random draws for a placeholder: shared by all notes if it has a number, otherwise by its patient's notes."""
        numbered = re.search(r" [0-9]+$", inside) is not None
        return random.Random(f"{self.seed}/surrogate/{'' if numbered else patient}/{inside}")


def _names_a_month(inside: str) -> bool:
    """True for a date in words: "June 2151", "July 4th", "January/February 2151"."""
    words = [word for word in re.split(r"[\s,/-]+", inside.lower()) if word]
    named = [word in _NAMED_MONTHS for word in words]
    return any(named) and all(month or _DAY_OR_YEAR.fullmatch(word) for month, word in zip(named, words, strict=True))


def kind_of(inside: str) -> str:
    """The kind of a placeholder: its words in lower case, without numbers and without text in brackets.

    "First Name8 (NamePattern2) 12" → "first name"; "Telephone/Fax (1) 101" → "telephone/fax".
    """
    words = re.sub(r"\(.*?(?:\)|$)|[0-9]+", " ", inside.lower())
    return " ".join(words.split()).strip(" -/.,:#")


def _identities(seed: int, sexes: list[str]) -> list[dict[str, str]]:
    """For every patient the next identity of their sex, in the registry's order."""
    registry = Registry(seed)
    waiting: dict[str, list[dict[str, str]]] = {"F": [], "M": []}
    number, found = 0, []
    for sex in sexes:
        while not waiting[sex]:
            person = registry.patient(number, "", "")
            fields = {name: person.fields[name] for name in ("full_name", "ssn", "mrn")}
            waiting[person.sex].append(fields)
            number += 1
        found.append(waiting[sex].pop(0))
    return found


# Placeholders for the patient -----------------------------------------------------------------------------------------

_Own = Callable[[dict[str, str]], str]


def _own_kinds() -> dict[str, _Own]:
    """Only explicit kinds: “Known …” and “Patient …” names, and numbers that only the patient can have there.

    A street, a telephone number or an e-mail address may belong to a pharmacy or a relative, so it is never attributed
    to the patient.
    """
    found: dict[str, _Own] = {}
    for whose in ("known", "known patient", "patient", "known pt", "pt"):
        for space in ("", " "):
            found[f"{whose} first{space}name"] = lambda own: own["full_name"].partition(" ")[0]
            found[f"{whose} last{space}name"] = lambda own: own["full_name"].partition(" ")[2]
        found[f"{whose} name"] = found[f"{whose} full name"] = lambda own: own["full_name"]
    for kind in ("medical record number", "unit number", "pt id number", "patient id number"):
        found[kind] = lambda own: own["mrn"]  # "Unit No:" is the patient's number at the top of a discharge summary
    found["social security number"] = lambda own: own["ssn"]
    return found


_OWN = _own_kinds()


# Placeholders for anything else ---------------------------------------------------------------------------------------

_Make = Callable[[random.Random, str], str]  # (random draws, the placeholder's text in lower case) → text


@cache
def other_surnames() -> tuple[str, ...]:
    """Surnames that no patient, canary or reference of this app has (their registry draws from another list)."""
    taken = {name.casefold() for name in People.last_names} | {name.casefold() for name in People.first_names}
    lists = (import_module(f"faker.providers.person.{where}").Provider.last_names for where in ("en", "en_GB", "en_IE"))
    plain = {name for names in lists for name in names if re.fullmatch(r"[A-Z][a-z]{2,}", name)}
    return tuple(sorted(name for name in plain if name.casefold() not in taken))


def _first_name(rng: random.Random, inside: str) -> str:
    sex = "F" if "female" in inside else "M" if "male" in inside else rng.choice("FM")
    return rng.choice(_FIRST[sex])


def _last_name(rng: random.Random, inside: str) -> str:
    return rng.choice(other_surnames())


def _whole_name(rng: random.Random, inside: str) -> str:
    return f"{_first_name(rng, inside)} {_last_name(rng, inside)}"


def _number(rng: random.Random, inside: str) -> str:
    """A number of five digits, too few to be a medical record number or a telephone number."""
    return str(rng.randrange(10_000, 100_000))


def _telephone(rng: random.Random, inside: str) -> str:
    """A telephone number in an area code that is reserved (a 9 in the middle) and that no patient has."""
    return f"({rng.randrange(2, 10)}9{rng.randrange(10)}) 555-{rng.randrange(10_000):04d}"


def _year(rng: random.Random, inside: str) -> str:
    year = rng.randrange(2100, 2200)
    return f"{year % 100:02d}" if "2 digits" in inside else str(year)


def _day_range(rng: random.Random, inside: str) -> str:
    month, first = rng.randrange(1, 13), rng.randrange(1, 20)
    return f"{month}/{first}-{month}/{first + rng.randrange(1, 9)}"


def _street_address(rng: random.Random, inside: str) -> str:
    """An address with a house number above those of patients."""
    return f"{rng.randrange(10_000, 30_000)} {rng.choice(_STREETS)}"


def _date_maker(kind: str) -> _Make | None:
    """For "month/day/year", "day month", "year" and so on: any order, with slashes (numbers) or blanks (words)."""
    separator = "/" if "/" in kind else " "
    parts = kind.split(separator)
    if not parts or not set(parts) <= {"month", "day", "year"} or len(set(parts)) < len(parts):
        return None
    written = separator == " " or parts == ["month"]

    def make(rng: random.Random, inside: str) -> str:
        month = rng.randrange(12)
        values = {
            "month": MONTHS[month] if written else str(month + 1),
            "day": str(rng.randrange(1, 29)),
            "year": _year(rng, inside),
        }
        return separator.join(values[part] for part in parts)

    return make


_BY_MAKER: dict[_Make, tuple[str, ...]] = {
    _first_name: ("first name", "female first name", "male first name", "doctor first name", "firstname"),
    _last_name: ("last name", "doctor last name", "lastname"),
    _whole_name: (
        *("name", "doctor name", "attending info", "dictator info", "cc contact info", "contact info", "signature"),
    ),
    lambda rng, inside: rng.choice("ABCDEFGHJKLMNPRSTW"): ("initial", "initials", "name initial", "name initials"),
    lambda rng, inside: rng.choice(("Van", "De", "La", "Mac")): ("name prefix",),
    lambda rng, inside: f"{rng.choice(_LAST)} {rng.choice(_HOSPITAL_KINDS)}": ("hospital", "hospital name"),
    lambda rng, inside: f"{rng.randrange(2, 12)} {rng.choice(_WARDS)}": (
        *("hospital ward name", "hospital ward", "ward name", "wardname", "ward", "inpatient ward", "floor"),
    ),
    lambda rng, inside: f"{rng.choice(_UNITS)} {rng.randrange(2, 12)}": (
        *("hospital unit name", "hospital unit number", "hospital unit", "unit name", "dept", "department"),
    ),
    lambda rng, inside: f"{rng.choice(_LAST)}ville": (
        *("location", "city", "town", "village", "city/town/village", "county"),
    ),
    lambda rng, inside: rng.choice(Addresses.states): ("state",),
    lambda rng, inside: f"{rng.choice(Addresses.states)} {rng.randrange(10_000, 100_000)}": ("state/zipcode",),
    _number: (
        *("zipcode", "zip code", "zip", "number", "numeric identifier", "identifier", "id number", "job number"),
        *("clip number", "md number", "provider number", "serial number", "account number", "serial/unit number"),
        *("license number", "certificate number", "device number", "health plan number"),
    ),
    lambda rng, inside: rng.choice(_COUNTRIES): ("country",),
    _street_address: ("street address", "address"),
    lambda rng, inside: rng.choice(_STREETS): ("street name", "street"),
    lambda rng, inside: f"Apt. {rng.randrange(1, 99)}": ("apartment address", "apartment", "apartment number"),
    lambda rng, inside: f"P.O. Box {rng.randrange(100, 1_000)}": ("po box", "p.o. box"),
    lambda rng, inside: f"{rng.choice(_LAST)} University": ("university/college", "university", "college"),
    lambda rng, inside: f"{rng.choice(_LAST)} & {rng.choice(_LAST)}": ("company", "employer"),
    _telephone: (
        *("telephone/fax", "telephone", "phone", "phone number", "telephone number", "fax", "fax number"),
        *("pager number", "pager", "beeper number"),
    ),
    lambda rng, inside: f"office{rng.randrange(1_000, 10_000)}@example.org": ("e-mail address", "email address"),
    lambda rng, inside: "www.example.org": ("url", "web address"),
    lambda rng, inside: str(rng.randrange(90, 100)): ("age over",),
    _day_range: ("date range", "day range"),
    lambda rng, inside: rng.choice(("Easter", "Thanksgiving", "New Year")): ("holiday",),
    lambda rng, inside: rng.choice(_WEEKDAYS): ("weekday", "day of week", "day name"),
    lambda rng, inside: f"{rng.randrange(2100, 2200)}-{rng.randrange(1, 13)}-{rng.randrange(1, 29)}": ("date",),
}
KINDS: dict[str, _Make] = {kind: make for make, kinds in _BY_MAKER.items() for kind in kinds}
"""How a placeholder of each kind (`kind_of`) is filled, except the patient's own and parts of dates.

The kinds are those of NOTEEVENTS v1.4, of the de-identification software used for it (Neamatullah et al. 2008), and of
its earlier markers in MIMIC-II ("Wardname", "Known patient lastname").
"""
