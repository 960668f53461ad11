"""Whether a run's figures leave out what several patients have; `core.evaluation.summary` makes the figures."""

from __future__ import annotations

import pandas as pd

from core.evaluation.wording import OF_THEIR_OWN


def counts_own_values(metrics: pd.DataFrame) -> bool:
    """Whether the figures of a run on imported notes leave out values that several patients have.

    Figures of an earlier version count them, until `python -m core refresh` makes them again.
    """
    return "note" in metrics and bool(metrics["note"].str.contains(OF_THEIR_OWN, regex=False, na=False).any())
