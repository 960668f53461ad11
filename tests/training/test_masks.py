"""Several masks of one note, averaged before clipping, and the share of tokens that they hide."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch

from core.common.randomness import PublicSeed
from core.models.encoding import Samples, encode_samples
from core.spec import PrivacySpec, TrainingSpec
from core.training.batching import Feed
from core.training.gradients.clipping import Clipper
from core.training.losses import example_losses
from core.training.sampling import Units
from core.training.steps import ClippedSteps, PlainSteps, PrivateSteps
from core.training.trainer import train
from tests.training.tiny import language_model, notes

COHORT = notes(18, a_patient=3)
PATIENTS = COHORT["patient_id"].to_numpy(dtype=object)


def spec(**changes: Any) -> TrainingSpec:
    return TrainingSpec(**{"epochs": 2, "batch_size": 9, "max_tokens": 16, "seed": 2} | changes)  # long notes are cut


def gradient_of(lm: Any) -> torch.Tensor:
    return torch.cat([weight.grad.flatten() for weight in lm.model.parameters()])


def alone(lm: Any, batch: Any, row: int) -> torch.Tensor:
    """The gradient of one example of a batch, by autograd."""
    lm.model.zero_grad(set_to_none=True)
    example_losses(lm, batch)[row].backward()
    found = [torch.zeros_like(w) if w.grad is None else w.grad for w in lm.model.parameters()]
    return torch.cat([value.flatten() for value in found])


def prepared(kind: str, training: TrainingSpec) -> tuple[Any, Samples]:
    lm = language_model(kind)
    return lm, encode_samples(lm, COHORT["text"].array, training.max_tokens)


@pytest.mark.parametrize("unit", ["note", "patient"])
@pytest.mark.parametrize("kind", ["distilbert", "bert"])
def test_a_units_gradient_is_the_mean_over_its_masked_copies_then_clipped(kind: str, unit: str) -> None:
    norm, masks = 0.5, 3
    training = spec(masks=masks, mask_share=0.4, clip_norm=norm, physical_batch=5)
    lm, samples = prepared(kind, training)
    steps = ClippedSteps(lm, samples, PATIENTS, training, PrivacySpec(unit=unit))
    steps.gradient(1, lambda: None, lambda stats: None)
    found = gradient_of(lm)
    steps.close()

    feed = Feed(lm, samples, training, PublicSeed(training.seed))
    units = Units.build(unit, feed.note_index, PATIENTS)
    copies: dict[int, list[torch.Tensor]] = defaultdict(list)
    masked: dict[bytes, set[bytes]] = defaultdict(set)
    for physical in feed.sampled(1, units, training.batch_size / len(COHORT))[1]:
        for batch, names in physical:
            for row, name in enumerate(names):
                copies[int(name)].append(alone(lm, batch, row))
                real = ~batch.padding[row]
                whole = batch.ids[row].clone()
                chosen = batch.targets[row] != -100
                whole[batch.positions[row][chosen]] = batch.targets[row][chosen]
                masked[whole[real].numpy().tobytes()].add(batch.ids[row][real].numpy().tobytes())
    assert copies and max(len(found) for found in masked.values()) == masks  # the masks of a note differ
    total = torch.zeros_like(found)
    clipped = 0
    for name, gradients in copies.items():
        assert len(gradients) == masks * (np.unique(units.of(name) % len(samples)).size)
        mean = torch.stack(gradients).sum(0) / masks
        clipped += bool(mean.norm() > norm)
        total += mean * min(1.0, norm / float(mean.norm()))
    assert clipped
    count = len(COHORT) if unit == "note" else len(set(PATIENTS))
    assert torch.allclose(found, total / (count * training.batch_size / len(COHORT)), rtol=1e-4, atol=1e-6)


def test_clipping_each_copy_would_be_another_gradient() -> None:
    """What the first test would not see if averaging came after clipping: for short masks the two differ widely."""
    lm, samples = prepared("bert", spec(masks=4))
    feed = Feed(lm, samples, spec(masks=4), PublicSeed(2))
    (batch, names), *_ = next(feed.sampled(1, Units.build("note", feed.note_index, PATIENTS), 0.5)[1])
    first = np.flatnonzero(np.asarray(names) == names[0])
    gradients = [alone(lm, batch, int(row)) for row in first]
    after = torch.stack([g * min(1.0, 0.5 / float(g.norm())) for g in gradients]).mean(0)
    before = torch.stack(gradients).mean(0)
    before = before * min(1.0, 0.5 / float(before.norm()))
    assert (after - before).norm() > 0.1 * before.norm()


def test_plain_training_takes_the_mean_over_all_copies() -> None:
    training = spec(masks=3, mask_share=0.3, physical_batch=4)
    lm, samples = prepared("distilbert", training)
    steps = PlainSteps(lm, samples, training)
    assert steps.steps == PlainSteps(lm, samples, spec()).steps  # a batch still has 9 samples
    stats = steps.gradient(1, lambda: None, lambda stats: None)
    found = gradient_of(lm)
    assert stats.size == stats.examples == 27
    feed = Feed(lm, samples, training, PublicSeed(training.seed))
    _, batches = feed.shuffled(1, steps.steps // 2)
    every = [alone(lm, batch, row) for batch in batches for row in range(len(batch.ids))]
    assert len(every) == 27 and torch.allclose(found, torch.stack(every).mean(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("share", [0.15, 0.4])
def test_the_share_that_is_hidden(share: float) -> None:
    training = spec(mask_share=share, max_tokens=64)
    lm, samples = prepared("bert", training)
    feed = Feed(lm, samples, training, PublicSeed(0))
    (batch, _), *_ = next(feed.sampled(1, Units.build("note", feed.note_index, PATIENTS), 1.0)[1])
    ordinary = (~batch.padding).sum(1) - 2  # without [CLS] and [SEP]
    assert ((batch.targets != -100).sum(1) == (share * ordinary).round().clamp(min=1)).all()


@pytest.mark.parametrize("privacy", [PrivacySpec(), PrivacySpec(noise_multiplier=0.7)], ids=["plain", "private"])
def test_one_mask_of_fifteen_percent_is_the_usual_training_bit_for_bit(privacy: PrivacySpec) -> None:
    weights = []
    for changes in ({}, {"masks": 1, "mask_share": 0.15}):
        lm = language_model("distilbert")
        train(lm, COHORT, spec(**changes), privacy)
        weights.append(torch.cat([weight.detach().flatten() for weight in lm.model.parameters()]))
    assert torch.equal(*weights)


def test_masks_cost_no_privacy_and_a_unit_is_still_clipped_once() -> None:
    training, privacy = spec(masks=4, mask_share=0.4), PrivacySpec(noise_multiplier=0.9, delta=1e-3)
    lm, samples = prepared("distilbert", training)
    many = PrivateSteps(lm, samples, PATIENTS, training, privacy, PublicSeed(0))
    one = PrivateSteps(lm, samples, PATIENTS, spec(), privacy, PublicSeed(0))
    assert many.mechanism == one.mechanism and many.fingerprint != one.fingerprint
    many.close()
    one.close()
    norms: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        original = Clipper.clip
        patch.setattr(Clipper, "clip", lambda self: norms.extend(found := original(self).tolist()) or found)
        result = train(lm, COHORT, training.model_copy(update={"epochs": 1}), privacy)
    assert result.mechanism.steps == 2 and 2 <= len(norms) <= 2 * len(COHORT)  # one norm a sampled note and step


def test_examples_that_predict_nothing_are_not_in_the_reported_loss() -> None:
    """A note without a known word has nothing to hide: it counts as read, not as a perfect prediction."""
    lm = language_model("bert")
    words = [text for text in COHORT["text"].array[:4]]
    training = spec(batch_size=6)
    samples = encode_samples(lm, [*words, "", ""], training.max_tokens)
    stats = PlainSteps(lm, samples, spec(batch_size=len(samples))).gradient(1, lambda: None, lambda stats: None)
    feed = Feed(lm, samples, spec(batch_size=len(samples)), PublicSeed(training.seed))
    (batch,) = feed.shuffled(1, 1)[1]
    losses = example_losses(lm, batch)[(batch.targets != -100).any(1)]
    assert stats.examples == len(samples) == len(losses) + 2
    assert stats.mean_loss() == pytest.approx(losses.mean().item())
    nothing = PlainSteps(lm, encode_samples(lm, ["", ""], 16), spec(batch_size=2))
    assert nothing.gradient(1, lambda: None, lambda stats: None).mean_loss() is None
