"""Noise chosen by risk: closed form, simulated optimal attackers, and at least 15 % less than by way of (ε, δ)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta

from core.evaluation.guarantee.consequences import consequences
from core.spec import RiskLimit, TrainingSpec
from core.training.accounting.gaussian import noise_multiplier
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.risk import (
    achieved,
    check_risk,
    epsilon_for_risk,
    limit_mu,
    noise_for_risk,
    rate_and_steps,
)
from core.training.accounting.tradeoff import dp_ceiling, of_history

RECIPES = {3_000: (256 / 3_000, 138), 12_000: (512 / 12_000, 139), 48_000: (1_024 / 48_000, 141)}
LIMITS = [
    *(RiskLimit(caught=caught, accused=0.01) for caught in (0.02, 0.05, 0.1, 0.2)),
    *(RiskLimit(right=right) for right in (0.52, 0.55, 0.6, 0.75)),
]
ATTACKERS = 40


def mechanism(sigma: float, rate: float, steps: int) -> Mechanism:
    return Mechanism(unit="note", noise_multiplier=sigma, sample_rate=rate, steps=steps, delta=1e-5, max_grad_norm=1.0)


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.label)
def test_without_sampling_the_noise_is_one_over_mu(limit):
    found = noise_for_risk(limit, sample_rate=1.0, steps=1)
    assert 1 / limit_mu(limit) <= found <= 1 / limit_mu(limit) * 1.001
    assert noise_for_risk(limit, sample_rate=1.0, steps=9) == pytest.approx(3 * found, rel=1e-3)


@pytest.mark.parametrize("notes", RECIPES)
@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.label)
def test_the_limit_holds_tightly_with_at_least_15_percent_less_noise_than_by_epsilon(limit, notes):
    rate, steps = RECIPES[notes]
    sigma = noise_for_risk(limit, sample_rate=rate, steps=steps)
    share = limit.caught or limit.right
    assert share * (1 - 2e-3) <= achieved(limit, [mechanism(sigma, rate, steps)]) <= share
    assert achieved(limit, [mechanism(sigma * 0.998, rate, steps)]) > share, "the smallest that holds it"
    check_risk(limit, mechanism(sigma, rate, steps))
    usual = noise_multiplier(target_epsilon=epsilon_for_risk(limit, 1e-5), sample_rate=rate, steps=steps, delta=1e-5)
    assert sigma <= 0.85 * usual
    assert achieved(limit, [mechanism(usual, rate, steps)]) < share, "the usual way holds the limit, too"


@pytest.mark.parametrize("caught", [0.01002, 0.0101])
def test_a_limit_near_blind_guessing_needs_hardly_more_noise_than_its_limit_theorem(caught):
    """Here DP-SGD is nearly Gaussian with μ = q·√T/σ (Bu et al. 2020), and δ is certified to within 10⁻⁶ or so."""
    sigma = noise_for_risk(RiskLimit(caught=caught, accused=0.01), sample_rate=0.1, steps=50)
    least, most = (0.1 * math.sqrt(50) / limit_mu(RiskLimit(caught=c, accused=0.01)) for c in (caught, caught - 1.2e-6))
    assert 0.999 * least < sigma < 1.001 * most


def test_the_noise_falls_as_the_limit_weakens_and_grows_with_rate_and_steps():
    found = [
        noise_for_risk(RiskLimit(caught=c, accused=0.01), sample_rate=0.05, steps=100)
        for c in (0.012, 0.015, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 0.9, 0.99)
    ]
    assert (np.diff(found) < 0).all()
    limit = LIMITS[1]
    assert (np.diff([noise_for_risk(limit, sample_rate=q, steps=100) for q in (0.001, 0.01, 0.1, 1.0)]) > 0).all()
    assert (np.diff([noise_for_risk(limit, sample_rate=0.05, steps=t) for t in (1, 10, 100, 1_000)]) > 0).all()


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.label)
def test_epsilon_for_a_limit_is_where_the_ceiling_meets_it(limit):
    epsilon = epsilon_for_risk(limit, 1e-5)
    if limit.accused is None:
        assert (math.exp(epsilon) + 1e-5) / (1 + math.exp(epsilon)) == pytest.approx(limit.right)
    else:
        assert dp_ceiling(limit.accused, epsilon, 1e-5) == pytest.approx(limit.caught)
        assert dp_ceiling(limit.accused, epsilon * 1.01, 1e-5) > limit.caught


def test_where_most_are_accused_the_mirrored_ceiling_decides():
    limit = RiskLimit(caught=0.95, accused=0.5)
    epsilon = epsilon_for_risk(limit, 1e-5)
    assert epsilon == pytest.approx(math.log((1 - 1e-5 - 0.5) / 0.05))
    assert epsilon > math.log(0.95 / 0.5)
    assert dp_ceiling(0.5, epsilon, 1e-5) == pytest.approx(0.95)


def test_what_cannot_be_held_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="choose a smaller δ"):
        epsilon_for_risk(RiskLimit(caught=0.011, accused=0.01), 0.005)
    with pytest.raises(ValueError, match="choose a weaker limit"):
        noise_for_risk(RiskLimit(right=0.5 + 1e-9), sample_rate=0.1, steps=1_000)
    with pytest.raises(ValueError, match="sample rate"):
        noise_for_risk(LIMITS[0], sample_rate=1.5, steps=10)
    with pytest.raises(ValueError, match="at least one step"):
        noise_for_risk(LIMITS[0], sample_rate=0.5, steps=0)
    with pytest.raises(ValueError, match=r"allows 5\.\d+ % caught\. Choose σ = 1\.6559 or more"):
        check_risk(LIMITS[1], mechanism(1.6, *RECIPES[3_000]))


def losses(rng: np.random.Generator, sigma: float, rate: float, steps: int, *, member: bool, trials: int) -> np.ndarray:
    """The log-likelihood ratio of every step's output, summed: the best test statistic (Neyman & Pearson 1933)."""
    total = np.zeros(trials)
    for _ in range(steps):
        seen = sigma * rng.standard_normal(trials, dtype=np.float32)
        if member:
            seen += rng.random(trials, dtype=np.float32) < rate
        total += np.log1p(rate * np.expm1((seen - 0.5) / sigma**2))
    return total


