"""How rare a disease profile is, and groups of patients who are about equally rare (row J10).

Jagannatha et al. 2021, appendix A: codes are taken as attributed independently, so the probability of a patient's set
of codes c is p(c) = Π_{i in c} p(c_i) · Π_{j not in c} (1 − p(c_j)) (eq. 4), with p(c') the share of patients who hold
code c' (eq. 5). Patients are grouped by equal ranges of its logarithm.
"""

from __future__ import annotations

from collections.abc import Collection

import duckdb
import numpy as np
import pandas as pd

from core.runs.disease_profiles import PROFILE

MOST_BUCKETS = 100
LEAST_PATIENTS = 10  # a bucket with fewer is dropped (row J10)
FULL_SHARE = 0.75  # of the buckets that hold anybody, so many must hold LEAST_PATIENTS


def log_profile_probability(icd_codes_per_patient: pd.Series) -> pd.Series:
    """Log of equation 4, in nats, of each patient's set of codes; the rates of equation 5 are taken over all of them.

    The Series maps patients (a unique index) to collections of codes. A code that a patient holds twice counts once; a
    patient without codes has Π (1 − p). Raises ValueError for no patients or a patient who stands there twice.
    """
    codes = icd_codes_per_patient
    if codes.empty:
        raise ValueError("the rarity of a disease profile is a rate over patients, and there are no patients")
    if not codes.index.is_unique:
        twice = codes.index[codes.index.duplicated()][0]
        raise ValueError(f"patient {twice} stands there twice: one set of codes each")
    sets: list[Collection[str]] = [set() if held is None else set(held) for held in codes]
    units = pd.DataFrame({"unit": np.arange(len(sets))})
    pairs = [(unit, code) for unit, held in enumerate(sets) for code in held]
    held = pd.DataFrame(pairs, columns=["unit", "code"]).astype({"unit": "int64", "code": "str"})
    with duckdb.connect() as database:
        database.register("units", units)
        database.register("held", held)
        found = database.execute(f"SELECT * FROM ({PROFILE}) ORDER BY unit").fetchnumpy()  # noqa: S608 — ours
    return pd.Series(found["log_probability"], index=codes.index, name="log_probability")


def log_normalised(log_probability: np.ndarray) -> np.ndarray:
    """(log p − smallest) / (largest − smallest): 0 is the rarest profile, 1 the most common; all 0 if all are equal."""
    values = np.asarray(log_probability, dtype=float)
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def bucket_of(place: np.ndarray, count: int) -> np.ndarray:
    """Bucket 0 (rarest) … count − 1 of places in [0, 1]: equal ranges, the last one closed."""
    return np.minimum(np.floor(np.asarray(place, dtype=float) * count), count - 1).astype(np.int64)


def number_of_buckets(
    place: np.ndarray, patient: np.ndarray, *, least: int = LEAST_PATIENTS, most: int = MOST_BUCKETS
) -> int:
    """How many buckets a cohort allows: the most (up to `most`) of which three quarters hold at least `least` patients.

    Of the buckets that hold anybody; `place` and `patient` (whose unit it is) are (units,). Only how patients are
    spread decides, never what an attack found. At least 1.
    """
    place, patient = np.asarray(place, dtype=float), np.asarray(patient)
    if len(np.unique(place)) < 2:
        return 1  # nobody is rarer than anybody
    for count in range(most, 1, -1):
        pairs = np.unique(np.stack([bucket_of(place, count), patient]), axis=1)
        held = np.unique(pairs[0], return_counts=True)[1]
        if (held >= least).mean() >= FULL_SHARE:
            return count
    return 1
