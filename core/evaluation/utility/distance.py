"""How close two distributions of texts are: the area under their divergence curve (MAUVE, Pillutla et al. 2021).

Both are histograms P and Q over the same clusters. For mixtures R = λP + (1 − λ)Q, the curve is (exp(−c·KL(Q‖R)),
exp(−c·KL(P‖R))), with c = 5. Its area is 1 for equal histograms and near 0 for disjoint ones.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.evaluation.stats.bootstrap import Interval, percentile_interval
from core.tasks.texts import LEFT, RIGHT

SCALE = 5.0  # c of eq. 4
MIXTURES = 25  # values of λ inside (0, 1)
SAME = 1e-12  # areas that differ by less differ by rounding


def divergence_area(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Area under the divergence curve of histograms p and q, of shape (…, clusters): shape (…).

    Counts or shares; each side is divided by its sum. The ends (0, 1) and (1, 0) belong to the curve.
    """
    p, q = (side / side.sum(-1, keepdims=True) for side in (np.asarray(p, dtype=float), np.asarray(q, dtype=float)))
    points = [(np.zeros(p.shape[:-1]), np.ones(p.shape[:-1]))]
    for share in np.linspace(1, 0, MIXTURES + 2)[1:-1]:
        mixed = share * p + (1 - share) * q
        points.append((np.exp(-SCALE * _divergence(q, mixed)), np.exp(-SCALE * _divergence(p, mixed))))
    points.append((np.ones(p.shape[:-1]), np.zeros(p.shape[:-1])))
    across = np.stack([x for x, _ in points], axis=-1)
    height = np.stack([y for _, y in points], axis=-1)
    order = np.argsort(across, axis=-1, kind="stable")
    across, height = np.take_along_axis(across, order, -1), np.take_along_axis(height, order, -1)
    return ((height[..., 1:] + height[..., :-1]) / 2 * np.diff(across, axis=-1)).sum(-1)


def _divergence(p: np.ndarray, mixed: np.ndarray) -> np.ndarray:
    """KL(p‖mixed) in nats over the last axis; terms with p = 0 are 0."""
    ratio = np.divide(p, mixed, out=np.ones_like(p), where=(p > 0) & (mixed > 0))
    return (p * np.log(ratio)).sum(-1)


def area_interval(counts: pd.DataFrame, *, resamples: int, seed: int) -> Interval:
    """The area of the two sides of one task of the table `utility`, with its interval.

    Generated texts are resampled one by one, notes by patient; the smaller number of either decides how far the
    percentiles are expanded. The clusters stay as they are. Resampling adds distance of its own (a histogram differs
    from a resample of itself), so the areas of the resamples are shifted until their median is the value. Where all of
    them are the same, there is no interval: without a cluster that both sides share, resamples have none either.
    """
    clusters = int(counts["cluster"].max()) + 1
    sides = [_by_unit(counts[counts["kind"] == kind], clusters) for kind in (LEFT, RIGHT)]
    value = float(divergence_area(sides[0].sum(0), sides[1].sum(0)))
    rng = np.random.default_rng(seed)
    drawn = [
        np.stack([rng.multinomial(len(side), np.full(len(side), 1 / len(side))) @ side for _ in range(resamples)])
        for side in sides
    ]
    areas = divergence_area(drawn[0], drawn[1])
    if np.ptp(areas) < SAME:
        return Interval(value, np.nan, np.nan)
    found = percentile_interval(value, areas - np.median(areas) + value, min(map(len, sides)))
    low, high = np.clip([found.low, found.high], 0.0, 1.0)
    return Interval(value, float(low), float(high))


def _by_unit(counts: pd.DataFrame, clusters: int) -> np.ndarray:
    """(units, clusters): how many texts of each patient lie in each cluster; a text without a patient is a unit."""
    found = []
    alone = counts[counts["patient_id"].isna()]
    found.append(np.repeat(np.eye(clusters)[alone["cluster"].astype(int)], alone["trials"].astype(int), axis=0))
    of_patients = counts[counts["patient_id"].notna()]
    codes, patients = pd.factorize(of_patients["patient_id"])
    table = np.zeros((len(patients), clusters))
    np.add.at(table, (codes, of_patients["cluster"].astype(int)), of_patients["trials"])
    return np.concatenate([*found, table])