def most(count: np.ndarray, trials: int, level: float) -> np.ndarray:
    """Clopper and Pearson's one-sided bound: below it (level < ½) or above it lies the true rate."""
    return beta.ppf(level, count + (level > 0.5), trials - count + (level < 0.5))


@pytest.mark.parametrize(("limit", "notes"), [(LIMITS[1], 3_000), (LIMITS[0], 48_000)])
def test_forty_optimal_attackers_stay_under_the_limit(limit, notes):
    """Each attacker sees every noisy output and accuses by the likelihood ratio, tuned on trials of their own."""
    trials, (rate, steps) = 4_000, RECIPES[notes]
    sigma, sure = noise_for_risk(limit, sample_rate=rate, steps=steps), 1e-4
    assert limit.caught is not None
    reached, calibrated = [], of_history({(sigma, rate): steps})
    for noise in (sigma, 0.7 * sigma):
        rng = np.random.default_rng(7)
        members, others = (
            losses(rng, noise, rate, steps, member=member, trials=trials * ATTACKERS).reshape(ATTACKERS, trials)
            for member in (True, False)
        )
        tuned = np.quantile(np.roll(others, 1, axis=0), 0.99, axis=1)[:, None]  # on another attacker's trials
        caught, accused = (members > tuned).sum(axis=1), (others > tuned).sum(axis=1)
        allowed = calibrated.caught(most(accused, trials, 1 - sure))
        over = most(caught, trials, sure) > allowed
        pooled = caught.sum() / calibrated.caught(accused.sum() / accused.size / trials) / accused.size / trials
        reached.append((int(over.sum()), pooled))
    (broken, close), (_, with_less) = reached
    assert broken == 0, "every attacker's rates are possible under the limit"
    assert 0.93 < close < 1.04, "together, over 160,000 trials each way, they meet it: it is neither loose nor broken"
    assert with_less > 1.2, "with 30 % less noise they are seen to break it"


def test_forty_guessers_stay_under_the_limit():
    limit, (rate, steps), trials = RiskLimit(right=0.6), RECIPES[12_000], 2_000
    sigma = noise_for_risk(limit, sample_rate=rate, steps=steps)
    rng = np.random.default_rng(11)
    right = sum(
        ((losses(rng, sigma, rate, steps, member=member, trials=trials * ATTACKERS) > 0) == member)
        .reshape(ATTACKERS, trials)
        .sum(axis=1)
        for member in (True, False)
    )
    assert limit.right is not None
    assert (most(right, 2 * trials, 1e-4) <= limit.right).all()
    assert right.mean() / (2 * trials) == pytest.approx(limit.right, abs=0.005)


def test_the_usual_noise_is_compared_in_words_that_are_true():
    """Less of it or more; or why there is none: δ alone exceeds the limit, or no σ up to 10⁷ reaches its ε."""
    near, given = RiskLimit(caught=0.01002, accused=0.01), {"sample_rate": 0.1, "steps": 50}
    usual = consequences(RiskLimit(caught=0.05, accused=0.01), **given, delta=1e-5)
    assert (usual.saved, usual.unusual) == ("37\u00a0% less noise", "")
    more = consequences(near, **given, delta=2e-6)
    assert more.usual_sigma < more.sigma and (more.saved, more.unusual) == ("4.0\u00a0% more noise", "")
    alone = consequences(RiskLimit(caught=0.015, accused=0.01), **given, delta=0.01)
    assert alone.unusual == "no ε holds this limit, since δ = 0.01 alone exceeds it"
    tiny = consequences(near, sample_rate=1.0, steps=450_000, delta=2e-5 - 1e-12)
    assert tiny.unusual == "the limit needs ε = 1e-10, which no noise is certified to reach"
    assert math.isnan(alone.usual_epsilon) and tiny.usual_epsilon == pytest.approx(1e-10, rel=1e-4)
    assert math.isnan(alone.usual_sigma) and math.isnan(tiny.usual_sigma)


def test_right_guesses_are_half_and_half_the_advantage():
    found = consequences(RiskLimit(right=0.6), sample_rate=0.1, steps=50, delta=1e-5)
    assert 0.599 < found.right <= 0.6


def test_whole_numbers_of_steps_are_not_rounded_up():

    assert 4 / (8 / 98) > 49
    assert rate_and_steps(TrainingSpec(batch_size=8, epochs=4), 98) == (8 / 98, 49)
