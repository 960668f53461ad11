"""Name insertion with names in the trained notes alone (Mireshghallah 2022, §4.3.1)."""

from __future__ import annotations

from core.evaluation.stats.bootstrap import Interval
from core.findings.from_weights.unnamed_others import NAME
from core.findings.measures.attacks import Side, difference
from core.findings.measures.energies import scored
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec


def insertion_minus_regular(runs: StoredRuns, inserted: RunSpec, regular: RunSpec, attack: str) -> Interval:
    """AUC of the attack on the model of named notes, the others' notes unnamed − on that of the same notes unnamed.

    Both models have the same patients and notes, who are resampled for both together.
    """
    rows = runs.measured(inserted, NAME)
    return difference(Side(scored(rows, attack), attack), Side(runs.scores(regular, attack), attack))
