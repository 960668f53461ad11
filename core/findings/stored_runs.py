"""The tables of the runs that a claim needs, as its measure reads them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import pandas as pd

from core.attacks.membership.decision import LOSS
from core.common.program import ASSETS
from core.evaluation.stats.bootstrap import Interval
from core.findings.from_weights.tables import file_of
from core.findings.needs import Need
from core.pipeline.shadows import made
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.tables import UTILITY
from core.spec import RunSpec

if TYPE_CHECKING:
    from collections.abc import Sequence


CANARIES = "canaries"  # the table of their losses
SHIPPED = ASSETS / "findings"  # runs that claims need besides the demonstration's (`core.findings.shipping`)


def with_shipped(workspace: Workspace) -> Workspace:
    """The same workspace with the runs that are shipped for claims alone.

    They come before the demonstration's, of which some have figures only.
    """
    return Workspace(workspace.root, shared=(SHIPPED, *workspace.shared), viewer=workspace.viewer)


def wrote(run: Run) -> bool:
    """Whether the texts that the run's model wrote are stored. Without them its tables of texts have no rows."""
    return not run.figures_only and not run.table("generations").empty


class Missing(LookupError):
    """A run, an attack or a table that a claim needs is not there."""


class StoredRuns:
    """Finished runs and audits by spec, here and among the shipped ones."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @cached_property
    def _by_id(self) -> dict[str, Run]:
        return {run.id: run for run in self.workspace.runs()}

    def has(self, need: Need) -> bool:
        """Whether the run is there with everything the claim reads from it."""
        run = self.find(need.spec)
        if run is None or (need.scores and run.figures_only) or (need.texts and not wrote(run)):
            return False
        tables = [name for name, read in ((UTILITY, need.utility), (CANARIES, need.canaries)) if read]
        if not all(map(run.has_table, tables)):
            return False
        done = {name for name, one in self.workspace.audit(run.id).outcomes().items() if one.state == "done"}
        return done.issuperset(need.audit) and not self.shadows_missing(need) and not self.unmeasured(need)

    def shadows_missing(self, need: Need) -> int:
        """How many of the shadow models that a claim needs are not there."""
        return max(0, need.shadows - len(made(need.spec, self.workspace))) if need.shadows else 0

    def unmeasured(self, need: Need) -> list[str]:
        """The tables from the run's weights that a claim needs and that are not there."""
        run = self.find(need.spec)
        return [name for name in need.measured if run is None or file_of(run.id, name, self.workspace) is None]

    def find(self, spec: RunSpec) -> Run | None:
        """The run of this spec, if there is one. Reads every run's spec once."""
        found = self._by_id.get(spec.run_id)
        return found if found is not None else next((run for run in self._by_id.values() if run.spec == spec), None)

    def run(self, spec: RunSpec) -> Run:
        """The run of this spec. Raises Missing."""
        found = self.find(spec)
        if found is None:
            raise Missing(f"there is no run {spec.run_id}")
        return found

    def metric(self, spec: RunSpec, metric: str, arm: str = "run") -> Interval:
        """A figure of the run's `metrics` table, with its interval. Raises Missing."""
        row = self._metric(spec, metric, arm)
        return Interval.of(row)

    def _metric(self, spec: RunSpec, metric: str, arm: str) -> pd.Series:
        rows = self.run(spec).metrics
        found = rows[(rows["metric"] == metric) & (rows["arm"] == arm)]
        if found.empty:
            raise Missing(f"run {spec.run_id} has no figure {metric}")
        return found.iloc[0]

    def units(self, spec: RunSpec, metric: str, arm: str = "run") -> int:
        """How many texts, notes or patients a figure of the run's `metrics` table is of. Raises Missing."""
        return int(self._metric(spec, metric, arm)["n"])

    def scores(self, spec: RunSpec, attack: str = LOSS) -> pd.DataFrame:
        """Scores of one attack: of the full audit, or the quick audit's for the loss attack without one."""
        stored = self.workspace.audit(self.run(spec).id).table_of(attack, "scores")
        if stored is not None:
            return stored
        rows = self.run(spec).table("scores")
        found = rows[rows["attack"] == attack]
        if found.empty:
            raise Missing(f"run {spec.run_id} has no scores of the attack “{attack}”")
        return found

    def quick_scores(self, spec: RunSpec) -> pd.DataFrame:
        """Scores of the quick audit's loss attack, which every run has and which compare between runs."""
        rows = self.run(spec).table("scores")
        return rows[rows["attack"] == LOSS]

    def audited(self, spec: RunSpec, table: str) -> pd.DataFrame:
        """A table of the run's full audit. Raises Missing."""
        found = self.workspace.audit(self.run(spec).id).table(table)
        if found.empty:
            raise Missing(f"the audit of run {spec.run_id} has no table {table}")
        return found

    def measured(self, spec: RunSpec, table: str) -> pd.DataFrame:
        """A table that was made from the run's weights. Raises Missing."""
        file = file_of(self.run(spec).id, table, self.workspace)
        if file is None:
            raise Missing(f"of run {spec.run_id} the table “{table}” was not made")
        return pd.read_parquet(file)

    def missing(self, needs: Sequence[Need]) -> list[Need]:
        """Those of the needs that are not there."""
        return [need for need in needs if not self.has(need)]
