"""Institutions, cities and addresses, which are identifiers below the level of a state (45 CFR 164.514(b)(2)(i)(B)).

States and countries by themselves are not: they are found only as part of an address or after a city.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.phi.detector.addresses import CAPITALS, addresses
from core.phi.detector.vocabulary import cities, countries, is_medical, phrases, states, words
from core.phi.spans import Place

_CAP = (
    rf"(?:St\.|Mt\.|Ft\.|[{CAPITALS}][\w'’&]{{0,30}}(?:-[{CAPITALS}][\w'’]{{0,30}}){{0,3}}|"
    r"[0-9]{1,3}(?:st|nd|rd|th))(?![\w&])"
)
_SEQUENCE = rf"{_CAP}(?:[ \t]+(?:(?:of|and|for|&|at|the|de|la)[ \t]+){{0,2}}{_CAP}){{0,6}}"
_STATES = "|".join(sorted(map(re.escape, states()), key=len, reverse=True))
_MOVED = (  # somebody is or goes somewhere
    r"(?:seen|treated|(?:re)?admitted|evaluated|hospitali[sz]ed|diagnosed|operated(?: on)?|present(?:s|ed|ing)|came|"
    r"brought|discharged|transferred|referred|followed|managed|delivered|examined|assessed|consulted|screened|"
    r"enrolled|registered|scheduled|visit(?:s|ed|ing)?|attend(?:s|ed|ing)?|works?|working|worked|employed|volunteers?)"
)
_HAD = (  # something is done somewhere
    r"(?:care|surgery|procedure|dialysis|therapy|check-?up|follow-?up|appointment|stay|clinic|office|notes?|records?|"
    r"consultation|transplant|biopsy|chemotherapy|infusions?|treatment|imaging|scan|labs?|workup|inpatient|outpatient|"
    r"patient|pt|ward \w+|done|performed|received|started|initiated|student|teacher|resident)"
)
_ADVERBS = (
    r"(?:[ \t]+(?:today|yesterday|recently|last|initially|in|on|a|for|by|back|again|currently|previously|here)){0,2}"
)
_ARTICLES = r"(?:(?:the|our|a|her|his|their|local)[ \t]+){0,2}"
_KIND = r"(?:clinics?|hospital|office|centers?|centre|campus|branch|facility|site|practice|emergency room)"
_SEEN = re.compile(
    rf"\b(?:{_MOVED}{_ADVERBS}[ \t]*(?:at|@|to|from|in|via|by)|{_HAD}{_ADVERBS}[ \t]*(?:at|@)|visit(?:s|ed|ing)?)[ \t]+"
    rf"{_ARTICLES}(?P<value>{_SEQUENCE}(?:[ \t]+{_KIND})?)"
)
_OURS = re.compile(
    r"\b(?:our|the|their|her|his|my|a|at|to|in|from|@|visited)[ \t]+(?:the[ \t]+)?"
    rf"(?P<value>{_SEQUENCE}[ \t]+{_KIND})\b"
)
_LIVES = re.compile(
    r"\b(?:liv(?:es|ing|ed)|resid(?:es|ing|ed|ent)|moved|relocated|grew up|born|raised|native|based|located|"
    r"travell?(?:ed|ing)(?: back)?|residents?|home|commutes|stays)[ \t]+"
    rf"(?:(?:in|of|to|at|near|from|outside|around|the|downtown|on)[ \t]+){{1,3}}(?P<value>{_SEQUENCE})"
)
_TOWN = re.compile(
    r"\b(?:(?:moved|came|comes|hails?|drove|flew|returned|arrived|arrives)"
    r"(?:[ \t]+(?:here|there|back|over|in|all the way))?[ \t]+(?:from|to|at|in)|"
    r"(?:I['’]m|I am|[Ww]e['’]re|[Ww]e are)[ \t]+(?:now[ \t]+|currently[ \t]+)?in|"
    r"home[ \t]?(?:city|town)(?:[ \t]+(?:is|of|was))?|"
    r"(?:city|town|village|county|municipality|suburb)[ \t]+of|around the world to)"
    rf"[ \t:]+(?P<value>{_SEQUENCE})"
)
_EMPLOYER = re.compile(
    r"\b(?:work(?:s|ed|ing)?[ \t]+for|employ(?:ed|ee|er)(?:[ \t]+(?:by|of|at|is|:))|job[ \t]+(?:at|with)|hired[ \t]+by|"
    r"retired[ \t]+from|(?:CEO|founder|owner|manager|director|president)[ \t]+(?:of|at))[ \t]+(?:the[ \t]+)?"
    rf"(?P<value>{_SEQUENCE})"
)
_COMPANY = re.compile(
    rf"(?<![\w'’&-])(?P<value>(?:{_CAP}[ \t]+){{1,5}}(?:{'|'.join(sorted(phrases('company')))})(?![\w])\.?)"
)
_CITY_STATE = re.compile(
    rf"(?<![\w'’&-])(?P<city>{_CAP}(?:[ \t]+{_CAP}){{0,3}}),[ \t]*(?:{_STATES})\b"
    r"(?:[ \t]+[0-9]{5}(?:-[0-9]{4})?\b)?"
)
_NAMED = re.compile(rf"(?<![\w'’&-])(?P<value>{_CAP}(?:[ \t]+(?:(?:of|and|for|&|the)[ \t]+){{0,2}}{_CAP}){{0,5}})")
_SAINT = re.compile(r"\b(?:St\.?|Saint|Our Lady of)[ \t]+[A-Z][a-z]+(?:[ \t]+[A-Z][a-z]+)?['’]s\b")
_KNOWN = re.compile(rf"(?<![\w-])(?:{'|'.join(re.escape(name) for name in phrases('known_institution'))})(?![\w-])")
_CITY = re.compile(rf"(?<![\w'’&-]){_CAP}(?:[ \t]+{_CAP}){{0,3}}")
_IN = re.compile(
    r"\b(?:in|from|at|to|near|of|our|the|outside|around|for|visiting|toward|between|and)[ \t]+"
    r"(?:(?:downtown|central|north|south|east|west|greater)[ \t]+)?\Z|,[ \t]+\Z",
    re.IGNORECASE,
)


def places(text: str) -> Iterator[Place]:
    """Institutions (`hospital`), cities (`place`) and addresses in `text`, as (start, end, field); may overlap."""
    for match in _SEEN.finditer(text):
        yield from _institution(text, *match.span("value"), cued=True)
    for match in _OURS.finditer(text):
        yield from _institution(text, *match.span("value"), cued=True)
    for match in _NAMED.finditer(text):
        yield from _institution(text, *match.span("value"), cued=False)
    for match in _SAINT.finditer(text):
        yield *match.span(), "hospital"
    for match in _KNOWN.finditer(text):
        if match.group().casefold() not in words("not_alone"):
            yield *match.span(), "hospital"
    for match in _LIVES.finditer(text):
        yield from _city(text, *match.span("value"))
    for match in _TOWN.finditer(text):
        if not any(word.strip(".,").casefold() in words("no_institution") for word in match["value"].split()):
            yield from _city(text, *match.span("value"))
    yield from _organisations(text)
    for match in _CITY_STATE.finditer(text):
        if match["city"].casefold() not in words("no_institution"):
            yield *match.span(), "place"
    yield from _listed_cities(text)
    yield from addresses(text)


def _organisations(text: str) -> Iterator[Place]:
    """Employers, and companies by the end of their name."""
    for match in _EMPLOYER.finditer(text):
        start, end = _trimmed(text, *match.span("value"))
        found = text[start:end].split()
        if found and not any(is_medical(word) or word.casefold() in words("no_institution") for word in found):
            yield start, end, "organisation"
    for match in _COMPANY.finditer(text):
        found = match["value"].split()
        if not any(is_medical(word) or word.casefold() in words("no_institution") for word in found[:-1]):
            yield *match.span("value"), "organisation"


def _institution(text: str, start: int, end: int, *, cued: bool) -> Iterator[Place]:
    """The capitalised words [start, end) if they name an institution; `cued` if a verb of care stands before them."""
    start, end = _trimmed(text, start, end)
    found = [word.strip(".,") for word in text[start:end].split()]
    plain = [word.casefold() for word in found]
    if not found or text[start:end] in states() | countries() or all(map(is_medical, found)):
        return
    parts = words("institution")
    part = any(word in parts for word in plain[1:])
    own = any(
        name[0].isupper() and word not in parts | words("no_institution")
        for name, word in zip(found, plain, strict=True)
    )
    if (own or (part and plain[0] not in words("no_institution"))) and (part or cued):
        yield start, end, "hospital"


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Without months at the end (“Bellevue on May 3”), titles after it, and articles at the beginning."""
    found = [(start + word.start(), start + word.end(), word.group()) for word in re.finditer(r"\S+", text[start:end])]
    while found and found[0][2] in ("The", "A", "An", "Our", "In", "At"):
        found.pop(0)
    for number, (_, _, word) in enumerate(found):
        if word.strip(".,").casefold() in words("time") or word.strip(".,") in ("Dr", "Mr", "Mrs", "Ms", "Prof"):
            found = found[:number]
            break
    while found and found[-1][2] in ("of", "and", "for", "&", "at", "the", "de", "la"):
        found.pop()
    return (found[0][0], found[-1][1]) if found else (start, start)


def _city(text: str, start: int, end: int) -> Iterator[Place]:
    start, end = _trimmed(text, start, end)
    name = text[start:end]
    if (
        name
        and name not in states() | countries()
        and not all(word.casefold() in words("no_institution") for word in name.split())
    ):
        yield start, end, "place"


def _listed_cities(text: str) -> Iterator[Place]:
    """Listed cities after a preposition or a comma, or before a lower-case “clinic”."""
    for match in _CITY.finditer(text):
        found = list(re.finditer(r"\S+", match.group()))
        if not _IN.search(text, max(0, match.start() - 24), match.start()):
            continue
        for length in range(len(found), 0, -1):
            end = match.start() + found[length - 1].end()
            if text[match.start() : end].rstrip(".,") in cities():
                yield match.start(), end, "place"
                break
