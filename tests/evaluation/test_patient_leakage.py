"""Rates of clustered units, their difference, and the rank correlation: published answers and other ways to them."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.evaluation.bootstrap import Interval
from core.evaluation.patient_leakage import (
    clustered_mean,
    clustered_rate,
    difference,
    leakage,
    rank_correlation,
)
from core.evaluation.statistics import mean_interval, proportion_interval


def sums(n: np.ndarray, k: np.ndarray) -> dict[str, float]:
    return {"patients": len(n), "n": n.sum(), "nn": (n * n).sum(), "k": k.sum(), "kk": (k * k).sum(), "kn": k @ n}


@pytest.mark.parametrize(("k", "n"), [(0, 12), (5, 12), (12, 12), (1, 1), (40, 300)])
def test_one_unit_a_patient_is_wilsons_interval(k, n):
    found = clustered_rate(**sums(np.ones(n), np.arange(n) < k))
    assert (found.low, found.high) == pytest.approx(proportion_interval(k, n))


def test_admissions_that_are_copies_count_as_their_patients():
    caught = np.arange(20) < 8
    alone = clustered_rate(**sums(np.ones(20), caught))
    copied = clustered_rate(**sums(np.full(20, 5.0), 5.0 * caught))  # five admissions each, all alike
    assert copied.value == alone.value
    # (m − 1)-corrected variance between patients against an (n − 1)-corrected one of units: 20 patients, nearly exactly
    assert copied.high - copied.low == pytest.approx(alone.high - alone.low, rel=0.03)
    none = clustered_rate(**sums(np.full(20, 5.0), np.zeros(20)))
    assert (none.low, none.high) == pytest.approx(proportion_interval(0, 20))
    assert math.isnan(clustered_rate(0, 0, 0, 0, 0, 0).value)


def test_intervals_hold_the_truth_nineteen_times_in_twenty():
    rng, held = np.random.default_rng(3), 0
    for _ in range(800):
        chance = rng.beta(1.5, 3.5, 25)  # patients differ: mean 0.3
        n = rng.integers(1, 7, 25).astype(float)
        found = clustered_rate(**sums(n, rng.binomial(n.astype(int), chance).astype(float)))
        held += found.low <= 0.3 <= found.high
    assert 0.92 <= held / 800 <= 0.98


def test_the_difference_is_newcombes_published_example():
    one, other = (Interval(k / n, *proportion_interval(k, n)) for k, n in ((56, 70), (48, 80)))
    found = difference(one, other)
    assert (found.value, found.low, found.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


def test_a_mean_over_patients_is_students():
    values = np.array([0.2, 0.9, 0.75, 0.6, 1.0])
    found = clustered_mean(5, 5, 5, values.sum(), (values**2).sum(), values.sum())
    mean, low, high = mean_interval(values)
    assert (found.value, found.low, found.high) == pytest.approx((mean, low, min(1.0, high)))
    single = clustered_mean(1, 3, 9, 1.5, 2.25, 4.5)
    assert single.value == 0.5 and math.isnan(single.low)


def test_rank_correlation_by_other_ways():
    rng = np.random.default_rng(0)
    x = rng.normal(size=5)
    y = x + rng.normal(size=5)
    found = rank_correlation(x, y)
    assert found.rho == pytest.approx(stats.spearmanr(x, y).statistic)
    every = [stats.spearmanr(x, order).statistic for order in permutations(y)]
    assert found.p_value == pytest.approx(np.mean(np.abs(every) >= abs(found.rho) - 1e-12))
    assert rank_correlation([1, 2, 3, 4], [5, 6, 7, 8]).p_value == pytest.approx(2 / 24)


def test_many_buckets_are_judged_by_random_orders():
    rng = np.random.default_rng(1)
    x = np.arange(30.0)
    y = np.round(0.05 * x + rng.normal(size=30), 1)  # with ties
    found = rank_correlation(x, y)
    known = stats.spearmanr(x, y)
    assert found.rho == pytest.approx(known.statistic)
    assert found.p_value == pytest.approx(known.pvalue, abs=0.02)
    assert found == rank_correlation(x, y)


@pytest.mark.parametrize(("x", "y"), [([1, 2], [1, 2]), ([1, 2, 3], [4, 4, 4]), ([1, np.nan, 3, 4], [1, 2, np.nan, 2])])
def test_too_little_to_correlate(x, y):
    assert math.isnan(rank_correlation(x, y).rho) and math.isnan(rank_correlation(x, y).p_value)


def row(bucket: int, members: int, caught: int, others: int, accused: int) -> dict:
    each = {"bucket": bucket, "log_probability": -5.0 + bucket}
    for side, n, k, s in (("member", members, caught, 0.75 * members), ("heldout", others, accused, 0.5 * others)):
        own = {"patients": n, "n": n, "nn": n, "k": k, "kk": k, "kn": k, "s": s, "ss": s * s / max(n, 1), "sn": s}
        each |= {f"{side}_{name}": value for name, value in own.items()}
    return each


def test_a_bucket_says_caught_less_accused_and_small_ones_nothing():
    table = leakage(pd.DataFrame([row(0, 6, 3, 3, 0), row(1, 8, 6, 4, 1), row(2, 12, 3, 0, 0)]), "privacy leakage")
    assert table["kept"].tolist() == [False, True, True]
    assert table["patients"].tolist() == [9, 12, 12]
    assert math.isnan(table["value"][0]) and math.isnan(table["tpr"][0])
    assert table["value"][1] == pytest.approx(6 / 8 - 1 / 4)
    assert table["low"][1] < table["value"][1] < table["high"][1]
    assert math.isnan(table["value"][2]) and table["tpr"][2] == pytest.approx(0.25), "nobody held out: no leakage"
    by_rank = leakage(pd.DataFrame([row(2, 12, 3, 0, 0)]), "score percentile")
    assert by_rank["value"][0] == pytest.approx(0.75)
