"""Exposure by a fitted curve: how unlikely a canary's loss is among what it might have been, in bits beyond log2 |R|.

Rank exposure ends at log2 |R|: of two canaries that beat all 999 others nothing tells which is remembered better.
Carlini et al. 2019 ("Approximating exposure by distribution modelling") fit a skew-normal distribution to the losses of
R and read the exposure from its lower tail: −log2 P[loss ≤ the canary's]. Within the range of R it agrees with the
rank; beyond, it extrapolates, which is only as good as the fit. The Kolmogorov–Smirnov distance says how good that is.
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
from core.corpus.synthetic.canaries import reference_texts
from core.models.build import LanguageModel

FEWEST_REFERENCES = 50  # a curve of three parameters through fewer losses says nothing about a tail
_TAIL = 1e-8  # below this, the library's distribution function loses its digits
_NEGLIGIBLE = 45.0  # e⁻⁴⁵: where the integral of a tail may end

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
        """Maximum likelihood. Raises ValueError for too few losses, or losses that are all the same."""
        values = np.asarray(losses, dtype=float)
        if values.size < FEWEST_REFERENCES or not np.isfinite(values).all() or values.std() == 0:
            raise ValueError(
                f"a curve needs at least {FEWEST_REFERENCES} finite losses that differ; got {values.size} losses"
            )
        centre, spread = values.mean(), values.std()  # fitted in standard units: the optimiser's steps then fit
        shape, location, scale = stats.skewnorm.fit((values - centre) / spread)
        return cls(float(shape), float(centre + spread * location), float(spread * scale))

    def log_probability_below(self, loss: float) -> float:
        """Return ln P[X ≤ loss], exact far into the tail, where the probability itself would be 0 in floating point."""
        z = (loss - self.location) / self.scale
        below = float(stats.skewnorm.cdf(z, self.shape))
        return math.log(below) if below > _TAIL else _log_lower_tail(z, self.shape)

    def goodness(self, losses: np.ndarray) -> tuple[float, float]:
        """Kolmogorov–Smirnov distance of the losses from this curve, and its p-value.

        The curve was fitted to the same losses, which makes the p-value too kind: a small one condemns the fit, a large
        one does not prove it.
        """
        found = stats.kstest(losses, "skewnorm", args=(self.shape, self.location, self.scale))
        return float(found.statistic), float(found.pvalue)


def _log_density(z: np.ndarray, shape: float) -> np.ndarray:
    return math.log(2) - z**2 / 2 - math.log(2 * math.pi) / 2 + special.log_ndtr(shape * z)


def _log_lower_tail(z: float, shape: float) -> float:
    """Return ln ∫_{−∞}^z of the density, far below its peak: there it falls monotonically to the left, ever faster."""
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
    """Both exposures of every canary sentence, and the curve behind the second: the table `exposures`.

    Canary patients (form `patient`) are left out, as they are from the canaries table. Losses as in
    `core.attacks.exposure.canary_exposures`. `on_progress(done, total)` counts canaries.
    """
    sentences = canaries[canaries["form"] != "patient"]
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
