"""The obvious slow search: for every patient and value, every way to write it, looked for one after the other."""

from __future__ import annotations

import datetime
import re

W = "A-Za-z0-9"
GAP = r"[\s\-.()/]{0,3}"
LOOSE = rf"(?:[^{W}\n]{{1,4}}|[^{W}\n]{{0,2}}\n[^{W}\n]{{0,2}})"


def naive_search(text: str, patients) -> set[tuple[int, int, str, str]]:
    """(start, end, field, patient_id) of every value of every patient in ASCII-lettered `text`, overlaps included."""
    found = set()
    for row in patients.to_dict("records"):
        for field in (
            "full_name",
            "date_of_birth",
            "ssn",
            "mrn",
            "phone",
            "email",
            "address",
            "diagnosis",
            "medication",
            "procedure",
        ):
            for start, end in PLACES.get(field, _health)(text, row[field], field):
                found.add((start, end, field, row["patient_id"]))
    return found


def _regex(text, pattern):
    return [match.span("value") for match in re.finditer(f"(?=(?P<value>{pattern}))", text, re.I)]


def _name(text, value, _field):
    parts = value.split()
    split = 1 if "de la" in value else len(parts) - 1
    first, middle, last = parts[0], parts[1:split], parts[split:]
    orders = []
    for between in ([], middle, [name[0] for name in middle]):
        orders.append(([first, *between, *last], None))
        orders.append(([*last, first, *between], len(_pieces(last))))
    spans = set()
    for order, comma in orders:
        pieces = _pieces(order)
        pattern = re.escape(pieces[0])
        for number, piece in enumerate(pieces[1:], 1):
            initial = len(pieces[number - 1]) == 1
            gap = r"\s*,\s*" if number == comma else r"(?:\s+|\s?[-']\s?" + (r"|\.\s+)" if initial else ")")
            pattern += gap + re.escape(piece)
        spans.update(_regex(text, rf"(?<![{W}])(?<![{W}]['-]){pattern}(?![{W}]|-[{W}]|@|\s@\s?[\w-]+\s?\.\s?\w)"))
    return spans


def _pieces(words):
    return re.findall(rf"[{W}]+", " ".join(words))


def _date(text, value, _field):
    day = datetime.date.fromisoformat(value)
    long, short = day.strftime("%B"), day.strftime("%b")
    forms = set()
    for d in {f"{day.day:02d}", str(day.day)}:
        for m in {f"{day.month:02d}", str(day.month)}:
            for sep in "-/.":
                forms.add(f"{day.year}{sep}{m}{sep}{d}")
                forms.add(f"{m}{sep}{d}{sep}{day.year}")
                if day.day > 12:
                    forms.add(f"{d}{sep}{m}{sep}{day.year}")
        for month in (long, short):
            forms |= {f"{d} {month} {day.year}", f"{month} {d}, {day.year}", f"{d}-{month}-{day.year}"}
    spans = set()
    for form in forms:
        glued = r"(?<![A-Za-z])" if form[0].isalpha() else r"(?<![0-9])(?<![0-9][-/.])"
        spans.update(_regex(text, rf"{glued}{re.escape(form)}(?![-/.]?[0-9])"))
    return spans


def _number(text, value, field):
    core = re.split("x", value)[0]
    number = re.sub("[^0-9]", "", core)
    if field == "phone":
        number = number[-10:]
    return {span for span in _regex(text, GAP.join(number)) for span in [_whole(text, *span, value, field)] if span}


def _whole(text, start, end, value, field):
    inside, before, after = text[start:end], text[:start].lower(), text[end:].lower()
    groups = re.findall("[0-9]+", inside)
    single = all(len(group) == 1 for group in groups)
    if len(groups) > 4 and not single:
        return None
    cue = re.search(rf"(?:mrn|record|record number|record no)[^{W}]{{0,5}}\Z", before)
    if field == "mrn" and not cue and re.search(r"[^0-9-]|--", inside):
        return None
    country = field == "phone" and (
        re.search(r"(?<![0-9])(?<![0-9][-./:])\+?(?:00)?1[\s\-.]{0,2}\Z", before)
        or re.search(r"(?<![0-9])\+?(?:00)?1\s?\(\Z", before)
    )
    if not country:
        if re.search(r"[0-9][-./:_]?\Z", before) or (single and re.search(r"\b[0-9] \Z", before)):
            return None
        if re.search(rf"[{W}]\Z", before) and not re.search(r"\b(?:mrn|ssn|id|no|tel|phone|ph|fax)\Z", before):
            return None
    if re.match(r"[-./:_]?[0-9]", after) or (single and re.match(r" [0-9](?![0-9a-z_])", after)):
        return None
    if re.match("[a-z]", after) and not (field == "phone" and re.match("x|ext", after)):
        return None
    extension = re.search(r"x[0-9]+\Z", value)
    if extension and after.startswith(extension.group()):
        end += len(extension.group())
    if country:
        return start - len(country.group()), end
    opening = re.match("[^0-9]*", value).group().lower()
    if opening and before.endswith(opening):
        return start - len(opening), end
    return (start - 1 if before.endswith("(") else start), end


def _email(text, value, _field):
    return _regex(text, rf"(?<![\w.%+-]){re.escape(value)}(?![\w-]|\.[{W}])")


def _words(text, value):
    pattern = LOOSE.join(map(re.escape, _pieces([value])))
    closing = r"\)?" if value.endswith(")") else ""
    return _regex(text, rf"(?<![{W}]){pattern}(?![{W}]){closing}")


def _address(text, value, _field):
    return {*_words(text, value), *_words(text, value.split(" Apt.")[0])}


def _health(text, value, _field):
    return {*_words(text, value), *_words(text, re.sub(r"(\d) (mg|mcg)", r"\1\2", value))}


PLACES = {
    "full_name": _name,
    "date_of_birth": _date,
    "ssn": _number,
    "mrn": _number,
    "phone": _number,
    "email": _email,
    "address": _address,
}
