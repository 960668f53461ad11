"""What one run's canaries prove about ε if the mechanism's own trade-off curve is taken into account.

`epsilon_bounds.one_run_epsilon` assumes the worst mechanism with a given (ε, δ). A training is not that mechanism: its
trade-off curve f is known up to σ. Under f the same guesses rule out more (Mahloujifar, Melis & Chaudhuri 2025,
"Auditing f-Differential Privacy in One Run"). The bound is conditional on the shape of the curve: Poisson-sampled
Gaussian steps with the sample rate and number of steps of the run, at some σ.

Let r of m fair coins be guessed, and p_j be the chance that exactly j guesses are right. For a coin drawn at random,

    R_i = Σ_{j≥i} j·p_j/m          the chance that it is guessed, rightly, and at least i guesses are right,
    W_i = Σ_{j≥i} (r − j)·p_j/m    the same for wrongly.

“At least i of the *other* guesses are right” joins a right guess to R_{i+1} and a wrong one to W_i. Given the other
coins, the two are the power and the error of one test between a unit that is in and the same unit left out. So
W_i ≥ g(R_{i+1}), where g is the inverse of the largest true-positive rate that f allows (f is convex, so averaging over
coins keeps the inequality). If at least v guesses are right with chance τ, then R_v ≥ τ·v/m. From there the recursion
gives the least R_0 + W_0, which must not exceed r/m: the largest τ for which it does not is the p-value.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

from core.evaluation.guarantee.audit_guarantee import BY_CURVE, CONFIDENCE, ONE_RUN, by_curve, headline
from core.evaluation.guarantee.epsilon_bounds import check_guesses
from core.training.accounting.loss_composition import ACCURACY
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.privacy_loss import numerical_epsilon
from core.training.accounting.tradeoff import Tradeoff, tradeoff

GRID = 1_001  # shares at which the active line of the curve is looked up
THINNED = 8  # one of every 8 lines is used, evenly in each of the curve's two ranges: fewer prove less, never more
MOST_NOISE = 1e4  # σ above which nothing is left to prove
PRECISION = 1e-3  # of ln σ

Inverse = Callable[[float], float]


def inverse_of(curve: Tradeoff) -> Inverse:
    """g(x): a lower bound of the least false-positive rate with which x of those who are in can be caught.

    The curve is the lowest of straight lines, so its inverse is the highest of theirs. At each share of a grid the
    active line is kept, and a share between two of them takes the higher of their lines: never above the true value,
    which keeps every bound valid. A curve of k changes is inverted k times.
    """
    slopes, intercepts = _inverse_lines(curve)
    grid = np.linspace(0.0, 1.0, GRID)
    active = (np.outer(grid, slopes) + intercepts).argmax(axis=1)
    a, b, places = slopes[active].tolist(), intercepts[active].tolist(), grid.tolist()

    def once(share: float) -> float:
        left = min(bisect_right(places, share) - 1, GRID - 2)
        return max(0.0, a[left] * share + b[left], a[left + 1] * share + b[left + 1])

    def inverse(share: float) -> float:
        for _ in range(curve.changes):
            share = once(min(share, 1.0))
        return share

    return inverse


def _inverse_lines(curve: Tradeoff) -> tuple[np.ndarray, np.ndarray]:
    """Slopes and intercepts of the inverses of all lines behind `dp_ceiling`: y = e^ε·x + δ and its mirror image."""
    thinned = slice(None, None, THINNED if len(curve.epsilons) > GRID else None)
    grown, delta = np.exp(curve.epsilons[thinned]), curve.deltas[thinned]
    slopes = np.concatenate([1 / grown, grown, [0.0]])
    intercepts = np.concatenate([-delta / grown, 1 - delta - grown, [0.0]])
    return slopes, intercepts


def least_total(inverse: Inverse, *, canaries: int, guesses: int, correct: int, chance: float) -> float:
    """The least R_0 + W_0 if at least `correct` guesses are right with probability `chance` (see the module)."""
    right = chance * correct / canaries
    wrong = chance * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        grown = max(wrong, inverse(right))
        right += i / (guesses - i) * (grown - wrong)
        wrong = grown
    return right + wrong


@dataclass(frozen=True)
class CurveProof:
    """What guesses prove by the curve: at least this ε, and whether the mechanism's own σ is ruled out (an alarm)."""

    epsilon: float
    alarm: bool


