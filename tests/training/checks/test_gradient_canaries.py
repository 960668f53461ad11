"""Planted gradients: the engine keeps its promise, and an engine with too little noise is found out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from core.evaluation.guarantee.step_audit import step_audit
from core.spec import PrivacySpec, TrainingSpec
from core.training.accounting.mechanism import Mechanism
from core.training.checks.gradient_canaries import Watched, watch
from core.training.gradients import clipping
from core.training.gradients.noise import add_gaussian
from tests.training.tiny import language_model, notes

COHORT = notes()
TRAINING = TrainingSpec(epochs=30, batch_size=10, max_tokens=32, seed=4)
PRIVACY = PrivacySpec(noise_multiplier=1.5, delta=1e-5)


def seen(**changes) -> Watched:
    return watch(language_model("gpt2"), COHORT, TRAINING, PRIVACY, **{"canaries": 400} | changes)


@pytest.fixture(scope="module")
def right() -> Watched:
    return seen()


def test_evidence_points_to_those_inside_and_proves_no_more_than_promised(right):
    inside, outside = right.evidence[right.inside], right.evidence[~right.inside]
    assert abs(len(inside) - 200) < 60 and inside.mean() > 0 > outside.mean()
    audit = step_audit(right.inside, right.evidence, right.mechanism)
    assert 0 < audit.proved < audit.promised and audit.proved_by_curve < audit.promised and not audit.alarm
    assert (audit.canaries, audit.guesses) == (400, 40) and audit.correct > 25


def simulated(inside: np.ndarray, mechanism: Mechanism) -> np.ndarray:
    """The same evidence from numbers alone: a sampled canary moves its sum by 1, and every sum has noise σ."""
    rng, rate, sigma = np.random.default_rng(1), mechanism.sample_rate, mechanism.noise_multiplier
    total = np.zeros(len(inside))
    for _ in range(mechanism.steps):
        seen = (inside & (rng.random(len(inside)) < rate)) + sigma * rng.normal(size=len(inside))
        out, included = (np.exp(-((seen - mean) ** 2) / (2 * sigma**2)) for mean in (0, 1))
        total += np.log(((1 - rate) * out + rate * included) / out)
    return total


def test_the_engine_shows_what_its_sigma_and_rate_say(right):
    for chosen in (right.inside, ~right.inside):
        expected = simulated(np.full(4_000, chosen is right.inside), right.mechanism)
        assert stats.ks_2samp(right.evidence[chosen], expected).pvalue > 1e-4


def test_too_little_noise_is_found_out(monkeypatch):
    """Seeded bug: a quarter of the noise. At σ = 6 as promised, the same audit is silent."""
    loud = PRIVACY.model_copy(update={"noise_multiplier": 6.0})

    def audited():
        found = watch(language_model("gpt2"), COHORT, TRAINING, loud, canaries=1_000)
        return step_audit(found.inside, found.evidence, found.mechanism)

    assert not audited().alarm

    def less(values, deviation, rng):
        add_gaussian(values, deviation / 4, rng)

    monkeypatch.setattr(clipping, "add_gaussian", less)
    assert audited().alarm


def test_the_same_seed_shows_the_same_and_hooks_are_removed():
    lm = language_model("gpt2")
    one = watch(lm, COHORT, TRAINING.model_copy(update={"epochs": 2}), PRIVACY, canaries=20)
    again = watch(language_model("gpt2"), COHORT, TRAINING.model_copy(update={"epochs": 2}), PRIVACY, canaries=20)
    assert np.array_equal(one.inside, again.inside) and np.allclose(one.evidence, again.evidence)
    assert not any(module._forward_hooks for module in lm.model.modules())
    assert all(parameter.grad is None for parameter in lm.model.parameters())
    assert all(torch.isfinite(parameter).all() for parameter in lm.model.parameters())


def test_stopping_and_refusals(right):
    told = []
    seen(canaries=10, should_stop=lambda: len(told) == 2, on_step=lambda *done: told.append(done))
    assert [done for done, _ in told] == [1, 2]
    with pytest.raises(ValueError, match="without privacy"):
        watch(language_model("gpt2"), COHORT, TRAINING, PrivacySpec(), canaries=10)
    with pytest.raises(ValueError, match="number of weights"):
        seen(canaries=10**9)
    with pytest.raises(ValueError, match="at least 10"):
        step_audit(np.ones(9, dtype=bool), np.zeros(9), right.mechanism)


def test_blind_guesses_prove_nothing_in_nineteen_of_twenty(right):
    rng = np.random.default_rng(0)
    proofs = [step_audit(rng.random(400) < 0.5, rng.random(400), right.mechanism) for _ in range(60)]
    assert sum(one.proved > 0 for one in proofs) <= 6 and sum(one.proved_by_curve > 0 for one in proofs) <= 8
