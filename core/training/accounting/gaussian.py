"""σ ↔ ε: the privacy cost of a DP-SGD run, and the noise needed for a target ε.

The mechanism is the Poisson-subsampled Gaussian, composed over the steps. Two data sets are neighbours when one has one
more unit (a note or a patient). The accountants:

* `prv`: numerical composition of privacy losses, a certified upper bound (core.training.accounting.privacy_loss), plus
  a small margin (`with_margin`);
* `rdp`: Rényi DP by Opacus (Mironov 2017, 2019; conversion of Balle et al. 2020), a looser upper bound;
* `gdp`: Gaussian DP by a central limit theorem (Bu et al. 2020). It is an approximation that *under-reports* ε for
  most σ, worst around σ = 0.5 to 0.9, and over-reports it for smaller ones (docs/methods/accounting.md has figures).
  It can choose σ; the guarantee of such a run (`Mechanism`) is computed by `prv`.

`prv` has no answer where no grid fits in memory, and GDP none for very small σ. RDP then answers instead, and
`epsilon_with_method` reports this. `old_report_epsilon` is the incorrect formula of the PrivAI-Leak report, kept for
comparison.
"""

from __future__ import annotations

import math

import numpy as np

from core.common.formatting import setting_text
from core.spec import Accountant
from core.training.accounting.noise_search import LEAST_NOISE, Tolerance, least_log_noise
from core.training.accounting.privacy_loss import (
    COARSE_ORDERS,
    MOST_STEPS,
    numerical_curve,
    numerical_epsilon,
    quiet,
    renyi_epsilon,
)

MOST_NOISE = 1e7  # the largest σ that `noise_multiplier` tries
TOLERANCE = Tolerance(loose=8e-4, spare=0.0, width=1e-3, farthest=20.0)  # of ln ε


def epsilon(
    *, noise_multiplier: float, sample_rate: float, steps: int, delta: float, accountant: Accountant = "prv"
) -> float:
    """ε after `steps` Poisson-sampled steps (q = `sample_rate`, σ = `noise_multiplier`) at `delta`.

    Infinite or astronomically large for a tiny σ, 0 for no steps.

    Raises:
        ValueError: for arguments that are out of range.
    """
    return epsilon_with_method(
        noise_multiplier=noise_multiplier, sample_rate=sample_rate, steps=steps, delta=delta, accountant=accountant
    )[0]


def epsilon_with_method(
    *, noise_multiplier: float, sample_rate: float, steps: int, delta: float, accountant: Accountant = "prv"
) -> tuple[float, Accountant]:
    """ε and the accountant that computed it: `rdp` where the requested one has no finite answer."""
    _check_arguments(noise_multiplier, sample_rate, steps, delta, accountant)
    if steps == 0:
        return 0.0, accountant
    value = math.inf
    if accountant == "prv":
        value = with_margin(numerical_epsilon({(noise_multiplier, sample_rate): steps}, delta))
    elif accountant == "gdp":
        value = _gdp(noise_multiplier, sample_rate, steps, delta)
    if math.isfinite(value):
        return value, accountant
    return renyi_epsilon({(noise_multiplier, sample_rate): steps}, delta), "rdp"


def epsilon_curve(
    *,
    noise_multiplier: float,
    sample_rate: float,
    steps: int,
    delta: float,
    accountant: Accountant = "prv",
    points: int = 50,
) -> tuple[np.ndarray, np.ndarray]:
    """ε at up to `points` step counts, evenly spaced from 1 to `steps`: (step counts int64, ε float64), both ascending.

    Computed once before training, since PRV is too slow to run at every step. ε between two points is below the value
    at the later one, so a display that uses the next point never under-reports.
    """
    _check_arguments(noise_multiplier, sample_rate, steps, delta, accountant)
    counts = np.unique(np.linspace(min(1, steps), steps, num=max(2, points)).round().astype(np.int64))
    values = np.full(len(counts), math.inf)
    if accountant == "prv" and steps:
        bounds = numerical_curve(noise_multiplier, sample_rate, counts.tolist(), delta)
        values = np.array([with_margin(bound) for bound in bounds])
    single: Accountant = "rdp" if accountant == "prv" and not math.isfinite(values[-1]) else accountant
    for index in np.flatnonzero(~np.isfinite(values)):
        values[index] = epsilon(
            noise_multiplier=noise_multiplier,
            sample_rate=sample_rate,
            steps=int(counts[index]),
            delta=delta,
            accountant=single,
        )
    return counts, np.minimum.accumulate(values[::-1])[::-1]  # a bound for a longer run also holds for a shorter one