def curve_proof(mechanism: Mechanism, *, canaries: int, guesses: int, correct: int, group: int = 1) -> CurveProof:
    """ε at the mechanism's δ of the smallest σ that the guesses rule out, its sample rate and steps kept; 0 if none.

    A larger ε needs a smaller σ, so this is proved of the ε for adding or removing one unit. A promise is an upper
    bound, with a margin, by the run's accountant. What is proved is a lower one (`least_epsilon`), so an alarm does not
    compare the two ε: it is raised when the mechanism's own σ is ruled out.

    Args:
        mechanism: the run's own. With a vocabulary from the notes, σ is not all there is to know: the result is NaN.
        canaries: number of fair coins.
        guesses: number of them that were guessed, fixed beforehand.
        correct: right guesses.
        group: units that a canary adds when it is in; the result is the ε of one unit.

    Raises:
        ValueError: not 0 ≤ correct ≤ guesses ≤ canaries, or no canaries.
    """
    check_guesses(canaries, guesses, correct)
    if mechanism.vocabulary is not None:
        return CurveProof(math.nan, alarm=False)
    if correct <= guesses / 2:  # no better than blind: nothing can be ruled out
        return CurveProof(0.0, alarm=False)

    def ruled_out(log_sigma: float) -> bool:
        inverse = _inverse(_at(mechanism, log_sigma), group)
        given = {"canaries": canaries, "guesses": guesses, "correct": correct}
        return least_total(inverse, **given, chance=1 - CONFIDENCE) > guesses / canaries

    high = low = math.log(mechanism.noise_multiplier)  # `high` is to be ruled out, `low` is not to be
    alarm = ruled_out(high)
    while not (alarm if high == low else ruled_out(high)):
        low, high = high, high + 1.0
        if high > math.log(MOST_NOISE):
            return CurveProof(0.0, alarm=False)
    while low == high or ruled_out(low):
        low, high = low - 0.5, low
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (low, middle) if ruled_out(middle) else (middle, high)
    return CurveProof(least_epsilon(_at(mechanism, high)), alarm)


def least_epsilon(mechanism: Mechanism) -> float:
    """A lower estimate of the ε of its steps for adding or removing one unit, whatever accountant the run has.

    The certified upper bound of the numerical composition without the margin of a promise, less the accuracy of its
    grid. Where it has no answer, σ is raised until it has one, which lowers ε further.
    """
    sigma, bound = mechanism.noise_multiplier, math.inf
    while math.isinf(bound):
        bound = numerical_epsilon({(sigma, mechanism.sample_rate): mechanism.steps}, mechanism.delta)
        sigma *= 1.5
    return bound / (1 + ACCURACY)


def with_curve(bounds: pd.DataFrame, mechanism: Mechanism | None) -> pd.DataFrame:
    """The table of `audit_guarantee` with a row for its headline under the run's own curve, below the headline.

    The row has the same guesses, at 95 %. Its `ceiling` is what the same number of right guesses alone would prove. The
    table is returned as it is if it has that row, and where there is none: without an audit fixed beforehand, without a
    guarantee (there is no curve), or with a vocabulary from the notes.

    Args:
        bounds: a run's table of `audit_guarantee`, of this version or an older one.
        mechanism: the run's; None without privacy.
    """
    row = headline(bounds)
    if row is None or row["evidence"] != ONE_RUN or mechanism is None or mechanism.vocabulary is not None:
        return bounds
    if by_curve(bounds) is not None:
        return bounds
    guesses, correct, group = (int(row[name]) for name in ("trials", "correct", "group"))
    canaries = sum(int(row[name]) for name in ("tp", "fn", "fp", "tn"))
    proof, most = (
        curve_proof(mechanism, canaries=canaries, guesses=guesses, correct=right, group=group)
        for right in (correct, guesses)
    )
    added = row.to_dict() | {
        "audit": f"{row['audit']}, by the run's curve",
        "evidence": BY_CURVE,
        "epsilon": proof.epsilon,
        "ceiling": most.epsilon,
        "alarm": proof.alarm,
    }
    at = bounds.index.get_loc(row.name) + 1
    parts = [bounds.iloc[:at], pd.DataFrame([added]).astype(bounds.dtypes), bounds.iloc[at:]]
    return pd.concat(parts, ignore_index=True)


@lru_cache(maxsize=128)  # the search begins at the same σ however many guesses are right, and a curve takes long
def _inverse(mechanism: Mechanism, group: int) -> Inverse:
    curve = tradeoff([mechanism])
    return inverse_of(Tradeoff(curve.epsilons, curve.deltas, curve.changes * group))


def _at(mechanism: Mechanism, log_sigma: float) -> Mechanism:
    return mechanism.model_copy(update={"noise_multiplier": math.exp(log_sigma)})
