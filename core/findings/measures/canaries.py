"""Exposure of planted canaries by their form (Hoory 2021, §5.2)."""

from __future__ import annotations

from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import mean_interval
from core.findings.stored_runs import Missing, StoredRuns
from core.spec import RunSpec


def exposure_difference(runs: StoredRuns, one: RunSpec, other: RunSpec, form: str) -> tuple[Interval, int]:
    """Mean over planted canaries of this form of the exposure under `one` − that under `other`, in bits.

    Both runs have the same cohort and so the same canaries. The interval is Student's t over the canaries' differences.

    Raises:
        Missing: No canary of this form was planted.
    """
    sides = []
    for spec in (one, other):
        rows = runs.run(spec).table("canaries")
        planted = rows[rows["inserted"].astype(bool) & (rows["form"] == form) & rows["exposure"].notna()]
        sides.append(planted.set_index("canary_id")["exposure"])
    paired = (sides[0] - sides[1]).dropna()
    if paired.empty:
        raise Missing(f"no canary of the form {form} was planted")
    return Interval(*mean_interval(paired.to_numpy())), len(paired)
