"""Attacks on short and long samples of the same notes (Mireshghallah 2022, §4.2)."""

from __future__ import annotations

from core.evaluation.stats.bootstrap import Interval
from core.findings.from_weights.samples import NAME
from core.findings.measures.attacks import Side, difference
from core.findings.measures.energies import scored
from core.findings.stored_runs import StoredRuns
from core.spec import RunSpec


def lengths_apart(runs: StoredRuns, spec: RunSpec, attack: str) -> Interval:
    """AUC of the loss or of the ratio to the public base on long samples − on short ones of the same notes."""
    rows = runs.measured(spec, NAME)
    long, short = (Side(scored(rows[rows["length"] == length], attack), attack) for length in ("long", "short"))
    return difference(long, short)
