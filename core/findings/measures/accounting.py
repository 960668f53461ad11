"""Figures that follow from a training's settings alone: exact, so both ends of their intervals are the value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from scipy import stats

from core.evaluation.stats.bootstrap import Interval
from core.findings.claim import Figure
from core.training.accounting.gaussian import epsilon, noise_multiplier


def exact(label: str, value: float) -> Figure:
    """A figure without uncertainty."""
    return Figure(label, value, value, value)


def epsilon_of(sigma: float, *, notes: int, epochs: int, batch: int, delta: float) -> float:
    """ε of a training with Poisson sampling of `batch` notes on average, by exact accounting.

    Its steps are counted over all its epochs, as trainings count them: ⌈epochs · notes / batch⌉.
    """
    steps = math.ceil(epochs * notes / batch)
    return epsilon(noise_multiplier=sigma, sample_rate=batch / notes, steps=steps, delta=delta)


def epsilon_for_batch(batch: int, *, notes: int, epochs: int, sigma: float, usual: int, delta: float) -> float:
    """`epsilon_of` a training with the batch size `batch` and σ·√(batch/usual)."""
    return epsilon_of(sigma * math.sqrt(batch / usual), notes=notes, epochs=epochs, batch=batch, delta=delta)


def epsilon_a_step(target: float, *, rate: float, counts: Sequence[int], delta: float) -> list[float]:
    """ε gained per step between each two of these counts of steps; σ is the one that spends `target` over all."""
    sigma = noise_multiplier(target_epsilon=target, sample_rate=rate, steps=counts[-1], delta=delta)
    spent = [epsilon(noise_multiplier=sigma, sample_rate=rate, steps=count, delta=delta) for count in counts]
    return [
        (after - before) / (end - start) for (start, before), (end, after) in pairwise(zip(counts, spent, strict=True))
    ]


def shard_noise(shards: int, *, sigma: float = 1.0, draws: int = 200_000) -> Interval:
    """Standard deviation of the sum of `shards` noises N(0, σ²), divided by σ·√shards, from that many draws of each.

    The interval is that of a normal sample's standard deviation (χ²).
    """
    rng = np.random.default_rng([0, shards])
    total = np.zeros(draws)
    for _ in range(shards):
        total += rng.normal(0.0, sigma, draws)
    ratio = float(total.std(ddof=1)) / (sigma * math.sqrt(shards))
    low, high = (math.sqrt((draws - 1) / stats.chi2.ppf(tail, draws - 1)) for tail in (0.975, 0.025))
    return Interval(ratio, ratio * low, ratio * high)
