"""Noise that makes a word histogram safe to release (Hoory 2021, §3.2), and its privacy guarantee.

Two data sets are neighbours when one has one more unit (a note or a patient). A unit adds 1 to the counts of at most k
different words, so both kinds of noise protect a unit and not only a word:

* `gaussian`: N(0, σ²) on every count, σ = s·√k, since a unit changes the counts by at most √k in L2. s is that of the
  analytic Gaussian mechanism (Balle & Wang 2018, theorem 8) and composes with training by PRV.
* `laplace`: exactly as in Hoory 2021, §3.2: Lap(2/ε₁) and threshold 1 + 2·ln(2/δ₁)/ε₁ guarantee (ε₁, δ₁) for a word,
  and (kε₁, kδ₁) for k different words by basic composition.

Words with a count of zero get no noise, so a word that only one unit contains must not be released: whatever ends below
the threshold is dropped (Korolova et al. 2009; for Gaussian noise Gopi et al. 2020).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy.optimize import brentq
from scipy.stats import norm

from core.common.randomness import Stream
from core.spec import VocabularySpec

GAUSSIAN = (1e-3, 1e7)  # least and largest s that is computed
LAPLACE = (1e-6, 1e15)  # least and largest scale: beyond, 1 + scale is not exact enough for its δ, or for a count of 1


class WordNoise(BaseModel):
    """The noise of one histogram, from which its guarantee can be derived again. Part of `privacy.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    noise: Literal["gaussian", "laplace"]
    scale: float = Field(gt=0, description="in counts: the Gaussian's standard deviation, the Laplace's b")
    threshold: float = Field(gt=1, description="words whose noisy count is below are dropped")
    words: int = Field(ge=1, description="k: different words that one unit adds to the histogram")
    delta: float = Field(gt=0, lt=1, description="of the histogram, for one unit")

    @model_validator(mode="after")
    def _holds(self) -> Self:
        if self.added()[1] > self.delta * (1 + 1e-9):
            raise ValueError(f"this threshold releases words of one unit more often than δ = {self.delta:g} allows")
        return self

    @classmethod
    def planned(cls, spec: VocabularySpec) -> Self:
        """The least noise that a spec's (ε, δ) allows.

        Raises:
            ValueError: for a spec without ε, or with one that needs less or more noise than can be computed.
        """
        if spec.epsilon is None:
            raise ValueError("a vocabulary without ε has no noise")
        k, epsilon, delta = spec.words, spec.epsilon, spec.delta
        if spec.noise == "laplace":
            scale = 2 * k / epsilon  # ε₁ = ε/k and δ₁ = δ/k for each word
            if not LAPLACE[0] <= scale <= LAPLACE[1]:
                raise ValueError(_not_computed(epsilon, delta, too_large=scale < LAPLACE[0]))
            threshold = 1 + scale * math.log(2 * k / delta)
        else:
            scale = gaussian_multiplier(epsilon, delta / 2, for_delta=delta) * math.sqrt(k)
            threshold = 1 + scale * float(norm.isf(-math.expm1(-delta / (2 * k))))
        if math.isinf(threshold):
            raise ValueError(_not_computed(epsilon, delta, too_large=False))
        return cls(noise=spec.noise, scale=scale, threshold=threshold, words=k, delta=delta)

    @property
    def multiplier(self) -> float | None:
        """s: the Gaussian's standard deviation over √k, the most that a unit changes the counts; None for Laplace."""
        return self.scale / math.sqrt(self.words) if self.noise == "gaussian" else None

    def added(self, units: int = 1) -> tuple[float, float]:
        """(ε, δ) to add to the rest by basic composition, for a person with `units` units (Laplace: only one).

        Laplace: the whole guarantee, k·2/b and k·2·e^(−(T − 1)/b). Gaussian: ε is composed by PRV (`multiplier`), and
        this is only the probability of releasing a word that no other unit contains, −k·ln Φ((T − 1)/σ). With t ≤ k
        such words the outcome is that of a Gaussian mechanism on the other words unless one of them is released, which
        has probability 1 − p, p = Φ((T − 1)/σ)^t. That costs 1 − p in one direction; in the other, ε shrinks by −ln p,
        for which δ grows by less than −ln p, since |dδ/dε| ≤ 1. Both are at most −ln p. (Exact: Wilkins et al. 2024.)

        For m units, the words that no other unit contains have counts of 1 to m that sum to at most m·k. The worst case
        over equal counts c, with m·k/c words, is taken.

        Raises:
            ValueError: for Laplace noise of several units.
        """
        if units > 1 and self.noise == "laplace":
            raise ValueError("Laplace noise has no direct bound for several units: use group privacy")
        if self.noise == "laplace":
            return self.words * 2 / self.scale, min(1.0, self.words * 2 * math.exp(-(self.threshold - 1) / self.scale))
        counts = np.arange(1, units + 1)
        alone = -norm.logcdf((self.threshold - counts) / self.scale)
        return 0.0, min(1.0, float(np.max(alone * (units * self.words / counts))))

    def epsilon(self) -> float:
        """ε of the histogram alone, for one unit at `delta`."""
        epsilon, spent = self.added()
        return epsilon if self.multiplier is None else gaussian_epsilon(self.multiplier, self.delta - spent)

    def release(self, counts: Mapping[str, int], rng: Stream) -> dict[str, float]:
        """The noisy histogram: every word of `counts` with a positive count, unless it ends below the threshold.

        The guarantee holds only if nobody can draw `rng` again. Raises ValueError for a count below 0.
        """
        if any(count < 0 for count in counts.values()):
            raise ValueError("a word cannot occur less than 0 times")
        words = sorted(word for word, count in counts.items() if count > 0)  # the input's order must not be visible
        draw = rng.laplace if self.noise == "laplace" else rng.normal
        noisy = draw(scale=self.scale, size=len(words)) + np.array([counts[word] for word in words], dtype=np.float64)
        return {word: float(count) for word, count in zip(words, noisy, strict=True) if count >= self.threshold}


def gaussian_delta(multiplier: float, epsilon: float) -> float:
    """δ of one Gaussian mechanism: Φ(1/2s − εs) − e^ε·Φ(−1/2s − εs) (Balle & Wang 2018, theorem 8)."""
    near, far = 1 / (2 * multiplier) - epsilon * multiplier, -1 / (2 * multiplier) - epsilon * multiplier
    return float(norm.cdf(near) - math.exp(epsilon + norm.logcdf(far)))


def gaussian_multiplier(epsilon: float, delta: float, *, for_delta: float | None = None) -> float:
    """The least s (rounded up by a millionth) for which one Gaussian mechanism is (ε, δ)-private.

    Raises:
        ValueError: s lies outside `GAUSSIAN`. The sentence names `for_delta` in place of δ, if it is given.
    """
    low, high = map(math.log, GAUSSIAN)
    least, most = (gaussian_delta(one, epsilon) for one in GAUSSIAN)
    if not most <= delta <= least:
        raise ValueError(_not_computed(epsilon, delta if for_delta is None else for_delta, too_large=least < delta))
    return math.exp(_root(lambda at: gaussian_delta(math.exp(at), epsilon), delta, low, high) + 1e-6)


def _not_computed(epsilon: float, delta: float, *, too_large: bool) -> str:
    asked = f"ε = {epsilon:g} at δ = {delta:g} for the words"
    if too_large:
        return (
            f"{asked} is so large that its noise is too small to be computed, and promises nothing: choose a smaller ε"
        )
    return f"{asked} is so small that its noise is too large to be computed: choose a larger ε or a larger δ"


def gaussian_epsilon(multiplier: float, delta: float) -> float:
    """ε of one Gaussian mechanism at `delta`; 0 if δ alone is enough."""
    if gaussian_delta(multiplier, 0.0) <= delta:
        return 0.0
    widest = 1 / (2 * multiplier**2) + 40 / multiplier  # 40 standard deviations into the tail of the loss
    return _root(lambda epsilon: gaussian_delta(multiplier, epsilon), delta, 0.0, widest) + 1e-9


def _root(delta_at: Callable[[float], float], delta: float, low: float, high: float) -> float:
    return float(brentq(lambda at: delta_at(at) - delta, low, high, xtol=1e-10))
