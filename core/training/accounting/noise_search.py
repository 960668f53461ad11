"""The search for the least σ that keeps a limit, used for a target ε (`gaussian`) and for an accepted risk (`risk`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

LEAST_NOISE = 1e-3  # the least σ that is searched; only the largest differs between the searches
SECANTS = 12  # secant steps before it only bisects; three or four are enough where there is a root
SLOPES = (-10.0, -0.3)  # of the excess in ln σ; a secant outside this range is not trusted


@dataclass(frozen=True)
class Tolerance:
    """When the search may stop.

    Attributes:
        loose: the most that the excess may lie below 0; a σ with less could be smaller.
        spare: the least that it must lie below 0; a σ with more does not keep the limit.
        width: width in ln σ of a bracket that is not halved any more. Where the excess jumps there may be no root.
        farthest: an excess above 0 counts in full, one further below 0 than this as this much.
    """

    loose: float
    spare: float
    width: float
    farthest: float


def least_log_noise(
    excess: Callable[[float], float], start: float, *, slope: float, tolerance: Tolerance, most_noise: float
) -> float | None:
    """Least noise, within `tolerance`, that keeps a limit: its ln σ, or None if no σ up to `most_noise` keeps it.

    Secant steps, and bisection where they leave the bracket or do not end.

    Args:
        excess: ln of (what is spent / what may be spent) at ln σ, falling and nearly linear; −∞ if nothing is spent.
        start: ln σ to begin with.
        slope: of the excess there, as far as it is known; below 0.
        tolerance: when to stop.
        most_noise: the largest σ that is tried.
    """
    low, high = math.log(LEAST_NOISE), math.inf  # ln σ; `high` is known to keep the limit
    at, found, tries = start, excess(start), 0
    while not -tolerance.loose <= found <= -tolerance.spare:
        tries += 1
        low, high = (at, high) if found > -tolerance.spare else (low, at)
        if high - low < tolerance.width:  # the excess jumps where one accountant replaces another: stay below it
            return high
        wanted = max(found, -tolerance.farthest) + tolerance.loose / 2
        candidate = at - wanted / slope if tries < SECANTS else low + 1.0
        if math.isinf(high):
            if low >= math.log(most_noise):
                return None
            candidate = min(candidate, math.log(most_noise))
        elif tries >= SECANTS or not low < candidate < high:
            candidate = (low + high) / 2
        value = excess(candidate)
        if value != found:  # two saturated values have no slope
            slope = min(SLOPES[1], max(SLOPES[0], (value - found) / (candidate - at)))
        at, found = candidate, value
    return at
