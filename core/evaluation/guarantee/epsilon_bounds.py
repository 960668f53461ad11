"""Empirical lower bounds on ε: what an attack proves about a mechanism, with a stated confidence.

If a mechanism is (ε, δ)-DP, every membership attack obeys TPR ≤ e^ε · FPR + δ and TNR ≤ e^ε · FNR + δ. So the rates
that an attack actually reached rule out every smaller ε. A bound above the promised ε is an alarm: it means a bug or a
broken guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy import stats
from scipy.optimize import brentq


def epsilon_lower_bound(
    *, tp: int, fn: int, fp: int, tn: int, delta: float = 0.0, confidence: float = 0.95, group: int = 1
) -> float:
    """Largest ε that the counts of one fixed attack rule out, ≥ 0 (Jagielski et al. 2020; Nasr et al. 2021).

    max(0, ln((TPR − δ)/FPR), ln((TNR − δ)/FNR)) with TPR replaced by its lower and FPR by its upper Clopper–Pearson
    bound, each one-sided at (1 + confidence)/2, so that both hold together with `confidence`.

    Args:
        tp: Members called members. The counts are of independent trials, and the threshold must have been fixed without
            them; the best of m thresholds needs confidence 1 − (1 − confidence)/m.
        fn: Members called non-members.
        fp: Non-members called members.
        tn: Non-members called non-members.
        delta: δ of one unit.
        confidence: Probability with which the bound holds.
        group: Units that being in or out changes at once. The counts then bound kε with δ_k (`group_delta`), and the
            result is the ε of one unit.

    Raises:
        ValueError: A count is negative, a group has no trials, or δ or the confidence lies outside [0, 1).
    """
    if min(tp, fn, fp, tn) < 0 or tp + fn == 0 or fp + tn == 0:
        raise ValueError(f"an audit needs members and non-members: got tp={tp}, fn={fn}, fp={fp}, tn={tn}")
    _check(delta, confidence, group)
    tail = (1 - confidence) / 2
    tpr_low = float(stats.beta.ppf(tail, tp, fn + 1)) if tp else 0.0
    fpr_high = float(stats.beta.ppf(1 - tail, fp + 1, tn)) if tn else 1.0

    def of_whole_group(total_delta: float) -> float:
        return max(
            0.0, _log_ratio(tpr_low - total_delta, fpr_high), _log_ratio(1 - fpr_high - total_delta, 1 - tpr_low)
        )

    if group == 1:
        return of_whole_group(delta)
    # δ_k grows with the ε that is assumed, so the answer is where the assumed ε equals the ε that follows from it.
    high = of_whole_group(0.0) / group
    return _meeting(lambda eps: of_whole_group(group_delta(delta, group, eps)) - group * eps, high)


@lru_cache(maxsize=1_024)  # the search takes ten milliseconds, and audits of one run ask for the same again
def one_run_epsilon(
    *, canaries: int, guesses: int, correct: int, delta: float, confidence: float = 0.95, group: int = 1
) -> float:
    """Lower bound on ε from one training run (Steinke, Nasr & Jagielski 2023, theorem 5.2), ≥ 0.

    Under (ε, δ)-DP the number of right guesses is dominated by a Binomial(guesses, e^ε/(1 + e^ε)), up to a term in δ;
    the result is the smallest ε whose p-value reaches 1 − confidence.

    Args:
        canaries: Number of examples, each put in or left out by a fair coin.
        guesses: Number of coins that the auditor guessed, leaving out the uncertain ones. It must be fixed beforehand
            (or corrected for).
        correct: Number of right guesses.
        delta: δ of one unit.
        confidence: Probability with which the bound holds.
        group: Units that a canary adds when it is in (its number of notes, where one note is protected). It then proves
            something about kε and δ_k (`group_delta`), and the result is the ε of one unit.

    Raises:
        ValueError: Not 0 ≤ correct ≤ guesses ≤ canaries, no canaries, or δ or the confidence outside [0, 1).
    """
    check_guesses(canaries, guesses, correct)
    _check(delta, confidence, group)
    if correct == 0:
        return 0.0
    accuracy = float(stats.beta.ppf(1 - confidence, correct, guesses - correct + 1))  # the solution at δ = 0
    if accuracy <= 0.5:
        return 0.0
    high = math.log(accuracy) - math.log1p(-accuracy) if accuracy < 1 else 700.0

    def left(eps: float) -> float:
        chance = one_run_p_value(canaries, guesses, correct, group * eps, group_delta(delta, group, eps))
        return (1 - confidence) - chance

    return _meeting(left, high / group)


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """Largest chance, over all (ε, δ)-DP mechanisms, of at least `correct` right guesses (Steinke 2023, theorem 5.2).

    P[W ≥ v] + 2·m·δ·max_{1≤i≤v} P[v > W ≥ v − i]/i with W ~ Binomial(guesses, e^ε/(1 + e^ε)), v = correct and
    m = canaries.
    """
    accuracy = 1 / (1 + math.exp(-epsilon))
    chance = float(stats.binom.sf(correct - 1, guesses, accuracy))
    if delta > 0 and correct > 0:
        steps = np.arange(1, correct + 1)
        below = np.cumsum(stats.binom.pmf(correct - steps, guesses, accuracy))  # P[v > W ≥ v − i]
        chance += 2 * canaries * delta * float((below / steps).max())
    return min(chance, 1.0)


def group_delta(delta: float, group: int, epsilon: float) -> float:
    """δ of a group of k units under (ε, δ)-DP per unit: k·e^((k−1)ε)·δ (Jagannatha 2021, §2), at most 1."""
    if delta == 0:
        return 0.0
    return min(1.0, math.exp(min(math.log(delta * group) + (group - 1) * epsilon, 0.0)))


def check_guesses(canaries: int, guesses: int, correct: int) -> None:
    """Raise ValueError unless 0 ≤ correct ≤ guesses ≤ canaries, and there is a canary."""
    if not 0 <= correct <= guesses <= canaries or canaries < 1:
        raise ValueError(
            "an audit needs 0 ≤ correct ≤ guesses ≤ canaries and at least one canary: "
            f"got correct={correct}, guesses={guesses}, canaries={canaries}"
        )


def _meeting(left: Callable[[float], float], high: float) -> float:
    """The first ε in [0, high] where `left`, positive as long as ε is ruled out, reaches 0; `high` if it never does.

    A grid is scanned before the root is refined: the δ term of a p-value need not grow with ε, and the first root is
    the one that is safe to report.
    """
    if left(0.0) <= 0:
        return 0.0
    grid = np.linspace(0.0, high, 65)
    for low, up in pairwise(grid):
        if left(float(up)) <= 0:
            return float(brentq(left, low, up))
    return high


def _log_ratio(above: float, below: float) -> float:
    if above <= 0:
        return 0.0
    return math.log(above / below) if below > 0 else math.inf


def _check(delta: float, confidence: float, group: int) -> None:
    if not 0 <= delta < 1:
        raise ValueError(f"δ must be at least 0 and below 1, not {delta}")
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence must be between 0 and 1 (0.95 = 95 %), not {confidence}")
    if group < 1:
        raise ValueError(f"a trial of an audit must change at least one unit, not {group}")
