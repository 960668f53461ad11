"""The form of the tables that `core.pipeline.full_audit` computes from the results of an audit's attacks.

Attacks measure (scores, ranks, hits). Summaries evaluate (AUC, rates, bounds, each with its interval), from the stored
tables alone. They are computed again after every attack, and by the next audit when their version was raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from core.corpus.tables import Corpus
from core.runs.audits import StoredAudit
from core.runs.run import Run


@dataclass(frozen=True)
class Audited:
    """Input of a summary: the run (spec, mechanism, quick tables), its cohort, and the attacks' tables."""

    run: Run
    corpus: Corpus
    audit: StoredAudit


@dataclass(frozen=True)
class Summary:
    """One summary table. `needs` names tables of the audit; if one of them is empty, there is no summary."""

    name: str
    columns: dict[str, str]  # column → pandas dtype
    needs: tuple[str, ...]
    make: Callable[[Audited], pd.DataFrame]
    headline: str = ""  # condition (DataFrame.query) for the rows that the command line prints; JSON has all
    from_metrics: bool = False  # also reads the run's metrics table, so it is outdated when that changes
    version: int = 1  # raise it when code changes the content: stored tables are then computed again
    version_imported: int = 0  # of runs on imported notes, where a later change concerned these alone

    def version_for(self, run: Run) -> int:
        """Version of the table that is computed now for this run."""
        return max(self.version, self.version_imported) if run.spec.corpus.imported is not None else self.version

    def frame(self, audited: Audited) -> pd.DataFrame | None:
        """The table with its columns in order, or None if a table that it needs is empty."""
        if any(audited.audit.table(name).empty for name in self.needs):
            return None
        return self.make(audited)[list(self.columns)].astype(self.columns).reset_index(drop=True)
