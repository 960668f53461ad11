"""Noise from a secret is normal far into the tail, and its low bits do not show what it was added to."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from core.common.randomness import KeyedStream, SecretKey, Stream
from core.training.gradients import noise
from core.training.gradients.noise import PAIRS, add_gaussian

KEY = SecretKey(bytes(range(16)))
DEVIATION = 0.943  # σC of the attacked steps
SIZE = 6 * PAIRS + 7


def noised(values: np.ndarray, deviation: float = DEVIATION, step: int = 1) -> np.ndarray:
    """float32 values with the noise of one step."""
    found = torch.from_numpy(values.astype(np.float32))
    add_gaussian(found, deviation, KEY.stream(4, step))
    return found.numpy()


def gradients(size: int = SIZE) -> np.ndarray:
    return np.random.default_rng(0).normal(scale=0.02, size=size).astype(np.float32)


def exact_noise(size: int, stream: KeyedStream) -> np.ndarray:
    """What `add_gaussian` adds for σC = 1, by Box and Muller's formula in extended precision (size,)."""
    parts = []
    for first in range(0, size, 2 * PAIRS):
        length = min(2 * PAIRS, size - first)
        words = stream.words((length + 1) // 2)
        uniform = words.astype(np.longdouble)
        small = words < 2**53
        uniform[small] += (stream.words(int(small.sum())).astype(np.longdouble) + np.longdouble(0.5)) / 2**64
        radius = np.sqrt(-2 * np.log(uniform / np.longdouble(2.0**64)))
        angle = (stream.words(len(words)) >> np.uint64(11)) * (8 * np.arctan(np.longdouble(1)) / 2**53)
        parts += [radius * np.cos(angle), (radius * np.sin(angle))[: length - len(words)]]
    return np.concatenate(parts)


class Words(KeyedStream):
    """A stream of these words, again and again."""

    def __init__(self, words: np.ndarray) -> None:
        self.given, self.read = words.astype(np.uint64), 0

    def words(self, count: int) -> np.ndarray:
        found = self.given[np.arange(self.read, self.read + count) % len(self.given)]
        self.read += count
        return found


def test_it_is_normal_to_the_tails_and_the_same_for_the_same_step() -> None:
    drawn = noised(np.zeros(1_000_001), 2.5).astype(np.float64) / 2.5
    assert stats.kstest(drawn, "norm").pvalue > 1e-3 and np.isfinite(drawn).all()
    for bound in (2.0, 3.0, 4.0):  # a count's standard deviation is its root
        expected = len(drawn) * 2 * stats.norm.sf(bound)
        assert abs((np.abs(drawn) > bound).sum() - expected) < 4 * np.sqrt(expected)
    cosines, sines = drawn[:PAIRS], drawn[PAIRS : 2 * PAIRS]  # from the same radius and angle
    for one, other in ((cosines, sines), (cosines**2, sines**2), (drawn[:-1], drawn[1:])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(len(one))
    values = gradients()
    assert np.array_equal(noised(values), noised(values)), "a resumed run draws what it would have drawn"
    assert abs(np.corrcoef(noised(values), noised(values, step=2))[0, 1]) < 5 / np.sqrt(SIZE)
    assert np.array_equal(noised(values, 0.0), values), "no noise, no change"


@pytest.mark.parametrize("size", [0, 1, 2, 3, 2 * PAIRS + 1])
def test_every_place_gets_different_noise(size: int) -> None:
    values = noised(np.zeros(size))
    assert len(values) == size and (values != 0).all() and len(np.unique(values)) >= 0.99 * size


def test_it_is_added_in_float64_and_the_sum_is_rounded_once() -> None:
    values = gradients()
    grid = float(np.spacing(np.float32(DEVIATION)))
    total = values.astype(np.longdouble) + np.longdouble(DEVIATION) * exact_noise(SIZE, KEY.stream(4, 1))
    expected = (np.rint(total / grid) * grid).astype(np.float32)
    found = noised(values)
    assert (found == expected).mean() > 0.9999, "the others were within an error of float64 of a half"
    assert np.abs(found.astype(np.float64) - expected).max() <= np.spacing(np.float32(8 * DEVIATION))
    rounded_twice = values + (DEVIATION * exact_noise(SIZE, KEY.stream(4, 1))).astype(np.float32)
    assert (found == rounded_twice).mean() < 0.9, "the control: noise that was rounded before it was added"


def test_a_sum_that_nearly_cancels_keeps_no_low_bits() -> None:
    """Near 0, float64 would show which numbers were added. All sums are on one grid, whatever the data is."""
    grid = float(np.spacing(np.float32(DEVIATION)))
    values = -noised(np.zeros(SIZE))
    close = noised(values).astype(np.float64)
    assert np.abs(close).max() <= np.spacing(np.float32(8 * DEVIATION)), "these nearly cancel"
    for found in (close, noised(gradients()).astype(np.float64)):
        assert np.array_equal(found / grid, np.rint(found / grid))


def test_radii_are_fine_in_the_tail() -> None:
    """Words below 2⁵³, one in 2,048, get 64 bits more. The smallest number gives a radius of 13.4."""
    smallest = noise._uniform(4, Words(np.zeros(1)))
    assert np.array_equal(smallest, np.full(4, 2.0**-129))
    values = torch.zeros(4)
    add_gaussian(values, 2.0, Words(np.zeros(1)))
    assert values[0].item() == pytest.approx(2 * np.sqrt(2 * 129 * np.log(2)))
    rng, count = np.random.default_rng(1), 100_000
    words = np.concatenate((rng.integers(1 << 12, size=count), rng.integers(1 << 64, size=count, dtype=np.uint64)))
    tail = noise._uniform(count, Words(words)) * 2.0**64  # radii beyond 8.4
    assert stats.kstest(tail / 2**12, "uniform").pvalue > 1e-3
    assert stats.kstest(tail % 1.0, "uniform").pvalue > 1e-3, "the 64 bits of a word are not the last"
    usual = noise._uniform(count, Words(words[count:]))
    assert stats.kstest(usual, "uniform").pvalue > 1e-3


# An attack on the 32-bit form --------------------------------------------------------------------------------


def places(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Where the two numbers of each pair are."""
    first, second = [], []
    for start in range(0, size, 2 * PAIRS):
        length = min(2 * PAIRS, size - start)
        pairs, both = (length + 1) // 2, length // 2
        first.append(start + np.arange(both))
        second.append(start + pairs + np.arange(both))
    return np.concatenate(first), np.concatenate(second)


def off_the_lattice(seen: np.ndarray) -> float:
    """How far the largest radii are from those of 32 bits, in their distances: 0 on the lattice, ¼ by chance."""
    first, second = (seen[rows] / DEVIATION for rows in places(SIZE))
    squares = first**2 + second**2
    number = np.exp(-squares[squares > 20] / 2) * 2.0**32 - 0.5
    found = np.abs(number - np.rint(number))[number < 1e5]
    return float(found.mean()) if len(found) else 0.25


def right_guesses(streams: list[Stream]) -> int:
    """How often the attack sees from one noisy sum whether a unit is in it, which it knows, as all else."""
    rng = np.random.default_rng(2)
    others, own = gradients(), rng.normal(size=SIZE)
    own = (own / np.linalg.norm(own)).astype(np.float32)
    right = 0
    for stream in streams:
        inside = bool(rng.integers(2))
        total = torch.from_numpy(others + own if inside else others.copy())
        add_gaussian(total, DEVIATION, stream)
        without = total.numpy().astype(np.float64) - others
        right += (off_the_lattice(without - own) < off_the_lattice(without)) == inside
    return right


def test_the_lattice_of_32_bits_does_not_show_who_was_in_a_sum() -> None:
    secret = right_guesses([KEY.stream(4, step) for step in range(60)])
    assert stats.binomtest(secret, 60, 0.5, alternative="greater").pvalue > 1e-3, "as by tossing a coin"
    public = right_guesses([np.random.default_rng([3, step]) for step in range(60)])
    assert stats.binomtest(public, 60, 0.5, alternative="greater").pvalue < 1e-6, "the control: there it works"
