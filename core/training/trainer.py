"""One training loop for every kind of model, private or not.

A step is: a logical batch (a shuffled batch, or a Poisson sample of units) → physical batches of about equal length →
one loss an example → a gradient (plain mean, or `Clipper`'s noisy clipped mean) → AdamW. Models have no dropout here:
they stay in evaluation mode, so an example's loss depends on nothing but the example.

The losses reported while a private run trains are means over private notes and are not covered by ε: they are for the
trusted person who trains, not for publication.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from core.models.build import LanguageModel
from core.models.tokenizer import Samples, encode_samples, smallest_dtype
from core.spec import PrivacySpec, TrainingSpec
from core.training import checkpoint as checkpoints
from core.training.accounting import epsilon_curve
from core.training.clipping import Clipper, TrainingDiverged
from core.training.events import EpochEvent, InStepEvent, StepEvent, TrainingResult
from core.training.feed import Feed
from core.training.losses import example_losses
from core.training.plan import PrivatePlan, check, plan, refuse_shards
from core.training.sampling import Purpose, Units
from core.training.weights import AveragedWeights, learning_rate, trainable

CHECKPOINT_SECONDS = 20.0
IN_STEP_SECONDS = 0.5  # a large logical batch takes seconds: so often its progress is told


class _Stopped(Exception):
    """`should_stop` said so in the middle of a logical batch."""


def train(
    lm: LanguageModel,
    notes: pd.DataFrame,
    training: TrainingSpec,
    privacy: PrivacySpec,
    *,
    on_step: Callable[[StepEvent], None] | None = None,
    on_epoch: Callable[[EpochEvent], None] | None = None,
    on_progress: Callable[[InStepEvent], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
    checkpoint: Path | None = None,
    evaluate: Callable[[LanguageModel], dict[str, Any]] | None = None,
) -> TrainingResult:
    """Train `lm` in place on `notes` (columns text, patient_id; already at most so many a patient).

    Args:
        lm: the model to train, in place. Afterwards it holds the trained (or averaged) weights.
        notes: one row a note.
        training: how the weights move.
        privacy: no privacy, or DP-SGD.
        on_step: told after every step.
        on_epoch: told after every epoch, once `evaluate` has run.
        on_progress: told within a step, after its first examples if it is the first and then at most every 0.5 s.
        should_stop: polled before every physical batch; True ends the run after the last whole step.
        checkpoint: a folder to keep the state in (every epoch and every 20 s) and to go on from when it has one.
        evaluate: gives `eval_loss` (nats) and `canary_exposure` ({canary_id: bits}) of the model as it is then.

    Raises:
        ValueError: settings or notes that cannot be trained, a checkpoint of another run, or private training that is
            spread over processes.
        TrainingDiverged: a loss or gradient stopped being a finite number.

    """
    if training.epochs == 0:
        return TrainingResult(history=[], mechanism=None, stopped=False)
    patients = notes["patient_id"].to_numpy(dtype=object)
    check(privacy, training, notes=len(notes), patients=len(set(patients)))
    if privacy.private:
        refuse_shards()
    longest = min(training.max_tokens, lm.context)
    samples = encode_samples(lm, notes["text"].array, longest, dtype=smallest_dtype(lm))
    lm.model.eval()
    with trainable(lm.model, training.trainable) as parameters:
        run = _Run(lm, samples, patients, training, privacy, parameters, should_stop or (lambda: False))
        try:
            return run.go(on_step, on_epoch, on_progress, checkpoint, evaluate)
        finally:
            run.close()


class _Run:
    """The state of one training run."""

    def __init__(
        self,
        lm: LanguageModel,
        samples: Samples,
        patients: np.ndarray,
        training: TrainingSpec,
        privacy: PrivacySpec,
        parameters: dict[str, nn.Parameter],
        should_stop: Callable[[], bool],
    ):
        self.lm, self.training, self.should_stop = lm, training, should_stop
        self.feed = Feed(lm, samples, training)
        self.parameters = parameters
        self.optimizer = torch.optim.AdamW(
            parameters.values(), lr=training.learning_rate, weight_decay=training.weight_decay, fused=True
        )
        self.average = AveragedWeights(parameters, training.weight_averaging)
        self.plan: PrivatePlan | None = None
        self.clipper: Clipper | None = None
        if privacy.private:
            self.plan = plan(privacy, training, notes=len(patients), patients=len(set(patients)))
            self.units = Units.build(privacy.unit, samples.note_index, patients)
            self.steps, self.epoch_ends = self.plan.steps, self.plan.epoch_ends(training.epochs)
            mechanism = self.plan.mechanism
            self.curve = epsilon_curve(
                noise_multiplier=mechanism.noise_multiplier,
                sample_rate=mechanism.sample_rate,
                steps=mechanism.steps,
                delta=mechanism.delta,
                accountant=mechanism.accountant,
            )
            self.clipper = Clipper(lm.model, privacy.max_grad_norm)
        else:
            per_epoch = math.ceil(len(samples) / training.batch_size)
            self.steps = per_epoch * training.epochs
            self.epoch_ends = [per_epoch * epoch for epoch in range(1, training.epochs + 1)]
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.history: list[dict[str, Any]] = []
        self.on_progress: Callable[[InStepEvent], None] | None = None
        self.told = -math.inf  # when anything was last told
        self.fingerprint = self.feed.fingerprint(privacy)

    def close(self) -> None:
        """Take the clipper's hooks off the model."""
        if self.clipper is not None:
            self.clipper.close()

    def go(
        self,
        on_step: Callable[[StepEvent], None] | None,
        on_epoch: Callable[[EpochEvent], None] | None,
        on_progress: Callable[[InStepEvent], None] | None,
        folder: Path | None,
        evaluate: Callable[[LanguageModel], dict[str, Any]] | None,
    ) -> TrainingResult:
        """Steps, epochs and checkpoints until the end or until `should_stop`."""
        if folder is not None:
            self._resume(folder)
        begun, before, first = time.monotonic(), self.seconds, self.step
        saved = begun
        self.on_progress = on_progress
        while self.step < self.steps:
            try:
                loss, tokens = self._step(self.step + 1)
            except _Stopped:
                break
            self.step += 1
            self.tokens += tokens
            self.told = time.monotonic()
            self.seconds = before + self.told - begun
            pace = (time.monotonic() - begun) / (self.step - first)
            event = self._step_event(loss, pace * (self.steps - self.step))
            self.history.append(event.history_row())
            if on_step is not None:
                on_step(event)
            epoch_over = self.step in self.epoch_ends
            if epoch_over:
                self._end_epoch(event, on_epoch, evaluate)
            if folder is not None and (epoch_over or time.monotonic() - saved > CHECKPOINT_SECONDS):
                self._save(folder)
                saved = time.monotonic()
        self.average.apply()
        mechanism = self.plan.mechanism.model_copy(update={"steps": self.step}) if self.plan else None
        return TrainingResult(history=self.history, mechanism=mechanism, stopped=self.step < self.steps)

    def _step(self, step: int) -> tuple[float | None, int]:
        """One logical batch and one move of the weights. Returns the mean loss an example and the tokens seen."""
        self._poll()  # also before a step that samples nobody
        total = torch.zeros((), device=self.lm.device)
        examples = tokens = 0
        self.optimizer.zero_grad(set_to_none=True)
        if self.plan is not None:
            size, sample = self.feed.sampled(step, self.units, self.plan.sample_rate)
            for physical in sample:
                for batch, names in physical:
                    self._poll()
                    losses = example_losses(self.lm, batch)
                    self.clipper.backward(losses, names)
                    total += losses.detach().sum()
                    examples, tokens = examples + len(losses), tokens + batch.tokens
                    self._tell(step, total, examples, size)
                self.clipper.clip()
            noise = torch.Generator(self.lm.device).manual_seed(_torch_seed(self.training.seed, step))
            self.clipper.noisy_gradient(self.plan.mechanism.noise_multiplier, self.plan.expected_units, noise)
        else:
            size, physical = self.feed.shuffled(step, self.epoch_ends[0])
            for batch in physical:
                self._poll()
                losses = example_losses(self.lm, batch)
                (losses.sum() / size).backward()
                total += losses.detach().sum()
                examples, tokens = examples + len(losses), tokens + batch.tokens
                self._tell(step, total, examples, size)
        loss = total.item() / examples if examples else None
        if loss is not None and not math.isfinite(loss):
            raise TrainingDiverged(
                f"training diverged at step {step}: the loss is no longer a number. Lower the learning rate "
                f"({self.training.learning_rate:g})."
            )
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.training, step, self.steps)
        self.optimizer.step()
        self.average.update()
        return loss, tokens

    def _poll(self) -> None:
        if self.should_stop():
            raise _Stopped

    def _tell(self, step: int, total: Tensor, done: int, size: int) -> None:
        """Say how far the logical batch of a step is, unless something was said a moment ago."""
        if self.on_progress is None or time.monotonic() - self.told < IN_STEP_SECONDS:
            return
        self.told = time.monotonic()
        self.on_progress(
            InStepEvent(
                step=step,
                steps=self.steps,
                epoch=self._epoch_of(step),
                epochs=self.training.epochs,
                done=done,
                total=size,
                loss=total.item() / done,
            )
        )

    def _epoch_of(self, step: int) -> int:
        return 1 + int(np.searchsorted(self.epoch_ends, step))

    def _step_event(self, loss: float | None, eta_seconds: float) -> StepEvent:
        epsilon = None
        if self.plan is not None:
            counts, values = self.curve
            epsilon = float(values[np.searchsorted(counts, self.step)])
        return StepEvent(
            step=self.step,
            steps=self.steps,
            epoch=self._epoch_of(self.step),
            epochs=self.training.epochs,
            loss=loss,
            epsilon=epsilon,
            tokens=self.tokens,
            seconds=self.seconds,
            eta_seconds=eta_seconds,
        )

    def _end_epoch(
        self,
        event: StepEvent,
        on_epoch: Callable[[EpochEvent], None] | None,
        evaluate: Callable[[LanguageModel], dict[str, Any]] | None,
    ) -> None:
        """Evaluate the (averaged) weights, complete the step's row of the history and tell `on_epoch`."""
        found: dict[str, Any] = {}
        if evaluate is not None:
            with torch.no_grad(), self.average.applied():
                found = evaluate(self.lm)
        losses = [row["loss"] for row in self.history if row["epoch"] == event.epoch and row["loss"] is not None]
        record = EpochEvent(
            epoch=event.epoch,
            step=event.step,
            loss=float(np.mean(losses)) if losses else None,
            eval_loss=found.get("eval_loss"),
            epsilon=event.epsilon,
            canary_exposure=dict(found.get("canary_exposure") or {}),
        )
        self.history[-1].update(eval_loss=record.eval_loss, canary_exposure=record.canary_exposure)
        if on_epoch is not None:
            on_epoch(record)

    def _save(self, folder: Path) -> None:
        tensors: dict[str, Tensor] = {}
        for name, parameter in self.parameters.items():
            tensors[f"weight/{name}"] = parameter
            for key, value in self.optimizer.state[parameter].items():
                tensors[f"adamw.{key}/{name}"] = value
        tensors |= {f"average/{name}": total for name, total in self.average.sums.items()}
        state = {
            "fingerprint": self.fingerprint,
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "averaged_steps": self.average.steps,
            "history": self.history,
        }
        checkpoints.write(folder, tensors, state)

    @torch.no_grad()
    def _resume(self, folder: Path) -> None:
        """Take up the state in `folder`, if there is one."""
        found = checkpoints.read(folder)
        if found is None:
            return
        tensors, state = found
        if state["fingerprint"] != self.fingerprint:
            raise ValueError(
                f"the checkpoint in {folder} belongs to a run with other settings or notes: delete it to start anew"
            )
        for name, parameter in self.parameters.items():
            parameter.copy_(tensors[f"weight/{name}"])
            self.optimizer.state[parameter] = {
                key: tensors[f"adamw.{key}/{name}"].to(parameter.device) for key in ("step", "exp_avg", "exp_avg_sq")
            }
        for name, total in self.average.sums.items():
            total.copy_(tensors[f"average/{name}"])
        self.average.steps = state["averaged_steps"]
        self.step, self.tokens, self.seconds = state["step"], state["tokens"], state["seconds"]
        self.history = state["history"]


def _torch_seed(seed: int, step: int) -> int:
    """A 63-bit seed of the noise of one step."""
    words = np.random.SeedSequence([seed, int(Purpose.NOISE), step]).generate_state(1, np.uint64)
    return int(words[0] >> np.uint64(1))
