"""Whether rarer patients leak more, under several attacks."""

from __future__ import annotations

from collections.abc import Sequence

from core.evaluation.rarity.profiles import bucket_edges
from core.evaluation.rarity.trend import trend
from core.evaluation.stats.bootstrap import Interval
from core.findings.stored_runs import Missing, StoredRuns
from core.runs.patients.queries import PatientTables, judges
from core.spec import RunSpec


def slopes(runs: StoredRuns, spec: RunSpec, attacks: Sequence[str]) -> dict[str, Interval]:
    """Change of the AUC by patient from common to rare profiles under each attack; no interval where it is untestable.

    `core.evaluation.rarity.trend` has the test. It is not made where the attack recognises nearly everybody.
    """
    run = runs.run(spec)
    folder = runs.workspace.corpus_folder(spec.corpus)
    if folder is None:
        raise Missing("the cohort is not stored")
    tables = PatientTables(folder / "patients.parquet", folder / "notes.parquet")
    found = {}
    with tables.opened():
        tables.profile("patient")
        known = judges(run, runs.workspace.audit(run.id), None)
        for attack in attacks:
            units = tables.judged(known[attack], "patient")
            columns = (units[name].to_numpy() for name in ("log_probability", "member", "patient"))
            found[attack] = trend(units, bucket_edges(*columns)).slope
    return found
