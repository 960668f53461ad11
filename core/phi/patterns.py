"""The forms in which a patient's value is searched for, and the check whether a candidate really is that value.

`forms(field, value)` gives the value's identity (two patients with the same identity share the value) and its search
patterns in the views of `core.phi.normalise`. `judge(field, …)` checks the folded text around a candidate.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from core.phi.dates import full_dates
from core.phi.fields import DIRECT, HEALTH
from core.phi.normalise import DATE_WIDTH, FoldedText, digits, fold, words

SEARCHED: tuple[str, ...] = (*DIRECT, *HEALTH)  # 10 fields; physical ones identify nobody
_NUMBERS = ("ssn", "phone", "mrn")
_FEWEST_DIGITS = 6  # a shorter number counts only with the word "MRN" before it

_TITLES = {"mr", "mrs", "ms", "miss", "dr", "prof", "sir", "mx"}
_SUFFIXES = {"jr", "sr", "ii", "iii", "iv", "md", "phd", "dds", "dvm", "rn"}
_PARTICLES = {"de", "del", "della", "der", "den", "di", "da", "la", "le", "van", "von", "bin", "al", "el", "st"}
_LETTERS_BESIDE = re.compile(r"[^\W\d_][0-9]|[0-9][^\W\d_]")
_LONGEST_PHONE = 15  # digits (ITU-T E.164)
_PHONE = re.compile(r"(?:\+?1[\s.-]?)?\(?[0-9]{3}\)?[\s.-]?[0-9]{3}[\s.-]?[0-9]{4}(?!\S)")  # ten digits
_FEWEST_BESIDE = 4  # digits of a number that counts with the letters beside them
_FLAT_ALONE = re.compile(
    r"(?:apt|apartment|flat|suite|ste|unit|room|rm|floor|fl|#)[.:]?\s*(?:#\s*)?[^\W_]{1,5}"
    r"|[0-9]{1,3}(?:st|nd|rd|th)?\s+(?:floor|fl)\.?"
)
_AROUND_MAIL = re.compile(r"[<>()\[\],;:\"]")
_MAIL = re.compile(r"(?<![^\s<>()\[\],;:\"])[^\s<>()\[\],;:\"@]+@[^\s<>()\[\],;:\"@]+")
_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_UNIT = re.compile(r"(?<=[0-9])\s+(?=(?:mg|mcg|g|ml|units?)\b)")
_STREET_UNIT = re.compile(r"\b(?:apt|suite|unit|ste)\b.*$")


class Form(NamedTuple):
    """A search pattern; `comma_before` is the number of the word that a comma must precede ("Keller, Maria"), or 0."""

    pattern: str
    comma_before: int = 0


def forms(field: str, value: str) -> tuple[str, list[Form]]:
    """The identity of `value` and its forms; there are no forms if the value is too short to identify anybody."""
    if field == "full_name":
        return _name_forms(value)
    if field == "date_of_birth":
        dates = full_dates(fold(value)[0])
        return (dates[0][2], [Form(f"@{dates[0][2]}\n")]) if dates else ("", [])
    if field in _NUMBERS:
        return _number_forms(field, value)
    if field == "address":
        return _address_forms(value)
    value = mail_alone(value) if field == "email" else value
    found = words(value)
    patterns = [Form(_as_words(found))] if found and (field != "email" or "@" in value) else []
    if field == "medication" and _UNIT.search(value.lower()):
        patterns.append(Form(_as_words(words(_UNIT.sub("", value.lower())))))
    return " ".join(found) if field != "email" else "".join(fold(value)[0].split()), patterns


def mail_alone(cell: str) -> str:
    """The e-mail address of “Maria Keller <maria@example.org>” or “mailto:maria@example.org”."""
    found = _MAIL.search(cell) if _AROUND_MAIL.search(cell) else None
    return found.group() if found else cell


def _as_words(found: list[str]) -> str:
    return f" {' '.join(found)} "


def _name_forms(value: str) -> tuple[str, list[Form]]:
    """First [middle] last and "Last, First [middle]", each also without the middle names or with their initials."""
    as_written = words(value)
    bracketed = bool(_BRACKETS.search(value))  # “Maria (Mia) Keller”, “Maria Keller (née Schmidt)”
    if bracketed and len(words(_BRACKETS.sub(" ", value))) > 1:
        value = _BRACKETS.sub(" ", value)
    head, comma, tail = value.partition(",")
    turned = bool(comma and words(tail) and words(tail)[0] not in _SUFFIXES)
    if turned:
        value = f"{tail} {head}"  # the record itself has "Keller, Maria"
    parts = [words(part) for part in value.split()]
    parts = [part for part in parts if part]
    while parts and parts[0][0] in _TITLES:
        parts.pop(0)
    while parts and parts[-1][0] in _SUFFIXES:
        parts.pop()
    if len(parts) < 2:  # one word is not a full name
        return "", []
    split = len(parts) - 1
    while split > 1 and parts[split - 1][0] in _PARTICLES:
        split -= 1
    first, middle, last = parts[0], parts[1:split], sum(parts[split:], [])
    initials = [part[0][0] for part in middle]
    middles = {tuple(sum(middle, [])), tuple(initials), ()}
    found = []
    for between in sorted(middles):
        found.append(Form(_as_words([*first, *between, *last])))
        found.append(Form(_as_words([*last, *first, *between]), comma_before=len(last)))
    if turned:  # "García Márquez, Gabriel": all that is before the comma is the last name
        found.append(Form(_as_words([*words(head), *words(tail)]), comma_before=len(words(head))))
    if bracketed:
        found.append(Form(_as_words(as_written)))
    return " ".join([*first, *sum(middle, []), *last]), list(dict.fromkeys(found))


def _number_forms(field: str, value: str) -> tuple[str, list[Form]]:
    if field == "phone":
        value = without_extension(value)
    number = digits(value)
    if field == "phone" and len(number) > 10:
        number = re.sub(r"^(?:00)?1(?=[0-9]{10}$)", "", number)
    parts = re.split(r"[^0-9\s().+-]+", value)
    if field == "phone" and len(number) > _LONGEST_PHONE and not _PHONE.sub("", value).strip():
        parts = _PHONE.findall(value)  # with only blanks between
    if field == "phone" and len(number) > _LONGEST_PHONE and len(parts) > 1:  # several in one cell
        several = [one for one in (_number_forms(field, part) for part in parts) if one[1]]
        return several[0][0] if several else "", list(dict.fromkeys(form for _, found in several for form in found))
    if field != "phone" and _LETTERS_BESIDE.search(fold(value)[0]):
        return _lettered_forms(field, number, words(value))
    if len(number) >= _FEWEST_DIGITS:
        return number, [Form(number)]
    return (number, [Form(f" mrn {number} ")]) if number and field == "mrn" else ("", [])


def without_extension(phone: str) -> str:
    """A telephone number in lower case, up to an “x” or “ext” after its digits."""
    return re.split(r"(?<=[0-9])[^0-9]*?x", phone.lower())[0]


def _lettered_forms(field: str, number: str, written: list[str]) -> tuple[str, list[Form]]:
    """A number with letters beside its digits, “M884213” or “12A4567”: as it is written, and its digits if together."""
    whole = "".join(written)
    together = number in whole
    found = [Form(number)] if together and len(number) >= _FEWEST_DIGITS else []
    if len(whole) >= _FEWEST_DIGITS and len(number) >= _FEWEST_BESIDE:
        found.append(Form(_as_words(written)))
    if field == "mrn" and len(number) < _FEWEST_DIGITS:
        found += [Form(_as_words(["mrn", *rest])) for rest in ([[number]] if together else []) + [written]]
    return (number if together else whole), found


def street_line(address: str) -> str:
    """The line of an address that says the street: the first one (up to a comma or line end) that is no flat alone."""
    lines = [line.strip() for line in re.split(r"[\n,]", address.strip())]
    return next((line for line in lines if not _FLAT_ALONE.fullmatch(fold(line)[0])), "")


def _address_forms(value: str) -> tuple[str, list[Form]]:
    """The street line, also without the flat number; it must contain a house number."""
    street = fold(street_line(value))[0]
    lines = {_as_words(words(line)) for line in (street, _STREET_UNIT.sub("", street)) if len(words(line)) > 1}
    lines = {line for line in lines if any(character.isdigit() for character in line)}
    return " ".join(words(street)), [Form(line) for line in sorted(lines)]


_LOOSE_GAP = re.compile(r"[^\n]{0,4}|[^\n]{0,2}\n[^\n]{0,2}")
_EMAIL_BEFORE = re.compile(r"[\w.%+-]\Z")
_EMAIL_AFTER = re.compile(r"[\w-]|\.[^\W_]")


def judge(field: str, text: FoldedText, start: int, end: int, stored: str, comma_before: int) -> tuple[int, int] | None:
    """Folded span of the value that searchable[start:end] is a candidate for, or None if the text rules it out.

    `stored` is the folded value of the record, `comma_before` that of the form (see `Form`).
    """
    if end > text.digits_end:
        date = text.dates[(start - text.digits_end) // DATE_WIDTH]
        return date[0], date[1]
    if field in _NUMBERS and end > text.words_end:
        return _judge_number(field, text, start, end, stored)
    if end > text.words_end or (field in _NUMBERS and text.searchable[start] != " "):
        return None
    spans = text.word_spans(start, end)
    first, last = spans[0][0], spans[-1][1]
    gaps = [text.folded[left[1] : right[0]] for left, right in zip(spans, spans[1:], strict=False)]
    if field == "full_name":
        return (first, last) if _is_name(text.folded, spans, gaps, comma_before, stored) else None
    if field == "email":
        same = "".join(text.folded[first:last].split()) == "".join(mail_alone(stored).split())
        glued = _EMAIL_BEFORE.search(text.folded, max(0, first - 1), first) or _EMAIL_AFTER.match(text.folded, last)
        return (first, last) if same and not glued else None
    if not all(_LOOSE_GAP.fullmatch(gap) for gap in gaps):
        return None
    return first, last + len(_closing(stored, text.folded, last))


def _closing(stored: str, folded: str, end: int) -> str:
    """A closing bracket at the end of the value belongs to it: "Diabetes (type 2)"."""
    return ")" if stored.endswith(")") and folded[end : end + 1] == ")" else ""


_NAME_GAP = re.compile(r"\s+|\s?[-']\s?")
_AFTER_INITIAL = re.compile(r"\.?\s+")
_COMMA_GAP = re.compile(r"\s*,\s*")
_GLUED_BEFORE = re.compile(r"[^\W_]['-]\Z")
_GLUED_AFTER = re.compile(r"-[^\W_]|@|\s@\s?[\w-]+\s?\.\s?\w")  # “kim @ bedside” is not an address


def _is_name(folded: str, spans: list[tuple[int, int]], gaps: list[str], comma_before: int, stored: str) -> bool:
    for number, gap in enumerate(gaps, 1):
        initial = spans[number - 1][1] - spans[number - 1][0] == 1
        allowed = _COMMA_GAP if number == comma_before else (_AFTER_INITIAL if initial and "." in gap else _NAME_GAP)
        if not allowed.fullmatch(gap) and not _in_record(folded[spans[number - 1][0] : spans[number][1]], stored):
            return False
    before = _GLUED_BEFORE.search(folded, max(0, spans[0][0] - 2), spans[0][0])
    return not before and not _GLUED_AFTER.match(folded, spans[-1][1])


def _in_record(pair: str, stored: str) -> bool:
    """Whether the record writes these two words with just these marks between: “St. Clair”, “J.R.”, “(Mia) Keller”."""
    pair, stored = (" ".join(one.split()) for one in (pair, stored))
    return re.search(rf"(?<!\w){re.escape(pair)}(?!\w)", stored) is not None


_CUE_GLUED = re.compile(r"(?:\b|_)(?:mrn|ssn|id|no|tel|phone|ph|fax|cell|mobile)\Z")
_MRN_CUE = re.compile(r"(?:mrn|record(?: number| no)?)[^a-z0-9]{0,5}\Z")
_RUNS_ON_BEFORE = re.compile(r"[0-9][-./:_]?\Z|\b[0-9] \Z")
_COUNTRY_CODE = re.compile(r"(?<![0-9])(?<![0-9][-./:])\+?(?:00)?1[\s\-.]{0,2}\Z|(?<![0-9])\+?(?:00)?1\s?\(\Z")
_RUNS_ON_AFTER = re.compile(r"[-./:_]?[0-9]")
_EXTENSION = re.compile(r"\s?(?:x|ext)")
_SINGLE_DIGITS = re.compile(r"[0-9](?:[^0-9]+[0-9])*")
_MOST_GAPS = 3  # between the digits of a number, unless its record has more
_GAPS = re.compile(r"[^0-9]+")


def _judge_number(field: str, text: FoldedText, start: int, end: int, stored: str) -> tuple[int, int] | None:
    """A number counts only as a whole: not inside a longer run of digits, nor assembled from a row of readings."""
    first, last = text.digit_span(start, end)
    folded = text.folded
    inside = folded[first:last]
    gaps = _GAPS.findall(inside)
    spaced_out = bool(_SINGLE_DIGITS.fullmatch(inside))  # "5 1 4 - 2 2": separate digits, as some decoders write them
    if len(gaps) > _MOST_GAPS and len(gaps) > _gaps_in(field, stored) and not spaced_out:
        return None
    before = folded[max(0, first - 16) : first]
    if field == "mrn" and any(gap != "-" for gap in gaps) and not _MRN_CUE.search(before):
        return None
    country = _COUNTRY_CODE.search(before) if field == "phone" else None
    if not country:
        runs_on = _RUNS_ON_BEFORE.search(before)
        if runs_on and (spaced_out or not runs_on.group().endswith(" ")):
            return None
        if before[-1:].isalpha() and not _CUE_GLUED.search(before):
            return None
    if _RUNS_ON_AFTER.match(folded, last) or (spaced_out and re.match(r" [0-9]\b", folded[last : last + 3])):
        return None
    if folded[last : last + 1].isalpha() and not (field == "phone" and _EXTENSION.match(folded, last)):
        return None
    extension = re.search(r"\s?(?:x|ext).*$", stored) if field == "phone" else None
    if extension and folded.startswith(extension.group(), last):
        last += len(extension.group())
    return _with_opening(folded, first, stored, country), last


def _gaps_in(field: str, stored: str) -> int:
    """How many gaps the record has between the groups of its number's digits: “01 23 45 67 89” has four."""
    number = without_extension(stored) if field == "phone" else stored
    return len(re.findall(r"[0-9]+", number)) - 1


def _with_opening(folded: str, first: int, stored: str, country: re.Match[str] | None) -> int:
    """Extend the span to the beginning of the written value: its country code, bracket or letters ("MRN-")."""
    if country:
        return first - len(country.group())
    opening = re.split(r"[0-9]", stored, maxsplit=1)[0]
    if opening and folded.endswith(opening, 0, first):
        return first - len(opening)
    bracket = folded[max(0, first - 1) : first] == "("
    return first - 1 if bracket else first
