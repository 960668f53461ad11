"""The diseases of the synthetic hospital: ICD-10-CM codes in short wording, with drugs, tests, labs and phrases.

Codes are drawn from a long-tailed distribution, P(rank r) ∝ (r + 3)^−1.4 (Zipf–Mandelbrot): a few codes are common and
most have fewer than five patients. Ranks 1–36 are `common` in conditions.toml, then come the file's other codes, then
those of rare_codes.csv, which `rare_codes` looks up in the official code set.
"""

from __future__ import annotations

import csv
import random
import re
import tomllib
from bisect import bisect
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from pathlib import Path

FOLDER = Path(__file__).parent
ZIPF_OFFSET, ZIPF_EXPONENT = 3.0, 1.4
_LAB = re.compile(r"^(.*) ([\d.]+)-([\d.]+)(?: (.*))?$")
_PREFIXES = re.compile(r"^([A-Z]\d[\dA-Z.]*(?:,[A-Z]\d[\dA-Z.]*)*): (.*)$")
_CARE_LISTS = ("medications", "tests", "procedures", "labs", "symptoms", "findings", "plans")
_TAIL_REFUSED = re.compile(
    r"other|unspecified|infan|fetus|necrotizing enterocol|juvenile|neonat|newborn|prematurity|congenital|childbirth"
    r"|puerper|encounter|sequela|classified|multiple sites|remission|\bmale\b|[\[\]();]",
    re.IGNORECASE,
)
_SEXED = re.compile(r"female|male|prostat|ovar|uter|penis|scrot|testi|vagin|breast|vulv|cervix|pregnan", re.IGNORECASE)
_SIDE = re.compile(r", (left|right) (\w+)$")
_PLAIN_WORD = re.compile(r"[A-Z][a-z,]+(?:-[a-z]+)*$")
_PROPER = {
    "Addisonian",
    "Alexander",
    "Alpers",
    "Barth",
    "Brazilian",
    "Burkitt",
    "Castleman",
    "Duchenne",
    "Escherichia",
    "Evans",
    "Fanconi",
    "Hemophilus",
    "Hodgkin",
    "Kaposi",
    "Ogilvie",
    "Pseudomonas",
    "Staphylococcus",
    "Streptococcus",
    "Takotsubo",
}
_TAIL_LENGTH = 46  # characters; notes are short, so official descriptions in them must be short too


@dataclass(frozen=True)
class Lab:
    """A laboratory value: `low`–`high` is the range seen in the disease, in `unit`."""

    name: str
    low: float
    high: float
    decimals: int
    unit: str


@dataclass(frozen=True)
class Group:
    """A disease group: who gets it, which vital signs are abnormal, and its lines of conditions.toml about care."""

    name: str
    lines: dict[str, tuple[tuple[tuple[str, ...], str], ...]]  # list name → ((code prefixes, line), …)
    pressure: tuple[int, int] = (104, 148)  # systolic, mmHg
    febrile: bool = False
    breathless: bool = False
    sex: str | None = None
    min_age: int = 18
    max_age: int = 120

    def fitting(self, name: str, code: str) -> tuple[str, ...]:
        """The lines of the list `name` that apply to an ICD-10-CM code."""
        return tuple(line for prefixes, line in self.lines[name] if not prefixes or code.startswith(prefixes))


@dataclass(frozen=True)
class Care:
    """Drugs, procedures, symptoms and so on of patients with one code; phrases still have '~' and '[test:…]' marks."""

    medications: tuple[tuple[tuple[str, ...], str], ...]  # ((the drug with each possible dose), " twice daily")
    tests: tuple[str, ...]
    procedures: tuple[str, ...]
    labs: tuple[Lab, ...]
    symptoms: tuple[str, ...]
    findings: tuple[str, ...]
    plans: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Condition:
    """A billable ICD-10-CM code with the short wording that this hospital's clinicians use."""

    code: str
    wording: str
    group: Group

    @cached_property
    def care(self) -> Care:
        """The care for this code, read from its group on first use."""
        fitting = {name: self.group.fitting(name, self.code) for name in _CARE_LISTS}
        medications = tuple(_medication(line) for line in fitting.pop("medications"))
        labs = tuple(_lab(line) for line in fitting.pop("labs"))
        return Care(medications=medications, labs=labs, **fitting)


@dataclass(frozen=True)
class Catalogue:
    """Every condition in order of frequency, with the cumulative weights for drawing."""

    conditions: tuple[Condition, ...]
    cumulative: tuple[float, ...]

    @property
    def wordings(self) -> dict[str, str]:
        """Code → the words of its condition."""
        return {condition.code: condition.wording for condition in self.conditions}

    def draw(self, rng: random.Random, count: int, sex: str, age: int) -> list[Condition]:
        """`count` different conditions that a person of this sex and age can have, in the order drawn."""
        chosen: dict[str, Condition] = {}
        while len(chosen) < count:
            condition = self.conditions[bisect(self.cumulative, rng.random() * self.cumulative[-1])]
            group = condition.group
            if group.sex in (None, sex) and group.min_age <= age <= group.max_age:
                chosen[condition.code] = condition
        return list(chosen.values())


