"""One training loop for every kind of model, private or not: a gradient (`core.training.steps`), AdamW, events, state.

Models have no dropout here: they stay in evaluation mode, so an example's loss depends only on the example.

The losses reported while a private run trains are means over private notes and are not covered by ε. They are meant for
the trusted person who trains the model, not for publication.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from core.common.randomness import PublicSeed, Randomness
from core.common.versions import UNRECORDED, with_these
from core.models.build import LanguageModel, accelerator
from core.spec import PrivacySpec, TrainingSpec
from core.training import checkpoint as checkpoints
from core.training.batching import training_samples
from core.training.events import EpochEvaluation, EpochEvent, InStepEvent, StepEvent, TrainingResult
from core.training.gradients.clipping import TrainingDiverged
from core.training.plan import check, refuse_shards
from core.training.steps import BatchStats, ClippedSteps, PlainSteps, PrivateSteps, Steps
from core.training.weights import AveragedWeights, optimizer_of, take_step, trainable

CHECKPOINT_SECONDS = 20.0
IN_STEP_SECONDS = 0.5  # interval of progress reports within a step: a large logical batch takes seconds


class _Stopped(Exception):
    """`should_stop` returned True in the middle of a logical batch."""


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
    evaluate: Callable[[LanguageModel], EpochEvaluation] | None = None,
    randomness: Randomness | None = None,
) -> TrainingResult:
    """Train `lm` in place on `notes` (columns text, patient_id; already capped for each patient).

    Args:
        lm: the model to train, in place. Afterwards it has the trained (or averaged) weights.
        notes: one row per note.
        training: optimisation settings.
        privacy: no privacy, or DP-SGD. Without privacy but with `training.clip_norm`, training samples units of
            `privacy.unit` and clips them as DP-SGD does, and adds no noise.
        on_step: called after every step.
        on_epoch: called after every epoch, once `evaluate` has run.
        on_progress: called within a step, after its first examples if it is the first and then at most every 0.5 s.
        should_stop: polled before every physical batch; True ends the run after the last complete step.
        checkpoint: a folder for the state (saved every epoch and every 20 s), from which to resume if it has one.
        evaluate: called after every epoch with the current (or averaged) weights.
        randomness: source of noise, samples and masks of private training; by default the training's public seed,
            which is the source of all other training.

    Raises:
        ValueError: for settings or notes that cannot be trained, a checkpoint of another run or of an older version's
            secret noise, private training that is spread over processes, or secret noise that is requested without a
            secret key.
        TrainingDiverged: if a loss or gradient is no longer a finite number.
    """
    if training.epochs == 0:
        return TrainingResult(history=[], mechanism=None, stopped=False)
    patients = notes["patient_id"].to_numpy(dtype=object)
    check(privacy, training, notes=len(notes), patients=len(set(patients)))
    randomness = randomness or PublicSeed(training.seed)
    if privacy.private:
        refuse_shards()
    if privacy.noise_source == "secret" and randomness.source != "secret":
        raise ValueError("these settings require secret noise, but training was given no secret key")
    samples = training_samples(lm, notes["text"].array, training.max_tokens)
    with trainable(lm.model, training.trainable) as parameters:
        if privacy.private:
            steps: Steps = PrivateSteps(lm, samples, patients, training, privacy, randomness)
        elif training.clip_norm is not None:
            steps = ClippedSteps(lm, samples, patients, training, privacy)
        else:
            steps = PlainSteps(lm, samples, training)
        try:
            run = _Run(lm, steps, training, parameters, on_progress, should_stop or (lambda: False))
            return run.go(on_step, on_epoch, checkpoint, evaluate)
        finally:
            steps.close()


class _Run:
    """The state of one training run."""

    def __init__(
        self,
        lm: LanguageModel,
        steps: Steps,
        training: TrainingSpec,
        parameters: dict[str, nn.Parameter],
        on_progress: Callable[[InStepEvent], None] | None,
        should_stop: Callable[[], bool],
    ):
        self.lm, self.steps, self.training = lm, steps, training
        self.on_progress, self.should_stop = on_progress, should_stop
        self.parameters = parameters
        self.optimizer = optimizer_of(parameters.values(), training)
        self.average = AveragedWeights(parameters, training.weight_averaging)
        self.step, self.tokens, self.seconds = 0, 0, 0.0
        self.history: list[dict[str, Any]] = []
        self.versions: list[Mapping[str, str]] = []  # that made the steps so far
        self.last_event = -math.inf  # time of the latest event

    def go(
        self,
        on_step: Callable[[StepEvent], None] | None,
        on_epoch: Callable[[EpochEvent], None] | None,
        folder: Path | None,
        evaluate: Callable[[LanguageModel], EpochEvaluation] | None,
    ) -> TrainingResult:
        """Run steps, epochs and checkpoints until the end or until `should_stop`."""
        if folder is not None:
            self._resume(folder)
        begun, before, first = time.monotonic(), self.seconds, self.step
        saved = begun
        last = self.steps.steps
        if self.step < last:
            self.versions = with_these(self.versions, accelerator(self.lm.device))
        while self.step < last:
            try:
                loss, tokens = self._step(self.step + 1)
            except _Stopped:
                break
            self.step += 1
            self.tokens += tokens
            self.last_event = time.monotonic()
            self.seconds = before + self.last_event - begun
            pace = (time.monotonic() - begun) / (self.step - first)
            event = self._step_event(loss, pace * (last - self.step))
            self.history.append(event.history_row())
            if on_step is not None:
                on_step(event)
            epoch_over = self.step in self.steps.epoch_ends
            if epoch_over:
                self._end_epoch(event, on_epoch, evaluate)
            if folder is not None and (epoch_over or time.monotonic() - saved > CHECKPOINT_SECONDS):
                self._save(folder)
                saved = time.monotonic()
        self.average.apply()
        mechanism = self.steps.mechanism
        if mechanism is not None:
            mechanism = mechanism.model_copy(update={"steps": self.step})
        return TrainingResult(self.history, mechanism, stopped=self.step < last, versions=self.versions)

    def _step(self, step: int) -> tuple[float | None, int]:
        """Process one logical batch and update the weights. Returns the mean loss per example and the tokens read."""
        self._poll()  # also before a step whose sample is empty
        self.optimizer.zero_grad(set_to_none=True)
        stats = self.steps.gradient(step, self._poll, lambda stats: self._report(step, stats))
        loss = stats.mean_loss()
        if loss is not None and not math.isfinite(loss):
            raise TrainingDiverged(
                f"training diverged at step {step}: the loss is no longer a number. Lower the learning rate "
                f"({self.training.learning_rate:g})."
            )
        take_step(self.optimizer, self.training, step, self.steps.steps)
        self.average.update()
        return loss, stats.tokens

    def _poll(self) -> None:
        if self.should_stop():
            raise _Stopped

    def _report(self, step: int, stats: BatchStats) -> None:
        """Report the progress of a step's logical batch, unless the latest event was less than 0.5 s ago."""
        if self.on_progress is None or time.monotonic() - self.last_event < IN_STEP_SECONDS:
            return
        self.last_event = time.monotonic()
        loss = stats.mean_loss()
        if loss is None:  # so far no example has a token to predict
            return
        self.on_progress(
            InStepEvent(
                step=step,
                steps=self.steps.steps,
                epoch=self._epoch_of(step),
                epochs=self.training.epochs,
                done=stats.examples,
                total=stats.size,
                loss=loss,
            )
        )

    def _epoch_of(self, step: int) -> int:
        return 1 + int(np.searchsorted(self.steps.epoch_ends, step))

    def _step_event(self, loss: float | None, eta_seconds: float) -> StepEvent:
        return StepEvent(
            step=self.step,
            steps=self.steps.steps,
            epoch=self._epoch_of(self.step),
            epochs=self.training.epochs,
            loss=loss,
            epsilon=self.steps.epsilon(self.step),
            epsilon_end=self.steps.epsilon(self.steps.steps),
            tokens=self.tokens,
            seconds=self.seconds,
            eta_seconds=eta_seconds,
        )

    def _end_epoch(
        self,
        event: StepEvent,
        on_epoch: Callable[[EpochEvent], None] | None,
        evaluate: Callable[[LanguageModel], EpochEvaluation] | None,
    ) -> None:
        """Evaluate the (averaged) weights, complete the step's row of the history and call `on_epoch`."""
        found = EpochEvaluation()
        if evaluate is not None:
            with torch.no_grad(), self.average.applied():
                found = evaluate(self.lm)
        losses = [row["loss"] for row in self.history if row["epoch"] == event.epoch and row["loss"] is not None]
        record = EpochEvent(
            epoch=event.epoch,
            step=event.step,
            loss=float(np.mean(losses)) if losses else None,
            eval_loss=found.eval_loss,
            epsilon=event.epsilon,
            canary_exposure=found.canary_exposure,
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
            "fingerprint": self.steps.fingerprint,
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "averaged_steps": self.average.steps,
            "history": self.history,
            "versions": self.versions,
        }
        checkpoints.write(folder, tensors, state)

    @torch.no_grad()
    def _resume(self, folder: Path) -> None:
        """Load the state in `folder`, if there is one."""
        found = checkpoints.read(folder)
        if found is None:
            return
        tensors, state = found
        if state["fingerprint"] == self.steps.older_fingerprint:
            raise ValueError(
                f"the checkpoint in {folder} is from an older version. Its secret noise had fewer random bits. "
                "Training cannot continue with other noise: cancel this run, or delete its work folder with the key in "
                "it, and train it again"
            )
        if state["fingerprint"] != self.steps.fingerprint:
            raise ValueError(
                f"the checkpoint in {folder} belongs to a run with other settings or notes: delete it to restart"
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
        self.versions = state.get("versions", [UNRECORDED])
