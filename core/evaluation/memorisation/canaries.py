"""Data of the canary charts: exposure by number of copies with its control, and exposure over the epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple

import pandas as pd

from core.corpus.canary_forms import FORMS
from core.evaluation.stats.boundary_intervals import bits_interval
from core.evaluation.stats.intervals import proportion_interval

BLIND = 1 / math.log(2)  # mean exposure of a canary the model never saw, in a large space (docs/methods/metrics.md)

EXPOSURE_COLUMNS = {
    "arm": "str",  # run (planted, by number of copies) | heldout (left out by the coin, with any number of copies)
    "insertions": "int32",  # 0 for the control
    "exposure": "float64",
    "low": "float64",
    "high": "float64",
    "canaries": "int32",
}
PATIENT_COLUMNS = {
    "arm": "str",  # run (put in by the coin) | heldout (left out)
    "patients": "int32",
    "exposure": "float64",  # bits, mean over patients
    "low": "float64",
    "high": "float64",
    "named": "int32",  # patients of whom the model wrote a direct identifier without being given it
    "share": "float64",
    "share_low": "float64",
    "share_high": "float64",
}
RACE_COLUMNS = {
    "canary_id": "str",
    "copies": "int32",  # 0: never planted
    "epoch": "int32",
    "step": "int64",
    "exposure": "float64",
}


def exposure_by_copies(
    canaries: pd.DataFrame, *, column: str = "exposure", forms: Sequence[str] = FORMS, most: float | None = None
) -> pd.DataFrame:
    """Mean exposure of planted canaries by number of copies, and of those left out, with EXPOSURE_COLUMNS.

    Args:
        canaries: A run's table canaries (column `exposure`) or an audit's table exposures (`skew_exposure`).
        column: The column with the exposure, in bits.
        forms: Forms of canaries to include.
        most: Upper end of the range in bits; None for no upper end.

    Returns:
        One row per number of copies. Intervals are Student's t over canaries, cut to 0 … `most`; a single canary has
        none (`core.evaluation.stats.boundary_intervals.bits_interval`).
    """
    ranked = canaries[canaries["form"].isin(forms) & canaries[column].notna()]
    planted = ranked["inserted"].astype(bool)
    groups = [("heldout", 0, ranked.loc[~planted, column])]
    groups += [("run", copies, part[column]) for copies, part in ranked[planted].groupby("insertions")]
    rows = []
    for arm, copies, values in groups:
        if len(values):
            found = bits_interval(values.to_numpy(dtype=float), math.inf if most is None else most)
            rows.append((arm, copies, *astuple(found), len(values)))
    return pd.DataFrame(rows, columns=list(EXPOSURE_COLUMNS)).astype(EXPOSURE_COLUMNS)


def whole_patients(people: pd.DataFrame) -> pd.DataFrame:
    """Mean exposure of whole canary patients and how many were named, planted and left out, with PATIENT_COLUMNS.

    `people` is an audit's table `canary_patients`. Intervals of the exposure are Student's t over patients, from 0 to
    log2 of the reference space; those of shares are Wilson's.
    """
    rows = []
    for arm, inserted in (("run", True), ("heldout", False)):
        part = people[people["inserted"] == inserted]
        if len(part):
            found = bits_interval(part["exposure"].to_numpy(dtype=float), math.log2(part["reference_size"].iloc[0]))
            named = int((part["values_written"] > 0).sum())
            shares = (named / len(part), *proportion_interval(named, len(part)))
            rows.append((arm, len(part), *astuple(found), named, *shares))
    return pd.DataFrame(rows, columns=list(PATIENT_COLUMNS)).astype(PATIENT_COLUMNS)


def race(history: pd.DataFrame, canaries: pd.DataFrame) -> pd.DataFrame:
    """Exposure of the tracked canaries at the end of each epoch, with RACE_COLUMNS, from a run's history and canaries.

    The table is empty for a run without epochs.
    """
    copies = canaries.set_index("canary_id")
    rows = [
        (canary, int(copies.loc[canary, "insertions"]) if copies.loc[canary, "inserted"] else 0, epoch, step, bits)
        for step, epoch, found in history[["step", "epoch", "canary_exposure"]].itertuples(index=False, name=None)
        for canary, bits in (found.items() if isinstance(found, dict) else ())
        if canary in copies.index
    ]
    return pd.DataFrame(rows, columns=list(RACE_COLUMNS)).astype(RACE_COLUMNS)
