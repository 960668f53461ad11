"""Tables computed from what the attacks of an audit wrote: the list that `core.pipeline.full_audit` works through.

Attacks measure (scores, ranks, hits); summaries judge (AUC, rates, bounds, each with its interval). They are made of
the stored tables alone: anew after every attack that was run, and by the next audit when their version was raised.
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
    """What a summary is made from: the run (spec, mechanism, quick tables), its cohort, and what the attacks wrote."""

    run: Run
    corpus: Corpus
    audit: StoredAudit


@dataclass(frozen=True)
class Summary:
    """One summary table. `needs` are tables of the audit: while one of them is empty, there is no summary."""

    name: str
    columns: dict[str, str]  # column → pandas dtype
    needs: tuple[str, ...]
    make: Callable[[Audited], pd.DataFrame]
    headline: str = ""  # a condition (DataFrame.query) on the rows that the command line prints; JSON has them all
    from_metrics: bool = False  # made of the run's metrics table, too: outdated when that is made again
    version: int = 1  # raise it when code changes what the table says: stored ones are then made again

    def frame(self, audited: Audited) -> pd.DataFrame | None:
        """The table with its columns in order, or None when something it needs is not there."""
        if any(audited.audit.table(name).empty for name in self.needs):
            return None
        return self.make(audited)[list(self.columns)].astype(self.columns).reset_index(drop=True)
