"""Noise of word histograms: thresholds by hand, and the noise and δ by counting and by integration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pydantic import ValidationError
from scipy import integrate, stats

from core.models.tokenizer import noisy_histogram
from core.models.word_noise import WordNoise, gaussian_delta, gaussian_epsilon, gaussian_multiplier
from core.spec import VocabularySpec


class Still(np.random.Generator):
    """A generator whose Laplace noise is a constant, to test the threshold by hand."""

    def __init__(self, value: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.value = value

    def laplace(self, loc=0.0, scale=1.0, size=None):
        self.scale = scale
        return np.full(size, self.value)


def planned(**options: object) -> WordNoise:
    return WordNoise.planned(VocabularySpec(**options))


def row_h1(epsilon: float, delta: float) -> WordNoise:
    """Noise for one word, as in Hoory 2021, §3.2."""
    return planned(noise="laplace", words=1, epsilon=epsilon, delta=delta)


def test_row_h1_by_hand():
    # ε = 2, δ = 2/e⁵: 1 + 2·ln(2/δ)/ε = 1 + 5 = 6; scale 2/ε = 1.
    counts = {"rare": 5, "just": 6, "common": 60, "never": 0}
    noise, rng = row_h1(2.0, 2 * math.exp(-5)), Still(0.0)
    assert noise.release(counts, rng) == {"just": 6.0, "common": 60.0}
    assert rng.scale == 1.0
    assert noise.release(counts, Still(1.0))["rare"] == 6.0
    assert "just" not in noise.release(counts, Still(-0.5))


def test_the_public_name_is_row_h1():
    # The threshold is again 6.
    counts = {"rare": 5, "just": 6, "common": 60, "never": 0}
    still = Still(0.0)
    assert noisy_histogram(counts, epsilon=2.0, delta=2 * math.exp(-5), rng=still) == {"just": 6.0, "common": 60.0}
    assert still.scale == 1.0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"epsilon": 1e6}, "ε = 1e\\+06 at δ = 1e-06 for the words is so large .* choose a smaller ε$"),
        ({"epsilon": 1e-9, "delta": 1e-12}, "ε = 1e-09 at δ = 1e-12 for the words is so small .* a larger δ$"),
        ({"epsilon": 1e308, "noise": "laplace"}, "so large"),
        ({"epsilon": 1e-308, "noise": "laplace", "words": 10_000}, "so small"),
        ({"epsilon": 1.0, "delta": 5e-324}, "so small"),
        ({"epsilon": 1.0, "delta": 5e-324, "words": 10_000, "noise": "laplace"}, "so small"),
    ],
)
def test_noise_that_cannot_be_computed_is_a_sentence_with_its_epsilon(spec, words):
    with pytest.raises(ValueError, match=words) as error:
        planned(**spec)
    assert not isinstance(error.value, ValidationError)


@pytest.mark.parametrize(
    "spec",
    [
        {"epsilon": 4.9e5},
        {"epsilon": 1e-3, "delta": 1e-300, "words": 10_000},
        {"epsilon": 1.9e6, "words": 1, "noise": "laplace"},
        {"epsilon": 1e-10, "words": 1, "noise": "laplace"},
    ],
)
def test_the_smallest_and_the_largest_noise_keep_what_was_asked_for(spec):
    noise = planned(**spec)
    assert noise.epsilon() == pytest.approx(spec["epsilon"], rel=1e-5)
    assert WordNoise.model_validate_json(noise.model_dump_json()) == noise


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0, 1e-6), (math.inf, 1e-6), (math.nan, 1e-6), (1.0, 0.0), (1.0, 1.0)]
)
def test_the_public_name_refuses_what_guarantees_nothing(epsilon, delta):
    with pytest.raises(ValueError):
        noisy_histogram({"word": 3}, epsilon=epsilon, delta=delta, rng=np.random.default_rng(0))


def test_row_h1_for_a_unit_of_k_words_is_k_times_epsilon_and_delta():
    one, ten = row_h1(0.2, 1e-7), planned(noise="laplace", words=10, epsilon=2.0, delta=1e-6)
    assert (ten.scale, ten.threshold) == pytest.approx((one.scale, one.threshold))
    assert ten.added() == pytest.approx((10 * one.added()[0], 10 * one.added()[1]))
    assert ten.added() == pytest.approx((2.0, 1e-6))
    assert ten.epsilon() == pytest.approx(2.0)


@pytest.mark.parametrize(("noise", "spread"), [("laplace", math.sqrt(2)), ("gaussian", 1.0)])
def test_the_noise_has_the_stated_scale(noise, spread):
    words = planned(noise=noise, words=4, epsilon=2.0)
    counts = {f"word {number}": 10_000 for number in range(20_000)}
    drawn = np.array(list(words.release(counts, np.random.default_rng(0)).values())) - 10_000
    known = stats.laplace(scale=words.scale) if noise == "laplace" else stats.norm(scale=words.scale)
    assert len(drawn) == 20_000
    assert stats.kstest(drawn, known.cdf).pvalue > 1e-3
    assert drawn.std() == pytest.approx(spread * words.scale, rel=0.05)


def test_a_word_that_one_replacement_brought_survives_with_probability_below_delta():
    # P[1 + Lap(2/ε) ≥ 1 + 2·ln(2/δ)/ε] = ½·e^(−ln(2/δ)) = δ/4.
    delta, words = 0.2, 40_000
    counts = {f"word {number}": 1 for number in range(words)}
    kept = len(row_h1(1.0, delta).release(counts, np.random.default_rng(1)))
    assert stats.binomtest(kept, words, delta / 4).pvalue > 1e-3
    assert kept / words < delta


def test_a_word_said_k_times_survives_as_the_ledger_counts():
    # The same with count k: (δ/4)·e^((k − 1)ε/2), which kδ (Hoory 2021, §3.2) need not cover: so different words only.
    delta, epsilon, k, words = 1e-3, 1.0, 9, 100_000
    counts = {f"word {number}": k for number in range(words)}
    kept = len(row_h1(epsilon, delta).release(counts, np.random.default_rng(2)))
    expected = delta / 4 * math.exp((k - 1) * epsilon / 2)
    assert stats.binomtest(kept, words, expected).pvalue > 1e-3
    assert kept / words > k * delta


def test_words_of_one_unit_alone_come_out_as_seldom_as_promised():
    k, delta = 5, 0.2
    noise = planned(words=k, epsilon=1.0, delta=delta)
    rng = np.random.default_rng(3)
    units = 20_000
    out = sum(bool(noise.release({f"word {number}": 1 for number in range(k)}, rng)) for _ in range(units))
    assert stats.binomtest(out, units, 1 - math.exp(-noise.added()[1])).pvalue > 1e-3
    assert noise.added()[1] == pytest.approx(delta / 2), "half of δ is kept for the Gaussian's tail"


@pytest.mark.parametrize(("s", "epsilon"), [(0.7, 0.5), (1.5, 1.0), (3.0, 0.1)])
def test_gaussian_delta_is_the_integral(s, epsilon):
    # ∫ max(0, p − e^ε q) of p = N(1, s²) against q = N(0, s²).
    near, far = stats.norm(1, s), stats.norm(0, s)
    found, _ = integrate.quad(lambda x: max(0.0, near.pdf(x) - math.exp(epsilon) * far.pdf(x)), -20, 30, limit=500)
    assert gaussian_delta(s, epsilon) == pytest.approx(found, rel=1e-5)


def test_the_multiplier_gives_the_epsilon_it_was_asked_for():
    for epsilon, delta in ((0.1, 1e-8), (1.0, 5e-7), (8.0, 1e-5)):
        s = gaussian_multiplier(epsilon, delta)
        assert gaussian_delta(s, epsilon) <= delta
        assert gaussian_epsilon(s, delta) == pytest.approx(epsilon, rel=1e-4)
    # The textbook's σ = √(2 ln(1.25/δ))/ε (Dwork & Roth 2014, theorem A.1; ε < 1) is never less.
    assert gaussian_multiplier(0.5, 1e-5) < math.sqrt(2 * math.log(1.25 / 1e-5)) / 0.5


def exact_delta(noise: WordNoise, epsilon: float) -> float:
    """Wilkins et al. 2024: the exact δ of Gaussian noise with a threshold, the worst over t words of one unit alone."""
    stay = stats.norm.cdf((noise.threshold - 1) / noise.scale)
    worst = 0.0
    for alone in range(noise.words + 1):
        log_p = alone * math.log(stay)
        shared = math.sqrt(noise.words - alone)
        gauss = (
            (lambda at, s=shared: gaussian_delta(noise.scale / s, at))
            if shared
            else (lambda at: max(0.0, 1 - math.exp(at)))
        )
        worst = max(worst, -math.expm1(log_p) + math.exp(log_p) * gauss(epsilon - log_p), gauss(epsilon + log_p))
    return worst


@pytest.mark.parametrize(
    ("words", "epsilon", "delta"), [(1, 1.0, 1e-6), (10, 2.0, 1e-3), (30, 0.3, 1e-2), (4, 8.0, 0.1)]
)
def test_the_promise_holds_against_the_exact_delta(words, epsilon, delta):
    noise = planned(words=words, epsilon=epsilon, delta=delta)
    assert noise.epsilon() == pytest.approx(epsilon, rel=1e-4)
    assert delta / 3 < exact_delta(noise, noise.epsilon()) <= delta


def test_gaussian_noise_keeps_rarer_words_than_row_h1():
    for words in (5, 20, 100):
        assert (
            planned(words=words, epsilon=2.0).threshold < planned(words=words, epsilon=2.0, noise="laplace").threshold
        )


def test_the_order_of_the_words_does_not_show():
    counts = {f"word {number}": 100 + number for number in range(50)}
    noise = planned(epsilon=3.0)
    turned = dict(reversed(counts.items()))
    assert noise.release(counts, np.random.default_rng(5)) == noise.release(turned, np.random.default_rng(5))


def test_a_promise_that_its_threshold_does_not_keep_is_refused():
    noise = planned(epsilon=1.0)
    assert WordNoise.model_validate_json(noise.model_dump_json()) == noise
    with pytest.raises(ValidationError, match="δ"):
        WordNoise.model_validate(noise.model_dump() | {"threshold": noise.threshold / 2})


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="without ε"):
        WordNoise.planned(VocabularySpec())
    with pytest.raises(ValueError, match="less than 0"):
        planned(epsilon=1.0).release({"a": -1}, np.random.default_rng(0))
