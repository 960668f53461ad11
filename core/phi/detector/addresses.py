"""Postal addresses, in one line or in a block of lines, from several countries.

A block is a street line (“Allika 46”, “6750 Koskikatu 25”) with a flat or a postal code in one of the lines after it;
each of its lines is found up to the postal code. Marks of quoting before the lines (“> ”) do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from core.phi.detector.vocabulary import countries, is_first_name, words
from core.phi.spans import Place

CAPITALS = "A-ZÀ-ÖØ-ÞČĆĐŁŃŘŚŠŞŹŽŻΑ-ΩΆΈΉΊΌΎΏА-ЯЁ"
_WORD = rf"[{CAPITALS}][\w.'’-]{{0,30}}(?![\w'’-])"
_STREET = (
    r"(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Place|Pl|Way|Terrace|Square|Sq|Close|"
    r"Crescent|Parkway|Pkwy|Highway|Hwy|Circle|Row|Gate|Gardens?|Grove|Hill|Mews|Quay|Trail|Walk)"
)
# Words for a street at the end or the beginning of its name: German, Dutch, Nordic, Hungarian; Romance and Slavic.
_FOREIGN = (
    r"(?:\w{2,30}(?:straße|strasse|str\.|gasse|weg|platz|allee|straat|laan|plein|kade|vej|gade|allé|gatan|vägen|gata|"
    r"veien|katu|utca)|(?:[A-ZÀ-Þ][\w-]{2,30}[ \t]+(?:Straße|Strasse|Gasse|Weg|Platz|Allee))|"
    r"(?:Via|Viale|Corso|Piazza|Rua|Calle|Avenida|Av\.|Avda\.|Plaza|Paseo|Rue|Avenue|Chemin|Ulica|ul\.|"
    r"Rúa|Carretera|Estrada|Praça|Travessa|Largo|Strada|rue|avenue)"
    r"(?:[ \t]+(?:de|da|do|del|della|dei|delle|degli|dos|das|la|di|du|des|les|le))"
    rf"{{0,2}}(?:[ \t]+{_WORD}){{1,3}})"
)
_UNIT = r"(?:Apt|Apartment|Unit|Suite|Ste|Flat|Box|Rm|Room|P\.? ?O\.? Box)\.?[ \t]*#?[0-9]+[A-Z]?"
_MILITARY = r"(?:DPO|APO|FPO)[ \t]+A[APE][ \t]+[0-9]{5}"
_NUMBER = r"(?<![\w.-])[0-9]{1,6}[A-Z]?[ \t]+(?=(?:[0-9]+[ \t]+)?[A-ZÀ-Þ])"
_SHAPES = (
    re.compile(
        rf"{_NUMBER}(?:[A-ZÀ-Þ0-9][\w.'’-]{{0,30}}[ \t]+){{1,5}}{_UNIT}"
        rf"(?:[ \t]+(?:{_WORD}[ \t]+){{1,3}}[A-Z]{{2,3}}\b|,?[ \t]+{_UNIT})?"
        rf"(?:,[ \t]+{_WORD}(?:[ \t]+[\w.'’-]+){{0,3}},[ \t]+{_WORD}(?:[ \t]+[\w.'’()-]+){{0,3}}[ \t]+[0-9]{{4,6}}\b)?"
    ),
    re.compile(rf"{_NUMBER}(?:[A-ZÀ-Þ0-9][\w.'’-]{{0,30}}[ \t]+){{1,4}}{_STREET}\b\.?(?:,?[ \t]+{_UNIT})?"),
    re.compile(rf"(?<![\w.-])(?:[0-9]{{1,5}},?[ \t]+)?{_FOREIGN}[ \t]+[0-9]{{1,5}}[A-Za-z]?\b"),
    re.compile(rf"(?<![\w.-])[0-9]{{1,5}},?[ \t]+{_FOREIGN}"),
    re.compile(
        rf"\b(?:Unit[ \t]+[0-9]+[ \t]+Box[ \t]+[0-9]+(?:\s+{_MILITARY})?|"
        r"(?:Apt|Apartment|Suite|Ste)\.?[ \t]+#?[0-9]+[A-Z]?|P\.? ?O\.? Box[ \t]+[0-9]+)\b"
    ),
    re.compile(
        rf"\b(?:USS|USNS|USNV|USCGC|PSC[ \t]+[0-9]+,?)(?:[ \t]*+[^\n,]{{1,30}}[\s,]++|[\s,]++){_MILITARY}\b",
        re.IGNORECASE,
    ),
    re.compile(rf"\bUnit[ \t]+[0-9]+[ \t]+Box[ \t]+[0-9]+\s+{_MILITARY}\b", re.IGNORECASE),
    re.compile(
        r"\b(?:[Tt]he )?[Cc]orner of (?:[\w.'’-]+[ \t]+){1,4}and "
        rf"(?:{_WORD}|[0-9]+(?:st|nd|rd|th))(?:[ \t]+{_WORD}){{0,2}}"
    ),
    re.compile(
        r"\b(?:liv(?:es?|ing) (?:on|at)|address(?: of [\w ]{1,30}?)?(?: is|:)|located (?:on|at)|return to)[ \t]+"
        rf"(?P<value>{_WORD}(?:[ \t]+{_WORD}){{0,4}}[ \t]+[0-9]{{1,5}}\b|"
        rf"[0-9]{{1,5}}[ \t]+{_WORD}(?:[ \t]+{_WORD}){{0,3}})"
    ),
)
# Around a flat or box number, an address goes on as far as capitalised words and numbers do.
_STEP = r"(?:,?[ \t]+|,?[ \t]*\n[>?|*# \t]*,?[ \t]*)"
_SMALL = r"(?:de|dei|del|della|la|le|du|des|da|do|u\.|út|ul\.|rkp\.)"
_PART = rf"(?:[{CAPITALS}][\w'’-]{{0,30}}(?:\.(?=[ \t]))?|[0-9]{{1,6}}(?:st|nd|rd|th)?[A-Z]?|{_SMALL}(?!\w))"
_BEFORE_UNIT = re.compile(
    rf"(?<![\w.-])(?P<value>(?:{_PART},?[ \t]+){{0,6}}(?:{_PART},?|[0-9]{{1,3}}\.))[ \t]*(?:\n[>?|*# \t]*)?\Z"
)
_AFTER_UNIT = re.compile(
    rf"(?:{_STEP}{_UNIT})?(?:{_STEP}(?:{_PART}|\([A-Z][a-z]+\))){{1,8}}?{_STEP}"
    rf"(?:[0-9]{{4,6}}(?:-[0-9]{{4}})?|{'|'.join(sorted(map(re.escape, countries()), key=len, reverse=True))})(?![\w-])"
)
_TOWN_AFTER = re.compile(rf"(?:,?[ \t]+{_UNIT})?(?:,[ \t]+{_WORD}(?:[ \t]+{_WORD}){{0,2}}){{1,2}}")
_QUOTED = r"[>?|*#\s]*+"  # possessive: what follows never begins with one of these, and blanks may be many
# Two to six words that may touch: each is as long as it can be (atomic), since “AAAA…” has millions of other divisions.
_BEGUN = r"(?>[A-ZÀ-Þ0-9][\w.'’-]{0,30}(?=[A-ZÀ-Þ0-9 \t,]|\Z)[ \t]*)"
_TWO_BEGUN = r"(?=[A-ZÀ-Þ0-9][\w.'’ \t-]*?[A-ZÀ-Þ0-9])"
_FIRST = re.compile(
    rf"^{_QUOTED}(?P<value>(?:[0-9]{{1,6}}[ \t]+)?{_WORD}(?:[ \t]+[\w.'’-]+){{0,4}}[ \t]+[0-9]{{1,5}}[A-Za-z]?)[ \t]*\Z"
    rf"|(?<![\w.-])(?P<inside>[0-9]{{1,6}}[ \t]+{_TWO_BEGUN}{_BEGUN}{{1,6}}),?[ \t]*\Z"
)
_LINE = re.compile(rf"^{_QUOTED},?[ \t]*(?P<value>{_UNIT}|[^\W\d_][\w.'’ -]{{1,34}}),?[ \t]*\Z")
_CODE = re.compile(
    rf"^{_QUOTED},?[ \t]*(?P<value>(?:[^\W\d_][\w.'’-]{{0,30}},?[ \t]+){{0,4}}[0-9]{{4,6}}(?:-[0-9]{{4}})?)(?![\w-])"
)
_HEADING = re.compile(rf"{_QUOTED}(?P<value>(?:[0-9]{{1,3}}[ \t]+)?{_WORD}(?:[ \t]+(?:and|&|of|{_WORD})){{0,5}})[ \t]*")
_MOST_LINES = 6


def addresses(text: str) -> Iterator[Place]:
    """Addresses in `text`, as (start, end, "address"); places may overlap."""
    for shape in _SHAPES:
        for match in shape.finditer(text):
            yield *match.span("value" if "value" in match.groupdict() else 0), "address"
    for unit in re.finditer(rf"\b(?!R[mo]){_UNIT}", text):  # rooms are in hospitals
        start, end = _around(text, unit)
        if end - start > len(unit.group()):  # “Box 3” by itself is none
            yield start, end, "address"
            yield from _headings(text, start)
    yield from _blocks(text)


def _around(text: str, unit: re.Match[str]) -> tuple[int, int]:
    """A flat or box number with the street before it and the town and postal code after it."""
    start, end = unit.span()
    before = _BEFORE_UNIT.search(text, max(0, start - 120), start)
    if before is not None and re.search("[0-9]", before["value"]) and re.search(_WORD, before["value"]):
        start = before.start("value")
    after = _AFTER_UNIT.match(text, end, end + 160) or _TOWN_AFTER.match(text, end, end + 80)
    return start, end if after is None else after.end()


def _headings(text: str, start: int) -> Iterator[Place]:
    """The lines of capitalised words above an address that begins its line: who lives there, and a firm."""
    lines = text[max(0, start - 200) : start].split("\n")
    at = start - len(lines.pop())
    if not re.fullmatch(_QUOTED, text[at:start]):
        return
    found: list[Place] = []
    for line in reversed(lines[-4:]):
        at -= len(line) + 1
        heading = _HEADING.fullmatch(line)
        if heading is None or any(word.casefold() in words("no_heading") for word in heading["value"].split()):
            if line.strip(" >?|*#"):
                break
            continue
        found.append((at + heading.start("value"), at + heading.end("value"), "organisation"))
    for number, (first, last, _) in enumerate(reversed(found)):
        name = any(is_first_name(word) for word in text[first:last].split())
        yield first, last, "full_name" if number == 0 and name else "organisation"


def _blocks(text: str) -> Iterator[Place]:
    lines = [(match.start(), match.group()) for match in re.finditer(r"[^\n]+", text)]
    for number, (at, line) in enumerate(lines):
        if first := _FIRST.search(line):
            found = [first.span("value" if first["value"] is not None else "inside")]
            places = [(at + found[0][0], at + found[0][1])]
            unit = bool(re.search(_UNIT, line))
            for offset, next_line in lines[number + 1 : number + 1 + _MOST_LINES]:
                if code := _CODE.search(next_line):
                    places.append((offset + code.start("value"), offset + code.end("value")))
                    yield from ((start, end, "address") for start, end in places)
                    yield from _headings(text, places[0][0])
                    break
                between = _LINE.search(next_line)
                if between is None:
                    if next_line.strip(" >?|*#,"):
                        break
                    continue
                unit = unit or bool(re.match(_UNIT, between["value"]))
                places.append((offset + between.start("value"), offset + between.end("value")))
            else:
                if unit:
                    yield from ((start, end, "address") for start, end in places)
                    yield from _headings(text, places[0][0])
