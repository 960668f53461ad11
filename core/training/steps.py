"""The gradient of one training step, with and without privacy.

A step is: a logical batch (a shuffled batch, or a Poisson sample of units) → physical batches of about equal length →
one loss per example → a gradient (the mean of the batch, or `Clipper`'s clipped mean, with noise if it is private).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from core.common.randomness import PublicSeed, Randomness
from core.models.build import LanguageModel
from core.models.encoding import Samples
from core.spec import PrivacySpec, TrainingSpec
from core.training.accounting.gaussian import epsilon_curve
from core.training.accounting.mechanism import Mechanism
from core.training.batching import Feed
from core.training.gradients.clipping import Clipper
from core.training.gradients.noise import NOISE_FORM
from core.training.losses import Batch, example_losses
from core.training.plan import PrivatePlan, SampledPlan, plan, sampled_plan
from core.training.sampling import Purpose, Units


@dataclass
class BatchStats:
    """Progress of a logical batch of `size` examples: the sum of the losses so far, their number, and the tokens.

    `predicting` of the examples have a token to predict; the others have no loss.
    """

    size: int
    loss_sum: Tensor
    examples: int = 0
    predicting: Tensor | int = 0  # a tensor once a batch was read, so that no GPU is waited for
    tokens: int = 0

    def add(self, losses: Tensor, batch: Batch) -> None:
        """Add a batch that was read."""
        self.loss_sum += losses.detach().sum()
        self.examples += len(losses)
        self.predicting = self.predicting + (batch.targets != -100).any(1).sum()
        self.tokens += batch.tokens

    def mean_loss(self) -> float | None:
        """Mean loss in nats over the examples with a token to predict; None before the first."""
        predicting = int(self.predicting)
        return self.loss_sum.item() / predicting if predicting else None


Before = Callable[[], None]  # called before every batch is read; may raise to abort the step
After = Callable[[BatchStats], None]  # called after every batch


class PlainSteps:
    """Steps without privacy: shuffled epochs, the gradient of the mean loss.

    With `training.weighting` = token each example counts in proportion to its length, 1 on average over all samples. A
    mean over the tokens of each batch would hardly differ from the usual one, because the samples of a batch are about
    equally long.
    """

    mechanism: Mechanism | None = None
    older_fingerprint: str | None = None

    def __init__(self, lm: LanguageModel, samples: Samples, training: TrainingSpec):
        self._lm = lm
        self._feed = Feed(lm, samples, training, PublicSeed(training.seed))
        mean = float(np.mean([len(ids) for ids in samples.ids])) if len(samples) else 1.0
        self._usual_length = mean if training.weighting == "token" else None  # tokens
        self._per_epoch = math.ceil(len(samples) / training.batch_size)
        self.steps = self._per_epoch * training.epochs
        self.epoch_ends = [self._per_epoch * epoch for epoch in range(1, training.epochs + 1)]
        self.fingerprint = self._feed.fingerprint(PrivacySpec())

    def gradient(self, step: int, before: Before, after: After) -> BatchStats:
        """Leave the gradient of step 1…steps in the parameters' `grad`."""
        size, physical = self._feed.shuffled(step, self._per_epoch)
        stats = BatchStats(size, torch.zeros((), device=self._lm.device))
        for batch in physical:
            before()
            losses = example_losses(self._lm, batch)
            weighted = losses if self._usual_length is None else losses * (batch.lengths / self._usual_length)
            (weighted.sum() / size).backward()
            stats.add(losses, batch)
            after(stats)
        return stats

    def epsilon(self, step: int) -> float | None:
        """None: there is no guarantee."""
        return None

    def close(self) -> None:
        """Do nothing."""


