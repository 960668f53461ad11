"""What `python -m core refresh` does: figures of an older version are made again from stored tables.

A metrics table says of which version it is (`core.runs.tables.table_version`), and every figure since which version it
is made as it is now (`since` of `core.evaluation.figures.record.Figure`; for a run on imported notes `since_imported`,
if that is later). No attack is run: metrics, card and the figures of a full audit follow from tables that are stored.
After an interruption the same call goes on: a run whose metrics and checksums do not agree is made again, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from core.pipeline.derived import DERIVED, current_version, differing, rebuild
from core.pipeline.full_audit import alone, outdate_figures, refresh_figures
from core.runs.audits import AuditBroken
from core.runs.integrity.checksums import take
from core.runs.integrity.verify import run_problems
from core.runs.run import REMEDY, Run, RunBroken
from core.runs.store import Workspace
from core.runs.tables import table_version

State = Literal["up to date", "made again", "read-only", "newer", "failed"]


@dataclass(frozen=True)
class Refreshed:
    """What became of one run's figures. `version` is that of its metrics table now; `sentence` says it in words."""

    run: str
    state: State
    version: int
    sentence: str


def refresh(run: Run, workspace: Workspace) -> Refreshed:
    """Make the outdated figures of a run again, and say what was done or why nothing could be."""
    now, stored = current_version(run.spec), table_version(run.folder / "tables", "metrics")
    if stored > now:
        told = f"Its figures are of version {stored}, and this software makes version {now}. Nothing was done."
        return Refreshed(run.id, "newer", stored, told)
    if run.shipped and stored < now:
        told = f"It came with the software and is read-only: its figures stay those of version {stored}."
        return Refreshed(run.id, "read-only", stored, told)
    if run.figures_only and stored < now:
        told = f"It has figures only, so they cannot be computed again: they stay those of version {stored}."
        return Refreshed(run.id, "read-only", stored, told)
    made = []
    try:
        if not run.shipped and (stored < now or differing(run.folder)):
            _make(run, workspace)
            made.append(f"metrics and model card (version {stored} before, {now} now)")
        made += [f"“{name}” of the full audit" for name in refresh_figures(run, workspace)]
    except (RunBroken, AuditBroken, ValueError, LookupError, OSError) as error:
        told = f"Its figures could not be made again: {str(error).removesuffix('.')}."
        return Refreshed(run.id, "failed", table_version(run.folder / "tables", "metrics"), told)
    if not made:
        return Refreshed(run.id, "up to date", now, f"Its figures are up to date (version {now}).")
    return Refreshed(run.id, "made again", now, f"Made again: {', '.join(made)}.")


def _make(run: Run, workspace: Workspace) -> None:
    with alone(run, workspace):  # else `store prune` could delete weights of which the new checksums have been taken
        for file, problem in run_problems(run.folder).items():
            if file not in DERIVED:
                raise RunBroken(f"its file {file} {problem}. {REMEDY}")
        outdate_figures(run, workspace)
        rebuild(run.folder, workspace)
        take(run.folder, run.spec.corpus)  # last: until then the run counts as unfinished
