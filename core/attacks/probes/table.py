"""The table that every identity probe writes, and how its rows are made."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from core.attacks.registry import register_table

PROBES = "probes"
COLUMNS = {
    "probe": "str",  # see docs/methods/probes.md
    "method": "str",  # what the score was computed from, e.g. "name" or its control "condition only"
    "model": "str",  # target | public: the model under attack, or the public model it started from
    "patient_id": "str",  # null where the score is the same for every patient, and for invented names
    "split": "str",  # member | heldout; null as above
    "target": "str",  # what is guessed: a condition's code, a half of a name, a generated name or text
    "bin": "str",  # only rows of the same bin are compared, e.g. conditions with equally many tokens
    "score": "float64",  # higher = more likely true
    "label": "bool",  # the truth
}
TARGET, PUBLIC = "target", "public"

register_table(PROBES, COLUMNS)


def rows(
    probe: str,
    method: str,
    *,
    model: str = TARGET,
    patient_id: Sequence[str | None] | np.ndarray | None = None,
    split: Sequence[str | None] | np.ndarray | None = None,
    target: Sequence[str] | np.ndarray | str,
    bin: Sequence[str] | np.ndarray | str = "all",
    score: Sequence[float] | np.ndarray,
    label: Sequence[bool] | np.ndarray | bool,
) -> pd.DataFrame:
    """Rows of the table, one per score; single values are repeated. Raises ValueError if a score is NaN."""
    values = np.asarray(score, dtype=float)
    if np.isnan(values).any():
        raise ValueError(f"{int(np.isnan(values).sum())} of {values.size} scores of the probe “{probe}” are NaN")
    frame = pd.DataFrame(
        {"score": values, "label": label, "target": target, "bin": bin, "patient_id": patient_id, "split": split}
    ).assign(probe=probe, method=method, model=model)
    return frame[list(COLUMNS)].astype(COLUMNS)


def matrix_rows(
    probe: str,
    method: str,
    patients: pd.DataFrame,
    codes: Sequence[str],
    scores: np.ndarray,
    labels: np.ndarray,
    *,
    model: str = TARGET,
    bins: Sequence[str] | str = "all",
) -> pd.DataFrame:
    """Rows with a score for every patient and condition: `scores` and `labels` are (patients, conditions)."""
    count = len(patients)
    return rows(
        probe,
        method,
        model=model,
        patient_id=np.repeat(patients["patient_id"].to_numpy(dtype=object), len(codes)),
        split=np.repeat(patients["split"].to_numpy(dtype=object), len(codes)),
        target=np.tile(np.asarray(codes, dtype=object), count),
        bin=bins if isinstance(bins, str) else np.tile(np.asarray(bins, dtype=object), count),
        score=scores.ravel(),
        label=labels.ravel(),
    )
