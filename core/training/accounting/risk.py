"""Noise chosen by what an attacker may achieve, read off the mechanism's own trade-off curve.

The usual way chooses an ε so that no (ε, δ)-DP mechanism exceeds the limit, then σ so that the training is (ε, δ)-DP.
That holds for the worst mechanism with this (ε, δ), which training is not, so it adds too much noise (Kaissis et al.
2024, "Beyond the Calibration Point"; Kulynych et al. 2024, "Attack-Aware Noise Calibration"). `noise_for_risk` uses the
curve of the training itself (`core.training.accounting.tradeoff`); `epsilon_for_risk` is the usual way, for comparison.

A limit is compared with a certified upper bound, so the noise may be a little too large and is never too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from core.spec import PrivacySpec, RiskLimit, TrainingSpec
from core.training.accounting.composition import NoisyMechanism, advantage
from core.training.accounting.gaussian import check_countable
from core.training.accounting.noise_search import LEAST_NOISE, Tolerance, least_log_noise
from core.training.accounting.privacy_loss import numerical_deltas
from core.training.accounting.tradeoff import of_history, tradeoff

MOST_NOISE = 1e6  # the largest σ that is tried
TIGHT = 5e-4  # σ holds the limit with at most this share of μ to spare (before σ is rounded up)
SPARE = 1e-6  # and at least this, so that rounding on another machine does not break the limit
TOLERANCE = Tolerance(loose=TIGHT, spare=SPARE, width=TIGHT / 10, farthest=3.0)  # of ln μ


def achieved(limit: RiskLimit, mechanisms: Sequence[NoisyMechanism]) -> float:
    """The certified upper bound on what the limit is about: the share caught, or the share of right guesses."""
    if limit.accused is None:
        return (1 + advantage(mechanisms)) / 2
    return float(tradeoff(mechanisms).caught(limit.accused))


def allowed(limit: RiskLimit) -> float:
    """The share that the limit allows."""
    share = limit.right if limit.caught is None else limit.caught
    assert share is not None  # RiskLimit has one of the two
    return share


def limit_mu(limit: RiskLimit) -> float:
    """μ of the Gaussian whose trade-off curve meets the limit: Φ⁻¹(caught) − Φ⁻¹(accused), or 2·Φ⁻¹(right)."""
    return _as_mu(limit, allowed(limit))


def epsilon_for_risk(limit: RiskLimit, delta: float) -> float:
    """The largest ε with which every (ε, δ)-DP mechanism holds the limit: the usual, indirect way to choose noise.

    It solves `tradeoff.dp_ceiling` = caught, or (e^ε + δ)/(1 + e^ε) = right (Kairouz et al. 2015), for ε.

    Raises:
        ValueError: δ alone exceeds the limit.
    """
    share = allowed(limit)
    if limit.accused is None:
        odds = (share - delta) / (1 - share)
    else:
        odds = max((share - delta) / limit.accused, (1 - delta - limit.accused) / (1 - share))
    if odds <= 1:
        raise ValueError(f"δ = {delta:g} alone allows an attacker more than {limit.label}: choose a smaller δ")
    return math.log(odds)


@lru_cache(maxsize=512)
def noise_for_risk(limit: RiskLimit, *, sample_rate: float, steps: int) -> float:
    """The smallest σ, rounded up to five digits, whose certified trade-off curve holds the limit.

    Args:
        limit: what an attacker may achieve at most.
        sample_rate: q, the probability that a unit is in a step.
        steps: steps of the training.

    Raises:
        ValueError: for a q outside (0, 1], no steps, or a limit so close to blind guessing that no σ is certified to
            hold it.
    """
    if not 0 < sample_rate <= 1:
        raise ValueError(f"the sample rate q must be above 0 and at most 1, not {sample_rate}")
    if steps < 1:
        raise ValueError(f"a run has at least one step, not {steps}")
    check_countable(steps)
    goal = limit_mu(limit)

    def excess(log_sigma: float) -> float:
        """ln(μ/goal), with the μ at which this σ meets the limit's point: nearly linear in ln σ."""
        mu = _as_mu(limit, _share(limit, math.exp(log_sigma), sample_rate, steps))
        return min(50.0, math.log(mu / goal)) if mu > 0 else -50.0

    start = min(max(_guess(goal, sample_rate, steps), math.log(LEAST_NOISE)), math.log(MOST_NOISE))
    found = least_log_noise(excess, start, slope=-1.0, tolerance=TOLERANCE, most_noise=MOST_NOISE)
    if found is None:
        raise ValueError(f"no noise is certified to hold “{limit.label}” in {steps} steps: choose a weaker limit")
    sigma = rounded_up(math.exp(found))
    while _share(limit, sigma, sample_rate, steps) > allowed(limit) * (1 - 1e-9):  # another σ has another grid
        sigma = rounded_up(sigma * (1 + TIGHT / 5))
    return sigma


