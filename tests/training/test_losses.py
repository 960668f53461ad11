"""One loss an example: torch's cross-entropy, without a trace of padding, of neighbours or of the physical batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from core.training.losses import example_losses, masked_batch
from tests.training.tiny import CPU, KINDS, batch, language_model, samples


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_is_the_mean_negative_log_likelihood_of_its_targets(kind: str) -> None:
    lm = language_model(kind)
    padded, _ = batch(lm, samples(lm, [7, 15, 30]))
    if lm.causal:
        logits = lm.model(input_ids=padded.ids).logits[:, :-1]
    else:
        logits = lm.model(input_ids=padded.ids, attention_mask=(~padded.padding).long()).logits
        logits = torch.stack([row[places] for row, places in zip(logits, padded.positions, strict=True)])
    for row in range(3):
        expected = F.cross_entropy(logits[row], padded.targets[row], ignore_index=-100)
        assert example_losses(lm, padded)[row].item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_equal_those_of_torch(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lm = language_model(kind)
    padded, _ = batch(lm, samples(lm, [7, 15, 30]))
    parameters = list(lm.model.parameters())
    weights = torch.tensor([0.3, -1.0, 2.0])
    own = torch.autograd.grad((example_losses(lm, padded) * weights).sum(), parameters, allow_unused=True)

    class Torch:
        apply = staticmethod(lambda logits, targets: F.cross_entropy(logits, targets, reduction="none"))

    monkeypatch.setattr("core.training.losses._TokenLosses", Torch)
    torchs = torch.autograd.grad((example_losses(lm, padded) * weights).sum(), parameters, allow_unused=True)
    for ours, theirs in zip(own, torchs, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_padding_and_neighbours_change_nothing(kind: str) -> None:
    lm = language_model(kind)
    padded, alone = batch(lm, samples(lm, [4, 11, 40, 3]))
    together = example_losses(lm, padded)
    for row, one in enumerate(alone):
        assert together[row].item() == pytest.approx(example_losses(lm, one).item(), rel=1e-4)
    assert padded.tokens == 58


def test_masks_take_fifteen_percent_of_ordinary_tokens_eighty_ten_ten() -> None:
    lm = language_model("bert")
    ids = samples(lm, [62] * 300)
    keys = list(np.random.default_rng(0).random((300, 2, 62)))
    padded = masked_batch(ids, keys, lm.tokenizer, CPU)
    assert (padded.targets != -100).sum(1).tolist() == [9] * 300  # 15 % of 60
    shown = padded.ids.gather(1, padded.positions)
    masked = (shown == lm.tokenizer.mask_token_id).float().mean().item()
    kept = (shown == padded.targets).float().mean().item()
    assert masked == pytest.approx(0.8, abs=0.03)
    assert kept == pytest.approx(0.1, abs=0.025)
    assert 1 - masked - kept == pytest.approx(0.1, abs=0.025)
    assert not torch.isin(padded.targets, torch.tensor(lm.tokenizer.all_special_ids)).any()
    original = torch.as_tensor(np.stack(ids))
    assert torch.equal(original.gather(1, padded.positions), padded.targets)
    untouched = torch.ones_like(original, dtype=torch.bool).scatter_(1, padded.positions, False)
    assert torch.equal(original[untouched], padded.ids[untouched])
    assert padded.positions.float().mean().item() == pytest.approx(30.5, abs=1.0)  # anywhere in the sample


def test_a_sample_without_ordinary_tokens_has_no_target_and_no_loss() -> None:
    lm = language_model("distilbert")
    ids = [np.array([lm.tokenizer.cls_token_id, lm.tokenizer.sep_token_id]), *samples(lm, [8])]
    keys = [np.random.default_rng(0).random((2, len(one))) for one in ids]
    losses = example_losses(lm, masked_batch(ids, keys, lm.tokenizer, CPU))
    assert losses[0].item() == 0.0 and losses[1].item() > 0
    losses.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in lm.model.parameters() if p.grad is not None)
