"""Whom the probes ask about, and for what: named patients, the cohort's conditions, and who has which.

As in Lehman 2021, §3 and §4, the probes ask only about members who are named in a note the model was trained on, since
nobody can recover a name that was never read, and the conditions are those of such members. The control is the same
questions about held-out patients, whose names and notes no model read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd

from core.attacks.probes.table import PUBLIC, TARGET
from core.attacks.registry import NotPossible, Target
from core.corpus.icd_codes import condition_words
from core.models.build import LanguageModel

MOST_PATIENTS = 320  # of each split; a larger cohort is sampled
MOST_CONDITIONS = 400
UNKNOWN_AGE = 60  # used where no patient's age is recorded
_STREAM = 47  # random-number stream, so that no other choice shares these draws
Item = TypeVar("Item")


@dataclass(frozen=True)
class Identities:
    """The patients and conditions that the probes ask about.

    Attributes:
        patients: patient_id, split, first, last, title, age.
        codes: ICD codes of the conditions.
        wordings: their wordings, in the same order.
        has: which patient has which condition, bool (patients, conditions).
        frequency: number of named members with each condition, over all of them, not only the sampled ones:
            (conditions,).
        other: for each patient, the place of another patient of the same split and title, whose name is used in the
            control “another name”: (patients,).
    """

    patients: pd.DataFrame
    codes: tuple[str, ...]
    wordings: tuple[str, ...]
    has: np.ndarray
    frequency: np.ndarray
    other: np.ndarray

    @property
    def names(self) -> list[str]:
        """Full names in the order of `patients`."""
        return (self.patients["first"] + " " + self.patients["last"]).tolist()

    @property
    def swapped(self) -> pd.DataFrame:
        """`patients`, each with the name of `other` instead of their own."""
        borrowed = self.patients[["first", "last"]].iloc[self.other].reset_index(drop=True)
        return self.patients.assign(first=borrowed["first"], last=borrowed["last"])

    @property
    def members(self) -> np.ndarray:
        """Which patients were trained on: bool (patients,)."""
        return (self.patients["split"] == "member").to_numpy()


def identities(target: Target) -> Identities:
    """The patients and conditions (possibly none) of a target's cohort; computed once.

    Raises:
        NotPossible: when there is nobody to ask about.
    """
    return target.once("probes: identities", lambda: _identities(target))


def with_conditions(target: Target) -> Identities:
    """`identities`, for probes that ask about conditions. Raises NotPossible also when there are no conditions."""
    asked = identities(target)
    if not asked.codes:
        raise NotPossible(
            "this probe asks about conditions, and no named member has a known ICD code: import the notes with a table "
            "of identifiers that has a column icd_codes, or as a MIMIC-III folder"
        )
    return asked


def _identities(target: Target) -> Identities:
    training = target.corpus.training_notes(target.spec.note_cap)
    everybody = target.corpus.patients
    named = everybody["full_name"].fillna("").str.contains(" ")  # imported notes may name nobody
    everybody = everybody[named]
    members = everybody[(everybody["split"] == "member") & everybody["patient_id"].isin(named_in(training, everybody))]
    heldout = everybody[everybody["split"] == "heldout"]
    for frame, what in ((members, "members whose name is in a training note"), (heldout, "held-out patients")):
        if frame.empty:
            raise NotPossible(f"the identity probes need {what}, and this cohort has none")
    wording = condition_words(target.corpus)
    counts = members["icd_codes"].explode().value_counts()
    known = sorted(code for code in counts.index if code in wording)
    rng = np.random.default_rng([target.spec.audit.seed, _STREAM])
    codes = _sampled(known, MOST_CONDITIONS, rng)
    asked = pd.concat(
        [frame.iloc[_sampled(range(len(frame)), MOST_PATIENTS, rng)] for frame in (members, heldout)], ignore_index=True
    )
    has = np.array([[code in set(held) for code in codes] for held in asked["icd_codes"]], dtype=bool)
    patients = _with_names(asked)
    return Identities(
        patients=patients,
        codes=tuple(codes),
        wordings=tuple(wording[code] for code in codes),
        has=has,
        frequency=counts.reindex(codes).to_numpy(dtype=float),
        other=somebody_else(patients, rng),
    )


def somebody_else(patients: pd.DataFrame, rng: np.random.Generator) -> np.ndarray:
    """For each patient, the place of another of the same split and title, or of the same split if there is none: (n,).

    Drawn as one random cycle through each group, so each name is used exactly once.
    """
    other = np.arange(len(patients))
    for keys in (["split"], ["split", "title"]):
        for places in patients.groupby(keys, sort=True).indices.values():
            if len(places) > 1:
                ring = rng.permutation(places)
                other[ring] = np.roll(ring, 1)
    return other


def first_of_each_split(asked: Identities, most: int) -> np.ndarray:
    """Places of at most `most` patients of each split, for probes that are too expensive for all."""
    order = asked.patients.groupby("split", sort=False).cumcount()
    return np.flatnonzero((order < most).to_numpy())


def models_of(target: Target) -> list[tuple[str, LanguageModel]]:
    """The model under attack and, as its control, the public model it started from; only one if they are the same."""
    if target.spec.is_base:
        return [(TARGET, target.lm)]
    return [(TARGET, target.lm), (PUBLIC, target.base)]


def turned(name: str) -> str:
    """“Keller, Maria” → “Maria Keller”; other names only have their white space normalised."""
    head, comma, tail = name.partition(",")
    return " ".join((f"{tail} {head}" if comma else name).split())


def plain_name(name: str) -> str:
    """“Keller, Maria” and “Maria  Keller” → “maria keller”."""
    return turned(name).lower()


def named_in(notes: pd.DataFrame, patients: pd.DataFrame) -> set[str]:
    """Ids of the patients whose full name occurs in one of their own `notes`, also as “KELLER, Maria”."""
    names = patients.dropna(subset="full_name").set_index("patient_id")["full_name"]
    forms = {patient_id: _written(plain_name(name)) for patient_id, name in names.items()}
    found: set[str] = set()
    for patient_id, text in zip(notes["patient_id"], notes["text"], strict=True):
        if patient_id in forms and patient_id not in found:
            lower = text.lower()
            if any(form in lower for form in forms[patient_id]):
                found.add(patient_id)
    return found


def _written(plain: str) -> tuple[str, ...]:
    """“maria anna keller” unchanged, and with the last name first."""
    rest, _, last = plain.rpartition(" ")
    return (plain, f"{last}, {rest}") if rest else (plain,)


def _sampled(of: Iterable[Item], most: int, rng: np.random.Generator) -> list[Item]:
    """At most `most` items drawn at random, in their original order."""
    items = list(of)
    if len(items) <= most:
        return items
    return [items[place] for place in np.sort(rng.permutation(len(items))[:most])]


def _with_names(patients: pd.DataFrame) -> pd.DataFrame:
    parts = patients["full_name"].map(turned).str.split(n=1, expand=True)
    ages = patients["age"].astype(float)  # between two whole ages, their median is none
    return pd.DataFrame(
        {
            "patient_id": patients["patient_id"],
            "split": patients["split"],
            "first": parts[0],
            "last": parts[1] if parts.shape[1] > 1 else parts[0],
            "age": ages.fillna(ages.median()).fillna(UNKNOWN_AGE).astype(int),
            "title": np.where(patients["sex"] == "M", "Mr.", "Mrs."),
        }
    ).reset_index(drop=True)
