"""The area under the divergence curve against a naive oracle, and at its ends."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from core.evaluation.utility.distance import MIXTURES, area_interval, divergence_area


def naive(p: list[float], q: list[float]) -> float:
    """The same, one term at a time."""

    def divergence(a, b):
        return sum(x * math.log(x / y) for x, y in zip(a, b, strict=True) if x > 0)

    p, q = [x / sum(p) for x in p], [x / sum(q) for x in q]
    curve = [(0.0, 1.0), (1.0, 0.0)]
    for number in range(1, MIXTURES + 1):
        share = number / (MIXTURES + 1)
        mixed = [share * x + (1 - share) * y for x, y in zip(p, q, strict=True)]
        curve.append((math.exp(-5 * divergence(q, mixed)), math.exp(-5 * divergence(p, mixed))))
    curve.sort(key=lambda point: (point[0], -point[1]))
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in zip(curve, curve[1:], strict=False))


def test_the_area_is_that_of_the_oracle():
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, q = rng.integers(0, 9, 6) + np.eye(6)[0], rng.integers(0, 9, 6) + np.eye(6)[1]
        assert divergence_area(p, q) == pytest.approx(naive(list(p), list(q)), abs=1e-9)
        assert divergence_area(p, q) == pytest.approx(divergence_area(q, p), abs=1e-9)
    many = rng.integers(1, 9, (3, 6)), rng.integers(1, 9, (3, 6))
    np.testing.assert_allclose(divergence_area(*many), [divergence_area(*row) for row in zip(*many, strict=True)])


def test_equal_texts_have_area_1_and_disjoint_ones_almost_none():
    assert divergence_area(np.array([3, 5, 2]), np.array([30, 50, 20])) == pytest.approx(1)
    disjoint = divergence_area(np.array([1, 0]), np.array([0, 1]))
    assert disjoint < 0.05 < divergence_area(np.array([3, 1]), np.array([1, 3])) < 1


def counts(sides: dict[str, list[tuple[str | None, int]]]) -> pd.DataFrame:
    rows = [(kind, patient, cluster, 1) for kind, texts in sides.items() for patient, cluster in texts]
    return pd.DataFrame(rows, columns=["kind", "patient_id", "cluster", "trials"])


def test_the_interval_holds_the_value_and_patients_are_resampled_together():
    rng = np.random.default_rng(1)
    texts = [(None, int(cluster)) for cluster in rng.integers(4, size=80)]
    apart = [(f"P{number}", int(cluster)) for number, cluster in enumerate(rng.integers(4, size=80))]
    together = [
        (f"P{number // 20}", cluster) for number, (_, cluster) in enumerate(sorted(apart, key=lambda one: one[1]))
    ]
    intervals = [
        area_interval(counts({"compared": texts, "reference": notes}), resamples=200, seed=0)
        for notes in (apart, together)
    ]
    assert intervals[0].value == pytest.approx(intervals[1].value), "the histograms are the same"
    for one in intervals:
        assert 0 <= one.low <= one.value and one.low < one.high <= 1
    wide = [one.high - one.low for one in intervals]
    assert wide[1] > 1.5 * wide[0], "four patients of one cluster each say less than 80 patients"


def test_sides_without_a_common_cluster_have_no_interval():
    """No resample gives them one, so all have the same area, although other texts may share a cluster with a note."""
    texts = [(None, number % 10) for number in range(200)]
    notes = [(f"P{number % 20}", 10 + number % 10) for number in range(200)]
    apart = area_interval(counts({"compared": texts, "reference": notes}), resamples=200, seed=0)
    assert apart.value == pytest.approx(naive([1] * 10 + [0] * 10, [0] * 10 + [1] * 10))
    assert math.isnan(apart.low) and math.isnan(apart.high)
    one = area_interval(counts({"compared": [(None, 10), *texts[1:]], "reference": notes}), resamples=200, seed=0)
    assert one.low <= one.value < one.high, "one common text is enough"
