"""What shadow models say of an audit's notes: the input of LiRA (`core.attacks.membership.shadow_models`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ShadowScores:
    """What the shadow models say about the same notes, in the order of the audit's evaluation notes.

    Attributes:
        likelihoods: mean log-likelihood in nats per token of each note under each model, (models, notes).
        inside: whether the model read the note, (models, notes).
    """

    likelihoods: np.ndarray
    inside: np.ndarray

    def __len__(self) -> int:
        return len(self.likelihoods)

    def among(self, models: Sequence[int] | np.ndarray) -> ShadowScores:
        """The same by the chosen models alone, (chosen,) numbers of rows."""
        return ShadowScores(self.likelihoods[models], self.inside[models])

    def of(self, notes: np.ndarray) -> ShadowScores:
        """The same for the chosen notes alone, bool (notes,)."""
        return ShadowScores(self.likelihoods[:, notes], self.inside[:, notes])