class _SampledSteps:
    """Poisson samples of units, clipped unit by unit: what training with noise and its control without it share.

    A unit's gradient is the sum over its samples. With K masks of a sample, each copy's loss counts 1/K, so a sample's
    gradient is the mean over its masked copies, before it is clipped (De et al. 2022, “augmentation multiplicity”).
    `core.training.checks` reads steps through a `feed` of its own.
    """

    older_fingerprint: str | None = None  # that of an older version, which drew other noise

    def __init__(
        self,
        lm: LanguageModel,
        samples: Samples,
        patients: np.ndarray,
        training: TrainingSpec,
        privacy: PrivacySpec,
        randomness: Randomness,
        planned: SampledPlan,
        norm: float,
    ):
        self._lm = lm
        self.feed = Feed(lm, samples, training, randomness)
        self._planned = planned
        self._units = Units.build(privacy.unit, self.feed.note_index, patients)
        self.steps, self.epoch_ends = planned.steps, planned.epoch_ends(training.epochs)
        self.fingerprint = self.feed.fingerprint(privacy)
        self._clipper = Clipper(lm.model, norm)

    def _add_clipped(self, step: int, before: Before, after: After) -> BatchStats:
        """Add the clipped gradients of the units of step 1…steps to the clipper's sum."""
        size, sample = self.feed.sampled(step, self._units, self._planned.sample_rate)
        stats = BatchStats(size, torch.zeros((), device=self._lm.device))
        for physical in sample:
            for batch, names in physical:
                before()
                losses = example_losses(self._lm, batch)
                self._clipper.backward(losses / self.feed.masks, names)
                stats.add(losses, batch)
                after(stats)
            self._clipper.clip()
        return stats

    @property
    def expected_units(self) -> float:
        """The mean size of a sample, by which sums of gradients are divided."""
        return self._planned.expected_units

    def close(self) -> None:
        """Remove the clipper's hooks from the model."""
        self._clipper.close()


class PrivateSteps(_SampledSteps):
    """Steps of DP-SGD: Poisson samples of units, clipped unit by unit, with noise."""

    def __init__(
        self,
        lm: LanguageModel,
        samples: Samples,
        patients: np.ndarray,
        training: TrainingSpec,
        privacy: PrivacySpec,
        randomness: Randomness,
    ):
        planned: PrivatePlan = plan(privacy, training, notes=len(patients), patients=len(set(patients)))
        super().__init__(lm, samples, patients, training, privacy, randomness, planned, privacy.max_grad_norm)
        self.randomness = randomness
        if randomness.source == "secret":
            self.older_fingerprint, self.fingerprint = self.fingerprint, f"{self.fingerprint} {NOISE_FORM}"
        drawn = {"noise_source": randomness.source, "training": randomness.check.hex()[:16] or None}
        self.mechanism: Mechanism = planned.mechanism.model_copy(update=drawn)
        self._curve = epsilon_curve(
            noise_multiplier=self.mechanism.noise_multiplier,
            sample_rate=self.mechanism.sample_rate,
            steps=self.mechanism.steps,
            delta=self.mechanism.delta,
            accountant=self.mechanism.counted_by,
        )

    def gradient(self, step: int, before: Before, after: After) -> BatchStats:
        """Leave the noisy gradient of step 1…steps in the parameters' `grad`, also if no unit was sampled."""
        stats = self._add_clipped(step, before, after)
        rng = self.randomness.stream(Purpose.NOISE, step)
        self._clipper.noisy_gradient(self.mechanism.noise_multiplier, self._planned.expected_units, rng)
        return stats

    def epsilon(self, step: int) -> float:
        """ε spent after this many steps, or at the next step count for which it was computed."""
        counts, values = self._curve
        return float(values[np.searchsorted(counts, step)])


class ClippedSteps(_SampledSteps):
    """The steps of DP-SGD without its noise, and so without a guarantee: the control of a private run.

    With the same public seed, samples and masks are those of the private run.
    """

    mechanism: Mechanism | None = None

    def __init__(
        self, lm: LanguageModel, samples: Samples, patients: np.ndarray, training: TrainingSpec, privacy: PrivacySpec
    ):
        assert training.clip_norm is not None  # the trainer chose these steps for it
        planned = sampled_plan(privacy.unit, training, notes=len(patients), patients=len(set(patients)))
        seed = PublicSeed(training.seed)
        super().__init__(lm, samples, patients, training, privacy, seed, planned, training.clip_norm)

    def gradient(self, step: int, before: Before, after: After) -> BatchStats:
        """Leave the clipped gradient of step 1…steps in the parameters' `grad`; zeros if no unit was sampled."""
        stats = self._add_clipped(step, before, after)
        self._clipper.clipped_gradient(self._planned.expected_units)
        return stats

    def epsilon(self, step: int) -> float | None:
        """None: there is no guarantee."""
        return None


Steps = PlainSteps | ClippedSteps | PrivateSteps
