"""Planted gradients: the engine keeps its promise, and an engine with too little noise is found out."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
import torch
from scipy import stats

from core.common.formatting import promised_text, proved_text
from core.evaluation.guarantee.epsilon_bounds import one_run_epsilon
from core.evaluation.guarantee.step_audit import FEWEST, check_canaries, step_audit
from core.evaluation.wording import planted_sentence
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


def without_noise(canaries: int, seed: int = 0) -> Watched:
    return watch(language_model("gpt2"), COHORT, SHORT, EIGHT, canaries=canaries, seed=seed)


SHORT = TrainingSpec(epochs=4, batch_size=2, max_tokens=32, seed=4)
EIGHT = PrivacySpec(noise_multiplier=0.75, delta=1e-5)


def test_a_training_without_noise_raises_the_alarm_if_there_are_canaries_enough(monkeypatch):
    monkeypatch.setattr(clipping, "add_gaussian", lambda values, deviation, rng: None)
    few, many = (without_noise(canaries) for canaries in (1_000, 5_000))
    assert 7 < few.mechanism.epsilon() < 9
    audit = step_audit(many.inside, many.evidence, many.mechanism)
    assert audit.correct == audit.guesses == 500 and audit.alarm and audit.can_alarm
    assert max(audit.proved, audit.proved_by_curve) == audit.ceiling > audit.promised
    assert "Alarm: this contradicts the promise." in planted_sentence(asdict(audit))
    blind = step_audit(few.inside, few.evidence, few.mechanism)
    assert blind.correct == blind.guesses and not blind.alarm and not blind.can_alarm
    assert blind.ceiling < blind.promised
    assert f"could contradict ε = {promised_text(blind.promised)}" in planted_sentence(asdict(blind))


def test_the_promise_is_the_run_s_and_a_silent_audit_says_what_it_could_have_proved(right):
    audit = step_audit(right.inside, right.evidence, right.mechanism, promised=3.5)
    assert audit.promised == 3.5 and audit.ceiling >= audit.proved_by_curve > audit.proved
    told = planted_sentence(asdict(audit))
    assert f"the most it could have proved is ε = {proved_text(audit.ceiling)} (95" in told and "Alarm" not in told
    assert f"ε ≥ {proved_text(audit.proved)}, and by the run’s own trade-off curve ε ≥ " in told
    assert step_audit(right.inside, right.evidence, right.mechanism, promised=0.1).alarm, "more is proved than 0.1"


def test_another_seed_tosses_other_coins():
    coins = [without_noise(60, seed).inside for seed in (0, 0, 1)]
    assert np.array_equal(coins[0], coins[1]) and not np.array_equal(coins[0], coins[2])


def test_too_few_canaries_to_prove_anything_are_refused(right):
    check_canaries(FEWEST)
    for count in (10, FEWEST - 1):
        with pytest.raises(ValueError, match=f"at least {FEWEST} canaries, not {count}"):
            step_audit(right.inside[:count], right.evidence[:count], right.mechanism)
    least = step_audit(np.ones(FEWEST, dtype=bool), np.arange(FEWEST), right.mechanism)
    assert 0 < least.ceiling == max(least.proved, least.proved_by_curve)
    assert one_run_epsilon(canaries=40, guesses=4, correct=4, delta=1e-5) == 0.0


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
    with pytest.raises(ValueError, match="at least 50"):
        step_audit(np.ones(9, dtype=bool), np.zeros(9), right.mechanism)


def test_blind_guesses_prove_nothing_in_nineteen_of_twenty(right):
    rng = np.random.default_rng(0)
    proofs = [step_audit(rng.random(400) < 0.5, rng.random(400), right.mechanism) for _ in range(60)]
    assert sum(one.proved > 0 for one in proofs) <= 6 and sum(one.proved_by_curve > 0 for one in proofs) <= 8
