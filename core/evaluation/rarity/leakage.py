"""How well an attack separates members from held-out patients of similar rarity: one AUC per bucket, with interval.

Within a bucket, a member is compared with held-out patients whose diagnoses are about as rare. Beforehand, the scores
are corrected for what rarity, the number of codes and the length of the notes say about how predictable such notes are,
whether trained on or not. Rarity still varies within a bucket: without the correction, a test on 400 models without a
trend claims one in up to 14 % of them (docs/methods/rarity.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special, stats

from core.evaluation.rarity.profiles import LEAST, bucket_of, patients_in
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.boundary_intervals import auc_interval

COLUMNS = (
    *("bucket", "log_probability", "rarer_than", "members", "heldout", "member_units", "heldout_units"),
    *("auc", "low", "high", "members_percentile", "heldout_percentile", "kept"),
)


@dataclass(frozen=True)
class Places:
    """Each unit's place among the other side's units in its bucket, (units,), ties ½.

    For a member: the share of held-out units with a lower score. For a held-out unit: the share of members with a
    higher score. In a bucket both have the same mean, the AUC, and their spreads give its variance (DeLong et al.
    1988). NaN if the bucket holds too few of either side (`kept` (buckets,) is False).
    """

    place: np.ndarray
    bucket: np.ndarray
    member: np.ndarray
    patient: np.ndarray
    kept: np.ndarray

    def side(self, member: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Places, buckets and patients of one side's units in the buckets that are kept."""
        chosen = (self.member == member) & self.kept[self.bucket]
        return self.place[chosen], self.bucket[chosen], self.patient[chosen]


def predictability_removed(units: pd.DataFrame) -> np.ndarray:
    """Scores (units,) without the part that rarity, number of codes and length explain for both sides alike.

    Least squares of the score on membership, ln p, (ln p)², number of codes and the logarithm of the notes' mean
    length; every part except membership's is subtracted. `units` has the columns of `PatientTables.judged`.
    """
    score = units["score"].to_numpy(dtype=float)
    if np.ptp(score) == 0:  # nothing to explain: what least squares leaves of equal scores is rounding, and has ranks
        return score
    about = np.column_stack([*covariates(units), standardised(units["log_probability"].to_numpy(dtype=float)) ** 2])
    design = np.column_stack([np.ones(len(score)), units["member"].to_numpy(dtype=float), about])
    fitted = np.linalg.lstsq(design, score, rcond=None)[0]
    return score - about @ fitted[2:]


def covariates(units: pd.DataFrame) -> list[np.ndarray]:
    """Rarity (−ln p), number of codes and log length of each unit, each with mean 0 and standard deviation 1."""
    rarity, codes, tokens = (units[name].to_numpy(dtype=float) for name in ("log_probability", "codes", "tokens"))
    return [standardised(values) for values in (-rarity, codes, np.log(np.maximum(tokens, 1.0)))]


def standardised(values: np.ndarray) -> np.ndarray:
    """Values with mean 0 and standard deviation 1; all 0 if nothing varies."""
    spread = values.std()
    return (values - values.mean()) / spread if spread > 0 else np.zeros_like(values)


def places(units: pd.DataFrame, edges: np.ndarray) -> Places:
    """The places of `units` (columns of `PatientTables.judged`) in the buckets between `edges`."""
    member, patient = units["member"].to_numpy(dtype=bool), units["patient"].to_numpy()
    bucket, count = bucket_of(units["log_probability"].to_numpy(), edges), len(edges) + 1
    kept = np.ones(count, dtype=bool)
    for side in (member, ~member):
        kept &= patients_in(bucket, patient, side, count) >= LEAST
    place = np.full(len(units), np.nan)
    score = predictability_removed(units) if kept.any() else place
    for one in np.flatnonzero(kept):
        ours, theirs = (np.flatnonzero((bucket == one) & side) for side in (member, ~member))
        place[ours] = _share_below(score[ours], score[theirs])
        place[theirs] = _share_below(-score[theirs], -score[ours])
    return Places(place, bucket, member, patient, kept)


def _share_below(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Share of `others` below each value, ties ½."""
    ordered = np.sort(others)
    return (np.searchsorted(ordered, values) + np.searchsorted(ordered, values, side="right")) / 2 / len(ordered)


def leakage(units: pd.DataFrame, edges: np.ndarray) -> pd.DataFrame:
    """One row per bucket between `edges`, rarest first, with the columns of COLUMNS.

    `units` has the columns of `PatientTables.judged`. Units that do not pass its filters count for `rarer_than` (the
    share of all evaluated units that are more common) and for no other figure. `auc` is the chance that a member of the
    bucket scores above a held-out unit in it; its interval treats patients as clusters. Both mean percentiles are among
    all held-out units and show how high the two sides score at this rarity. `kept` is False if fewer than LEAST members
    or held-out patients are left: such a bucket has counts and no figures (NaN).
    """
    shared = 1 - units["log_probability"].rank(pct=True)
    chosen = units[units["passes"]]
    found = places(chosen, edges)
    rows = []
    for bucket in range(len(edges) + 1):
        here = chosen[found.bucket == bucket]
        if here.empty:
            continue
        member = here["member"].to_numpy(dtype=bool)
        patients = tuple(int(here.loc[side, "patient"].nunique()) for side in (member, ~member))
        row = (
            bucket,
            here["log_probability"].mean(),
            shared[here.index].mean(),
            *patients,
            member.sum(),
            (~member).sum(),
        )
        if not found.kept[bucket]:
            rows.append((*row, *[math.nan] * 5, False))
            continue
        auc = _auc(found, bucket, *patients)
        both = (here.loc[side, "percentile"].mean() for side in (member, ~member))
        rows.append((*row, auc.value, auc.low, auc.high, *both, True))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype({"kept": bool, "auc": float, "log_probability": float, "rarer_than": float})


def _auc(found: Places, bucket: int, members: int, others: int) -> Interval:
    """The AUC of a bucket with its 95 % interval: on the logit scale (Pepe 2003, §5.2), Newcombe's at 0 and 1.

    Without any spread of places, as of equal scores, there is none.
    """
    value = float(found.place[found.member & (found.bucket == bucket)].mean())
    if value in (0.0, 1.0):
        return auc_interval(Interval(value, value, value), members, others)
    variance = 0.0
    for side in (True, False):
        place, where, patient = found.side(side)
        variance += clustered_variance(place[where == bucket], patient[where == bucket])
    if variance == 0:
        return Interval(value, math.nan, math.nan)
    half = float(stats.norm.isf(0.025)) * math.sqrt(variance) / (value * (1 - value))
    low, high = special.expit(special.logit(value) + np.array([-half, half]))
    return Interval(value, float(low), float(high))


def clustered_variance(place: np.ndarray, patient: np.ndarray) -> float:
    """Variance of the mean place, with patients as clusters (Obuchowski 1997); DeLong's with one unit per patient."""
    codes = np.unique(patient, return_inverse=True)[1]
    away = np.bincount(codes, place - place.mean())
    return float(len(away) / (len(away) - 1) * (away**2).sum() / len(place) ** 2)
