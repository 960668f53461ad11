"""The bound that a class watches grow: valid at every look, and not much below a test for a fixed number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import integrate

from core.evaluation.guarantee.epsilon_bounds import one_run_epsilon
from core.evaluation.guarantee.live_bound import live_epsilon, log_winnings


def classes(accuracy: float, guesses: int = 200, count: int = 1_000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((count, guesses)) < accuracy


def test_of_a_thousand_classes_that_vote_blindly_at_most_five_percent_prove_anything():
    """They look after every vote, and would stop at the first proof."""
    false = np.mean([live_epsilon(votes)[-1] > 0 for votes in classes(0.5)])
    assert false <= 0.05
    peeking = np.mean(
        [any(_fixed(votes[:size]) > 0 for size in range(10, 201, 10)) for votes in classes(0.5, count=200)]
    )
    assert peeking > 0.1, "a test for a fixed number, read again and again, would not do"


def _fixed(votes: np.ndarray) -> float:
    return one_run_epsilon(canaries=len(votes), guesses=len(votes), correct=int(votes.sum()), delta=0.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_best_attack_on_a_private_model_rarely_proves_more_than_its_epsilon(epsilon):
    accuracy = math.exp(epsilon) / (1 + math.exp(epsilon))
    hits = np.cumsum(classes(accuracy, count=5_000, seed=1), axis=1)
    won = {
        (right, size): log_winnings(right, size - right, accuracy)
        for size in range(1, 201)
        for right in range(size + 1)
    }
    ever = [any(won[right, size] > math.log(20) for size, right in enumerate(row, start=1)) for row in hits]
    assert np.mean(ever) <= 0.05
    proved = [live_epsilon(votes)[-1] for votes in classes(accuracy, count=100, seed=2)]
    assert 0.3 * epsilon < np.mean(proved) < epsilon, "but it proves something"


def test_a_class_that_is_mostly_right_proves_something_within_three_minutes():
    """Known answer: 30 votes, 25 of them right, rule out guessing (a fixed test says ε ≥ 0.83)."""
    votes = np.array([True] * 25 + [False] * 5)
    shuffled = np.random.default_rng(0).permutation(votes)
    assert 0.3 < live_epsilon(shuffled)[-1] < _fixed(shuffled)


def test_the_winnings_are_the_integral():
    """Oracle: the mixture of likelihood ratios, integrated numerically."""
    for right, wrong, p in ((7, 3, 0.5), (40, 12, 0.62), (3, 9, 0.55)):
        ratio, _ = integrate.quad(
            lambda t, r=right, w=wrong, p=p: (t / p) ** r * ((1 - t) / (1 - p)) ** w / (1 - p), p, 1
        )
        assert log_winnings(right, wrong, p) == pytest.approx(math.log(ratio), rel=1e-6)


def test_it_never_falls_and_begins_at_nothing():
    votes = classes(0.8, guesses=60, count=1)[0]
    bounds = live_epsilon(votes)
    assert len(bounds) == 60 and bounds[0] == 0 and (np.diff(bounds) >= 0).all()
    assert len(live_epsilon([])) == 0
    assert live_epsilon([True] * 400)[-1] > 4, "all right"
