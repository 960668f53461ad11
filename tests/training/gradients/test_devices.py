"""Losses, clipped sums and noise are the same on every device at hand: the CPU, and a GPU where there is one.

The figures to compare with come from the CPU: one unit at a time, each example alone.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from core.common.randomness import SecretKey
from core.models.build import LanguageModel
from core.training.gradients.clipping import Clipper
from core.training.gradients.noise import PAIRS, add_gaussian
from core.training.losses import example_losses
from tests.training.gradients.test_clipping import clipped, naive
from tests.training.tiny import DEVICES, KINDS, accumulate, batch, language_model, samples

LENGTHS, UNITS = [40, 5, 33, 21, 45, 3, 12], [0, 1, 1, 2, 0, 3, 4]  # short and long, alone and together


def moved(lm: LanguageModel, device: torch.device) -> LanguageModel:
    return LanguageModel(lm.model.to(device), lm.tokenizer, lm.kind)


@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_every_example_has_the_loss_that_it_has_on_the_cpu(kind: str, device: torch.device) -> None:
    lm = language_model(kind)
    expected = [example_losses(lm, one).item() for one in batch(lm, samples(lm, LENGTHS))[1]]
    lm = moved(lm, device)
    found = example_losses(lm, batch(lm, samples(lm, LENGTHS))[0])
    assert found.device.type == device.type
    np.testing.assert_allclose(found.detach().cpu().numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("norm", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("device", DEVICES, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_the_clipped_sum_is_that_of_one_unit_at_a_time_on_the_cpu(
    kind: str, device: torch.device, tied: bool, norm: float
) -> None:
    lm = language_model(kind, tied=tied)
    ids = samples(lm, LENGTHS)
    expected, expected_norms = naive(lm, ids, UNITS, norm, 0)
    found, norms = clipped(moved(lm, device), ids, UNITS, norm)
    assert found.device.type == norms.device.type == device.type
    assert (found.cpu() - expected).abs().max() <= 1e-5
    np.testing.assert_allclose(norms.cpu().numpy(), expected_norms, rtol=1e-5)


def noise_of_a_step(device: torch.device, sigma: float, norm: float, draw: int) -> Tensor:
    """The gradient of a step on two physical batches, with noise minus without, as a sum."""
    lm = moved(language_model("gpt2"), device)
    sums = []
    for deviation in (sigma, 0.0):
        with Clipper(lm.model, norm) as clipper:
            for seed, unit in ((0, [0, 1]), (1, [2, 3])):
                accumulate(clipper, example_losses(lm, batch(lm, samples(lm, [9, 14], seed))[0]), unit)
            clipper.noisy_gradient(deviation, 1.0, np.random.default_rng(draw))
        sums.append(torch.cat([one.grad.flatten() for one in lm.model.parameters()]).double().cpu())
    return sums[0] - sums[1]


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_a_step_has_noise_of_sigma_c_once_and_other_noise_in_the_next(device: torch.device) -> None:
    noise, other = (noise_of_a_step(device, 1.3, 0.5, draw).numpy() / (1.3 * 0.5) for draw in (0, 1))
    assert len(noise) > 30_000
    for one in (noise, other):
        assert stats.kstest(one, "norm").pvalue > 1e-3
        assert one.std() == pytest.approx(1.0, abs=5 / np.sqrt(2 * len(one)))
    assert abs(np.corrcoef(noise, other)[0, 1]) < 5 / np.sqrt(len(noise))


@pytest.mark.parametrize("device", DEVICES, ids=str)
def test_noise_from_a_secret_is_the_same_on_every_device(device: torch.device) -> None:
    key = SecretKey(bytes(range(16)))
    here, there = torch.zeros(5 * PAIRS + 7), torch.zeros(5 * PAIRS + 7, device=device)
    add_gaussian(here, 2.5, key.stream(4, 1))
    add_gaussian(there, 2.5, key.stream(4, 1))
    assert torch.equal(here, there.cpu())
