"""Names of people in clinical writing: with titles, shortened to an initial, or after a description of the patient.

| found | example |
|---|---|
| a title with what follows it | “Dr. Alice S.”, “Mr K”, “Ms. Angela Quill” |
| a listed first name before initials | “Robert H.”, “John Q. Public”, “pt is John D seen” |
| initials before a listed last name | “J. Smith”, “A.B. Jones” |
| last names in a row | “Monjeau, Graves and Reed” |
| any capitalised name after a description | “a 68-year-old man, Xavier Quon”, “pts name Bob W.” |

The title belongs to the found place: a scrubber that leaves “Dr.” leaves nothing of the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import takewhile

from core.phi.detector.vocabulary import cities, countries, is_first_name, is_last_name, is_medical, states, words
from core.phi.mentions import mentions, words_again
from core.phi.spans import Place

_UP, _LOW = "A-ZÀ-ÖØ-ÞČĆĐŁŃŘŚŠŞŹŽŻ", "a-zß-öø-ÿā-ž"
NAME = (
    r"(?:(?:[A-Z]['’]|Mc|Mac|De|Di|La|Le|Van|Von)?"
    rf"[{_UP}][{_LOW}]{{1,30}}(?:['’-][{_UP}][{_LOW}]{{1,30}}){{0,3}}(?![{_LOW}]))"
)
_PARTICLE = r"(?:(?:de|del|della|der|den|di|da|dos|la|le|van|von|bin|al|el|ten|ter)[ \t]+)"
_INITIAL = rf"(?:[{_UP}]\.?(?![{_UP}{_LOW}0-9]))"
_MORE = rf"(?:[ \t]+{_PARTICLE}{{0,2}}(?:{_INITIAL}|{NAME}))"
_CLINICAL = r"(?:Dr|DR|Drs|Prof|Doctor|Professor|Nurse|Sister)"
_CIVIL = r"(?:Mr|Mrs|Ms|Miss|Mx|Mister|Madam|Sir|Rev|Fr|MR|MRS|MS)"
_TITLED = re.compile(
    rf"\b(?P<title>{_CLINICAL}|{_CIVIL})(?:\.[ \t]*|[ \t]+)(?:{_CLINICAL}\.?[ \t]+)?"
    rf"(?P<name>(?:{_INITIAL}[ \t]*){{0,2}}{_PARTICLE}{{0,2}}(?:{NAME}|[{_UP}](?:\.|\b)){_MORE}{{0,3}})"
)
_ABBREVIATED = re.compile(
    rf"(?<![\w.@'’-])(?P<first>{NAME})[ \t]+(?P<initials>(?:[{_UP}]\.?[ \t]?){{0,1}}[{_UP}]\.?)(?![\w'’-])"
    rf"(?P<last>[ \t]+{NAME})?"
)
_INITIALS_FIRST = re.compile(rf"(?<![\w.@'’-])(?:[{_UP}]\.[ \t]?){{1,2}}(?P<last>{_PARTICLE}?{NAME})(?![\w@])")
_LAST_INITIAL = re.compile(rf"(?<![\w.@'’-])(?P<last>{NAME}),[ \t]?[{_UP}]\.(?![\w])")
_PAIR = re.compile(rf"(?<![\w.@'’-])(?P<one>{NAME})(?P<comma>,)?[ \t]+(?P<two>{NAME})(?![\w@])")
_DESCRIBED = re.compile(
    rf"\b(?:{'|'.join(sorted(words('described')))})(?:'s|’s)?[,:]?[ \t]+(?:(?:is|was|named|called|name)[ \t:]+){{0,2}}"
    rf"(?P<name>(?:{NAME}{_MORE}{{1,3}}))"
)
_LIKE = re.compile(
    r"\b(?:[Nn]amed?(?: is|:)?|[Cc]all(?:ed|s)|[Ss]igned(?: by)?|(?:[Rr]eferred|[Mm]anaged|[Ss]een) by|[Pp]er|attn\.?|"
    r"[Cc]ase of|[Ll]ike|[Ss]imilar to|cc:?|CC:?|c/o|[Rr]e:|[Aa]ttending:?|[Ss]poke (?:to|with)|[Dd]iscussed with)"
    rf"[ \t]+(?P<name>{NAME}{_MORE}{{1,3}})"
)
_SPEAKS = re.compile(
    rf"(?<![\w.@'’-])(?P<name>{NAME}(?:[ \t]+{NAME})?)[ \t]+"
    r"(?=(?:said|says|shouted|told|asked|replied|explained|lives|works|phoned|emailed|agreed|complained)\b)"
)
_ROW = re.compile(
    rf"(?<![\w.@'’-])(?P<names>{NAME}(?:,[ \t]+{NAME}){{0,5}},?[ \t]+(?:and|&)[ \t]+{NAME})(?![\w@’'-]|[ \t]+{NAME})"
)
_CALLED = re.compile(
    r"\b(?:my|his|her|their|patient['’]?s|pt['’]?s) (?:full |real |maiden |first |last )?name(?: is|:)[ \t]+"
    r"(?P<name>[^\W\d_]{2,30}(?:[ \t]+[^\W\d_]{2,30}){0,2})|\b(?:calls?|called|call) (?:me|him|her)[ \t]+"
    r"(?P<nickname>[^\W\d_]{3,30})",
    re.IGNORECASE,
)
_RELATED = re.compile(
    r"\b(?:[Mm]y|[Hh]is|[Hh]er|[Tt]heir|[Oo]ur|pt['’]?s|patient['’]?s)[ \t]+"
    rf"(?:{'|'.join(sorted(words('relation')))}),?[ \t]+"
    rf"(?P<name>{NAME})(?![\w@’'-])"
)
_JOINED = re.compile(rf"(?:,[ \t]+(?:and[ \t]+)?|[ \t]+(?:and|&)[ \t]+)(?P<name>{NAME}(?:[ \t]+{NAME})?)(?![\w'’-])")
_CREDENTIAL = re.compile(
    rf"\b(?P<name>(?:{_INITIAL}[ \t]*)?{NAME}{_MORE}{{0,2}}),?[ \t]+"
    r"(?=(?:M\.?D|D\.?O|R\.?N|N\.?P|P\.?A(?:-C)?|Ph\.?D|LCSW|DPT|PharmD|MBBS|FRCP)\b)"
)
_ALONE = re.compile(rf"(?<![\w.@'’-])(?P<first>{NAME})(?![\w@’'-]|[ \t]+{NAME})(?![ \t]+[{_UP}]{{2}})")
_NO_PERSONS = words("no_institution") | words("institution") | words("described")
_NO_NAME = _NO_PERSONS | words("no_person")
_OTHER = words("no_first_name") | {"mrs", "miss", "prof", "doctor", "nurse", "professor", "sister"}
_GENUS = re.compile(r"[A-Z]\.[ \t]?(?:[Cc]oli|[Aa]ureus|[Dd]ifficile|[Dd]iff|[Pp]ylori|[Bb]urgdorferi|[Ff]aecalis)")


def people(text: str) -> Iterator[Place]:
    """Names in `text`, as (start, end, "full_name" or "clinician"); places may overlap."""
    for match in _TITLED.finditer(text):
        yield match.start(), _end(match), "clinician" if re.match(_CLINICAL, match["title"]) else "full_name"
    for match in _ABBREVIATED.finditer(text):
        if is_first_name(match["first"]) and _plausible(match["first"]):
            end = match.end("initials") if match["last"] is None or not _plausible(match["last"]) else match.end()
            yield match.start(), end, "full_name"
    for match in _INITIALS_FIRST.finditer(text):
        if is_last_name(match["last"].split()[-1]) and not _GENUS.match(match.group()):
            yield *match.span(), "full_name"
    for match in _LAST_INITIAL.finditer(text):
        if is_last_name(match["last"]) and _plausible(match["last"]):
            yield *match.span(), "full_name"
    for match in _PAIR.finditer(text):
        first, last = (match["two"], match["one"]) if match["comma"] else (match["one"], match["two"])
        listed = is_first_name(first) and is_last_name(last)
        if listed and _plausible(first) and _plausible(last) and not _eponym(text, match.end()):
            yield *match.span(), "full_name"
    for match in _ALONE.finditer(text):
        name = match["first"]
        if len(name) > 3 and is_first_name(name) and _plausible(name) and not _eponym(text, match.end()):
            yield *match.span(), "full_name"
    yield from _rows(text)
    for match in _CALLED.finditer(text):
        part = "nickname" if match["name"] is None else "name"
        end = match.start(part)
        for word in takewhile(lambda word: _is_listed(word.group()), re.finditer(r"\S+", match[part])):
            end = match.start(part) + word.end()
        if end > match.start(part):
            yield match.start(part), end, "full_name"
    for match in _RELATED.finditer(text):
        if _plausible(match["name"]) and not is_medical(match["name"]):
            yield *match.span("name"), "full_name"
    for shape in (_DESCRIBED, _LIKE, _SPEAKS, _CREDENTIAL):
        for match in shape.finditer(text):
            name = match["name"].split()
            if all(_plausible(word) for word in name) and not _eponym(text, match.end("name")):
                field = "clinician" if shape is _CREDENTIAL else "full_name"
                yield *match.span("name"), field


def _rows(text: str) -> Iterator[Place]:
    """Last names in a row, “Monjeau, Graves and Reed”: people, or a firm that is called after them, as one place.

    At least one of two, or two of more, must be listed and be no ordinary word; no other may be one of medicine.
    """
    for match in _ROW.finditer(text):
        row = re.findall(NAME, match["names"])
        telling = [name for name in row if _is_listed(name) and name.casefold() not in words("ordinary_last_name")]
        other = any(name in cities() | states() | countries() or name.casefold() in _NO_PERSONS for name in row)
        if len(telling) >= len(row) // 2 and not other and not _eponym(text, match.end()):
            yield *match.span(), "full_name"


def _is_listed(word: str) -> bool:
    return _plausible(word) and (is_first_name(word) or is_last_name(word))


def _plausible(word: str) -> bool:
    plain = word.strip(" .,")
    return len(plain) == 1 or plain.casefold() not in _NO_NAME


def _eponym(text: str, end: int) -> bool:
    """Whether what ends here gives its name to a disease, a sign or a score: “Wilson's disease”."""
    after = re.match(r"(?:['’]s?)?[ \t]+(\w+)", text[end : end + 40])
    return bool(after and after.group(1).casefold() in words("eponym_of"))


