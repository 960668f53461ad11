"""The DP vocabulary's histogram: its threshold by hand, and its noise and its δ by counting."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from core.models.tokenizer import noisy_histogram, word_counts


class Still(np.random.Generator):
    """A generator whose Laplace noise is a constant, to test the threshold by hand."""

    def __init__(self, value: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.value = value

    def laplace(self, loc=0.0, scale=1.0, size=None):
        self.scale = scale
        return np.full(size, self.value)


def test_the_threshold_by_hand():
    # ε = 2, δ = 2/e⁵: 1 + 2·ln(2/δ)/ε = 1 + 5 = 6; scale 2/ε = 1.
    counts = {"rare": 5, "just": 6, "common": 60, "never": 0}
    rng = Still(0.0)
    assert noisy_histogram(counts, epsilon=2.0, delta=2 * math.exp(-5), rng=rng) == {"just": 6.0, "common": 60.0}
    assert rng.scale == 1.0
    assert noisy_histogram(counts, epsilon=2.0, delta=2 * math.exp(-5), rng=Still(1.0))["rare"] == 6.0
    assert "just" not in noisy_histogram(counts, epsilon=2.0, delta=2 * math.exp(-5), rng=Still(-0.5))


def test_the_noise_is_laplace_of_the_stated_scale():
    counts = {f"word {number}": 1_000 for number in range(20_000)}
    noisy = noisy_histogram(counts, epsilon=0.5, delta=1e-6, rng=np.random.default_rng(0))
    noise = np.array(list(noisy.values())) - 1_000
    assert len(noise) == 20_000
    assert stats.kstest(noise, stats.laplace(scale=4.0).cdf).pvalue > 1e-3
    assert np.mean(np.abs(noise)) == pytest.approx(4.0, rel=0.05)


def test_a_word_that_one_replacement_brought_survives_with_probability_below_delta():
    # P[1 + Lap(2/ε) ≥ 1 + 2·ln(2/δ)/ε] = ½·e^(−ln(2/δ)) = δ/4.
    delta, words = 0.2, 40_000
    counts = {f"word {number}": 1 for number in range(words)}
    kept = len(noisy_histogram(counts, epsilon=1.0, delta=delta, rng=np.random.default_rng(1)))
    assert stats.binomtest(kept, words, delta / 4).pvalue > 1e-3
    assert kept / words < delta


def test_a_word_said_k_times_survives_as_the_ledger_counts():
    # The same with count k: (δ/4)·e^((k − 1)ε/2), which row H1's kδ need not cover.
    delta, epsilon, k, words = 1e-3, 1.0, 9, 100_000
    counts = {f"word {number}": k for number in range(words)}
    kept = len(noisy_histogram(counts, epsilon=epsilon, delta=delta, rng=np.random.default_rng(2)))
    expected = delta / 4 * math.exp((k - 1) * epsilon / 2)
    assert stats.binomtest(kept, words, expected).pvalue > 1e-3
    assert kept / words > k * delta


def test_only_the_first_words_of_a_text_count():
    assert word_counts(["a b a c", "a"], 3) == {"a": 3, "b": 1}
    with pytest.raises(ValueError, match="at least one"):
        word_counts(["a"], 0)


@pytest.mark.parametrize("bad", [{"epsilon": 0.0}, {"epsilon": math.inf}, {"delta": 0.0}, {"delta": 1.0}])
def test_bad_budgets_are_refused(bad):
    with pytest.raises(ValueError, match="[εδ]"):
        noisy_histogram({"a": 1}, **{"epsilon": 1.0, "delta": 0.1, "rng": np.random.default_rng(0)} | bad)
    with pytest.raises(ValueError, match="less than 0"):
        noisy_histogram({"a": -1}, epsilon=1.0, delta=0.1, rng=np.random.default_rng(0))
