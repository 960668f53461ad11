"""Checks of a step: a right engine passes all of them, and each of ten seeded bugs fails the check meant for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from core.common.randomness import KeyedStream, SecretKey
from core.models.encoding import encode_samples
from core.spec import PrivacySpec, TrainingSpec
from core.training import batching
from core.training.checks import steps as step_checks
from core.training.checks.check import Check
from core.training.checks.steps import check_steps
from core.training.gradients.clipping import Clipper
from core.training.gradients.layer_gradients import TiedGradients
from core.training.gradients.noise import add_gaussian
from core.training.plan import plan
from core.training.steps import PrivateSteps
from tests.training.tiny import language_model, notes

COHORT = notes()
PRIVACY = PrivacySpec(noise_multiplier=0.8)


def spec(**changes) -> TrainingSpec:
    return TrainingSpec(**{"epochs": 40, "batch_size": 10, "max_tokens": 32, "seed": 4, "physical_batch": 4} | changes)


def checked(kind: str = "gpt2", privacy: PrivacySpec = PRIVACY, **changes) -> dict[str, Check]:
    return {check.key: check for check in check_steps(language_model(kind), COHORT, spec(**changes), privacy)}


def wrong(found: dict[str, Check]) -> set[str]:
    return {key for key, check in found.items() if not check.passed}


@pytest.mark.parametrize("unit", ["note", "patient"])
@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_the_engine_passes(kind, unit):
    changes = {"masks": 2, "mask_share": 0.4} if kind == "distilbert" else {}
    found = checked(kind, PrivacySpec(unit=unit, noise_multiplier=0.8), **changes)
    assert len(found) == (20 if unit == "note" else 18) and not wrong(found), "8 patients: sizes of steps hardly vary"
    assert found["largest_move"].value == pytest.approx(1.0, abs=1e-3), "gradients longer than C are cut to C"
    assert 1.0 < found["replaced"].value < 2.0


def test_weights_stay_and_no_hook_is_left():
    lm = language_model("gpt2")
    before = {name: one.clone() for name, one in lm.model.state_dict().items()}
    told = []
    check_steps(lm, COHORT, spec(), PRIVACY, on_progress=lambda *done: told.append(done))
    assert all(torch.equal(one, before[name]) for name, one in lm.model.state_dict().items())
    assert not any(module._forward_hooks for module in lm.model.modules())
    assert told == [(number, 5) for number in range(1, 6)]


def test_small_gradients_are_not_cut():
    found = checked(privacy=PrivacySpec(noise_multiplier=0.8, max_grad_norm=1_000.0))
    assert not wrong(found) and found["largest_move"].value < 0.1


def mean_noise(monkeypatch):
    """Noise of standard deviation σC on the mean, not on the sum."""

    def noisy(self, noise_multiplier, expected_units, rng):
        self._total.div_(expected_units)
        add_gaussian(self._total, noise_multiplier * self.max_grad_norm, rng)
        self.clipped_gradient(1.0)

    monkeypatch.setattr(Clipper, "noisy_gradient", noisy)


def tied_norm_twice(monkeypatch):
    """The weight that embedding and output layer share counts twice in a unit's norm."""
    right = TiedGradients.squared_norms
    monkeypatch.setattr(TiedGradients, "squared_norms", lambda *given: 2 * right(*given))


def skipped_clip(monkeypatch):
    """Gradients are added up as they are."""
    right = Clipper.__init__

    def unclipped(self, model, max_grad_norm):
        right(self, model, 1e9)
        self.noise_norm = max_grad_norm

    def noisy(self, noise_multiplier, expected_units, rng):
        add_gaussian(self._total, noise_multiplier * self.noise_norm, rng)
        self.clipped_gradient(expected_units)

    monkeypatch.setattr(Clipper, "__init__", unclipped)
    monkeypatch.setattr(Clipper, "noisy_gradient", noisy)


def noise_by_shard(monkeypatch):
    """Every physical batch adds noise of its own (Hoory 2021, §3.3, with P shards)."""
    clip, noisy = Clipper.clip, PrivateSteps.gradient
    sources: list[np.random.Generator] = []

    def gradient(self, step, before, after):
        sources.append(np.random.default_rng([7, step]))
        try:
            return noisy(self, step, before, after)
        finally:
            sources.clear()

    def shard(self):
        norms = clip(self)
        if sources:
            add_gaussian(self._total, 0.8 * self.max_grad_norm, sources[0])
        return norms

    monkeypatch.setattr(PrivateSteps, "gradient", gradient)
    monkeypatch.setattr(Clipper, "clip", shard)


def skewed_secret_coins(monkeypatch):
    """Coins from a secret come up too seldom; those from a seed are right."""
    right = KeyedStream.random
    monkeypatch.setattr(KeyedStream, "random", lambda self, size: np.minimum(1.0, 1.5 * right(self, size)))


def small_secret_noise(monkeypatch):
    """Noise from a secret is half as large as that from a seed."""
    right = step_checks.PrivateSteps.gradient

    def gradient(self, step, before, after):
        kept = self.mechanism
        if self.randomness.source == "secret":
            self.mechanism = kept.model_copy(update={"noise_multiplier": kept.noise_multiplier / 2})
        try:
            return right(self, step, before, after)
        finally:
            self.mechanism = kept

    monkeypatch.setattr(step_checks.PrivateSteps, "gradient", gradient)