def _end(match: re.Match[str]) -> int:
    """The end of a titled name, without words that name no person: “Dr. Smith Cardiology”."""
    at = match.start("name")
    end = at
    for number, word in enumerate(re.finditer(r"\S+", match["name"])):
        if number and not _plausible(word.group()):
            break
        end = at + word.end()
    return end


def again(text: str, found: Iterable[Place]) -> Iterator[Place]:
    """Further mentions of found names by one of their parts: “Maria Keller … Keller denies chest pain”."""
    found = list(dict.fromkeys(found))
    seen: set[int] = set()  # ends of names from which a list was followed: each list is read once
    for _, end, field in found:
        if field == "full_name":
            yield from _listed_with(text, end, seen)
    whole = {text[start:end]: field for start, end, field in found if field in ("full_name", "organisation")}
    ends: dict[str, int] = {}  # of each name's last mention: the next one begins after it
    for start, end in mentions(text, (name for name in whole if len(name.split()) > 1)):
        if start >= ends.get(name := text[start:end], 0):
            ends[name] = end
            yield start, end, whole[name]
    parts: dict[str, str] = {}
    for start, end, field in found:
        if field in ("full_name", "clinician"):
            parts.update((part, field) for part in re.findall(NAME, text[start:end]) if len(part) > 2)
    parts = {part: field for part, field in parts.items() if _plausible(part) and part.casefold() not in _OTHER}
    for start, end in words_again(text, parts):
        if not _eponym(text, end):
            yield start, end, parts[text[start:end]]


def _listed_with(text: str, end: int, seen: set[int]) -> Iterator[Place]:
    """Names in one list with the name that ends here: “Monjeau, Graves and Reed”, as far as they were not `seen`."""
    while end not in seen and (match := _JOINED.match(text, end)):
        seen.add(end)
        name = match["name"].split()
        known = any(is_first_name(word) or is_last_name(word) for word in name)
        if not known or not all(map(_plausible, name)) or _eponym(text, match.end()):
            return
        yield *match.span("name"), "full_name"
        end = match.end()
