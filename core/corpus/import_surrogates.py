"""Surrogates for the placeholders of MIMIC-III notes (row L1): `[**Known lastname 658**]` → that patient's surname.

Every patient gets one made-up identity (`core.corpus.records`), unique in the cohort, that fills the placeholders which
stand for the patient. Placeholders for others (doctors, relatives) get names by their own number, so that one person
keeps one name. Dates in placeholders are surrogates already and stay. The same seed gives the same text.
"""

from __future__ import annotations

import random
import re

from faker.providers.address.en_US import Provider as Addresses
from faker.providers.person.en_US import Provider as People

from core.corpus.records import Registry

_PLACEHOLDER = re.compile(r"\[\*\*(.*?)\*\*\]", re.DOTALL)
_DATE = re.compile(r"[0-9]{1,4}(?:[-/][0-9]{1,4}){0,2}")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_HOSPITAL_KINDS = ("General Hospital", "Medical Center", "Memorial Hospital", "Community Hospital")
_FIRST = {"M": sorted(set(People.first_names_male)), "F": sorted(set(People.first_names_female))}
_LAST = sorted(set(People.last_names))
_STREETS = sorted(set(Addresses.street_suffixes))


class Surrogates:
    """Fills placeholders. `unknown` counts those of a kind that nothing stands for; they become `___`."""

    def __init__(self, seed: int, sexes: dict[str, str]) -> None:
        """`sexes`: F or M of every patient, by id; who comes first gets the first identity of their sex."""
        self.seed = seed
        self.unknown = 0
        self._fields = dict(zip(sexes, _identities(seed, list(sexes.values())), strict=True))

    def record(self, patient: str, born: str) -> dict[str, str | None]:
        """The direct identifiers of a patient; `born` is the date of birth that the data set gives."""
        fields = self._fields[patient]
        return {**fields, "date_of_birth": born or None}

    def fill(self, patient: str, text: str) -> str:
        """`text` with every placeholder filled."""
        return _PLACEHOLDER.sub(lambda match: self._surrogate(patient, " ".join(match.group(1).split())), text)

    def _surrogate(self, patient: str, inside: str) -> str:
        if _DATE.fullmatch(inside):
            return inside
        kind = inside.lower()
        own = self._fields[patient]
        first, _, last = own["full_name"].partition(" ")
        if "known" in kind or "patient" in kind:
            if "last" in kind:
                return last
            return first if "first" in kind else own["full_name"]
        rng = self._draw(patient, inside)
        for words, make in _KINDS:
            if any(word in kind for word in words):
                return make(rng, kind, own)
        self.unknown += 1
        return "___"

    def _draw(self, patient: str, inside: str) -> random.Random:
        """A placeholder with a number means the same thing everywhere, one without means it within its patient."""
        numbered = re.search(r" [0-9]{2,}$", inside) is not None
        return random.Random(f"{self.seed}/surrogate/{'' if numbered else patient}/{inside}")


def _identities(seed: int, sexes: list[str]) -> list[dict[str, str]]:
    """For every patient the next identity of their sex, in the registry's order."""
    registry = Registry(seed)
    waiting: dict[str, list[dict[str, str]]] = {"F": [], "M": []}
    number, found = 0, []
    for sex in sexes:
        while not waiting[sex]:
            person = registry.patient(number, "", "")
            fields = {name: person.fields[name] for name in ("full_name", "ssn", "mrn", "phone", "email", "address")}
            waiting[person.sex].append(fields)
            number += 1
        found.append(waiting[sex].pop(0))
    return found


def _first_name(rng: random.Random, kind: str) -> str:
    sex = "F" if "female" in kind else "M" if "male" in kind else rng.choice("FM")
    return rng.choice(_FIRST[sex])


def _name(rng: random.Random, kind: str, own: dict[str, str]) -> str:
    if "initial" in kind:
        return rng.choice("ABCDEFGHJKLMNPRSTW")
    if "first" in kind:
        return _first_name(rng, kind)
    return rng.choice(_LAST) if "last" in kind or "doctor" in kind else f"{_first_name(rng, kind)} {rng.choice(_LAST)}"


def _digits(rng: random.Random, count: int) -> str:
    return str(rng.randrange(10 ** (count - 1), 10**count))


# Longer and rarer words first: "Medical Record Number" before "Number".
_KINDS = (
    (("initial", "name", "attending", "dictator", "cc contact"), _name),
    (("ward", "unit name"), lambda rng, kind, own: f"{rng.choice(_LAST)} {rng.randrange(2, 12)}"),
    (("hospital",), lambda rng, kind, own: f"{rng.choice(_LAST)} {rng.choice(_HOSPITAL_KINDS)}"),
    (("telephone", "fax", "pager"), lambda rng, kind, own: f"({_digits(rng, 3)}) 555-{rng.randrange(10_000):04d}"),
    (("social security",), lambda rng, kind, own: own["ssn"]),
    (("medical record", "unit number"), lambda rng, kind, own: own["mrn"]),
    (("email", "e-mail"), lambda rng, kind, own: own["email"]),
    (("url",), lambda rng, kind, own: "www.example.org"),
    (("street", "apartment"), lambda rng, kind, own: own["address"]),
    (("state", "country", "location", "po box"), lambda rng, kind, own: f"{rng.choice(_LAST)}ville"),
    (("company", "university", "college"), lambda rng, kind, own: f"{rng.choice(_LAST)} & {rng.choice(_LAST)}"),
    (("age over",), lambda rng, kind, own: str(rng.randrange(90, 100))),
    (("month",), lambda rng, kind, own: rng.choice(_MONTHS)),
    (("year",), lambda rng, kind, own: str(rng.randrange(2100, 2200))),
    (("holiday",), lambda rng, kind, own: rng.choice(("Easter", "Thanksgiving", "New Year"))),
    (("day",), lambda rng, kind, own: str(rng.randrange(1, 29))),
    (
        ("number", "identifier", "license", "clip", "job", "serial", "md", "account"),
        lambda rng, kind, own: _digits(rng, 7),
    ),
)