def noise_multiplier(
    *, target_epsilon: float, sample_rate: float, steps: int, delta: float, accountant: Accountant = "prv"
) -> float:
    """The smallest σ (within 0.1 % of ε) whose ε after `steps` steps does not exceed `target_epsilon`.

    Raises:
        ValueError: when the target is not a positive number or cannot be met with any σ up to 10⁷.
    """
    if not (math.isfinite(target_epsilon) and target_epsilon > 0):
        raise ValueError(f"the target ε must be a finite number above 0, not {target_epsilon}")
    _check_arguments(1.0, sample_rate, steps, delta, accountant)
    if steps == 0:
        raise ValueError("a run of no steps spends no privacy, so there is no σ to search for")

    def excess(log_sigma: float) -> float:
        """ln(ε(σ) / target): nearly linear in ln σ, so the secant method finds its root in three or four steps."""
        value = epsilon(
            noise_multiplier=math.exp(log_sigma),
            sample_rate=sample_rate,
            steps=steps,
            delta=delta,
            accountant=accountant,
        )
        return math.log(value / target_epsilon) if value > 0 else -math.inf

    start = _rdp_guess(target_epsilon, sample_rate, steps, delta)
    found = least_log_noise(excess, start, slope=-1.5, tolerance=TOLERANCE, most_noise=MOST_NOISE)
    if found is None:
        raise ValueError(
            f"ε = {setting_text(target_epsilon)} cannot be reached in {steps} steps at δ = {delta:g}: ask for a "
            "larger ε"
        )
    return math.exp(found)


def _rdp_guess(target: float, rate: float, steps: int, delta: float) -> float:
    """The ln σ that meets the target by Rényi DP at a few orders: cheap, and close to every accountant's answer."""
    low, high = math.log(LEAST_NOISE), math.log(MOST_NOISE)
    for _ in range(24):
        middle = (low + high) / 2
        too_much = renyi_epsilon({(math.exp(middle), rate): steps}, delta, COARSE_ORDERS) > target
        low, high = (middle, high) if too_much else (low, middle)
    return high


def _check_arguments(sigma: float, rate: float, steps: int, delta: float, accountant: str) -> None:
    if not (math.isfinite(sigma) and sigma > 0):
        raise ValueError(f"the noise multiplier σ must be a finite number above 0, not {sigma}")
    if not 0 < rate <= 1:
        raise ValueError(f"the sample rate q must be above 0 and at most 1, not {rate}")
    if steps < 0:
        raise ValueError(f"the number of steps must not be negative, and is {steps}")
    check_countable(steps)
    if not 0 < delta < 1:
        raise ValueError(f"δ must lie between 0 and 1, not {delta}")
    if accountant not in ("prv", "rdp", "gdp"):
        raise ValueError(f"unknown accountant {accountant!r}: choose prv, rdp or gdp")


def check_countable(steps: int) -> None:
    """Raise ValueError for more steps than can be counted: the loss of a single one would be lost in rounding."""
    if steps > MOST_STEPS:
        raise ValueError(f"ε is computed for at most {MOST_STEPS:,} steps, not {steps:,}")


def _gdp(sigma: float, rate: float, steps: int, delta: float) -> float:
    """ε by Gaussian DP; inf where its root search finds no sign change (σ below about 0.3)."""
    from core.common.opacus_parts import GaussianAccountant  # imports torch

    with quiet():
        accountant = GaussianAccountant()
        accountant.history = [(sigma, rate, steps)]
        try:
            return float(accountant.get_epsilon(delta=delta))
        except (OverflowError, ZeroDivisionError, ValueError):
            return math.inf


def with_margin(bound: float) -> float:
    """A certified ε plus the reported margin: 1 % below 1, 0.01 up to 10, and 0.1 % above.

    Opacus' PRV accountant, which was used before, added this to every ε as the error of its grid. With the margin, runs
    made with it keep the σ and the ε that they were made for.
    """
    return bound + max(0.01 * min(1.0, bound), 1e-3 * bound) if bound < math.inf else bound


def group_epsilon(epsilon: float, delta: float, k: int) -> tuple[float, float]:
    """(ε, δ) for a group of k units: k·ε and δ·(e^{kε} − 1)/(e^ε − 1), at most 1.

    Source: group privacy of (ε, δ)-DP, e.g. Vadhan 2017, "The Complexity of Differential Privacy", proof of lemma 2.2.
    This δ is at most the k·e^{(k−1)ε}·δ of Jagannatha 2021, §2. A δ near 1 means that there is no guarantee for the
    group.
    """
    if k < 1:
        raise ValueError(f"a group has at least one member, not {k}")
    if epsilon == 0 or k == 1:
        return k * epsilon, min(1.0, k * delta)
    log_factor = k * epsilon + math.log1p(-math.exp(-k * epsilon)) - (epsilon + math.log1p(-math.exp(-epsilon)))
    return k * epsilon, min(1.0, math.exp(min(0.0, math.log(delta) + log_factor)))


def old_report_epsilon(*, noise_multiplier: float, sample_rate: float, steps: int, delta: float) -> float:
    """ε as the PrivAI-Leak report printed it. WRONG, for comparison only: no run is trained or described with it.

    Its printed figures follow from a Rényi bound of q·α/σ² a step for 3,000 steps (it trained 1,875), where subsampling
    gives about q²·α/σ² (twice the report's own formula q²·α/2σ²; Mironov et al. 2019). Its ε is therefore many times
    too large, and far more noise is added than needed.
    """
    orders = [1 + tenth / 10 for tenth in range(1, 100)] + list(range(12, 65))
    return min(
        steps * sample_rate * order / noise_multiplier**2 + math.log(1 / delta) / (order - 1) for order in orders
    )
