"""The membership attacks of the battery, as they are registered. Each writes rows of the `scores` table.

Every score points the same way: higher = more likely a member. Formulas and sources: docs/ATTACKS.md.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.judged import judged_notes, mean_log_likelihoods
from core.attacks.membership import LOSS, SCORE_COLUMNS
from core.attacks.registry import KINDS, Attack, Report, Tables, Target, register, register_table

register_table("scores", SCORE_COLUMNS)

OWN_THRESHOLDS: dict[str, float] = {}  # attacks that decide by themselves, at this score; others: the training mean


def scores_of(attack: str, notes: pd.DataFrame, score: np.ndarray) -> dict[str, pd.DataFrame]:
    """The `scores` table of one attack: one row a judged note. Raises ValueError for a score that is not a number."""
    if not np.isfinite(score).all():
        bad = int((~np.isfinite(score)).sum())
        raise ValueError(f"the attack “{attack}” gave {bad} of {len(score)} notes no finite score")
    keys = ["note_id", "admission_id", "patient_id", "split", "note_type", "tokens"]
    frame = notes[keys].assign(attack=attack, member=notes["split"] == "member", score=score)
    return {"scores": frame[list(SCORE_COLUMNS)].astype(SCORE_COLUMNS).reset_index(drop=True)}


def _loss(target: Target, report: Report) -> Tables:
    return scores_of(LOSS, judged_notes(target), mean_log_likelihoods(target, "target", report))


register(
    Attack(
        name=LOSS,
        row="J4",
        access="grey-box",
        kinds=KINDS,
        cost="cheap",
        sentence="A note that the model finds easy was probably in its lessons.",
        tables=("scores",),
        run=_loss,
    )
)
