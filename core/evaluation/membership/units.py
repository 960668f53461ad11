"""What a membership attack is evaluated on: notes, admissions or patients; all notes, or only short or long ones.

The score of a group is the mean of its notes' scores. For the loss these are A-BBA and P-BBA (Jagannatha 2021,
§4.1.1). Every other attack is treated in the same way, as at patient level in Mireshghallah 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.corpus.tables import JUDGED_SPLITS

LEVELS = {"sample": "note_id", "admission": "admission_id", "patient": "patient_id"}
LENGTHS = ("all", "short", "long")


@dataclass(frozen=True)
class Units:
    """Scored units of one attack, members and non-members, with the population that sets thresholds.

    `score`, `member`, `patient` are (units,); `patient` numbers the patients 0…P − 1, and `patient_member` (P,) says
    which of them are members. `population` (m,) holds the scores of the population's units, `population_patient` (m,)
    their patients, numbered from 0. `mean_sums` and `mean_counts` (P,) are the sum and the number of each member
    patient's note scores, of any length. Their ratio is the mean training score, which S-BBA and its group versions use
    as threshold; `mean_range` has the lowest and the highest of these scores, between which it lies. `notes` (P,) is
    the number of notes of every patient, of any length.
    """

    score: np.ndarray
    member: np.ndarray
    patient: np.ndarray
    patient_member: np.ndarray
    population: np.ndarray
    population_patient: np.ndarray
    mean_sums: np.ndarray
    mean_counts: np.ndarray
    notes: np.ndarray
    mean_range: tuple[float, float] = (-np.inf, np.inf)

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
        """Numbers of member patients and of others with a unit here: the trials behind every interval."""
        flags = self.patient_member[np.unique(self.patient)]
        return int(flags.sum()), int((~flags).sum())

    @property
    def smallest_stratum(self) -> int:
        """Patients with a unit here in the smaller of the two groups; the width of intervals depends on it."""
        return min(self.patients)


def long_notes(scores: pd.DataFrame) -> pd.Series:
    """Which notes are long: more tokens than the median evaluated note (Mireshghallah 2022). Ties count as short."""
    return scores["tokens"] > scores["tokens"].median()


def units(scores: pd.DataFrame, level: str = "sample", length: str = "all", *, most_tokens: int | None = None) -> Units:
    """The units of one attack's rows of the `scores` table.

    Args:
        scores: Rows of one attack.
        level: One of LEVELS.
        length: One of LENGTHS.
        most_tokens: Leave out notes of more tokens than this.

    Raises:
        ValueError: Members or others have no units.
    """
    judged = scores["split"].isin(JUDGED_SPLITS)
    kept = scores
    if length != "all":
        kept = scores[long_notes(scores) == (length == "long")]
    if most_tokens is not None:
        kept = kept[kept["tokens"] <= most_tokens]
    # By numbers, and each group's patient from its first row: columns of text take several times as long to group.
    code_of_row = pd.factorize(kept[LEVELS[level]], sort=True)[0]
    first = np.unique(code_of_row, return_index=True)[1]
    split = kept["split"].to_numpy()[first]
    patient = kept["patient_id"].iloc[first]
    found = kept["score"].groupby(code_of_row).agg(["mean", "min", "max"]).to_numpy(dtype=float)
    mean = np.clip(*found.T)  # the mean of equal scores is that score, whatever the rounding
    chosen, population = split != "population", split == "population"
    member = split[chosen] == "member"
    if member.all() or not member.any():
        raise ValueError("an attack is evaluated on members and non-members, and one of the two groups is empty")
    notes = scores[judged]
    code, patients = pd.factorize(notes["patient_id"], sort=True)
    flags = (notes["split"] == "member").to_numpy()
    patient_member = np.zeros(len(patients), dtype=bool)
    patient_member[code[flags]] = True
    value = notes["score"].to_numpy(dtype=float)
    return Units(
        score=mean[chosen],
        member=member,
        patient=patients.get_indexer(patient[chosen]),
        patient_member=patient_member,
        population=mean[population],
        population_patient=pd.factorize(patient[population])[0],
        mean_sums=np.bincount(code[flags], value[flags], minlength=len(patients)),
        mean_counts=np.bincount(code[flags], minlength=len(patients)).astype(float),
        notes=np.bincount(code, minlength=len(patients)),
        mean_range=(float(value[flags].min()), float(value[flags].max())),
    )
