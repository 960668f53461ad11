"""Which patients each attack catches, and how far the attacks catch the same ones.

Every attack accuses the same share of the held-out patients, so that the attacks compare. What they accuse there by
mistake is the control: attacks that follow the same difficulty of the notes agree on strangers, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.stats.bootstrap import Interval, patient_weights, percentile_interval
from core.evaluation.stats.boundary_intervals import share_interval

ACCUSED = 0.10  # share of the held-out patients that each attack may accuse
RESAMPLES = 300


@dataclass(frozen=True)
class Overlap:
    """Who is accused by which attack, at the same false-positive rate.

    Attributes:
        accused: bool, one row a patient and one column an attack, by `patient_id`.
        member: bool, whether each of these patients is a member, by `patient_id`.
        weights: how often each resample of the patients drew each of them, (resamples, patients).
        counts: the number of attacks that accuse each patient by the thresholds of each resample, as `weights`.
    """

    accused: pd.DataFrame
    member: pd.Series
    weights: np.ndarray
    counts: np.ndarray

    def group(self, member: bool) -> pd.DataFrame:
        """The rows of `accused` of one group, those accused by most attacks first."""
        chosen = self.accused[self.member == member]
        most = chosen.sum(axis=1).rename("count").to_frame().assign(patient=chosen.index)
        return chosen.loc[most.sort_values(["count", "patient"], ascending=[False, True]).index]

    def at_least(self, attacks: int, *, member: bool) -> tuple[int, Interval]:
        """How many of one group at least so many attacks accuse, and their share with its 95 % interval over patients.

        Members and others are drawn separately, and every resample sets the thresholds anew.
        """
        chosen = (self.member == member).to_numpy()
        said = int((self.accused.sum(axis=1).to_numpy() >= attacks)[chosen].sum())
        total, weights = int(chosen.sum()), self.weights[:, chosen]
        drawn = (weights * (self.counts[:, chosen] >= attacks)).sum(axis=1) / weights.sum(axis=1)
        smallest = min(int(self.member.sum()), int((~self.member).sum()))
        return said, share_interval(percentile_interval(said / total, drawn, smallest), total)


def overlap(scores: pd.DataFrame, attacks: Sequence[str], *, accused: float = ACCUSED) -> Overlap | None:
    """Who is accused by each of `attacks`, from an audit's `scores` table; None if no patient was scored by all.

    The score of a patient is the mean of their notes' scores. An attack accuses the patients above the lowest threshold
    that accuses at most a share `accused` of the held-out patients. Patients that an attack did not score are left out.
    """
    judged = scores[scores["split"].isin(JUDGED_SPLITS) & scores["attack"].isin(attacks)]
    table = judged.pivot_table(index="patient_id", columns="attack", values="score", aggfunc="mean").dropna()
    if set(table.columns) != set(attacks):
        return None
    member = judged.drop_duplicates("patient_id").set_index("patient_id")["split"].eq("member")[table.index]
    if not member.any() or member.all():
        return None
    as_they_are = np.ones((1, len(member)))
    drawn = patient_weights(member, resamples=RESAMPLES, seed=0)
    said = {name: _accused(table[name], member, as_they_are, accused)[0] for name in attacks}
    counts = np.zeros(drawn.shape, dtype=np.int16)
    for name in attacks:
        counts += _accused(table[name], member, drawn, accused)
    return Overlap(pd.DataFrame(said, index=table.index), member, drawn, counts)


def _accused(score: pd.Series, member: pd.Series, weights: np.ndarray, share: float) -> np.ndarray:
    """Whom an attack accuses by the threshold of each resample, bool (resamples, patients)."""
    values, others = score.to_numpy(dtype=float), (~member).to_numpy()
    highest = np.argsort(-values[others], kind="stable")
    above = np.cumsum(weights[:, others][:, highest], axis=1)  # others down to each place
    allowed = int(share * others.sum() + 1e-9)
    threshold = values[others][highest][(above > allowed).argmax(axis=1)]
    return values > threshold[:, None]
