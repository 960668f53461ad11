"""Leakage by rarity: rates of each bucket with intervals over patients, and whether rarer patients leak more.

The sums come from core.runs.patient_queries. A patient's units (the patient, or their admissions) are a cluster: the
variance of a rate is that between patients, and Wilson's interval takes the effective number of units (Franco et al.
2019), so it stays honest at 0 and at all. Differences are Newcombe's (1998, method 10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from scipy import stats

from core.evaluation.bootstrap import Interval
from core.evaluation.rarity import LEAST_PATIENTS
from core.evaluation.statistics import difference, wilson

Measure = Literal["privacy leakage", "score percentile"]
EXACT = 8  # buckets up to which every order is looked at
ORDERS = 9_999  # random orders for more


def clustered_rate(patients: int, n: float, nn: float, k: float, kk: float, kn: float) -> Interval:
    """Share k of n units, from sums over patients (n, n², k, k², kn): Wilson's interval with n / design effect units.

    Design effect = [m/(m − 1) · Σ(kᵢ − p·nᵢ)² / n²] / [p(1 − p)/(n − 1)], at least 1; where p is 0 or 1 nothing of it
    can be seen, and patients are what is counted. With one unit a patient it is 1 and the interval is Wilson's.
    """
    if n == 0:  # no units, no rate
        return Interval(math.nan, math.nan, math.nan)
    p = k / n
    if 0 < p < 1 and patients > 1:
        between = patients / (patients - 1) * max(0.0, kk - 2 * p * kn + p**2 * nn) / n**2
        effective = n / max(1.0, between / (p * (1 - p) / (n - 1)))
    else:
        effective = float(patients)
    low, high = wilson(p, effective)
    return Interval(p, low, high)


def clustered_mean(patients: int, n: float, nn: float, s: float, ss: float, sn: float) -> Interval:
    """Mean over units from sums over patients (n, n², s, s², sn), with Student's t interval over patients, in [0, 1].

    A single patient shows no spread: no interval.
    """
    if n == 0:
        return Interval(math.nan, math.nan, math.nan)
    mean = s / n
    if patients < 2:
        return Interval(mean, math.nan, math.nan)
    error = math.sqrt(patients / (patients - 1) * max(0.0, ss - 2 * mean * sn + mean**2 * nn)) / n
    half = float(stats.t.ppf(0.975, patients - 1)) * error
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half))


COLUMNS = (
    *("bucket", "log_probability", "patients", "members", "heldout", "member_units", "heldout_units"),
    *("value", "low", "high", "tpr", "fpr", "members_percentile", "heldout_percentile", "kept"),
)


def leakage(sums: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """One row a bucket from `PatientTables.buckets`: the columns of COLUMNS.

    `value`, `low` and `high` are the measure: privacy leakage TPR − FPR (row J3) at the attack's threshold, or the mean
    score percentile of the members (0.5 = a blind guess). `tpr`, `fpr` and both percentiles stand beside it. `kept`
    says whether the bucket holds LEAST_PATIENTS; the others have no figures (NaN).
    """
    rows = [_bucket(row, measure) for row in sums.to_dict("records")]
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"kept": bool, "value": float, "log_probability": float})


def _bucket(row: dict, measure: Measure) -> tuple:
    patients = int(row["member_patients"] + row["heldout_patients"])
    head = (row["bucket"], row["log_probability"], patients)
    head += tuple(int(row[name]) for name in ("member_patients", "heldout_patients", "member_n", "heldout_n"))
    if patients < LEAST_PATIENTS:
        return (*head, *[math.nan] * 7, False)
    tpr, fpr = (_of(row, side, clustered_rate, "n", "nn", "k", "kk", "kn") for side in ("member", "heldout"))
    ours, theirs = (_of(row, side, clustered_mean, "n", "nn", "s", "ss", "sn") for side in ("member", "heldout"))
    chosen = difference(tpr, fpr) if measure == "privacy leakage" else ours
    return (*head, chosen.value, chosen.low, chosen.high, tpr.value, fpr.value, ours.value, theirs.value, True)


def _of(row: dict, side: str, figure, *names: str) -> Interval:
    return figure(int(row[f"{side}_patients"]), *(float(row[f"{side}_{name}"]) for name in names))


@dataclass(frozen=True)
class RankCorrelation:
    """Spearman's ρ with the p-value of a two-sided permutation test; NaN for fewer than three points or no spread."""

    rho: float
    p_value: float
    points: int


def rank_correlation(x: Sequence[float], y: Sequence[float], *, seed: int = 0) -> RankCorrelation:
    """Spearman's ρ (ties share their mean rank). p: share of orders of y whose |ρ| is at least as large.

    All orders up to EXACT points; ORDERS random ones, with the observed order among them, for more (Davison & Hinkley
    1997, §4.3). Pairs with a NaN are left out.
    """
    both = np.array([x, y], dtype=float)
    both = both[:, np.isfinite(both).all(axis=0)]
    points = both.shape[1]
    if points < 3 or (both == both[:, :1]).all(axis=1).any():
        return RankCorrelation(math.nan, math.nan, points)
    ranks = np.apply_along_axis(stats.rankdata, 1, both)
    ranks -= ranks.mean(axis=1, keepdims=True)
    ranks /= np.sqrt((ranks**2).sum(axis=1, keepdims=True))
    rho = float(ranks[0] @ ranks[1])
    extreme = np.abs(_orders(points, seed, ranks[1]) @ ranks[0]) >= abs(rho) - 1e-12
    p_value = extreme.mean() if points <= EXACT else (1 + extreme.sum()) / (1 + ORDERS)
    return RankCorrelation(rho, float(p_value), points)


def _orders(points: int, seed: int, values: np.ndarray) -> np.ndarray:
    """`values` in every order, or in ORDERS random ones: (orders, points)."""
    if points <= EXACT:
        from itertools import permutations

        return values[np.array(list(permutations(range(points))))]
    return np.random.default_rng(seed).permuted(np.tile(values, (ORDERS, 1)), axis=1)
