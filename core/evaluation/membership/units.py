"""What a membership attack is judged on: notes, admissions or patients, all or only the short or long notes.

An attack on a group takes the mean of its notes' scores (rows J4 and M4: A-BBA and P-BBA for the loss, and the same for
every other attack).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

LEVELS = {"sample": "note_id", "admission": "admission_id", "patient": "patient_id"}
LENGTHS = ("all", "short", "long")


@dataclass(frozen=True)
class Units:
    """Scored units of one attack, members and non-members, with the population that sets thresholds beside them.

    `score`, `member`, `patient` are (units,); `patient` numbers the patients 0…P − 1, `patient_member` (P,) says which
    of them are members. `population` (m,) holds the scores of the population's units, `population_patient` (m,) whose
    they are, numbered from 0. `mean_sums` and `mean_counts` (P,) are the sum and number of each member patient's note
    scores, of any length: their ratio is the mean score of the training notes, which S-BBA and its group versions take
    as threshold.
    """

    score: np.ndarray
    member: np.ndarray
    patient: np.ndarray
    patient_member: np.ndarray
    population: np.ndarray
    population_patient: np.ndarray
    mean_sums: np.ndarray
    mean_counts: np.ndarray

    @property
    def members(self) -> int:
        """Number of member units."""
        return int(self.member.sum())

    @property
    def nonmembers(self) -> int:
        """Number of units of held-out patients."""
        return int((~self.member).sum())

    @property
    def patients(self) -> tuple[int, int]:
        """How many member patients, and how many others, have a unit here: the trials behind every interval."""
        flags = self.patient_member[np.unique(self.patient)]
        return int(flags.sum()), int((~flags).sum())

    @property
    def smallest_stratum(self) -> int:
        """Patients of the smaller of the two groups that have a unit here: what the width of intervals depends on."""
        return min(self.patients)


def long_notes(scores: pd.DataFrame) -> pd.Series:
    """Which notes are long: more tokens than the median judged note has (row M4). Ties are short."""
    return scores["tokens"] > scores["tokens"].median()


def units(scores: pd.DataFrame, level: str = "sample", length: str = "all") -> Units:
    """The units of one attack's rows of the `scores` table. Raises ValueError when members or others have none.

    `level` is one of LEVELS, `length` one of LENGTHS.
    """
    judged = scores["split"].isin(["member", "heldout"])
    kept = scores
    if length != "all":
        kept = scores[long_notes(scores) == (length == "long")]
    grouped = kept.groupby(LEVELS[level], sort=True).agg(
        score=("score", "mean"), patient=("patient_id", "first"), split=("split", "first")
    )
    chosen, population = grouped[grouped["split"] != "population"], grouped[grouped["split"] == "population"]
    member = (chosen["split"] == "member").to_numpy()
    if member.all() or not member.any():
        raise ValueError("an attack is judged on members and non-members, and one of the two groups is empty")
    notes = scores[judged]
    patients = pd.Index(np.sort(notes["patient_id"].unique()))
    code = patients.get_indexer(notes["patient_id"])
    flags = (notes["split"] == "member").to_numpy()
    patient_member = np.zeros(len(patients), dtype=bool)
    patient_member[code[flags]] = True
    value = notes["score"].to_numpy(dtype=float)
    return Units(
        score=chosen["score"].to_numpy(dtype=float),
        member=member,
        patient=patients.get_indexer(chosen["patient"]),
        patient_member=patient_member,
        population=population["score"].to_numpy(dtype=float),
        population_patient=pd.factorize(population["patient"])[0],
        mean_sums=np.bincount(code[flags], value[flags], minlength=len(patients)),
        mean_counts=np.bincount(code[flags], minlength=len(patients)).astype(float),
    )
