"""The plan of a training run, computed before it starts: units, sample rate, steps, noise and warnings."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import distributed

from core.models.word_noise import WordNoise
from core.spec import PrivacySpec, TrainingSpec, Unit, VocabularySpec
from core.training.accounting.gaussian import noise_multiplier
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.risk import check_risk, rate_and_steps


@dataclass(frozen=True)
class SampledPlan:
    """A run by Poisson samples: each of `units` units is in a step with probability `sample_rate` q; `steps` steps."""

    units: int
    sample_rate: float
    steps: int

    @property
    def expected_units(self) -> float:
        """q·n, the expected number of units in a step; gradients are divided by it."""
        return self.sample_rate * self.units

    def epoch_ends(self, epochs: int) -> list[int]:
        """The last step of each epoch (1/q steps, in which every unit is sampled once on average)."""
        return [min(self.steps, math.ceil(epoch / self.sample_rate - 1e-9)) for epoch in range(1, epochs + 1)]


@dataclass(frozen=True)
class PrivatePlan(SampledPlan):
    """A private run: its samples, and the whole run's `mechanism`."""

    mechanism: Mechanism


def check(
    privacy: PrivacySpec, training: TrainingSpec, *, notes: int, patients: int, vocabulary: VocabularySpec | None = None
) -> list[str]:
    """Warnings to show to the user. Raises ValueError, with a sentence to show, for what cannot be trained.

    With a `vocabulary` from the notes, its noise must be one that can be computed, and its δ counts, too.
    """
    if notes < 1 or patients < 1:
        raise ValueError("there are no notes to train on: choose a larger cohort")
    if training.batch_size > notes:
        raise ValueError(
            f"the batch size ({training.batch_size}) is larger than the cohort ({notes} training notes): "
            f"choose a batch of at most {notes}, or more patients"
        )
    if not privacy.private:
        return []
    warnings = []
    units = notes if privacy.unit == "note" else patients
    delta, parts = privacy.delta, ""
    if vocabulary is not None:
        delta, parts = delta + WordNoise.planned(vocabulary).delta, " of training and vocabulary together"
    if delta >= 1 / units:
        warnings.append(
            f"δ = {delta:g}{parts} is not below 1/n (1/{units} {privacy.unit}s = {1 / units:.2g}): a mechanism that "
            f"publishes one {privacy.unit} at random would pass as private. Choose a smaller δ."
        )
    if privacy.accountant == "gdp":
        warnings.append(
            "the GDP accountant is an approximation without a bound on its error: for most σ it under-reports ε (by "
            "up to 37 % where that was measured), for the smallest σ it over-reports it. Choose PRV for a guarantee."
        )
    return warnings


def refuse_shards() -> None:
    """Raise ValueError in a process that shares its training with others (`torch.distributed`).

    Every process would clip and add noise for its own shard of a logical batch (Hoory 2021, §3.3). The sum of P shards
    would have noise of standard deviation σ·√P·C: more utility is lost than ε requires, and `privacy.json` would state
    a σ that was not used.
    """
    if not (distributed.is_available() and distributed.is_initialized()):
        return
    shards = distributed.get_world_size()
    if shards > 1:
        raise ValueError(
            f"private training cannot be spread over processes: each of the {shards} shards would add its own noise, "
            f"so the sum would have σ·√P = {math.sqrt(shards):.2f}·σ and not the σ that ε is computed from. Train in "
            f"one process; a smaller physical batch limits memory"
        )


def sampled_plan(unit: Unit, training: TrainingSpec, *, notes: int, patients: int) -> SampledPlan:
    """The samples of a run over `notes` notes of `patients` patients; the same with noise and without.

    `batch_size` counts notes for either unit: a step samples each unit with q = batch_size / notes, so a patient-level
    step has batch_size / notes · patients patients and, on average, as many notes as a note-level step. There are
    ⌈epochs / q⌉ steps.
    """
    sample_rate, steps = rate_and_steps(training, notes)
    return SampledPlan(notes if unit == "note" else patients, sample_rate, steps)


def plan(privacy: PrivacySpec, training: TrainingSpec, *, notes: int, patients: int) -> PrivatePlan:
    """The steps (`sampled_plan`) and the noise of a private run over `notes` notes of `patients` patients.

    With a target ε, σ is the smallest that does not exceed it. A σ that was chosen for a limit on the
    attacker must hold it.

    Raises:
        ValueError: as `check` and the accountants do, and for settings without privacy.
    """
    check(privacy, training, notes=notes, patients=patients)
    if not privacy.private:
        raise ValueError("this run is not private: it has no noise to plan")
    samples = sampled_plan(privacy.unit, training, notes=notes, patients=patients)
    sigma = privacy.noise_multiplier
    if sigma is None:
        assert privacy.target_epsilon is not None  # `PrivacySpec.private`: one of the two is given
        sigma = noise_multiplier(
            target_epsilon=privacy.target_epsilon,
            sample_rate=samples.sample_rate,
            steps=samples.steps,
            delta=privacy.delta,
            accountant=privacy.accountant,
        )
    mechanism = Mechanism(
        unit=privacy.unit,
        noise_multiplier=sigma,
        sample_rate=samples.sample_rate,
        steps=samples.steps,
        delta=privacy.delta,
        max_grad_norm=privacy.max_grad_norm,
        accountant=privacy.accountant,
    )
    if privacy.risk_limit is not None:
        check_risk(privacy.risk_limit, mechanism)
    return PrivatePlan(samples.units, samples.sample_rate, samples.steps, mechanism)
