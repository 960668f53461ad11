"""Rankings of conditions, by hand and against naive loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from core.evaluation.probes import ranking
from core.evaluation.stats.bootstrap import patient_bootstrap


def naive_auc(scores, has, bins) -> float:
    """Pairs counted one by one, each condition of the patient weighing the same."""
    shares = []
    for own in np.flatnonzero(has):
        others = [c for c in range(len(has)) if not has[c] and bins[c] == bins[own]]
        if others:
            shares.append(np.mean([(scores[c] < scores[own]) + 0.5 * (scores[c] == scores[own]) for c in others]))
    return float(np.mean(shares)) if shares else np.nan


def test_auc_by_hand():
    scores = np.array([[3.0, 1.0, 2.0, 9.0, 5.0]])
    has = np.array([[True, False, False, False, True]])
    bins = np.array(["1", "1", "1", "2", "2"])
    # bin 1: 3 beats 1 and 2 → 1; bin 2: 5 loses to 9 → 0; the mean is ½. Without bins 3 beats 2 of 3, 5 beats 2 of 3.
    assert ranking.patient_aucs(scores, has, bins)[0] == pytest.approx(0.5)
    assert ranking.patient_aucs(scores, has, ["all"] * 5)[0] == pytest.approx(2 / 3)


def test_auc_equals_a_loop_over_pairs():
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 6, (12, 30)).astype(float)  # many ties
    has = rng.random((12, 30)) < 0.15
    bins = rng.choice(["1", "2", "3", "4"], 30)
    expected = [naive_auc(scores[row], has[row], bins) for row in range(12)]
    np.testing.assert_allclose(ranking.patient_aucs(scores, has, bins), expected)


def test_nothing_to_compare_is_no_number():
    bins = ["1", "2"]
    assert np.isnan(ranking.patient_aucs(np.array([[1.0, 2.0]]), np.array([[True, False]]), bins)).all()
    found, blind = ranking.patient_precisions(np.array([[1.0, 2.0]]), np.array([[True, False]]), bins)
    assert np.isnan(found).all() and np.isnan(blind).all()


def test_precision_at_ten_by_hand():
    scores = np.arange(20.0)[None]
    has = np.zeros((1, 20), dtype=bool)
    has[0, [19, 12, 3]] = True  # two of three among the ten highest
    found, blind = ranking.patient_precisions(scores, has, ["all"] * 20)
    assert found[0] == pytest.approx(0.2) and blind[0] == pytest.approx(3 / 20)


def test_ties_at_the_cut_count_with_their_expectation():
    values = np.array([5.0, 1.0, 1.0, 1.0, 0.0])
    truth = np.array([False, True, False, False, True])
    assert ranking.top_share(values, truth, 2) == pytest.approx((1 / 3) / 2)
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(4_000):
        order = np.lexsort((rng.random(5), -values))
        drawn.append(truth[order[:2]].mean())
    assert np.mean(drawn) == pytest.approx(1 / 6, abs=0.02)


def test_correlation_with_frequency_equals_scipy():
    rng = np.random.default_rng(1)
    scores, frequency = rng.random((3, 18)), rng.integers(1, 9, 18).astype(float)
    bins = np.array(["1"] * 6 + ["2"] * 10 + ["3"] * 2)  # the last bin is too small
    for row, found in zip(scores, ranking.patient_correlations(scores, frequency, bins), strict=True):
        parts = [stats.spearmanr(row[:6], frequency[:6])[0], stats.spearmanr(row[6:16], frequency[6:16])[0]]
        assert found == pytest.approx((6 * parts[0] + 10 * parts[1]) / 16)
    left, right, places = ranking.condition_correlation(scores[0], frequency, bins)
    value = patient_bootstrap(
        ranking.weighted_correlation(left, right, places), np.arange(16), places, resamples=20
    ).value
    assert value == pytest.approx(ranking.patient_correlations(scores[:1], frequency, bins)[0])


def test_a_blind_ranking_finds_a_patients_own_share_of_conditions():
    has = np.zeros((2, 20), dtype=bool)
    has[0, :10], has[1, :2] = True, True
    _, blind = ranking.patient_precisions(np.zeros((2, 20)), has, ["a"] * 20)
    assert blind.tolist() == [0.5, 0.1]
