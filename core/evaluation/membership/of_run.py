"""Membership figures of a run, whichever tables it has: its scores, or the figures kept by a run with figures only."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from core.attacks.membership.decision import LOSS
from core.evaluation.membership.best_attack import LEVEL, decisions
from core.evaluation.membership.strongest_attack import Strongest, scores_of, strongest
from core.evaluation.stats.bootstrap import Interval
from core.runs.audits import StoredAudit
from core.runs.run import Run
from core.spec import Unit

# Rows of the table `membership` with each measure of `core.evaluation.membership.strongest_attack`: rule and metric.
_ROWS: Mapping[str, tuple[str, str]] = {
    "auc": ("", "auc"),
    "members_caught": ("ROC 10 %", "true_positive_rate"),
    "privacy_leakage": ("own", "privacy_leakage"),
}


def strongest_on(run: Run, audit: StoredAudit | None) -> Strongest | None:
    """The attack with the highest AUC by patient; with figures only, or no audit, the quick audit's loss attack."""
    return stored(run, "auc") if run.figures_only else strongest(scores_of(run, audit), "auc")


def decisions_on(run: Run, audit: StoredAudit, unit: Unit) -> pd.DataFrame:
    """`core.evaluation.membership.best_attack.decisions` of a run."""
    if run.figures_only:
        return decisions(run.table("membership"), pd.DataFrame(), unit, seed=run.spec.audit.seed)
    return decisions(audit.table("membership"), run.table("scores"), unit, seed=run.spec.audit.seed)


def notes_judged(run: Run) -> int:
    """Number of notes that the quick audit's loss attack scored; 0 if a run with figures only did not keep it."""
    if run.figures_only:
        found = stored(run, "auc", "note")
        return 0 if found is None else found.patients
    return int((run.table("scores")["attack"] == LOSS).sum())


def stored(run: Run, measure: str, unit: Unit = "patient") -> Strongest | None:
    """A measure of the loss attack that a run with figures only kept; None if it could not be computed.

    For the unit note, `patients` is the number of notes.
    """
    rule, metric = _ROWS[measure]
    rows = run.table("membership")
    rows = rows[(rows["level"] == LEVEL[unit]) & (rows["length"] == "all") & (rows["rule"] == rule)]
    rows = rows[(rows["metric"] == metric) & rows["value"].notna()]
    if rows.empty:
        return None
    row = rows.iloc[0]
    found = Interval.of(row)
    return Strongest(LOSS, found, 1, int(row["n"]), found.high)
