from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from core.evaluation.stats.intervals import compare_proportions, mean_interval, proportion_interval


def test_wilson_known_answers():
    low, high = proportion_interval(0, 10)
    assert low == 0.0 and high == pytest.approx(1.96**2 / (10 + 1.96**2), abs=1e-4)  # z²/(n + z²) = 0.2775
    assert proportion_interval(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)  # Newcombe 1998's method 3
    assert proportion_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998, table I
    assert proportion_interval(10, 10)[1] == 1.0


@given(st.integers(1, 200), st.data())
@settings(max_examples=60)
def test_wilson_agrees_with_scipy(trials, data):
    successes = data.draw(st.integers(0, trials))
    expected = stats.binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    assert proportion_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_comparison_by_hand():
    found = compare_proportions(30, 100, 15, 100)
    assert found.difference == pytest.approx(0.15)
    assert found.chi2 == pytest.approx(200 * (30 * 85 - 70 * 15) ** 2 / (100 * 100 * 45 * 155))  # 6.4516
    assert found.p_value == pytest.approx(0.01109, abs=1e-5)
    assert found.cohens_h == pytest.approx(2 * math.asin(math.sqrt(0.3)) - 2 * math.asin(math.sqrt(0.15)))
    assert found.exact_p_value == pytest.approx(stats.fisher_exact([[30, 70], [15, 85]]).pvalue)


@given(st.integers(1, 60), st.integers(1, 60), st.data())
@settings(max_examples=60)
def test_comparison_agrees_with_scipy_and_is_antisymmetric(n1, n2, data):
    k1, k2 = data.draw(st.integers(0, n1)), data.draw(st.integers(0, n2))
    found, turned = compare_proportions(k1, n1, k2, n2), compare_proportions(k2, n2, k1, n1)
    assert found.cohens_h == pytest.approx(-turned.cohens_h) and found.chi2 == pytest.approx(turned.chi2)
    if 0 < k1 + k2 < n1 + n2:
        expected = stats.chi2_contingency([[k1, n1 - k1], [k2, n2 - k2]], correction=False)
        assert (found.chi2, found.p_value) == pytest.approx((expected.statistic, expected.pvalue), abs=1e-9)
    else:
        assert (found.chi2, found.p_value, found.exact_p_value) == pytest.approx((0.0, 1.0, 1.0))


def test_mean_interval_over_seeds():
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    half = 4.302653 * 1.0 / math.sqrt(3)  # t(0.975, 2 degrees of freedom)
    assert (mean, low, high) == pytest.approx((2.0, 2 - half, 2 + half), abs=1e-5)
    mean, low, high = mean_interval([7.0])
    assert mean == 7.0 and math.isnan(low) and math.isnan(high)
    for endless in (math.inf, -math.inf):
        mean, low, high = mean_interval([endless, 5.0])
        assert mean == endless and math.isnan(low) and math.isnan(high)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: proportion_interval(0, 0), "at least one trial"),
        (lambda: proportion_interval(3, 2), "not a proportion"),
        (lambda: proportion_interval(-1, 2), "not a proportion"),
        (lambda: proportion_interval(1, 2, confidence=95), "between 0 and 1"),
        (lambda: compare_proportions(1, 2, 0, 0), "at least one trial"),
        (lambda: mean_interval([]), "at least one value"),
        (lambda: mean_interval([1.0, math.nan]), "finite"),
        (lambda: mean_interval([math.inf, -math.inf]), "finite"),
    ],
)
def test_bad_input_is_a_sentence(call, words):
    with pytest.raises(ValueError, match=words):
        call()
