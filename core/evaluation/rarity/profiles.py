"""How rare a disease profile is, and groups of patients with about equally rare profiles.

Jagannatha 2021, appendix A: codes are treated as independent, so the probability of a patient's set of codes c is
p(c) = Π_{i in c} p(c_i) · Π_{j not in c} (1 − p(c_j)) (eq. 4), where p(c') is the share of patients with code c'
(eq. 5). They cut its logarithm into 100 equal ranges. Here buckets hold about equally many patients: equal ranges leave
buckets with a single held-out patient, and such a bucket would decide what a trend looks like.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pandas as pd

from core.common.in_memory_duckdb import cursor
from core.runs.patients.disease_profiles import PROFILE

MOST_BUCKETS = 6
LEAST = 20  # members, and also held-out patients, that a bucket needs for a figure


def log_profile_probability(icd_codes_per_patient: pd.Series) -> pd.Series:
    """Log of Jagannatha 2021, eq. 4, in nats, for each patient's set of codes; eq. 5's rates are over all patients.

    A code that a patient has twice counts once; a patient without codes has Π (1 − p).

    Args:
        icd_codes_per_patient: Maps patients (a unique index) to collections of codes.

    Raises:
        ValueError: There are no patients, or a patient occurs twice.
    """
    codes = icd_codes_per_patient
    if codes.empty:
        raise ValueError("the rarity of a disease profile is a rate over patients, and there are no patients")
    if not codes.index.is_unique:
        twice = codes.index[codes.index.duplicated()][0]
        raise ValueError(f"patient {twice} occurs twice in the index: give one set of codes per patient")
    sets: list[Collection[str]] = [set() if held is None else set(held) for held in codes]
    units = pd.DataFrame({"unit": np.arange(len(sets))})
    pairs = [(unit, code) for unit, held in enumerate(sets) for code in held]
    held = pd.DataFrame(pairs, columns=["unit", "code"]).astype({"unit": "int64", "code": "str"})
    with cursor() as database:
        database.register("units", units)
        database.register("held", held)
        found = database.execute(f"SELECT * FROM ({PROFILE}) ORDER BY unit").fetchnumpy()  # noqa: S608 — constant SQL
    return pd.Series(found["log_probability"], index=codes.index, name="log_probability")


def bucket_edges(log_probability: np.ndarray, member: np.ndarray, patient: np.ndarray) -> np.ndarray:
    """Edges (count − 1,) in ln p, rising, between buckets of about equally many units; bucket 0 holds the rarest.

    There are as many buckets, up to MOST_BUCKETS, as leave LEAST different members and LEAST different held-out
    patients in each. If even two are too many, there are no edges and everybody is in one bucket. Only the distribution
    of patients decides, never a score. All arguments are (units,).
    """
    values, member = np.asarray(log_probability, dtype=float), np.asarray(member, dtype=bool)
    for count in range(MOST_BUCKETS, 1, -1):
        edges = np.quantile(values, np.arange(1, count) / count)
        bucket = bucket_of(values, edges)
        if all(patients_in(bucket, patient, side, count).min() >= LEAST for side in (member, ~member)):
            return edges
    return np.zeros(0)


def bucket_of(log_probability: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Bucket 0 (rarest) … len(edges) of each log probability; a value equal to an edge is in the more common bucket."""
    return np.searchsorted(edges, np.asarray(log_probability, dtype=float), side="right")


def patients_in(bucket: np.ndarray, patient: np.ndarray, side: np.ndarray, count: int) -> np.ndarray:
    """Number of different patients of one side (a mask of units) in each bucket, (count,)."""
    pairs = np.unique(np.stack([bucket[side], np.asarray(patient)[side]]), axis=1)
    return np.bincount(pairs[0], minlength=count)
