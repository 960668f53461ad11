"""How well an attack separates members from non-members: ROC curve, AUC, privacy leakage.

A higher score always means "more likely a member".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class OperatingPoint:
    """One threshold of an attack: "member" when score ≥ threshold. `fpr` is the rate that was actually reached."""

    tpr: float
    fpr: float
    threshold: float


@dataclass(frozen=True)
class Roc:
    """A ROC curve over every distinct score: `fpr`, `tpr` of shape (points,), from (0, 0) to (1, 1).

    Point i says "member" when score ≥ `thresholds[i]`; `thresholds[0]` is +∞. Tied scores enter at the same point.
    """

    fpr: np.ndarray
    tpr: np.ndarray
    thresholds: np.ndarray
    members: int
    nonmembers: int

    @property
    def auc(self) -> float:
        """Area under the curve = P[member's score > non-member's] + ½ P[equal] (Mann–Whitney)."""
        return float(np.sum(np.diff(self.fpr) * (self.tpr[1:] + self.tpr[:-1]) / 2))

    def tpr_at(self, fpr: float) -> OperatingPoint:
        """The threshold with the highest TPR whose false-positive rate does not exceed `fpr` (no interpolation).

        With n non-members the possible rates are multiples of 1/n; `.fpr` of the result is the rate actually reached.

        Raises:
            ValueError: `fpr` lies outside 0…1.
        """
        if not 0 <= fpr <= 1:
            raise ValueError(f"a false-positive rate is between 0 and 1, not {fpr}")
        allowed = int(np.searchsorted(self.fpr, fpr, side="right")) - 1
        return OperatingPoint(
            tpr=float(self.tpr[allowed]), fpr=float(self.fpr[allowed]), threshold=float(self.thresholds[allowed])
        )


def roc(member_scores: Sequence[float], nonmember_scores: Sequence[float]) -> Roc:
    """ROC curve of an attack from the scores of members (n,) and of non-members (m,); higher = member.

    Raises:
        ValueError: Either group is empty, or a score is not a number.
    """
    members, nonmembers = _checked(member_scores, "members"), _checked(nonmember_scores, "non-members")
    thresholds = np.unique(np.concatenate([members, nonmembers]))[::-1]  # decreasing
    tpr = (len(members) - np.searchsorted(np.sort(members), thresholds, side="left")) / len(members)
    fpr = (len(nonmembers) - np.searchsorted(np.sort(nonmembers), thresholds, side="left")) / len(nonmembers)
    return Roc(
        fpr=np.concatenate([[0.0], fpr]),
        tpr=np.concatenate([[0.0], tpr]),
        thresholds=np.concatenate([[np.inf], thresholds]),
        members=len(members),
        nonmembers=len(nonmembers),
    )


def privacy_leakage(member_flags: Sequence[bool], nonmember_flags: Sequence[bool]) -> float:
    """PL = P[says member | member] − P[says member | non-member] = TPR − FPR (Jagannatha 2021, eq. 2); blind = 0.

    Args:
        member_flags: What the attack said of each member, True = "member".
        nonmember_flags: The same for each non-member.

    Raises:
        ValueError: Either group is empty.
    """
    members, nonmembers = np.asarray(member_flags, dtype=bool), np.asarray(nonmember_flags, dtype=bool)
    for flags, name in ((members, "members"), (nonmembers, "non-members")):
        if flags.size == 0:
            raise ValueError(f"privacy leakage compares members with non-members, and there are no {name}")
    return float(members.mean() - nonmembers.mean())


def says_member(scores: Sequence[float], training_scores: Sequence[float]) -> np.ndarray:
    """S-BBA (Jagannatha 2021, §4.1.1): a member if loss < mean training loss, i.e. score > mean training score.

    `scores` (n,) and `training_scores` (m,) are minus the mean token loss. Returns bool (n,).
    """
    training = _checked(training_scores, "training notes")
    # Where all scores are equal, a mean that is rounded down would call every note a member.
    return np.asarray(scores, dtype=float) > np.clip(training.mean(), training.min(), training.max())


def _checked(scores: Sequence[float], name: str) -> np.ndarray:
    values = np.asarray(scores, dtype=float).ravel()
    if values.size == 0:
        raise ValueError(f"there are no scores of {name}: an attack is evaluated on both members and non-members")
    if np.isnan(values).any():
        raise ValueError(f"{int(np.isnan(values).sum())} of {values.size} scores of {name} are not numbers")
    return values
