"""Utility of runs that are there already: measured with their weights, and stored beside their other tables.

`core.pipeline.quick_audit` measures it for new runs. Runs of earlier versions lack the table `utility`.
"""

from __future__ import annotations

import pandas as pd

from core.pipeline.derived import rebuild
from core.pipeline.full_audit import alone, outdate_figures
from core.pipeline.quick_audit import USES
from core.runs.integrity.checksums import take
from core.runs.run import Run, RunBroken
from core.runs.store import Workspace
from core.runs.tables import UTILITY, write_table


def measure(run: Run, workspace: Workspace) -> pd.DataFrame:
    """The table `utility` of a run, from its weights. Raises RunBroken if it has none."""
    if not run.has_model:
        raise RunBroken(f"Run {run.id} has tables but no weights (model/model.safetensors), so it cannot be measured.")
    corpus = workspace.corpus(run.spec.corpus, store=False).without(run.spec.without)
    (table,) = USES.make(run.model(), corpus, run.spec, lambda done, total: None, lambda: False)
    return table


def add(run: Run, workspace: Workspace) -> bool:
    """Measure a run of an earlier version, and its control first, store the table and make the figures again.

    Returns:
        Whether anything was done: not for a run that has the table.

    Raises:
        RunBroken: it has no weights, or it is a shipped run, which is read-only.
        ValueError: another process audits, refreshes or prunes it.
    """
    if not run.spec.is_base:
        base = workspace.control(run.spec)
        if base is not None and not base.shipped:
            add(base, workspace)
    if run.has_table(UTILITY):
        return False
    if run.shipped:
        raise RunBroken(f"Run {run.id} came with the software and is read-only: its utility cannot be stored.")
    table = measure(run, workspace)
    with alone(run, workspace):
        write_table(run.folder / "tables", UTILITY, table)
        outdate_figures(run, workspace)
        rebuild(run.folder, workspace)
        take(run.folder, run.spec.corpus)
    return True
