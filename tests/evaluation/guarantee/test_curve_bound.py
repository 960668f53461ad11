"""The one-run audit by the mechanism's own trade-off curve, against brute force, a linear program and simulation."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from scipy.stats import norm

from core.evaluation.guarantee.audit_guarantee import audit_guarantee, by_curve, further, headline, headline_bound
from core.evaluation.guarantee.curve_bound import (
    Inverse,
    curve_proof,
    inverse_of,
    least_epsilon,
    least_total,
    with_curve,
)
from core.evaluation.guarantee.epsilon_bounds import one_run_epsilon
from core.evaluation.wording import curve_sentence
from core.models.word_noise import WordNoise
from core.spec import VocabularySpec
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.privacy_loss import numerical_epsilon
from core.training.accounting.tradeoff import Tradeoff, dp_ceiling, tradeoff
from tests.evaluation.guarantee.test_guarantee import NO_SCORES, lines


def gaussian(sigma: float, *, steps: int = 1, rate: float = 1.0) -> Mechanism:
    return Mechanism(unit="note", noise_multiplier=sigma, sample_rate=rate, steps=steps, delta=1e-5, max_grad_norm=1.0)


@cache
def curve_of(sigma: float, rate: float, steps: int) -> Tradeoff:
    return tradeoff([gaussian(sigma, rate=rate, steps=steps)])


@cache
def proved(canaries: int, guesses: int, correct: int, sigma: float) -> float:
    return curve_proof(gaussian(sigma), canaries=canaries, guesses=guesses, correct=correct).epsilon


def curve_p_value(inverse: Inverse, *, canaries: int, guesses: int, correct: int) -> float:
    """The largest chance of `correct` right guesses that `least_total` does not rule out: the p-value of the module."""
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        total = least_total(inverse, canaries=canaries, guesses=guesses, correct=correct, chance=middle)
        low, high = (middle, high) if total <= guesses / canaries else (low, middle)
    return high


@pytest.mark.parametrize(("sigma", "rate", "steps"), [(0.8, 1.0, 1), (0.9, 0.1, 40)])
def test_the_inverse_is_the_least_false_positive_rate_and_never_above_it(sigma: float, rate: float, steps: int) -> None:
    curve = curve_of(sigma, rate, steps)
    inverse = inverse_of(curve)
    accused = np.linspace(0.0, 1.0, 5_001)
    caught = curve.caught(accused)
    for share in np.linspace(0.0, 1.0, 97):
        brute = accused[np.argmax(caught >= share - 1e-12)]
        assert inverse(float(share)) <= brute + 1e-9
        assert inverse(float(share)) >= brute - 3e-4


def test_the_inverse_of_a_curve_with_much_noise_is_as_tight() -> None:
    """Relative to its distance from blind guessing. Φ(Φ⁻¹(x) − μ) without sampling."""
    inverse = inverse_of(curve_of(100.0, 1.0, 1))
    for share in np.linspace(0.02, 0.98, 49):
        exact = share - norm.cdf(norm.ppf(share) - 0.01)
        assert exact - 1e-8 <= share - inverse(float(share)) <= exact * 1.02


def test_two_changes_are_inverted_twice() -> None:
    one = curve_of(0.8, 1.0, 1)
    inverse, twice = inverse_of(one), inverse_of(Tradeoff(one.epsilons, one.deltas, 2))
    assert twice(0.6) == inverse(inverse(0.6)) < inverse(0.6)


def by_linear_program(curve: Tradeoff, canaries: int, guesses: int, correct: int) -> float:
    """The largest tail of any p_0 … p_r that keeps R_{i+1} ≤ f̄(W_i) for every i, each of the curve's lines a row."""
    j = np.arange(guesses + 1)
    epsilons, deltas = curve.epsilons[::200], curve.deltas[::200]
    rows, most = [], []
    for i in range(guesses):
        right, wrong = (j >= i + 1) * j / canaries, (j >= i) * (guesses - j) / canaries
        for epsilon, delta in zip(epsilons, deltas, strict=True):
            rows += [right - math.exp(epsilon) * wrong, right - math.exp(-epsilon) * wrong]
            most += [delta, 1 - math.exp(-epsilon) * (1 - delta)]
    tail = (j >= correct).astype(float)
    found = linprog(-tail, A_ub=np.array(rows), b_ub=np.array(most), A_eq=np.ones((1, guesses + 1)), b_eq=[1.0])
    assert found.success
    return -float(found.fun)


