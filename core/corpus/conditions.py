"""The diseases this hospital treats: ICD-10-CM codes in short wording, and per disease group its drugs, tests and phrases.

Codes are drawn with a long tail, P(rank r) ∝ (r + 3)^−1.2 (Zipf–Mandelbrot): a few codes are common and most are held
by fewer than five patients. Ranks 1–36 are `common` in conditions.toml, then come the file's other codes, then those of
rare_codes.csv, which `rare_codes` looks up in the official code set.
"""

from __future__ import annotations

import csv
import random
import re
import tomllib
from bisect import bisect
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

FOLDER = Path(__file__).parent
ZIPF_OFFSET, ZIPF_EXPONENT = 3.0, 1.2
_LAB = re.compile(r"^(.*) ([\d.]+)-([\d.]+)(?: (.*))?$")
_TAIL_REFUSED = re.compile(
    r"other|unspecified|infan|juvenile|neonat|newborn|prematurity|congenital|childbirth|puerper|encounter|sequela"
    r"|classified|multiple sites|remission|\bmale\b|[\[\]();]",
    re.IGNORECASE,
)
_SEXED = re.compile(r"female|male|prostat|ovar|uter|penis|scrot|testi|vagin|breast|vulv|cervix|pregnan", re.IGNORECASE)
_TAIL_LENGTH = 46  # characters; notes are short, so the official descriptions in them must be


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
    """A disease group: what its patients take, undergo, feel and show. Medications are (drug with dose, how taken)."""

    name: str
    medications: tuple[tuple[tuple[str, ...], str], ...]  # ((drug with each possible dose), " twice daily")
    tests: tuple[str, ...]
    procedures: tuple[str, ...]
    labs: tuple[Lab, ...]
    symptoms: tuple[str, ...]
    findings: tuple[str, ...]
    plans: tuple[str, ...]
    pressure: tuple[int, int] = (104, 148)  # systolic, mmHg
    febrile: bool = False
    breathless: bool = False
    sex: str | None = None
    min_age: int = 18
    max_age: int = 120


@dataclass(frozen=True)
class Condition:
    """A billable ICD-10-CM code with the short wording that clinicians of this hospital write."""

    code: str
    wording: str
    group: Group


@dataclass(frozen=True)
class Catalogue:
    """Every condition in order of frequency, with the cumulative weights of the draw."""

    conditions: tuple[Condition, ...]
    cumulative: tuple[float, ...]

    def draw(self, rng: random.Random, count: int, sex: str, age: int) -> list[Condition]:
        """`count` different conditions that a person of this sex and age can have, the most telling first as drawn."""
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

    Loads the official code set, which takes about a second. `write_rare_codes` keeps the result beside this file.
    """
    import simple_icd_10_cm as icd

    _, head = _read_conditions()
    known_codes, known_wordings = {c.code for c in head}, {c.wording.lower() for c in head}
    later_words = {word for code in icd.get_all_codes(True) for word in icd.get_description(code).split()[1:]}
    found: dict[str, tuple[str, str, str]] = {}
    for name, entry in _source().items():
        for category in entry["tail"]:
            for code in icd.get_descendants(category):
                text = icd.get_description(code).replace(" without complication", "").removesuffix(", uncomplicated")
                if code in known_codes or not icd.is_leaf(code) or len(text) > _TAIL_LENGTH or not text.isascii():
                    continue
                if _TAIL_REFUSED.search(text) or ("sex" not in entry and _SEXED.search(text)):
                    continue
                first = text.split()[0]
                proper = first in later_words or first.endswith("'s") or not first[1:].islower()
                wording = text if proper else text[0].lower() + text[1:]
                if wording.lower() not in known_wordings:
                    known_wordings.add(wording.lower())
                    found[code] = (code, name, wording)
    tail = sorted(found.values())
    random.Random(10).shuffle(tail)
    return tail


def write_rare_codes(path: Path = FOLDER / "rare_codes.csv") -> None:
    """Make rare_codes.csv again, after a change of conditions.toml or of the code set's release."""
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
    return Group(
        name=name,
        medications=tuple(_medication(line) for line in entry["medications"]),
        labs=tuple(_lab(line) for line in entry["labs"]),
        pressure=tuple(entry.get("pressure", (104, 148))),
        **{key: tuple(entry[key]) for key in ("tests", "procedures", "symptoms", "findings", "plans")},
        **{key: entry[key] for key in optional if key in entry},
    )


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