def rate_and_steps(training: TrainingSpec, notes: int) -> tuple[float, int]:
    """(q, steps) of a private training over `notes` notes: q = batch size / notes, ⌈epochs / q⌉ steps."""
    rate = training.batch_size / notes
    return rate, math.ceil(training.epochs / rate - 1e-9)


def privacy_for_risk(
    limit: RiskLimit, privacy: PrivacySpec, settings: Callable[[PrivacySpec], TrainingSpec], notes: int
) -> tuple[PrivacySpec, TrainingSpec]:
    """A private run's settings with the least noise that holds `limit`.

    The noise depends on batch size and epochs, and the recipe for these may depend on the noise, so both are computed
    until they agree, at most four times; σ always belongs to the settings that are returned.

    Args:
        limit: what an attacker may achieve at most.
        privacy: δ, unit, clipping norm and source of the noise; its σ and ε are ignored.
        settings: training settings for a privacy.
        notes: training notes, of which a step samples batch size / `notes`.

    Raises:
        ValueError: as `noise_for_risk` does.
    """
    fixed = privacy.model_dump() | {"target_epsilon": None, "risk_limit": limit}
    chosen = PrivacySpec.model_validate(fixed | {"noise_multiplier": 1.0})
    training = settings(chosen)
    for _ in range(4):
        rate, steps = rate_and_steps(training, notes)
        sigma = noise_for_risk(limit, sample_rate=rate, steps=steps)
        chosen = PrivacySpec.model_validate(fixed | {"noise_multiplier": sigma})
        suggested = settings(chosen)
        if rate_and_steps(suggested, notes) == (rate, steps):
            return chosen, suggested
        last, training = training, suggested
    return chosen, last


def check_risk(limit: RiskLimit, mechanism: NoisyMechanism) -> None:
    """Raise ValueError if a training does not hold the limit, with the σ that does."""
    reached = achieved(limit, [mechanism])
    if reached <= allowed(limit):
        return
    needed = noise_for_risk(limit, sample_rate=mechanism.sample_rate, steps=mechanism.steps)
    most = f"{math.ceil(1e4 * reached) / 100:g} % {'guessed right' if limit.accused is None else 'caught'}"
    raise ValueError(
        f"σ = {mechanism.noise_multiplier:g} does not hold the limit “{limit.label}” with q = "
        f"{mechanism.sample_rate:.4g} and {mechanism.steps} steps: it allows {most}. Choose σ = {needed:g} or more"
    )


def _share(limit: RiskLimit, sigma: float, rate: float, steps: int) -> float:
    """`achieved` by one training."""
    history = {(sigma, rate): steps}
    if limit.accused is None:
        return (1 + float(numerical_deltas(history, np.zeros(1))[0])) / 2
    return float(of_history(history).caught(limit.accused))


def _as_mu(limit: RiskLimit, share: float) -> float:
    """μ of the Gaussian at which an attacker achieves this share."""
    return float(2 * ndtri(share) if limit.accused is None else ndtri(share) - ndtri(limit.accused))


def _guess(mu: float, rate: float, steps: int) -> float:
    """Where the search begins: ln σ with μ = q·√(T·(e^(1/σ²) − 1)), the limit theorem of Bu et al. 2020."""
    return -0.5 * math.log(math.log1p((mu / rate) ** 2 / steps))


def rounded_up(sigma: float) -> float:
    """The next number of five digits that is not below σ."""
    unit = 10.0 ** (math.floor(math.log10(sigma)) - 4)
    return float(f"{math.ceil(sigma / unit - 1e-9) * unit:.5g}")