@pytest.mark.parametrize(("canaries", "guesses", "correct"), [(8, 8, 7), (8, 8, 8), (10, 6, 5), (12, 7, 4)])
@pytest.mark.parametrize("sigma", [0.8, 2.0])
def test_the_p_value_is_that_of_a_linear_program(canaries: int, guesses: int, correct: int, sigma: float) -> None:
    whole = curve_of(sigma, 1.0, 1)
    curve = Tradeoff(whole.epsilons[::200], whole.deltas[::200])  # the program's lines and no others
    chance = curve_p_value(inverse_of(curve), canaries=canaries, guesses=guesses, correct=correct)
    assert chance == pytest.approx(by_linear_program(whole, canaries, guesses, correct), abs=2e-4)


def test_a_lower_ceiling_of_the_attack_gives_a_smaller_chance() -> None:
    """One line alone is (ε, δ)-DP: its p-value is above that of the curve that has the line among others."""
    curve = curve_of(0.8, 1.0, 1)
    at = 2_000
    line = Tradeoff(curve.epsilons[at : at + 1], curve.deltas[at : at + 1])
    assert (dp_ceiling(0.1, line.epsilons, line.deltas) > curve.caught(0.1)).all()
    given = {"canaries": 48, "guesses": 48, "correct": 41}
    assert curve_p_value(inverse_of(line), **given) > curve_p_value(inverse_of(curve), **given)


@pytest.mark.parametrize(("epsilon_sigma", "canaries"), [(0.601, 48), (1.084, 200)])
def test_the_best_attack_seldom_proves_more_than_the_truth_and_often_more_than_without_the_curve(
    epsilon_sigma: float, canaries: int
) -> None:
    """A Gaussian mechanism releases each coin's answer; the auditor calls those above ½ planted."""
    rng = np.random.default_rng(5)
    coins = rng.random((400, canaries)) < 0.5
    released = coins + rng.normal(0.0, epsilon_sigma, coins.shape)
    correct = ((released > 0.5) == coins).sum(axis=1)
    truth = gaussian(epsilon_sigma).epsilon()
    bounds = np.array([proved(canaries, canaries, int(one), epsilon_sigma) for one in correct])
    plain = [one_run_epsilon(canaries=canaries, guesses=canaries, correct=int(one), delta=1e-5) for one in correct]
    assert (bounds > truth).mean() <= 0.09, "5 % of 400 and three standard errors"
    assert np.median(bounds) > 1.5 * np.median(plain)


def test_blind_guesses_prove_nothing_in_at_least_95_of_100() -> None:
    rng = np.random.default_rng(11)
    right = rng.binomial(48, 0.5, 200)
    assert np.mean([proved(48, 48, int(one), 0.8) > 0 for one in right]) <= 0.05


def test_a_canary_of_several_notes_proves_less_for_one_note() -> None:
    given = {"canaries": 48, "guesses": 48, "correct": 42}
    one, four = (curve_proof(gaussian(0.8), **given, group=k).epsilon for k in (1, 4))
    assert 0 < four < one


def test_the_audit_fixed_beforehand_is_judged_by_the_curve_of_its_own_run() -> None:
    coins = np.arange(48) % 2 == 0
    canaries = pd.DataFrame(
        {
            "canary_id": [f"C{number}" for number in range(48)],
            "form": "code",
            "insertions": 1,
            "inserted": coins,
            "rank": np.where(coins, 1.0, 900.0),
            "reference_size": 1000,
        }
    )
    scores = pd.DataFrame(columns=["split", "attack", "patient_id", "score", "member", "note_id"])
    run = gaussian(0.8)
    found = audit_guarantee(canaries, scores, unit="note", delta=run.delta, promised=run.epsilon())
    whole = with_curve(found, run)
    row, fixed = by_curve(whole), headline(whole)
    assert row is not None and fixed is not None
    assert row["epsilon"] == row["ceiling"] == curve_proof(run, canaries=48, guesses=48, correct=48).epsilon
    assert row["epsilon"] > fixed["epsilon"] == headline(found)["epsilon"]
    assert (row["trials"], row["correct"], row["confidence"]) == (48, 48, 0.95)
    assert row["alarm"] and row["epsilon"] > run.epsilon(), "48 of 48 rule out σ = 0.8"
    pd.testing.assert_frame_equal(whole.drop(index=1).reset_index(drop=True), found)
    pd.testing.assert_frame_equal(further(whole).reset_index(drop=True), further(found).reset_index(drop=True))
    assert headline_bound(whole)["audit"] == headline_bound(found)["audit"]
    pd.testing.assert_frame_equal(with_curve(whole, run), whole)
    assert with_curve(found, None) is found and with_curve(found.iloc[:0], run).empty and by_curve(found) is None


