"""Approximate unlearning: take a patient's notes out of a trained model in seconds, without training it again.

Three methods, each of them steps of AdamW from the trained weights:

- `ascent`: away from the patient's notes. The step lowers −L(forget) (Jang et al. 2023, eq. 2).
- `fine-tuning`: on the other members' notes alone, in the hope that the patient's fade. It lowers L(retain).
- `difference`: both at once. It lowers L(retain) − L(forget) (“gradient difference”, Liu et al. 2022; Maini et al.
  2024, §3.2).

L is the mean of the examples' losses, as in training. Nothing here guarantees that the patient is forgotten: that is
what `core.attacks.forgetting` measures, against models that were trained without the patient.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from core.common.randomness import PublicSeed
from core.models.build import LanguageModel
from core.models.likelihood import note_losses
from core.spec import TrainingSpec
from core.spec.parts import Spec
from core.training.batching import Feed, training_samples
from core.training.losses import Batch, example_losses

Method = Literal["ascent", "fine-tuning", "difference"]
METHODS: tuple[Method, ...] = ("ascent", "fine-tuning", "difference")
MASK_DRAWS = 4  # of a masked model's loss in the stop rule


class Part(IntEnum):
    """Which notes a random stream is for: their shuffles and masks must not be the same."""

    FORGET = 1
    RETAIN = 2


class UnlearningSpec(Spec):
    """Settings of one approximate unlearning. The same settings, model and notes give the same weights."""

    method: Method
    learning_rate: float = Field(1e-4, gt=0, le=1)
    steps: int = Field(60, ge=1, le=10_000, description="most steps; fine-tuning takes them all")
    batch_size: int = Field(16, ge=1, le=4_096, description="other members' notes in a step")
    max_tokens: int = Field(192, ge=8, le=1_024, description="longer notes are split, as in training")
    seed: int = Field(0, ge=0, description="order of the other members' notes, and masks")


@dataclass(frozen=True)
class UnlearningStep:
    """One step: mean losses of the patient's notes before it, and of the other members' batch (None: it reads none)."""

    step: int
    forget_loss: float
    retain_loss: float | None


@dataclass(frozen=True)
class Unlearned:
    """What unlearning did. `reached`: the patient's notes came to the level of notes never seen, `stop_loss`."""

    history: tuple[UnlearningStep, ...]
    final_loss: float
    stop_loss: float
    reached: bool
    stopped: bool


def settings_of(method: Method, training: TrainingSpec) -> UnlearningSpec:
    """The usual settings of a method for a model of this training, in a share of its learning rate.

    A twentieth for the methods that stop by themselves, so that each step is small; a quarter for fine-tuning, which
    takes all its steps (docs/methods/forgetting.md).
    """
    tuning = method == "fine-tuning"
    return UnlearningSpec(
        method=method,
        learning_rate=training.learning_rate / (4 if tuning else 20),
        steps=100 if tuning else 60,
        batch_size=min(training.batch_size, 64),
        max_tokens=training.max_tokens,
        seed=training.seed,
    )


