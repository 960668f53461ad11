"""The noise of DP-SGD is normal, independent, of the right size, and takes up the whole seed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import stats

from core.common.randomness import SecretKey
from core.spec.parts import LEAST_NORM
from core.training.accounting.privacy_loss import LEAST_NOISE
from core.training.gradients import noise
from core.training.gradients.noise import PAIRS, add_gaussian

# drawn by the version that trained the shipped runs
KNOWN = [1.6192243, -1.8358350, 0.33873698, -0.43083760]
KNOWN_LATER = [-0.081800997, 0.62017870, 0.67775851, -0.85937464]


def drawn(size: int, deviation: float = 1.0, seed: int = 0) -> np.ndarray:
    values = torch.zeros(size)
    add_gaussian(values, deviation, np.random.default_rng(seed))
    return values.numpy().astype(np.float64)


def test_it_is_normal_to_the_tails() -> None:
    values = drawn(1_000_000, deviation=2.5) / 2.5
    assert stats.kstest(values, "norm").pvalue > 1e-3
    for bound in (2.0, 3.0, 4.0):  # a count's standard deviation is its root
        expected = len(values) * 2 * stats.norm.sf(bound)
        assert abs((np.abs(values) > bound).sum() - expected) < 4 * np.sqrt(expected)
    assert np.isfinite(values).all() and np.abs(values).max() < 6.77


def test_the_least_noise_with_a_numerical_epsilon_is_not_rounded_to_zero_at_the_least_clipping_norm() -> None:
    """2·σ²·C² is computed in float32, whose smallest number is 1.4·10⁻⁴⁵: 10⁻²³ is lost, 10⁻¹¹ is not."""
    least = LEAST_NOISE * LEAST_NORM
    assert drawn(100_000, deviation=least).std() == pytest.approx(least, rel=0.01)
    assert not drawn(1_000, deviation=1e-23).any(), "what the spec keeps out"


def test_neighbours_and_pairs_are_independent() -> None:
    values = drawn(8 * PAIRS)
    cosines, sines = values[:PAIRS], values[PAIRS : 2 * PAIRS]  # from the same radius and angle
    for one, other in ((cosines, sines), (cosines**2, sines**2), (values[:-1], values[1:])):
        assert abs(np.corrcoef(one, other)[0, 1]) < 4 / np.sqrt(len(one))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 2 * PAIRS - 1, 2 * PAIRS, 2 * PAIRS + 1, 5 * PAIRS + 7])
def test_every_place_gets_noise_of_its_own_whatever_the_size(size: int) -> None:
    values = drawn(size)
    assert (values != 0).all() and len(np.unique(values)) >= 0.99 * size  # float32: a few of many are equal
    assert size < PAIRS or values.std() == pytest.approx(1.0, abs=4 / np.sqrt(2 * size))


def test_it_is_added_and_repeats_for_the_same_seed() -> None:
    values = torch.full((1_001,), 3.0)
    add_gaussian(values, 0.5, np.random.default_rng(7))
    assert np.allclose(values.numpy(), 3.0 + drawn(1_001, 0.5, seed=7), atol=1e-6)
    exact = torch.arange(10.0)
    add_gaussian(exact, 0.0, np.random.default_rng(7))
    assert torch.equal(exact, torch.arange(10.0))


def test_an_accelerators_own_generator_draws_no_secret_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    values, seeds = torch.zeros(10, device="meta"), []
    monkeypatch.setattr(torch, "Generator", lambda device: pytest.fail("63 bits are not enough"))
    monkeypatch.setattr(noise, "_add_secret", lambda *asked: seeds.append(asked))
    add_gaussian(values, 1.0, SecretKey(bytes(16)).stream(4, 1))
    assert len(seeds) == 1 and seeds[0][0] is values


def test_seeds_that_agree_in_32_bits_give_other_noise() -> None:
    low = 12_345
    assert torch.equal(
        torch.randn(16, generator=torch.Generator().manual_seed(low)),
        torch.randn(16, generator=torch.Generator().manual_seed(low + (1 << 32))),
    )  # why torch's generator is not used
    assert abs(np.corrcoef(drawn(10_000, seed=low), drawn(10_000, seed=low + (1 << 32)))[0, 1]) < 0.05


def test_the_number_of_threads_changes_nothing() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = drawn(4 * PAIRS)
        torch.set_num_threads(2)
        assert (drawn(4 * PAIRS) == alone).all()
    finally:
        torch.set_num_threads(before)


def test_the_smallest_word_gives_finite_noise() -> None:
    values = torch.zeros(4)
    zeros = SimpleNamespace(random_raw=lambda size: np.zeros(size, dtype=np.uint64))
    add_gaussian(values, 2.0, SimpleNamespace(bit_generator=zeros))
    assert values[0].item() == pytest.approx(2 * (2 * 33 * 0.6931471805599453) ** 0.5), "√(−2 ln 2⁻³³)"


def test_noise_from_a_public_seed_is_what_stored_runs_had() -> None:
    """Equal to its formula in every bit, and to stored draws: processors may differ in the last bit of a logarithm."""
    words = np.random.default_rng(5).bit_generator.random_raw(2).view(np.uint32).astype(np.float32)
    radius = np.sqrt(np.log((words[:2] + np.float32(0.5)) * np.float32(2.0**-32)) * np.float32(-2.0 * 0.7**2))
    angle = words[2:] * np.float32(2 * np.pi * 2.0**-32)
    found = torch.tensor([1.0, -2.0, 0.25, 0.0])
    add_gaussian(found, 0.7, np.random.default_rng(5))
    expected = np.float32([1.0, -2.0, 0.25, 0.0]) + np.concatenate((np.cos(angle) * radius, np.sin(angle) * radius))
    assert np.array_equal(found.numpy(), expected)
    assert found.numpy() == pytest.approx(KNOWN, rel=1e-6)
    assert drawn(5 * PAIRS + 7, 0.7, seed=5)[[0, PAIRS, 2 * PAIRS, -1]] == pytest.approx(KNOWN_LATER, rel=1e-6)