def test_noise_that_is_smaller_than_promised_raises_an_alarm_of_its_own() -> None:
    """All of 200 coins guessed rightly, where σ = 2 is promised: no training with that noise allows it."""
    coins = np.arange(200) % 2 == 0
    canaries = pd.DataFrame({"canary_id": range(200), "form": "code", "insertions": 1, "inserted": coins})
    canaries = canaries.assign(rank=np.where(coins, 1.0, 900.0), reference_size=1000)
    scores = pd.DataFrame(columns=["split", "attack", "patient_id", "score", "member", "note_id"])
    run = gaussian(2.0)
    found = audit_guarantee(canaries, scores, unit="note", delta=run.delta, promised=run.epsilon())
    row = by_curve(with_curve(found, run))
    assert row is not None and row["alarm"] and row["epsilon"] > run.epsilon()
    assert "Alarm: " in curve_sentence(row["epsilon"], 200, run.epsilon(), "note", alarm=True)
    assert "Alarm" not in curve_sentence(0.0, 200, run.epsilon(), "note", alarm=False)


def test_what_is_proved_does_not_depend_on_the_accountant_and_has_no_margin() -> None:
    """An upper bound of ε for the smallest σ that is ruled out would say more than is proved."""
    run = gaussian(0.9, rate=0.1, steps=40)
    loose = run.model_copy(update={"accountant": "rdp"})
    given = {"canaries": 1_000, "guesses": 100, "correct": 90}
    assert curve_proof(run, **given).epsilon == curve_proof(loose, **given).epsilon
    assert loose.epsilon() > 1.1 * run.epsilon() > 1.1 * least_epsilon(loose)
    for one in (run, gaussian(0.75, rate=0.0875, steps=46), gaussian(6.0, rate=0.5, steps=400)):
        exact = numerical_epsilon({(one.noise_multiplier, one.sample_rate): one.steps}, one.delta)
        assert 0.999 * exact < least_epsilon(one) < exact < one.epsilon()


@pytest.mark.parametrize("accountant", ["prv", "rdp"])
def test_an_alarm_is_a_noise_that_is_ruled_out(accountant: str) -> None:
    """By σ: an RDP promise is looser than what is proved, and would hide that its noise is too small."""
    given = {"canaries": 200, "guesses": 200, "correct": 159}
    alarms = {}
    for sigma in (0.5, 1.0, 1.5, 2.0, 3.0):
        run = gaussian(sigma).model_copy(update={"accountant": accountant})
        alarms[sigma] = curve_proof(run, **given).alarm
        curve = tradeoff([run])
        assert alarms[sigma] == (curve_p_value(inverse_of(curve), **given) < 0.05)
    assert not alarms[0.5] and alarms[3.0] and list(alarms.values()) == sorted(alarms.values())


def test_a_vocabulary_has_no_such_bound_and_wrong_counts_are_refused() -> None:
    with_words = gaussian(1.0).with_vocabulary(WordNoise.planned(VocabularySpec(epsilon=1.0)))
    assert math.isnan(curve_proof(with_words, canaries=8, guesses=8, correct=8).epsilon)
    with pytest.raises(ValueError, match="0 ≤ correct ≤ guesses ≤ canaries"):
        curve_proof(gaussian(1.0), canaries=8, guesses=4, correct=5)


def test_the_curve_counts_every_coin_though_a_tenth_is_guessed():
    run = Mechanism(unit="note", noise_multiplier=0.8, sample_rate=1.0, steps=1, delta=1e-5, max_grad_norm=1.0)
    inserted = np.arange(200) % 2 == 0
    table = lines(inserted, np.where(inserted, 1 + np.arange(200), 500 + np.arange(200)))
    bounds = audit_guarantee(table, NO_SCORES, unit="note", delta=run.delta, promised=run.epsilon())
    row = by_curve(with_curve(bounds, run))
    assert row["epsilon"] == curve_proof(run, canaries=200, guesses=20, correct=20).epsilon
