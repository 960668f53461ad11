"""Exposure from a fitted distribution: how unlikely a canary's loss is, in bits, also beyond log2 |R|.

Rank exposure is at most log2 |R|: it cannot tell apart two canaries that both rank above all 999 others. Carlini et al.
2019 ("Approximating exposure by distribution modelling") fit a skew-normal distribution to the losses of R and read the
exposure from its lower tail: −log2 P[loss ≤ the canary's]. Within the range of R it agrees with rank exposure. Beyond
that range it extrapolates, and is only as good as the fit, which the Kolmogorov–Smirnov distance measures.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special, stats

from core.attacks.exposure import exposure
from core.attacks.memorisation.secret_loss import secret_losses
from core.corpus.canary_forms import FORMS
from core.corpus.synthetic.canaries import reference_texts
from core.models.build import LanguageModel

FEWEST_REFERENCES = 50  # a three-parameter fit to fewer losses says nothing about the tail
_TAIL = 1e-8  # below this, the library's distribution function loses precision
_NEGLIGIBLE = 45.0  # nats below the density at the end: e⁻⁴⁵ is where the tail integral is cut

SKEW_COLUMNS = {
    "canary_id": "str",
    "form": "str",
    "insertions": "int32",
    "inserted": "bool",
    "rank_exposure": "float64",
    "skew_exposure": "float64",
    "shape": "float64",
    "location": "float64",
    "scale": "float64",
    "ks_distance": "float64",
    "ks_p_value": "float64",
}


@dataclass(frozen=True)
class SkewNormal:
    """Density 2/ω · φ(z) · Φ(αz), z = (x − ξ)/ω (Azzalini 1985): shape α, location ξ, scale ω > 0."""

    shape: float
    location: float
    scale: float

    @classmethod
    def fit(cls, losses: np.ndarray) -> SkewNormal:
        """Maximum-likelihood fit. Raises ValueError for too few or non-finite losses, or losses that are all equal."""
        values = np.asarray(losses, dtype=float)
        if values.size < FEWEST_REFERENCES or not np.isfinite(values).all() or values.std() == 0:
            raise ValueError(
                f"a skew-normal fit needs at least {FEWEST_REFERENCES} finite losses that differ; got {values.size}"
            )
        centre, spread = values.mean(), values.std()  # fit in standard units, which suit the optimiser's step size
        shape, location, scale = stats.skewnorm.fit((values - centre) / spread)
        return cls(float(shape), float(centre + spread * location), float(spread * scale))

    def log_probability_below(self, loss: float) -> float:
        """Return ln P[X ≤ loss], accurate far into the tail, where the probability itself would underflow to 0."""
        z = (loss - self.location) / self.scale
        below = float(stats.skewnorm.cdf(z, self.shape))
        return math.log(below) if below > _TAIL else _log_lower_tail(z, self.shape)

    def goodness(self, losses: np.ndarray) -> tuple[float, float]:
        """Kolmogorov–Smirnov distance of the losses from this distribution, and its p-value.

        The distribution was fitted to the same losses, so the p-value is too large: a small one rejects the fit, a
        large one does not confirm it.
        """
        found = stats.kstest(losses, "skewnorm", args=(self.shape, self.location, self.scale))
        return float(found.statistic), float(found.pvalue)


def _log_density(z: np.ndarray, shape: float) -> np.ndarray:
    return math.log(2) - z**2 / 2 - math.log(2 * math.pi) / 2 + special.log_ndtr(shape * z)


def _log_lower_tail(z: float, shape: float) -> float:
    """Return ln ∫_{−∞}^z of the density far below its peak, where it decreases to the left, ever faster."""
    width = 1e-6
    at_end = _log_density(np.array(z), shape)
    while at_end - _log_density(np.array(z - width), shape) < _NEGLIGIBLE:
        width *= 2
    places = np.linspace(z - width, z, 4_001)
    weights = np.array([1.0, *np.tile([4.0, 2.0], 2_000)[:-1], 1.0])  # Simpson's rule: 1 4 2 4 … 4 1
    return float(special.logsumexp(_log_density(places, shape), b=weights * width / 12_000))


def skew_exposures(
    lm: LanguageModel, canaries: pd.DataFrame, *, on_progress: Callable[[int, int], None] | None = None
) -> pd.DataFrame:
    """Rank and skew-normal exposure of every canary sentence, and the fitted distribution: the table `exposures`.

    Canary patients and lines of random words are left out: neither differ in a code alone. Losses are those of
    `core.attacks.exposure.canary_exposures`. `on_progress(done, total)` counts canaries.
    """
    sentences = canaries[canaries["form"].isin(FORMS)]
    rows = []
    for done, row in enumerate(sentences.to_dict("records"), start=1):
        texts = reference_texts(row)
        own = texts.index(row["text"])
        losses = secret_losses(lm, texts)
        others = np.delete(losses, own)
        curve = SkewNormal.fit(others)
        rows.append(
            (
                row["canary_id"],
                row["form"],
                row["insertions"],
                row["inserted"],
                float(exposure(losses[[own]], others)[0]),
                -curve.log_probability_below(losses[own]) / math.log(2),
                curve.shape,
                curve.location,
                curve.scale,
                *curve.goodness(others),
            )
        )
        if on_progress is not None:
            on_progress(done, len(sentences))
    return pd.DataFrame(rows, columns=list(SKEW_COLUMNS)).astype(SKEW_COLUMNS)
