"""Training that clips as DP-SGD does and adds no noise: the same samples, masks and clipping, and no privacy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from core.spec import PrivacySpec, TrainingSpec
from core.training.batching import Feed
from core.training.gradients.clipping import Clipper
from core.training.trainer import train
from tests.training.tiny import language_model, notes

COHORT = notes()
NEXT_TO_NONE = 1e-20  # σ: also a weight whose gradient is 0 must not move, and Adam divides by 1e-8 there


def spec(**changes: Any) -> TrainingSpec:
    return TrainingSpec(**{"epochs": 2, "batch_size": 6, "max_tokens": 32, "learning_rate": 3e-3, "seed": 4} | changes)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[list[tuple[bytes, bytes]]]:
    """What each training reads: the model's inputs and the names of their units, batch by batch."""
    runs: list[list[tuple[bytes, bytes]]] = []
    original = Feed.sampled

    def recorded(self: Feed, step: int, *rest: Any) -> Any:
        if step == 1:
            runs.append([])
        size, sample = original(self, step, *rest)
        whole = [list(physical) for physical in sample]
        runs[-1] += [(batch.ids.numpy().tobytes(), np.asarray(of).tobytes()) for part in whole for batch, of in part]
        return size, iter([iter(part) for part in whole])

    monkeypatch.setattr(Feed, "sampled", recorded)
    return runs


def trained(kind: str, training: TrainingSpec, privacy: PrivacySpec, **hooks: Any) -> tuple[torch.Tensor, Any]:
    lm = language_model(kind)
    result = train(lm, COHORT, training, privacy, **hooks)
    return torch.cat([weight.detach().flatten() for weight in lm.model.parameters()]), result


@pytest.mark.parametrize("unit", ["note", "patient"])
@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_it_is_the_private_run_without_its_noise(kind: str, unit: str, read: list) -> None:
    norm = 0.3
    private = PrivacySpec(noise_multiplier=NEXT_TO_NONE, max_grad_norm=norm, unit=unit, delta=1e-3)
    noisy, _ = trained(kind, spec(), private)
    clipped, result = trained(kind, spec(clip_norm=norm), PrivacySpec(unit=unit))
    assert len(read[0]) >= 8 and read[0] == read[1]  # the same units, in the same batches, under the same masks
    assert torch.allclose(noisy, clipped, rtol=0, atol=1e-7)
    assert result.mechanism is None and all(row["epsilon"] is None for row in result.history)
    before = torch.cat([weight.detach().flatten() for weight in language_model(kind).model.parameters()])
    for other in (spec(), spec(clip_norm=norm, seed=5)):
        assert (trained(kind, other, PrivacySpec(unit=unit))[0] - clipped).norm() > 0.05 * (clipped - before).norm()


def test_the_unit_decides_what_is_sampled_and_clipped() -> None:
    per_note, _ = trained("gpt2", spec(clip_norm=0.3), PrivacySpec())
    per_patient, _ = trained("gpt2", spec(clip_norm=0.3), PrivacySpec(unit="patient"))
    assert not torch.allclose(per_note, per_patient, atol=1e-3)


def test_no_noise_is_drawn_and_no_gradient_exceeds_the_norm(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[float] = []
    original = Clipper.clipped_gradient

    def measured(self: Clipper, expected: float) -> None:
        found.append(float(self._total.norm()) / max(1, len(self._seen)))
        original(self, expected)

    monkeypatch.setattr(Clipper, "clipped_gradient", measured)
    monkeypatch.setattr("core.training.gradients.clipping.add_gaussian", lambda *_: pytest.fail("noise"))
    events: list[Any] = []
    trained("gpt2", spec(clip_norm=0.01), PrivacySpec(), on_step=events.append, on_epoch=events.append)
    assert len(found) == math.ceil(2 / (6 / 24)) and max(found) <= 0.01 * (1 + 1e-5)
    assert len(events) == len(found) + 2 and all(event.epsilon is None for event in events)


def test_a_step_that_samples_nobody_has_a_gradient_of_zeros() -> None:
    _, result = trained("gpt2", spec(clip_norm=1.0, batch_size=1, epochs=1), PrivacySpec())
    losses = [row["loss"] for row in result.history]
    assert len(losses) == 24 and None in losses and not all(loss is None for loss in losses)


def test_an_interrupted_control_goes_on_to_the_same_weights(tmp_path: Any) -> None:
    whole, _ = trained("distilbert", spec(clip_norm=0.3, masks=2), PrivacySpec())
    done: list[int] = []
    lm = language_model("distilbert")
    stop = {"on_step": lambda event: done.append(event.step), "should_stop": lambda: len(done) == 4}
    stopped = train(lm, COHORT, spec(clip_norm=0.3, masks=2), PrivacySpec(), checkpoint=tmp_path, **stop)
    assert stopped.stopped and stopped.mechanism is None
    resumed, _ = trained("distilbert", spec(clip_norm=0.3, masks=2), PrivacySpec(), checkpoint=tmp_path)
    assert torch.allclose(whole, resumed, rtol=0, atol=1e-6)
