"""The privacy budget left for one more training run, given the mechanisms that a cohort already has."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.training.accounting.chosen_composition import Chosen, total_epsilon
from core.training.accounting.gaussian import noise_multiplier
from core.training.accounting.mechanism import ADD_REMOVE, Mechanism
from core.training.accounting.risk import rounded_up

LEAST_ROOM = 0.01  # a remaining ε below this counts as none
LEAST_FOUND = 20.0  # largest distance below a budget that counts, in ln; a total is 0 where δ covers every difference


def room(
    mechanisms: Sequence[Mechanism], like: Mechanism, budget: float, delta: float, chosen: Sequence[Chosen] = ()
) -> Mechanism | None:
    """`like` with the least noise that keeps the total within (budget, `delta`); None if the budget is used up.

    `chosen` are the best of several runs, and in the total (`chosen_composition.total_epsilon`). The result is one
    training, not a choice. It has no vocabulary, whatever `like` has. Its ε is what one more run with that many steps
    and that sample rate may spend. The total ends within 1 % of the budget and never above it. σ is rounded up to five
    digits, so that it keeps the budget as it is printed.

    Raises:
        ValueError: for a budget that is not above 0.
    """
    if not (math.isfinite(budget) and budget > 0):
        raise ValueError(f"a budget must be a finite number above 0, not {budget}")
    if total_epsilon(mechanisms, chosen, delta)[0] >= budget:
        return None

    def with_noise(sigma: float) -> Mechanism:
        change = {"noise_multiplier": sigma, "delta": delta, "accountant": "prv", "vocabulary": None}
        change |= {"neighbouring": ADD_REMOVE}  # new runs never replace units
        return like.model_copy(update=change)

    def excess(sigma: float) -> float:
        spent = total_epsilon([*mechanisms, with_noise(sigma)], chosen, delta)[0]
        return math.log(spent / budget) if spent > 0 else -LEAST_FOUND

    def as_printed(log_sigma: float) -> Mechanism:
        sigma = rounded_up(math.exp(log_sigma))
        while excess(sigma) > 0:  # another σ has another grid
            sigma = rounded_up(sigma * (1 + 1e-4))
        return with_noise(sigma)

    alone = noise_multiplier(target_epsilon=budget, sample_rate=like.sample_rate, steps=like.steps, delta=delta)
    low, high = math.log(alone), math.log(max(alone, 1.0)) + 4.0  # with other mechanisms it needs more noise than alone
    over = excess(math.exp(low))
    if over <= 0:  # nothing was spent so far
        return as_printed(low)
    under = excess(math.exp(high))
    if under > 0:
        return None
    for _ in range(20):  # secant steps within the bracket, kept away from its ends so that they cannot stall
        if under > -0.01:
            break
        share = min(0.9, max(0.1, (over + 0.005) / (over - under)))
        middle = low + share * (high - low)
        found = excess(math.exp(middle))
        low, over, high, under = (middle, found, high, under) if found > 0 else (low, over, middle, found)
    more = as_printed(high)
    return more if more.epsilon() >= LEAST_ROOM else None