@cache
def catalogue() -> Catalogue:
    """Read conditions.toml and rare_codes.csv once (about 30 ms; the official code set is not loaded)."""
    groups, head = _read_conditions()
    conditions = list(head)
    with (FOLDER / "rare_codes.csv").open(newline="") as file:
        conditions += [Condition(row["code"], row["wording"], groups[row["group"]]) for row in csv.DictReader(file)]
    weights = [(rank + ZIPF_OFFSET) ** -ZIPF_EXPONENT for rank in range(1, len(conditions) + 1)]
    return Catalogue(tuple(conditions), tuple(accumulate(weights)))


def rare_codes() -> list[tuple[str, str, str]]:
    """(code, group, wording) of the tail: short billable descendants of the groups' categories, in shuffled order.

    Loads the official code set, which takes about a second. `write_rare_codes` stores the result next to this file.
    """
    import simple_icd_10_cm as icd

    _, head = _read_conditions()
    known_codes, known_wordings = {c.code for c in head}, {c.wording.lower() for c in head}
    found: dict[str, tuple[str, str, str]] = {}
    for name, entry in _source().items():
        for category in entry["tail"]:
            for code in icd.get_descendants(category):
                text = icd.get_description(code).replace(" without complication", "")
                if code in known_codes or not icd.is_leaf(code) or len(text) > _TAIL_LENGTH or not text.isascii():
                    continue
                if _TAIL_REFUSED.search(text) or ("sex" not in entry and _SEXED.search(text)):
                    continue
                wording = short_wording(text)
                if "," not in wording and wording.lower() not in known_wordings:
                    known_wordings.add(wording.lower())
                    found[code] = (code, name, wording)
    tail = sorted(found.values())
    random.Random(10).shuffle(tail)
    return tail


def short_wording(description: str) -> str:
    """'Scleritis, left eye' → 'scleritis of the left eye'; proper names keep their capital."""
    text = _SIDE.sub(r" of the \1 \2", description.removesuffix(", uncomplicated"))
    first = text.split()[0]
    proper = first.rstrip(",") in _PROPER or first.rstrip("s").endswith("'") or not _PLAIN_WORD.match(first)
    text = text if proper else text[0].lower() + text[1:]
    return f"bilateral {text.removesuffix(', bilateral')}" if text.endswith(", bilateral") else text


def write_rare_codes(path: Path = FOLDER / "rare_codes.csv") -> None:
    """Regenerate rare_codes.csv after a change of conditions.toml or of the code set's release.

    In the program's folder: `python -c "from core.corpus.synthetic import conditions as c; c.write_rare_codes()"`.
    """
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["code", "group", "wording"])
        writer.writerows(rare_codes())


def _source() -> dict[str, dict]:
    """The group tables of conditions.toml, without the list of common codes."""
    source = tomllib.loads((FOLDER / "conditions.toml").read_text(encoding="utf-8"))
    return {name: entry for name, entry in source.items() if name != "common"}


def _read_conditions() -> tuple[dict[str, Group], list[Condition]]:
    source = tomllib.loads((FOLDER / "conditions.toml").read_text(encoding="utf-8"))
    common = source.pop("common")
    groups = {name: _group(name, entry) for name, entry in source.items()}
    listed: dict[str, Condition] = {}
    for name, entry in source.items():
        for line in entry["codes"]:
            code, wording = line.split(", ", 1)
            listed[code] = Condition(code, wording, groups[name])
    others = [code for code in listed if code not in set(common)]
    random.Random(9).shuffle(others)
    return groups, [listed[code] for code in [*common, *others]]


def _group(name: str, entry: dict) -> Group:
    optional = ("febrile", "breathless", "sex", "min_age", "max_age")
    lines = {care: tuple(_line(text) for text in entry[care]) for care in _CARE_LISTS}
    pressure = tuple(entry.get("pressure", (104, 148)))
    return Group(name, lines, pressure, **{key: entry[key] for key in optional if key in entry})


def _line(text: str) -> tuple[tuple[str, ...], str]:
    """'E10,E11: low sugars' → (('E10', 'E11'), 'low sugars'); a line without codes applies to the whole group."""
    match = _PREFIXES.match(text)
    return (tuple(match.group(1).split(",")), match.group(2)) if match else ((), text)


def _medication(line: str) -> tuple[tuple[str, ...], str]:
    """'metformin 500|850 mg; twice daily' → (('metformin 500 mg', 'metformin 850 mg'), ' twice daily')."""
    drug, how = line.split("; ")
    doses = next(word for word in drug.split() if word[0].isdigit())
    return tuple(drug.replace(doses, dose) for dose in doses.split("|")), " " + how


def _lab(line: str) -> Lab:
    match = _LAB.match(line)
    if match is None:
        raise ValueError(f"conditions.toml: the laboratory value {line!r} is not written as 'name low-high unit'")
    name, low, high, unit = match.groups()
    return Lab(name, float(low), float(high), len(low.partition(".")[2]), f" {unit}" if unit else "")
