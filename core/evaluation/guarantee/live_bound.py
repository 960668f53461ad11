"""A lower bound on ε that may be read at any time, from guesses that come one after the other.

Under ε-DP per unit, each guess of a fair coin (“was this unit in the training data?”) is right with probability at most
p(ε) = e^ε/(1 + e^ε), whatever the guesses before it were (Steinke, Nasr & Jagielski 2023, §5). A class looks at the
bound after every guess, so a test for a fixed number of guesses would prove too much too often. The bound here is a
test by betting (Waudby-Smith & Ramdas 2024): for r right guesses and w wrong ones the bet against “at most p” has won

    E(p) = ∫_p^1 θ^r (1 − θ)^w dθ/(1 − p)  /  (p^r (1 − p)^w),

which under that hypothesis exceeds 1/α with probability at most α over the whole series (Ville's inequality).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy import special

CONFIDENCE = 0.95  # that every value is at most the true ε


def live_epsilon(right: Sequence[bool]) -> np.ndarray:
    """The ε that the guesses so far have ruled out, after each of them: float64 of shape (guesses,), never falling.

    All values hold together with 95 % confidence, so one may stop at the best of them. δ counts as 0.

    Args:
        right: whether each guess was right, in order. What was guessed was decided by fair coins, and each guess is
            about another unit.
    """
    hits = np.cumsum(np.asarray(right, dtype=bool))
    found = [_accuracy(int(hit), number - int(hit)) for number, hit in enumerate(hits, start=1)]
    accuracy = np.maximum.accumulate(np.array(found, dtype=np.float64)) if found else np.empty(0)
    return np.log(accuracy) - np.log1p(-accuracy)


def log_winnings(right: int, wrong: int, accuracy: float) -> float:
    """Ln E(p) of the bet against “each guess is right with probability at most `accuracy`” (½ ≤ p < 1)."""
    above = special.betaincc(right + 1, wrong + 1, accuracy)  # share of the Beta distribution beyond p
    if above <= 0:
        return -math.inf
    fair = right * math.log(accuracy) + wrong * math.log1p(-accuracy)
    return float(special.betaln(right + 1, wrong + 1) + math.log(above) - math.log1p(-accuracy) - fair)


@lru_cache(maxsize=100_000)  # a class that votes on asks for the same counts again
def _accuracy(right: int, wrong: int) -> float:
    """The largest p for which the bet has won more than 1/(1 − CONFIDENCE), at least ½; by bisection."""
    enough = -math.log(1 - CONFIDENCE)
    if log_winnings(right, wrong, 0.5) < enough:
        return 0.5
    low, high = 0.5, right / (right + wrong)  # at the observed share no bet has won
    high = min(high, 1 - 1e-12)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if log_winnings(right, wrong, middle) >= enough else (low, middle)
    return low
