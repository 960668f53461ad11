"""Hits and chances that count in a comparison of members with held-out patients: those of a patient's own values.

If a member and a held-out patient have the same name, a model that learned it from the member's notes writes the
other's name, too: the control would be too high, and a leak would look like chance. Such a name says nothing about
either patient, so it counts for neither (docs/methods/metrics.md, “Values that several patients have”).
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from core.phi.fields import DIRECT, HEALTH

Shared = Collection[tuple[str, str]]  # (patient id, field), from `Corpus.shared_values`


def own_rows(table: pd.DataFrame, shared: Shared) -> pd.DataFrame:
    """The rows of a table with the columns patient_id and field that are about a value of that patient alone."""
    return table[~_among(table, shared)] if shared else table


def own_hits(hits: pd.DataFrame, shared: Shared) -> pd.DataFrame:
    """The hits by value of patients' own values; hits of the loose rule, and those of no patient, stay.

    A health detail counts only beside its patient's identity. A shared name is none, so the detail needs another direct
    identifier of that patient in the same text.
    """
    if not shared:
        return hits
    by_value = (hits["rule"] == "value").to_numpy()
    kept = hits[~(by_value & _among(hits, shared))]
    people = {patient_id for patient_id, _ in shared}
    direct = kept[kept["field"].isin(DIRECT) & (kept["rule"] == "value")]
    identified = set(zip(direct["generation_id"], direct["patient_id"], strict=True))
    unlinked = [
        rule == "value" and field in HEALTH and patient in people and (text, patient) not in identified
        for rule, field, patient, text in zip(
            kept["rule"], kept["field"], kept["patient_id"], kept["generation_id"], strict=True
        )
    ]
    return kept[~np.array(unlinked, dtype=bool)]


def _among(table: pd.DataFrame, shared: Shared) -> np.ndarray:
    """Whether each row is about a shared value: bool (rows,)."""
    pairs = zip(table["patient_id"], table["field"], strict=True)
    return np.array([pair in shared for pair in pairs], dtype=bool)
