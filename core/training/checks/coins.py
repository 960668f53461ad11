"""Is every unit in a step with probability q, by its own coin?"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from core.spec import Unit
from core.training.batching import Feed
from core.training.checks.check import Check, by_chance, chi_square, two_sided
from core.training.sampling import Units

COINS = 3_000_000  # that are counted at most
FEWEST_STEPS = 20  # that are drawn, also for a shorter training: fewer would show little
SMOOTH = 5.0  # variance of a count from which on sums of its squares are judged
FEWEST = 4  # units that the largest sample must have


def coin_checks(feed: Feed, units: Units, rate: float, steps: int, unit: Unit) -> tuple[list[Check], int, np.ndarray]:
    """Count who is sampled in each step of a training, as the engine's own feed draws it.

    Returns:
        The checks, the step with the largest sample, and the units in that sample (k,).

    Raises:
        ValueError: no step samples FEWEST units.
    """
    count, steps = len(units), max(FEWEST_STEPS, min(steps, COINS // len(units)))
    sizes, times = np.zeros(steps), np.zeros(count)
    largest, sample = 1, np.empty(0, dtype=np.int64)
    for step in range(1, steps + 1):
        names = [names for _, names in feed.drawn(step, units, rate)]
        drawn = np.unique(np.concatenate(names)) if names else np.empty(0, dtype=np.int64)
        sizes[step - 1] = len(drawn)
        times[drawn] += 1
        if len(drawn) > len(sample):
            largest, sample = step, drawn
    if len(sample) < FEWEST:
        raise ValueError(f"no step of this run samples {FEWEST} {unit}s to look at: raise its batch size")
    return _judged(sizes, times, rate, unit), largest, sample


def _judged(sizes: np.ndarray, times: np.ndarray, rate: float, unit: Unit) -> list[Check]:
    """Checks of the number of units in each step (T,), and of the number of steps with each unit (n,)."""
    steps, count, spread = len(sizes), len(times), rate * (1 - rate)
    expected = math.floor(rate * count)
    found = [
        by_chance(
            "inclusion",
            f"A {unit} is in a step with probability q",
            "probability of a count at least this extreme",
            _tail(stats.binom(steps * count, rate), int(sizes.sum())),
        ),
        by_chance(
            "larger_steps",
            f"No sample is cut off: steps of more than q·n {unit}s are as frequent as they must be",
            "probability",
            _tail(stats.binom(steps, stats.binom(count, rate).sf(expected)), int((sizes > expected).sum())),
        ),
    ]
    if count * spread >= SMOOTH:
        by_step = ((sizes - count * rate) ** 2).sum() / (count * spread)
        claim = f"Each {unit} has its own coin: sizes of steps vary as they must"
        chance = two_sided(by_step, chi_square(steps, count * spread))
        found.append(by_chance("step_sizes", claim, "probability of such variation", chance))
    if steps * spread * count >= SMOOTH * FEWEST_STEPS:
        by_unit = ((times - steps * rate) ** 2).sum() / (steps * spread)
        claim = f"No {unit} is sampled more often than others"
        chance = two_sided(by_unit, chi_square(count, steps * spread))
        found.append(by_chance("unit_counts", claim, "probability of such differences", chance))
    return found


def _tail(distribution: stats.distributions.rv_frozen, seen: int) -> float:
    """The probability of a count at least as far out, on either side."""
    return min(1.0, 2 * min(float(distribution.cdf(seen)), float(distribution.sf(seen - 1))))