def unlearn(
    lm: LanguageModel,
    forget: Sequence[str],
    retain: Sequence[str],
    settings: UnlearningSpec,
    *,
    stop_loss: float,
    on_step: Callable[[UnlearningStep], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Unlearned:
    """Change `lm` in place so that it forgets the texts `forget`.

    Ascent and difference end as soon as the mean loss of the patient's notes is at least `stop_loss`, or after
    `settings.steps` steps. Without a stop, ascent goes on until the model writes nothing sensible. Jang et al. 2023
    (eq. 4) stop in the same way, once the texts look like texts never seen. Fine-tuning takes all its steps.

    Args:
        lm: The trained model.
        forget: The patient's training notes.
        retain: The other training notes. Ascent does not read them.
        settings: Method and size of its steps.
        stop_loss: Mean loss in nats a token that these notes would have if the model had never read them
            (`core.attacks.forgetting.never_seen_loss`).
        on_step: Called after every step.
        should_stop: Polled before every step; True ends with the weights of the last one.

    Raises:
        ValueError: There is nothing to forget, nothing to retain where the method reads it, or a loss that is no
            number any more.
    """
    if not forget:
        raise ValueError("this patient has no training notes: there is nothing to forget")
    if settings.method != "ascent" and not retain:
        raise ValueError(f"{settings.method} trains on the other patients' notes, and there are none")
    heard = partial(patient_loss, lm, forget, settings.max_tokens)
    lm.model.eval()  # no dropout, as in training
    batches = {
        Part.FORGET: _batches(lm, forget, settings.max_tokens, len(forget), settings.seed, Part.FORGET),
        Part.RETAIN: _batches(lm, retain, settings.max_tokens, settings.batch_size, settings.seed, Part.RETAIN),
    }
    parameters = [one for one in lm.model.parameters() if one.requires_grad]
    # Not `core.training.weights.optimizer_of`: its fused step rounds differently, so the weights would no longer be
    # those of the stored results. And the rate is constant: the number of steps is not known beforehand.
    optimizer = torch.optim.AdamW(parameters, lr=settings.learning_rate, weight_decay=0.0)
    history: list[UnlearningStep] = []
    loss, stopped = heard(), False
    while len(history) < settings.steps and (settings.method == "fine-tuning" or loss < stop_loss):
        if should_stop is not None and should_stop():
            stopped = True
            break
        retained = _step(lm, optimizer, batches, settings.method)
        history.append(UnlearningStep(len(history) + 1, loss, retained))
        loss = heard()
        if not math.isfinite(loss):
            raise ValueError(
                f"unlearning diverged at step {len(history)}: the loss is no longer a number. Lower the learning rate "
                f"({settings.learning_rate:g})"
            )
        if on_step is not None:
            on_step(history[-1])
    for parameter in parameters:
        parameter.grad = None
    return Unlearned(tuple(history), loss, stop_loss, loss >= stop_loss, stopped)


def patient_loss(lm: LanguageModel, texts: Sequence[str], max_tokens: int) -> float:
    """Mean over texts of their mean loss in nats a token; texts that a masked model cannot score are left out.

    Every masked model gets the same masks. Other masks would shift the stop of a patient at random: between two draws
    the public model's loss on one patient's notes differs by half as much as patients who were never seen do.
    """
    longest = min(max_tokens, lm.context)
    return float(np.nanmean(note_losses(lm, texts, mask_draws=MASK_DRAWS, max_tokens=longest)))


def _step(
    lm: LanguageModel, optimizer: torch.optim.Optimizer, batches: dict[Part, Iterator[list[Batch]]], method: Method
) -> float | None:
    """One step of AdamW. Returns the mean loss of the other members' batch before it, None if it read none."""
    optimizer.zero_grad(set_to_none=True)
    if method in ("ascent", "difference"):
        _backward(lm, next(batches[Part.FORGET]), -1.0)
    retained = _backward(lm, next(batches[Part.RETAIN]), 1.0) if method != "ascent" else None
    optimizer.step()
    return retained


def _backward(lm: LanguageModel, parts: list[Batch], sign: float) -> float:
    """Add the gradient of sign · mean loss. Returns the mean loss."""
    size, total = sum(len(part.ids) for part in parts), 0.0
    for part in parts:
        loss = example_losses(lm, part).sum() / size
        (sign * loss).backward()
        total += loss.item()
    return total


def _batches(
    lm: LanguageModel, texts: Sequence[str], max_tokens: int, size: int, seed: int, part: Part
) -> Iterator[list[Batch]]:
    """The batches of shuffled epochs without end, each as physical batches: what `core.training.batching` draws."""
    samples = training_samples(lm, texts, max_tokens)
    if not len(samples):
        return
    size = len(samples) if part == Part.FORGET else min(size, len(samples))  # the patient's notes: all of them
    training = TrainingSpec(batch_size=size, max_tokens=max_tokens, seed=2 * seed + part)
    feed, an_epoch = Feed(lm, samples, training, PublicSeed(training.seed)), math.ceil(len(samples) / size)
    step = 0
    while True:
        step += 1
        yield list(feed.shuffled(step, an_epoch)[1])
