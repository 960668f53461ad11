"""The table of the probes' figures, and the rows of a ranking probe as matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.attacks.probes.fill_in import FREQUENCY, NAME
from core.attacks.probes.table import TARGET

FIGURES = "probe_figures"
COLUMNS = {
    "probe": "str",
    "measure": "str",
    "method": "str",
    "model": "str",
    "split": "str",
    "bin": "str",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "n": "int64",
    "blind": "float64",  # what a blind guess gets
    "note": "str",  # what n counts
}
AUC, TOP10, RHO, DIFFERENCE = "AUC", "A@10", "Spearman with frequency", "mean difference"
PERPLEXITY, LINK, TOP100, ALL_NAMES, RIGHT = "perplexity", "link (nats)", "A@100", "share of all names", "right pairs"
WITH_NAME = "texts with a full name"
OWN_MINUS_OTHER, OWN_MINUS_FREQUENCY = "name − another name", "name − frequency"
TARGET_MINUS_PUBLIC = "target − public"
SHUFFLED, PAIRED = "conditions of others", "own − others"
BOTH = "member against heldout"
TOP_NAMES = 100


@dataclass(frozen=True)
class Figure:
    """One row of the table, in the order of `COLUMNS`."""

    probe: str
    measure: str
    method: str
    model: str
    split: str
    bin: str
    value: float
    low: float
    high: float
    n: int
    blind: float
    note: str


@dataclass(frozen=True)
class Matrix:
    """Scores and truth of every patient and condition."""

    scores: np.ndarray  # (patients, conditions)
    labels: np.ndarray  # (patients, conditions), bool
    splits: np.ndarray  # (patients,)


@dataclass(frozen=True)
class Matrices:
    """A ranking probe's rows as matrices over the same patients and conditions; `once` has one score per condition."""

    named: dict[tuple[str, str], Matrix]
    once: dict[tuple[str, str], np.ndarray]
    bins: np.ndarray

    def methods(self) -> list[tuple[str, str]]:
        """(method, model) of everything that was scored."""
        return [*self.named, *self.once]

    def scores(self, method: str, model: str) -> np.ndarray:
        """Scores (patients, conditions); scores that are the same for all patients are repeated."""
        if (method, model) in self.named:
            return self.named[method, model].scores
        return np.broadcast_to(self.once[method, model], self.named[NAME, TARGET].scores.shape)


def matrices(rows: pd.DataFrame) -> Matrices:
    """The rows of one ranking probe as matrices; conditions are in the order of the frequency baseline's rows."""
    named: dict[tuple[str, str], Matrix] = {}
    once: dict[tuple[str, str], np.ndarray] = {}
    about = rows[rows["patient_id"].isna()].drop_duplicates(["method", "model", "target"])
    frequency = about[(about["method"] == FREQUENCY) & (about["model"] == TARGET)].set_index("target")
    codes = frequency.index
    for (method, model), part in about.groupby(["method", "model"], sort=False):
        once[method, model] = part.set_index("target")["score"].reindex(codes).to_numpy()
    for (method, model), part in rows[rows["patient_id"].notna()].groupby(["method", "model"], sort=False):
        scores = part.pivot(index="patient_id", columns="target", values="score")[codes]
        labels = part.pivot(index="patient_id", columns="target", values="label")[codes].astype(bool)
        splits = part.drop_duplicates("patient_id").set_index("patient_id")["split"].reindex(scores.index)
        named[method, model] = Matrix(scores.to_numpy(), labels.to_numpy(), splits.to_numpy())
    return Matrices(named, once, frequency["bin"].to_numpy())
