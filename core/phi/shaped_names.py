"""Names by their shape: after a title or cue word, before an identifier, and pairs of words on lists of names.

The lists are Faker's American first and last names. The synthetic hospital draws from them too, so recall is also
measured on names that are on no list.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from faker.providers.person.en_US import Provider as People

from core.phi.mentions import words_again
from core.phi.spans import Place

_UP, _LOW = "[A-ZÀ-ÖØ-ÞČĆĐŁŃŘŚŠŞŹŽŻ]", "[a-zß-öø-ÿā-ſ]"
# At most eight parts: without a limit, “Ab-Ab-Ab-…” is read to its end from each of its parts.
_NAME = rf"(?:[A-Z]['’]|Mc|Mac)?{_UP}{_LOW}+(?:['’-]{_UP}{_LOW}+){{0,7}}"
_NO_NAME = (
    r"(?!(?:Date|Age|Sex|Phone|Record|Admission|Discharge|Born|Address|Email|Room|Ward|Visit|Clinic|Was|Is|Has|The)\b)"
)
_NAMES = rf"{_NAME}(?: (?:[A-Z]\.? )?{_NO_NAME}{_NAME}){{1,2}}"
_CUE = (
    r"(?:Patient(?: [Nn]ame)?|PATIENT(?: NAME)?|Pt|PT|Name|NAME|Re|RE|Subject|Regarding|Concerning|[Nn]amed|"
    r"[Nn]ote for|Mrs?|Ms|Miss)"
)
_IDENTIFIER = r"(?:MRN|DOB|SSN|born|date of birth)"
_CUED = (
    re.compile(
        rf"\b{_CUE}\b(?:[ \t]*[.:][ \t]*|[ \t]+)(?:your patient )?(?:(?:Mrs?|Ms|Miss)\.?[ \t]+)?"
        rf"(?P<value>{_NAMES}|{_NAME},[ \t]*{_NAME})"
    ),
    re.compile(rf"\b(?P<value>{_NAMES})(?=,? \(?{_IDENTIFIER}\b)"),
    re.compile(rf"\b(?:Mrs?|Ms|Miss)\.?[ \t]+(?P<value>{_NAME})(?![ \t]+[A-Z][a-z])"),
)

_RELATIVE = (
    r"(?:[Ww]ife|[Hh]usband|[Ss]pouse|[Pp]artner|[Ss]on|[Dd]aughter|[Mm]other|[Ff]ather|[Ss]ister|[Bb]rother|"
    r"[Nn]iece|[Nn]ephew|[Aa]unt|[Uu]ncle|[Ff]riend|[Nn]eighbou?r)"
)
_FURTHER = (
    re.compile(rf"\b(?:Mx\.?|[Mm]adam|[Ss]ir|[Dd]ear)[ \t]+(?P<value>{_NAMES}|{_NAME})"),
    re.compile(rf"\b{_RELATIVE},?[ \t]+(?P<value>{_NAME}(?: {_NO_NAME}{_NAME})?)(?![a-z])"),
    re.compile(r"\b(?:NAME|PATIENT|PT)[ \t]*:[ \t]*(?P<value>[A-Z][A-Z'’-]+,?(?:[ \t]+[A-Z]\.?)?[ \t]+[A-Z][A-Z'’-]+)"),
)
_CLINICIAN = (
    re.compile(
        rf"\b(?:(?:Drs?|DR|Prof)\.?|[Dd]octor|[Pp]rofessor|[Nn]urse)[ \t]+(?P<value>(?:[A-Z]\. ?)?{_NAMES}|{_NAME})"
    ),
    re.compile(rf"\b(?P<value>{_NAMES}),?[ \t]+(?=(?:M\.?D|D\.?O|R\.?N|N\.?P|P\.?A|Ph\.?D)\b)"),
)
_WORD = re.compile(rf"(?<![\w'’.@-])(?:{_NAME}|[A-Z]{{2,}}(?:['’-][A-Z]+)*)(?![\w@])")
_BETWEEN = re.compile(r"[ \t]+(?:[A-Z]\.?[ \t]+)?|[ \t]*\n[ \t]*")
_COMMA = re.compile(r",[ \t]*")


@cache
def word_list(name: str) -> frozenset[str]:
    """A list of shaped_words.toml, in lower case."""
    lists = tomllib.loads((Path(__file__).parent / "shaped_words.toml").read_text(encoding="utf-8"))
    return frozenset(word.casefold() for word in lists[name].split())


@cache
def _first_names() -> frozenset[str]:
    return frozenset(name.casefold() for name in People.first_names)


@cache
def _last_names() -> frozenset[str]:
    return frozenset(name.casefold() for name in People.last_names)


def cued_names(text: str) -> list[tuple[int, int]]:
    """(start, end) of names next to a cue or an identifier, which can be found without a list of names."""
    return [match.span("value") for shape in _CUED for match in shape.finditer(text)]


def names(text: str) -> Iterator[Place]:
    """Names of patients and others (`full_name`) and of clinicians (`clinician`); places may overlap."""
    for field, shapes in (("full_name", _FURTHER), ("clinician", _CLINICIAN)):
        for shape in shapes:
            for match in shape.finditer(text):
                yield *match.span("value"), field
    whole = [*cued_names(text), *_listed(text)]
    yield from ((start, end, "full_name") for start, end in whole)
    yield from ((start, end, "full_name") for start, end in _again(text, whole))


def _listed(text: str) -> Iterator[tuple[int, int]]:
    """Two consecutive words that form a name: “Maria Keller”, “MARIA B. KELLER”, “Keller, Maria”."""
    words = list(_WORD.finditer(text))
    for left, right in zip(words, words[1:], strict=False):
        gap = text[left.end() : right.start()]
        if _BETWEEN.fullmatch(gap):
            if _is_name(left.group(), right.group(), wrapped="\n" in gap):
                yield left.start(), right.end()
        elif _COMMA.fullmatch(gap) and _is_name_turned_round(left.group(), right.group()):
            yield left.start(), right.end()


def _again(text: str, whole: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Further mentions of a full name by one of its parts: “Maria also denies cough”."""
    parts = {part for start, end in whole for part in re.findall(_NAME, text[start:end]) if len(part) > 2}
    parts = {part for part in parts if part.casefold() not in word_list("ambiguous") | word_list("no_last_name")}
    yield from words_again(text, parts)


def _is_name(first: str, last: str, *, wrapped: bool) -> bool:
    """A listed first name before a listed last name, or before any mixed-case word that could be a last name."""
    if not is_listed(first, _first_names()) or last.casefold() in word_list("no_last_name"):
        return False
    if is_listed(last, _last_names()):
        return True
    return not (wrapped or first.isupper() or last.isupper() or first.casefold() in word_list("ambiguous"))


def _is_name_turned_round(last: str, first: str) -> bool:
    return is_listed(last, _last_names()) and is_listed(first, _first_names())


def is_listed(word: str, names_: frozenset[str]) -> bool:
    """Whether a word, or a part of a double name, is on a list of names in lower case."""
    whole = word.casefold().replace("’", "'")
    return whole in names_ or any(part in names_ for part in re.split("['-]", whole) if len(part) > 2)
