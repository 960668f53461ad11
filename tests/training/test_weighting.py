"""What counts alike in training without privacy: every note, or with `weighting` every token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from core.common.randomness import PublicSeed
from core.models.encoding import encode_samples
from core.spec import ModelSpec, PrivacySpec, RunSpec, TrainingSpec
from core.training.batching import Feed
from core.training.losses import Batch
from core.training.steps import PlainSteps
from tests.training.tiny import KINDS, language_model, notes

COHORT = notes(18)


def spec(**changes: Any) -> TrainingSpec:
    return TrainingSpec(**{"epochs": 1, "batch_size": 9, "max_tokens": 64, "physical_batch": 4} | changes)


def token_losses(lm: Any, batch: Batch) -> torch.Tensor:
    """(B, S) loss of every token to predict, by the model's own forward pass; 0 where there is none."""
    real = (~batch.padding).long()
    logits = lm.model(input_ids=batch.ids, attention_mask=real).logits
    if batch.positions is None:
        logits = logits[:, :-1]
    else:
        logits = logits.gather(1, batch.positions.unsqueeze(-1).expand(-1, -1, logits.shape[-1]))
    losses = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="none", ignore_index=-100)
    return losses.view_as(batch.targets)


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_of_an_epoch_counts_alike(kind: str) -> None:
    """The gradients of an epoch's steps are together that of the mean over all of its tokens, not over its notes."""
    lm = language_model(kind)
    samples = encode_samples(lm, COHORT["text"].array, 64)
    assert len(samples) == len(COHORT), "no note is cut, so every step has as many"
    lengths = [len(ids) for ids in samples.ids]
    summed = {}
    for weighting in ("token", None):
        lm.model.zero_grad(set_to_none=True)
        steps = PlainSteps(lm, samples, spec(weighting=weighting))
        for step in range(1, steps.steps + 1):  # gradients add up, since nothing sets them to 0 in between
            steps.gradient(step, lambda: None, lambda stats: None)
        summed[weighting] = torch.cat([weight.grad.flatten() for weight in lm.model.parameters()]) / steps.steps

    feed = Feed(lm, samples, spec(), PublicSeed(0))
    batches = [batch for step in range(1, steps.steps + 1) for batch in feed.shuffled(step, steps.steps)[1]]
    lm.model.zero_grad(set_to_none=True)
    for batch in batches:
        tokens = (~batch.padding).sum(1)
        wanted = token_losses(lm, batch).sum(1) / (batch.targets != -100).sum(1) * tokens
        (wanted.sum() / sum(lengths)).backward()
    naive = [torch.zeros_like(w) if w.grad is None else w.grad for w in lm.model.parameters()]
    assert torch.allclose(summed["token"], torch.cat([one.flatten() for one in naive]), rtol=1e-4, atol=1e-6)
    assert (summed["token"] - summed[None]).norm() > 0.05 * summed[None].norm(), "notes are of different lengths"


def test_only_training_without_clipping_weighs_tokens() -> None:
    weighted = spec(weighting="token")
    assert RunSpec(training=weighted).run_id != RunSpec(training=spec()).run_id
    assert "weighting" not in spec().model_dump()
    for privacy, training in (
        (PrivacySpec(target_epsilon=8.0), weighted),
        (PrivacySpec(), spec(weighting="token", clip_norm=1.0)),
    ):
        with pytest.raises(ValueError, match="every note counts alike"):
            RunSpec(model=ModelSpec(), privacy=privacy, training=training)
