"""Checks of DP-SGD on a run's own settings: does a step do what its ε was computed for?

ε follows from four facts about every step: a unit moves the clipped sum by at most C, the sum gets noise of standard
deviation σC once, that noise is new each time, and every unit is sampled by its own coin with probability q. Here they
are measured on steps of the training engine itself (`core.training.steps`), at the weights of the public model. A
unit's gradient is compared with the one that autograd computes for it alone. A mistake that Tramèr et al. 2022
(“Debugging differential privacy”) found from outside, by training many models, shows here in a few steps.

The checks detect mistakes of the kinds they look for; they prove no ε. Each has a range that a right engine leaves with
a probability of about 10⁻⁶.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch
from scipy import stats

from core.common.randomness import PublicSeed, Randomness, SecretKey
from core.models.build import LanguageModel
from core.models.encoding import Samples
from core.spec import PrivacySpec, TrainingSpec
from core.training.accounting.mechanism import Mechanism
from core.training.batching import Feed, UnitPiece, training_samples
from core.training.checks.check import FAR, Check, by_chance, two_sided
from core.training.checks.coins import coin_checks
from core.training.inside_step import unit_gradient
from core.training.plan import plan
from core.training.sampling import Units
from core.training.steps import ClippedSteps, PrivateSteps
from core.training.weights import trainable

PROBES = 6  # units that are taken out and replaced
BESIDE = 26  # other units in the sum that they are taken out of
BATCHES = 2  # physical batches that all these are drawn from
MOST_NUMBERS = 250_000_000  # of these units' gradients, in memory at once
CLOSE = 0.01  # of C: what clipped sums may differ by in float32
STAGES = 5  # of `_Bench.run`
SEARCHED = 1e-3  # relative difference of two σ that were searched for the same ε
ROUNDING = 4 * 2.0**-24  # of σC in every direction: what noise that cancels leaves behind in float32


def check_steps(
    lm: LanguageModel,
    notes: pd.DataFrame,
    training: TrainingSpec,
    privacy: PrivacySpec,
    stored: Mechanism | None = None,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[Check]:
    """Check the steps of a private training.

    Args:
        lm: the public model that training starts from; its weights stay as they are.
        notes: the training notes, columns patient_id and text; already capped for each patient.
        training: of the run.
        privacy: of the run.
        stored: the mechanism that the run's ε is computed from; by default the one of these settings.
        on_progress: called after each stage with (done, of how many).

    Raises:
        ValueError: for settings that cannot be trained, and if no step samples enough units to look at.
    """
    patients = notes["patient_id"].to_numpy(dtype=object)
    samples = training_samples(lm, notes["text"].array, training.max_tokens)
    with trainable(lm.model, training.trainable), closing(_Bench(lm, samples, patients, training, privacy)) as bench:
        return bench.run(stored, on_progress or (lambda _done, _total: None))


class _PartOfFeed(Feed):
    """A feed that leaves examples of some units out. The draws stay those of the whole sample: coins and masks."""

    keep: Collection[int] | None = None  # None: everybody

    def sampled(self, step: int, units: Units, sample_rate: float) -> tuple[int, Iterator[Iterator[UnitPiece]]]:
        """As `Feed.sampled`, without the units that are not in `keep`."""
        size, physical = super().sampled(step, units, sample_rate)
        if self.keep is None:
            return size, physical
        chosen = np.fromiter(self.keep, dtype=np.int64, count=len(self.keep))
        return size, (self._parts(pieces, chosen) for pieces in physical)

    @staticmethod
    def _parts(pieces: Iterator[UnitPiece], chosen: np.ndarray) -> Iterator[UnitPiece]:
        for batch, names in pieces:
            rows = np.flatnonzero(np.isin(names, chosen))
            if len(rows):
                yield batch.only(rows), names[rows]


@dataclass(frozen=True)
class _Largest:
    """The step of the seed with the largest sample, and the units in it."""

    step: int
    sample: np.ndarray


@dataclass(frozen=True)
class _Drawn:
    """Some units of the largest sample, and the gradients of the first of them as autograd computes them."""

    largest: _Largest
    units: np.ndarray
    own: dict[int, np.ndarray]


class _Bench:
    """The steps of one run, with noise and without it, from one public seed.

    A stage takes what the one before it found, so that they can run in one order alone.
    """

    def __init__(
        self, lm: LanguageModel, samples: Samples, patients: np.ndarray, training: TrainingSpec, privacy: PrivacySpec
    ):
        self._lm, self._samples, self._patients = lm, samples, patients
        self._training, self._privacy, self._unit = training, privacy, privacy.unit
        self._parameters = [one for one in lm.model.parameters() if one.requires_grad]
        notes = {"notes": len(patients), "patients": len(set(patients))}
        self.mechanism = mechanism = plan(privacy, training, **notes).mechanism
        self._norm, self._sigma, self._rate = mechanism.max_grad_norm, mechanism.noise_multiplier, mechanism.sample_rate
        self._close = CLOSE + ROUNDING * self._sigma * math.sqrt(sum(one.numel() for one in self._parameters))
        self._feed = self._feed_of(samples)
        self._units = Units.build(self._unit, self._feed.note_index, patients)
        self._expected = self._rate * len(self._units)  # q·n, computed here: steps must divide by nothing else
        self._steps = mechanism.steps
        self._hooks = ExitStack()

    def run(self, stored: Mechanism | None, on_progress: Callable[[int, int], None]) -> list[Check]:
        """All stages. `on_progress` is called after each of them."""
        found, largest = self.coins()
        on_progress(1, STAGES)
        drawn = self.alone(largest)
        on_progress(2, STAGES)
        of_noise, private = self.noise(drawn)
        on_progress(3, STAGES)
        of_moves = self.moves(drawn, private)
        on_progress(4, STAGES)
        promised = self.promise(stored or self.mechanism)
        on_progress(5, STAGES)
        return [*found, *of_noise, *of_moves, *promised]

    def _feed_of(self, samples: Samples) -> _PartOfFeed:
        return _PartOfFeed(self._lm, samples, self._training, PublicSeed(self._training.seed))

    def _private_steps(self) -> PrivateSteps:
        """The private run's own steps. Until `close`, the model has the hooks of their clipper."""
        seed = PublicSeed(self._training.seed)
        steps = PrivateSteps(self._lm, self._samples, self._patients, self._training, self._privacy, seed)
        return self._hooks.enter_context(closing(steps))

    def close(self) -> None:
        """Remove every hook from the model."""
        self._hooks.close()

    def _clean_sums(self, step: int, *kept: Collection[int] | None) -> list[np.ndarray]:
        """The sums without noise of a step, for each of these parts of its sample. It leaves no hooks."""
        clipping = self._training.model_copy(update={"clip_norm": self._norm})
        steps = ClippedSteps(self._lm, self._samples, self._patients, clipping, self._privacy)
        try:
            return [self._sum_of(steps, step, keep) for keep in kept]
        finally:
            steps.close()

    # What the engine leaves in `grad`, undone to the sum -----------------------------------------------------------

    def _sum(self, steps: PrivateSteps | ClippedSteps, step: int) -> np.ndarray:
        """The sum that a step divided by q·n, all parameters side by side, float32."""
        steps.gradient(step, lambda: None, lambda _: None)
        flat = torch.cat([_grad(one).flatten() for one in self._parameters]).cpu().numpy()
        self._lm.model.zero_grad(set_to_none=True)
        return flat * np.float32(self._expected)

    def _sum_of(
        self,
        steps: PrivateSteps | ClippedSteps,
        step: int,
        keep: Collection[int] | None,
        samples: Samples | None = None,
    ) -> np.ndarray:
        """The sum of a step in which only the units in `keep` have examples (None: all)."""
        feed = self._feed_of(samples or self._samples)
        feed.keep = keep
        before, steps.feed = steps.feed, feed
        try:
            return self._sum(steps, step)
        finally:
            steps.feed = before

    # The stages ---------------------------------------------------------------------------------------------------

    def coins(self) -> tuple[list[Check], _Largest]:
        """The sampling, by a seed and by a fresh secret, and the seed's largest sample."""
        asked = self._units, self._rate, self._steps, self._unit
        found, step, sample = coin_checks(self._feed, *asked)
        fresh = _PartOfFeed(self._lm, self._samples, self._training, SecretKey.fresh())
        secret, _, _ = coin_checks(fresh, *asked)
        found += [replace(one, key=f"secret_{one.key}", claim=f"{one.claim}, from a fresh secret") for one in secret]
        return found, _Largest(step, sample)

    def alone(self, largest: _Largest) -> _Drawn:
        """The gradients of some units of the largest sample, by autograd, before any clipper has hooks in the model.

        All are from a few physical batches, so that sums of their units take little time.
        """
        rng = np.random.default_rng(self._training.seed)
        physical = self._feed.drawn(largest.step, self._units, self._rate)
        some = rng.permutation(len(physical))[:BATCHES]
        there = np.unique(np.concatenate([physical[number][1] for number in some]))
        units = rng.permutation(there)[: PROBES + BESIDE]
        feed = self._feed_of(self._samples)
        feed.keep = units.tolist()
        _, sample = feed.sampled(largest.step, self._units, self._rate)
        examples = [piece for pieces in sample for piece in pieces]
        count = sum(one.numel() for one in self._parameters)
        own = {}
        for unit in units[: min(PROBES, max(2, MOST_NUMBERS // count))].tolist():
            gradient = unit_gradient(self._lm, self._parameters, examples, unit, feed.masks)
            own[unit] = gradient.cpu().numpy()
        return _Drawn(largest, units, own)

    def noise(self, drawn: _Drawn) -> tuple[list[Check], PrivateSteps]:
        """A sum with noise and without: their difference; the largest sample in halves; steps that sample no unit.

        It returns the private steps, too, for the next stage. They are made here: a model can have the hooks of one
        clipper at a time, and those of the sums without noise come first.
        """
        step = drawn.largest.step
        halves = [part.tolist() for part in np.array_split(drawn.largest.sample, 2)]
        chosen = drawn.units.tolist()
        whole, sum_without, *parts = self._clean_sums(step, None, chosen, *halves)
        private = self._private_steps()
        noise = self._sum_of(private, step, chosen) - sum_without
        key = SecretKey.fresh()
        empty = [self._noise_alone(private, one, private.randomness) for one in (step, step + 1)]
        secret = [self._noise_alone(private, one, key) for one in (step, step + 1)]
        another = self._noise_alone(private, step, SecretKey.fresh())
        deviation, count = self._sigma * self._norm, len(noise)
        slack = FAR / math.sqrt(2 * count)
        share = np.random.default_rng(0).choice(count, size=min(count, 50_000), replace=False)
        fitted = stats.kstest(noise[share] / deviation, "norm").pvalue
        with np.errstate(invalid="ignore"):  # without any noise there is no correlation, which fails the check
            pairs = [np.corrcoef(first, second)[0, 1] for first, second in (empty, secret, (secret[0], another))]
        alike = float(np.abs(pairs).max()) * math.sqrt(count)
        unit = self._unit
        checks = [
            Check(
                "whole_sample",
                f"Every sampled {unit} counts: the sum is that of its halves",
                "difference, share of the sum",
                float(np.linalg.norm(whole - sum(parts)) / np.linalg.norm(whole)),
                0.0,
                CLOSE,
            ),
            Check(
                "noise",
                "The sum of a step gets noise once, before it is divided by q·n",
                "its standard deviation / σC",
                float(noise.std()) / deviation,
                1 - slack,
                1 + slack,
            ),
            by_chance(
                "noise_everywhere",
                "Every layer gets that noise",
                "probability of the layer that differs most",
                self._least_likely_layer(noise / deviation),
            ),
            by_chance("noise_is_normal", "The noise is normal", "probability of its shape", fitted),
            Check(
                "empty_sample",
                f"A step that samples no {unit} is noise too",
                "standard deviation / σC",
                float(empty[0].std()) / deviation,
                1 - slack,
                1 + slack,
            ),
            Check(
                "secret_noise",
                "Noise from a secret key has the same size (the larger error of two steps)",
                "standard deviation / σC",
                max((float(one.std()) / deviation for one in secret), key=lambda ratio: abs(ratio - 1)),
                1 - slack,
                1 + slack,
            ),
            by_chance(
                "secret_noise_everywhere",
                "Every layer gets noise from a secret key",
                "probability of the layer that differs most",
                self._least_likely_layer(secret[0] / deviation),
            ),
            Check(
                "fresh_noise",
                "Each step, and each secret key, gives different noise",
                "correlation, standard deviations",
                alike,
                0.0,
                FAR,
            ),
        ]
        return checks, private

    def moves(self, drawn: _Drawn, private: PrivateSteps) -> list[Check]:
        """Units that are taken out of the sum one by one, and notes that are replaced by random words."""
        rng, step, inside = np.random.default_rng(self._training.seed), drawn.largest.step, set(drawn.units.tolist())
        everybody = self._sum_of(private, step, inside)
        longest, off, replaced = 0.0, 0.0, 0.0
        for unit, gradient in drawn.own.items():
            own = gradient * np.float32(min(1.0, self._norm / max(float(np.linalg.norm(gradient)), 1e-30)))
            moved = everybody - self._sum_of(private, step, inside - {unit})
            longest = max(longest, float(np.linalg.norm(moved)) / self._norm)
            off = max(off, float(np.linalg.norm(moved - own)) / self._norm)
            other = self._sum_of(private, step, inside, self._with_random_words(unit, rng))
            replaced = max(replaced, float(np.linalg.norm(everybody - other)) / self._norm)
        unit_name = self._unit
        return [
            Check(
                "largest_move",
                f"Taking a {unit_name} out moves the sum by at most C",
                "largest move / C",
                longest,
                0.0,
                1 + self._close,
            ),
            Check(
                "own_gradient",
                f"It moves by that {unit_name}'s own gradient, cut to C, and nothing else",
                "largest difference / C",
                off,
                0.0,
                self._close,
            ),
            Check(
                "replaced",
                f"Replacing a {unit_name} by random words moves it by at most 2C",
                "largest move / C",
                replaced,
                0.0,
                2 + self._close,
            ),
        ]

    def promise(self, stored: Mechanism) -> list[Check]:
        """The mechanism that ε is computed from, against the one that these settings train with.

        σ may differ by SEARCHED: versions that search for it in other steps find slightly different ones.
        """
        trained, alone = self.mechanism, stored.training_alone()
        numbers = {"noise_multiplier": SEARCHED, "sample_rate": 1e-6, "steps": 0.0, "max_grad_norm": 1e-6}
        differ = sum(
            not math.isclose(getattr(alone, name), getattr(trained, name), rel_tol=close)
            for name, close in numbers.items()
        )
        differ += alone.unit != trained.unit
        claim = "ε is computed from the σ, q, C and number of steps of this training"
        return [Check("promise", claim, "settings that differ", float(differ), 0.0, 0.0)]

    # Parts of the stages ------------------------------------------------------------------------------------------

    def _with_random_words(self, unit: int, rng: np.random.Generator) -> Samples:
        """The samples with every ordinary token of a unit's replaced at random; lengths, and so all draws, stay."""
        special = set(self._lm.tokenizer.all_special_ids)
        ids = list(self._samples.ids)
        for row in np.unique(self._units.of(unit) % len(ids)):
            words = rng.integers(len(self._lm.tokenizer), size=len(ids[row])).astype(ids[row].dtype)
            kept = np.isin(ids[row], list(special)) | np.isin(words, list(special))
            ids[row] = np.where(kept, ids[row], words)
        return replace(self._samples, ids=ids)

    def _noise_alone(self, private: PrivateSteps, step: int, randomness: Randomness) -> np.ndarray:
        """The noise of a step that samples no unit, from this source."""
        before, private.randomness = private.randomness, randomness
        try:
            return self._sum_of(private, step, ())
        finally:
            private.randomness = before

    def _least_likely_layer(self, standard: np.ndarray) -> float:
        """Smallest probability over the parameters of a variance as far from 1, times their number (Bonferroni)."""
        sizes = [one.numel() for one in self._parameters]
        parts = np.split(standard.astype(np.float64), np.cumsum(sizes)[:-1])
        found = [two_sided(float((part**2).sum()), stats.chi2(len(part))) for part in parts]
        return min(1.0, min(found) * len(found))


def _grad(parameter: torch.nn.Parameter) -> torch.Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
