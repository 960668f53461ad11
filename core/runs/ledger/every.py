"""All ledgers of a data folder, also of cohorts that have no run any more."""

from __future__ import annotations

from collections.abc import Iterator

from core.common.folders import folders_in
from core.runs.ledger.entries import Ledger, LedgerBroken, Release
from core.runs.store import Workspace


def ledgers(workspace: Workspace) -> Iterator[Ledger]:
    """Every ledger with an entry, also of a cohort without a run, as far as the workspace's viewer may see the cohort.

    Raises:
        LedgerBroken: The first entry of a ledger is damaged, so it is unknown what the ledger is about.
    """
    for folder in folders_in(workspace.root / "ledger"):
        if not (entries := sorted(folder.glob("[0-9]*.json"))):
            continue
        try:
            corpus = Release.model_validate_json(entries[0].read_bytes()).corpus
        except (OSError, ValueError):
            raise LedgerBroken(f"The ledger's entry {entries[0]} is damaged. Restore the file from a backup.") from None
        if workspace.shows(corpus):
            yield Ledger.of(workspace, corpus)
