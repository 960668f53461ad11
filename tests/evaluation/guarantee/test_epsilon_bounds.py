from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from core.evaluation.guarantee.epsilon_bounds import epsilon_lower_bound, one_run_epsilon, one_run_p_value


def published_p_value(m, r, v, eps, delta):
    """Theorem 5.2 of Steinke et al. 2023 term by term, as a slow oracle."""
    q = 1 / (1 + math.exp(-eps))
    chances = [stats.binom.pmf(w, r, q) for w in range(r + 1)]
    tail = sum(chances[v:])
    worst = max((sum(chances[v - i : v]) / i for i in range(1, v + 1)), default=0.0)
    return min(1.0, tail + 2 * m * delta * worst)


@pytest.mark.parametrize(("m", "r", "v"), [(10, 10, 10), (40, 25, 20), (40, 40, 21), (100, 30, 0), (100, 60, 55)])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
def test_p_values_follow_the_theorem(m, r, v, delta):
    for eps in (0.0, 0.3, 2.0, 6.0):
        assert one_run_p_value(m, r, v, eps, delta) == pytest.approx(published_p_value(m, r, v, eps, delta), abs=1e-12)


@pytest.mark.parametrize("m", [5, 48, 1_000])
def test_all_right_certifies_the_ceiling_and_no_more(m):
    t = 0.05 ** (1 / m)
    ceiling = math.log(t / (1 - t))
    assert one_run_epsilon(canaries=m, guesses=m, correct=m, delta=0.0) == pytest.approx(ceiling, abs=1e-6)
    assert one_run_epsilon(canaries=m, guesses=m, correct=m, delta=1e-4) < ceiling


def test_one_run_known_answer():
    """80 of 100 right: the ε where P[Binomial(100, p) ≥ 80] = 0.05 is the logit of Clopper–Pearson's lower bound."""
    p = stats.beta.ppf(0.05, 80, 21)
    found = one_run_epsilon(canaries=100, guesses=100, correct=80, delta=0.0)
    assert found == pytest.approx(math.log(p / (1 - p)), abs=1e-6)
    assert one_run_epsilon(canaries=1000, guesses=100, correct=80, delta=0.0) == pytest.approx(found)
    assert one_run_epsilon(canaries=1000, guesses=100, correct=80, delta=1e-4) < found


def test_few_canaries_or_chance_prove_nothing():
    assert one_run_epsilon(canaries=4, guesses=4, correct=4, delta=0.0) == 0.0  # ½⁴ > 0.05
    assert one_run_epsilon(canaries=100, guesses=100, correct=50, delta=0.0) == 0.0
    assert one_run_epsilon(canaries=10, guesses=0, correct=0, delta=1e-5) == 0.0


def test_counts_known_answer():
    found = epsilon_lower_bound(tp=90, fn=10, fp=10, tn=90)
    tpr_low, fpr_high = stats.beta.ppf(0.025, 90, 11), stats.beta.ppf(0.975, 11, 90)
    assert found == pytest.approx(math.log(tpr_low / fpr_high))
    with_delta = epsilon_lower_bound(tp=90, fn=10, fp=10, tn=90, delta=0.05)
    assert with_delta == pytest.approx(math.log((tpr_low - 0.05) / fpr_high))
    # all of 1,000 right: ln of exact one-sided bounds, 0.025^(1/1000) over its complement
    t = 0.025 ** (1 / 1000)
    assert epsilon_lower_bound(tp=1000, fn=0, fp=0, tn=1000) == pytest.approx(math.log(t / (1 - t)))


def test_the_other_error_counts_too():
    """An attack that rarely says "out", and is right then, proves as much as its mirror image."""
    mirrored = epsilon_lower_bound(tp=300, fn=0, fp=200, tn=100)
    assert mirrored == pytest.approx(epsilon_lower_bound(tp=100, fn=200, fp=0, tn=300)) and mirrored > 2


def test_an_attack_worse_than_chance_proves_nothing():
    assert epsilon_lower_bound(tp=10, fn=90, fp=90, tn=10) == 0.0
    assert epsilon_lower_bound(tp=0, fn=5, fp=5, tn=0, delta=1e-5) == 0.0


def test_blind_guesses_prove_nothing_and_randomised_response_is_never_overstated():
    """40 seeds: both bounds are 0 for coin guesses, and at most ε for guesses that are as good as ε allows."""
    zero, kept, promised = 0, 0, 1.0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        for accuracy in (0.5, 1 / (1 + math.exp(-promised))):
            truth = rng.random(400) < 0.5
            guess = np.where(rng.random(400) < accuracy, truth, ~truth)
            counts = epsilon_lower_bound(
                tp=int((truth & guess).sum()),
                fn=int((truth & ~guess).sum()),
                fp=int((~truth & guess).sum()),
                tn=int((~truth & ~guess).sum()),
            )
            one_run = one_run_epsilon(canaries=400, guesses=400, correct=int((truth == guess).sum()), delta=1e-5)
            if accuracy == 0.5:
                zero += (counts == 0) + (one_run == 0)
            else:
                kept += (counts <= promised) + (one_run <= promised)
                assert one_run > 0.3  # and it does prove something
    assert zero >= 73 and kept >= 73  # of 80; 95 % right would be 76


@pytest.mark.parametrize(
    "call",
    [
        lambda: epsilon_lower_bound(tp=0, fn=0, fp=1, tn=1),
        lambda: epsilon_lower_bound(tp=-1, fn=2, fp=1, tn=1),
        lambda: epsilon_lower_bound(tp=1, fn=1, fp=1, tn=1, delta=1.0),
        lambda: epsilon_lower_bound(tp=1, fn=1, fp=1, tn=1, confidence=95),
        lambda: one_run_epsilon(canaries=5, guesses=6, correct=5, delta=0.0),
        lambda: one_run_epsilon(canaries=5, guesses=4, correct=5, delta=0.0),
        lambda: one_run_epsilon(canaries=0, guesses=0, correct=0, delta=0.0),
    ],
)
def test_impossible_counts_are_refused(call):
    with pytest.raises(ValueError, match="audit|δ|confidence"):
        call()
