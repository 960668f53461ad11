"""Every searchable value of every patient in one Aho–Corasick automaton, which finds all of them in one pass.

Matching does not use splits: members' and held-out patients' values are found by exactly the same rules, and only the
label that `core.phi.leaks` gives a match differs. This is what makes the held-out share a control.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import ahocorasick
import pandas as pd

from core.phi.fields import HEALTH
from core.phi.normalise import FoldedText, fold
from core.phi.patterns import SEARCHED, Form, forms, judge
from core.phi.spans import without_overlaps


class Value(NamedTuple):
    """One value as written in the records, and the patients who have it (row numbers of the patients frame)."""

    field: str
    stored: str
    folded: str
    holders: tuple[int, ...]


@dataclass(frozen=True)
class Match:
    """Characters [start, end) of a text that are these values (several if patients' values look the same)."""

    start: int
    end: int
    values: tuple[int, ...]


class PhiIndex:
    """The patients' values, searchable. Build it once for each cohort; it is read-only afterwards and safe to share."""

    def __init__(
        self,
        patient_ids: list[str],
        splits: list[str],
        members: list[bool],
        values: list[Value],
        automaton: ahocorasick.Automaton,
        longest: int,
    ) -> None:
        self.patient_ids = patient_ids
        self.splits = splits
        self.members = members  # trained on: members, and inserted canary patients
        self.values = values
        self.longest = longest  # characters of the longest value
        self._automaton = automaton
        self._split_of = dict(zip(patient_ids, splits, strict=True))
        self._member_of = dict(zip(patient_ids, members, strict=True))

    @classmethod
    def build(cls, patients: pd.DataFrame, inserted: Collection[str] | None = None, *, apart: bool = False) -> PhiIndex:
        """Index every searchable value (7 direct identifiers, 3 health details) of every patient.

        Args:
            patients: columns patient_id, split and any of the PHI fields; empty values are skipped.
            inserted: the canary patients inserted into training; None counts every canary patient as inserted.
            apart: if True, a value that two patients' records write differently is two values, each searched for as it
                is written.

        Raises:
            ValueError: when a required column is missing or a patient_id occurs twice.
        """
        _check(patients)
        patient_ids = patients["patient_id"].astype(str).tolist()
        splits = patients["split"].astype(str).tolist()
        members = [
            split == "member" or (split == "canary" and (inserted is None or patient_id in inserted))
            for patient_id, split in zip(patient_ids, splits, strict=True)
        ]
        values, patterns = _collect(patients, apart)
        automaton = ahocorasick.Automaton(ahocorasick.STORE_ANY)
        for pattern, candidates in patterns.items():
            automaton.add_word(pattern, (len(pattern), candidates))
        if len(automaton):
            automaton.make_automaton()
        longest = max((len(value.stored) for value in values), default=0)
        return cls(patient_ids, splits, members, values, automaton, longest)

    def split_of(self, patient_id: str) -> str:
        """Split of a patient. Raises KeyError for a patient who is not in the index."""
        return self._split_of[patient_id]

    def is_member(self, patient_id: str) -> bool:
        """True for a patient who was trained on: a member, or an inserted canary patient."""
        return self._member_of[patient_id]

    def has_member(self, value: int) -> bool:
        """True if any patient who was trained on has this value."""
        return any(self.members[holder] for holder in self.values[value].holders)

    def search(self, text: str) -> list[Match]:
        """Every place where `text` has a value, without overlaps (longest first, then direct before health)."""
        return without_overlaps(self.search_all(text), self._seriousness)

    def search_all(self, text: str) -> list[Match]:
        """As `search`, with overlapping places included."""
        if not text or not len(self._automaton):
            return []
        folded = FoldedText.of(text)
        places: dict[tuple[int, int], set[int]] = {}
        for last, (length, candidates) in self._automaton.iter(folded.searchable):
            for number, comma_before in candidates:
                value = self.values[number]
                span = judge(value.field, folded, last + 1 - length, last + 1, value.folded, comma_before)
                if span:
                    places.setdefault(folded.original(*span), set()).add(number)
        return [Match(start, end, tuple(sorted(values))) for (start, end), values in places.items()]

    def _seriousness(self, match: Match) -> tuple:
        values = [self.values[number] for number in match.values]
        direct = any(value.field not in HEALTH for value in values)
        return (not direct, not any(self.has_member(number) for number in match.values))


def _check(patients: pd.DataFrame) -> None:
    missing = {"patient_id", "split"} - set(patients.columns)
    if missing:
        raise ValueError(f"the patients table lacks the column {' and '.join(sorted(missing))}; it cannot be indexed")
    twice = patients["patient_id"][patients["patient_id"].duplicated()]
    if len(twice):
        raise ValueError(f"the patients table has the patient {twice.iloc[0]} twice; every patient needs one row")


def _collect(patients: pd.DataFrame, apart: bool) -> tuple[list[Value], dict[str, tuple[tuple[int, int], ...]]]:
    """Values with their holders, and for every pattern the (value number, comma_before) pairs it can match."""
    values: list[Value] = []
    patterns: dict[str, list[tuple[int, int]]] = {}
    for field in SEARCHED:
        if field not in patients.columns:
            continue
        holders: dict[str, list[int]] = {}
        described: dict[str, tuple[str, list[Form]]] = {}
        seen: dict[str, str] = {}  # spelling → identity, so that each spelling is parsed once
        for row, stored in enumerate(patients[field]):
            if not isinstance(stored, str) or not stored.strip():
                continue
            identity = seen.get(stored)
            if identity is None:
                identity, found = forms(field, stored)
                if apart and found:
                    identity = f"{identity}\n{stored.strip()}"
                seen[stored] = identity
                if found:
                    known = described.setdefault(identity, (stored.strip(), []))
                    known[1].extend(form for form in found if form not in known[1])
            if identity in described:
                holders.setdefault(identity, []).append(row)
        for identity, (stored, found) in described.items():
            number = len(values)
            values.append(Value(field, stored, fold(stored)[0], tuple(holders[identity])))
            for form in found:
                patterns.setdefault(form.pattern, []).append((number, form.comma_before))
    return values, {pattern: tuple(those) for pattern, those in patterns.items()}
