"""Scores of an attack on a few notes, drawn at random."""

from __future__ import annotations

import numpy as np
import pandas as pd


def scores(shift: float, *, seed: int = 0, patients: int = 12, notes: int = 4) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for patient in range(patients):
        member = patient % 3 != 0
        for note in range(notes):
            rows.append(
                {
                    "note_id": f"P{patient}-{note}",
                    "admission_id": f"A{patient}",
                    "patient_id": f"P{patient:02d}",
                    "split": "member" if member else "heldout",
                    "tokens": 10 + 10 * note,
                    "score": rng.normal(shift * member, 1),
                }
            )
    return pd.DataFrame(rows)
