"""Attacks on a masked model by different energies of the same notes (Mireshghallah 2022, eq. 2 and §A.3.2)."""

from __future__ import annotations

import pandas as pd

from core.attacks.membership.decision import LOSS, RATIO
from core.evaluation.stats.bootstrap import Interval
from core.findings.from_weights.energies import NAME
from core.findings.measures.attacks import Side, difference
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec

ATTACKS = (RATIO, LOSS)


def energies_apart(runs: StoredRuns, spec: RunSpec, attack: str, one: int, other: int) -> Interval:
    """AUC of the loss or of the ratio to the public base with `one` mask − with `other` masks, over patients.

    `EVERY_TOKEN` instead of a number of masks stands for the normalised energy.
    """
    rows = runs.measured(spec, NAME)
    first, second = (Side(scored(rows[rows["masks"] == masks], attack), attack) for masks in (one, other))
    return difference(first, second)


def scored(rows: pd.DataFrame, attack: str) -> pd.DataFrame:
    """Scores of one attack: the target's mean log p of each note, for the ratio less that of the public base.

    `rows` has one row for each note and model, the notes in the same order for both models.
    """
    by_model = rows.astype({"score": float}).groupby("model", sort=False)
    sides = {model: part.reset_index(drop=True) for model, part in by_model}
    target, base = sides["target"], sides["base"]
    if not target["note_id"].equals(base["note_id"]):
        raise ValueError("target and base have scored different notes")
    return target.assign(score=target["score"] - base["score"]) if attack == RATIO else target