def secret_ignores_the_step(monkeypatch):
    """A secret draws the same noise in every step."""
    right = SecretKey.stream
    monkeypatch.setattr(SecretKey, "stream", lambda self, purpose, step: right(self, purpose, 1))


def reused_noise(monkeypatch):
    """The noise of every step is that of the first."""

    def noisy(self, noise_multiplier, expected_units, rng):
        add_gaussian(self._total, noise_multiplier * self.max_grad_norm, np.random.default_rng(0))
        self.clipped_gradient(expected_units)

    monkeypatch.setattr(Clipper, "noisy_gradient", noisy)


def truncated_sample(monkeypatch):
    """A sample that is larger than the batch size is cut off there."""
    right = batching.poisson_batches

    def cut(*given):
        kept, left = [], 10
        for rows, names in right(*given):
            some = np.isin(names, np.unique(names)[:left])
            left -= len(np.unique(names[some]))
            if some.any():
                kept.append((rows[some], names[some]))
        return kept

    monkeypatch.setattr(batching, "poisson_batches", cut)


def truncated_loop(monkeypatch):
    """The sample is right, but a step stops after ten notes."""
    right = Clipper.clip

    def clip(self):
        if len(self._seen) < 10:
            return right(self)
        self._records, self._pieces = {}, []
        return torch.zeros(0)

    monkeypatch.setattr(Clipper, "clip", clip)


def shuffled_sample(monkeypatch):
    """Steps of exactly the batch size, without replacement within a step: not the coins that ε is computed for."""
    right = batching.poisson_batches

    def fixed(units, lengths, sample_rate, physical_batch, rng):
        class Chosen:
            def random(self, count):
                return np.where(np.argsort(np.argsort(rng.random(count))) < 10, 0.0, 1.0)

        return right(units, lengths, sample_rate, physical_batch, Chosen())

    monkeypatch.setattr(batching, "poisson_batches", fixed)


BUGS: dict[Callable, set[str]] = {
    mean_noise: {"noise", "empty_sample"},
    tied_norm_twice: {"own_gradient"},
    skipped_clip: {"largest_move", "own_gradient"},
    noise_by_shard: {"noise"},
    skewed_secret_coins: {"secret_inclusion"},
    small_secret_noise: {"secret_noise", "secret_noise_everywhere"},
    secret_ignores_the_step: {"fresh_noise"},
    reused_noise: {"fresh_noise"},
    truncated_sample: {"larger_steps", "secret_larger_steps"},
    truncated_loop: {"whole_sample"},
    shuffled_sample: {"step_sizes", "secret_step_sizes"},
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_seeded_bug_is_caught(bug, monkeypatch):
    bug(monkeypatch)
    assert BUGS[bug] <= wrong(checked())


def test_another_promise_than_the_training_is_caught():
    training = spec()
    trained = plan(PRIVACY, training, notes=len(COHORT), patients=COHORT["patient_id"].nunique()).mechanism
    for change in ({"noise_multiplier": 0.9}, {"steps": 10}, {"sample_rate": 0.1}, {"unit": "patient"}):
        stored = trained.model_copy(update=change)
        found = check_steps(language_model("gpt2"), COHORT, training, PRIVACY, stored)
        assert {check.key for check in found if not check.passed} == {"promise"}


def test_a_sigma_that_was_searched_in_other_steps_is_no_mistake():
    training = spec()
    trained = plan(PRIVACY, training, notes=len(COHORT), patients=COHORT["patient_id"].nunique()).mechanism
    stored = trained.model_copy(update={"noise_multiplier": trained.noise_multiplier * (1 + 3e-5)})
    assert all(check.passed for check in check_steps(language_model("gpt2"), COHORT, training, PRIVACY, stored))


def test_false_alarms_are_rare():
    """The three checks of the sampling, which depend on the seed, over 200 seeds."""
    lm, patients = language_model("gpt2"), COHORT["patient_id"].to_numpy(dtype=object)
    samples = encode_samples(lm, COHORT["text"].array, 32)
    alarms = 0
    for seed in range(200):
        bench = step_checks._Bench(lm, samples, patients, spec(seed=seed, epochs=20), PRIVACY)
        alarms += any(not check.passed for check in bench.coins()[0])
    assert alarms == 0


@pytest.mark.parametrize(("batch", "notes", "epochs"), [(24, 24, 3), (12, 24, 1), (23, 24, 2)])
def test_short_and_full_trainings_pass(batch, notes, epochs):
    """With q = 1 every note is in every step, and one or two steps are too few to judge sizes by."""
    lm, patients = language_model("gpt2"), COHORT["patient_id"].to_numpy(dtype=object)
    samples = encode_samples(lm, COHORT["text"].array, 32)
    for seed in range(40):
        training = spec(seed=seed, epochs=epochs, batch_size=batch)
        bench = step_checks._Bench(lm, samples, patients, training, PRIVACY)
        assert all(check.passed for check in bench.coins()[0])


def test_a_training_without_enough_notes_says_so():
    with pytest.raises(ValueError, match="raise its batch size"):
        check_steps(language_model("gpt2"), COHORT.head(6), spec(batch_size=1, epochs=1), PRIVACY)
