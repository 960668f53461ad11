"""What follows from a limit on the attacker: σ, ε, μ, the trade-off curve, and the noise that (ε, δ) would need."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.common.formatting import delta_text
from core.evaluation.wording import percent
from core.spec import RiskLimit
from core.training.accounting.gaussian import epsilon_with_method, noise_multiplier
from core.training.accounting.risk import epsilon_for_risk, noise_for_risk
from core.training.accounting.tradeoff import dp_ceiling, of_history

SHOWN = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # false-positive rates that are printed
DRAWN = np.unique(np.concatenate([np.geomspace(1e-3, 1, 40), np.linspace(0.02, 1, 50)]))  # those of the chart


@dataclass(frozen=True)
class Consequences:
    """The noise that holds `limit`, and what it implies. `usual_*`: calibrated by (ε, δ) at the same δ.

    `usual_epsilon` is NaN if δ alone exceeds the limit; `usual_sigma` is also NaN if no noise reaches so small an ε.

    `drawn` has the points of the curve: false-positive rates, the certified bound of the training, and the bound that
    its (ε, δ) alone gives.
    """

    limit: RiskLimit
    sample_rate: float
    steps: int
    delta: float
    sigma: float
    epsilon: float
    mu: float
    right: float
    usual_epsilon: float
    usual_sigma: float
    drawn: tuple[tuple[float, float, float], ...]

    @property
    def less_noise(self) -> float:
        """The share of the usual noise that is saved, below 0 if the usual way needs less; NaN without a usual σ."""
        return 1 - self.sigma / self.usual_sigma

    @property
    def saved(self) -> str:
        """`less_noise` in words: `37 % less noise`, `0.10 % more noise`."""
        return f"{percent(abs(self.less_noise))} {'more' if self.less_noise < 0 else 'less'} noise"

    @property
    def unusual(self) -> str:
        """Why calibration by (ε, δ) gives no noise for this limit, without a capital and a full stop; or empty."""
        if math.isnan(self.usual_epsilon):
            return f"no ε holds this limit, since δ = {delta_text(self.delta)} alone exceeds it"
        if math.isnan(self.usual_sigma):
            return f"the limit needs ε = {self.usual_epsilon:.2g}, which no noise is certified to reach"
        return ""

    def points(self) -> list[tuple[float, float]]:
        """(false-positive rate, largest true-positive rate) at the rates that are printed."""
        curve = of_history({(self.sigma, self.sample_rate): self.steps})
        return list(zip(SHOWN, curve.caught(SHOWN).tolist(), strict=True))

    def to_dict(self) -> dict[str, Any]:
        """The numbers for JSON."""
        return {
            "limit": self.limit.model_dump(mode="json"),
            "noise_multiplier": self.sigma,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "mu": self.mu,
            "right_guesses": self.right,
            "sample_rate": self.sample_rate,
            "steps": self.steps,
            "by_epsilon": {"epsilon": self.usual_epsilon, "noise_multiplier": self.usual_sigma},
            "curve": [{"accused": accused, "caught": caught} for accused, caught in self.points()],
        }


def consequences(limit: RiskLimit, *, sample_rate: float, steps: int, delta: float) -> Consequences:
    """The least noise that holds the limit, and what follows from it.

    Raises:
        ValueError: as `noise_for_risk` does.
    """
    sigma = noise_for_risk(limit, sample_rate=sample_rate, steps=steps)
    curve = of_history({(sigma, sample_rate): steps})
    epsilon, _ = epsilon_with_method(noise_multiplier=sigma, sample_rate=sample_rate, steps=steps, delta=delta)
    usual_epsilon = usual_sigma = math.nan
    with suppress(ValueError):  # δ alone exceeds the limit, or no noise is found for so small an ε
        usual_epsilon = epsilon_for_risk(limit, delta)
        usual_sigma = noise_multiplier(target_epsilon=usual_epsilon, sample_rate=sample_rate, steps=steps, delta=delta)
    rows = zip(DRAWN.tolist(), curve.caught(DRAWN).tolist(), dp_ceiling(DRAWN, epsilon, delta).tolist(), strict=True)
    return Consequences(
        limit=limit,
        sample_rate=sample_rate,
        steps=steps,
        delta=delta,
        sigma=sigma,
        epsilon=epsilon,
        mu=curve.gaussian_mu(),
        right=(1 + float(curve.deltas[0])) / 2,
        usual_epsilon=usual_epsilon,
        usual_sigma=usual_sigma,
        drawn=tuple(rows),
    )
