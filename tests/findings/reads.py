"""Records what a claim's measure reads of stored runs, to compare it with the claim's needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from core.evaluation.sweep import limit_measures
from core.findings.claim import Claim
from core.findings.measures import references, tables
from core.findings.needs import Need
from core.findings.shipping import TEXTS
from core.findings.stored_runs import CANARIES, StoredRuns
from core.pipeline.full_audit import SUMMARY
from core.runs.audits import StoredAudit
from core.runs.figures_only import LEFT_OUT
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.tables import UTILITY
from core.spec import RunSpec


@dataclass
class Reads:
    """What was read: runs, their large tables, texts and answers, tables of audits, shadow models, measured tables.

    `audited` has, for each reading of an audit, the run and the attacks that wrote what was read. `queried` has all
    attacks whose files were offered to a query, which reads some of them.
    """

    runs: set[str] = field(default_factory=set)
    large: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    utility: set[str] = field(default_factory=set)
    canaries: set[str] = field(default_factory=set)
    audited: set[tuple[str, frozenset[str]]] = field(default_factory=set)
    queried: set[tuple[str, str]] = field(default_factory=set)
    shadows: set[str] = field(default_factory=set)
    measured: set[tuple[str, str]] = field(default_factory=set)


@contextmanager
def recorded() -> Iterator[Reads]:
    """Record everything that is read within the block."""
    reads = Reads()
    with pytest.MonkeyPatch.context() as patch:
        _watch_runs(patch, reads)
        _watch_audits(patch, reads)
        yield reads


def _watch_runs(patch: pytest.MonkeyPatch, reads: Reads) -> None:
    found, table, measured, losses, made = (
        StoredRuns.run,
        Run.table,
        StoredRuns.measured,
        limit_measures.heldout_losses,
        references.made,
    )

    def of_run(self: StoredRuns, spec: RunSpec) -> Run:
        run = found(self, spec)
        reads.runs.add(run.id)
        return run

    def of_table(self: Run, name: str) -> object:
        if name in (*LEFT_OUT, CANARIES):
            single = {UTILITY: reads.utility, CANARIES: reads.canaries, **dict.fromkeys(TEXTS, reads.texts)}
            single.get(name, reads.large).add(self.id)
        return table(self, name)

    def of_measured(self: StoredRuns, spec: RunSpec, name: str) -> object:
        reads.measured.add((self.run(spec).id, name))
        return measured(self, spec, name)

    def of_losses(run: Run, summed: bool) -> object:
        """Runs with figures only have sums by patient, so nothing large is needed for these."""
        before = set(reads.large)
        rows = losses(run, summed)
        reads.large = before
        return rows

    def of_shadows(spec: RunSpec, workspace: Workspace) -> object:
        reads.shadows.add(spec.run_id)
        return made(spec, workspace)

    patch.setattr(StoredRuns, "run", of_run)
    patch.setattr(Run, "table", of_table)
    patch.setattr(StoredRuns, "measured", of_measured)
    patch.setattr(tables, "heldout_losses", of_losses)
    patch.setattr(references, "made", of_shadows)


def _watch_audits(patch: pytest.MonkeyPatch, reads: Reads) -> None:
    table, table_of, files = StoredAudit.table, StoredAudit.table_of, StoredAudit.files

    def of_table(self: StoredAudit, name: str) -> object:
        wrote = {one.attack for one in self.outcomes().values() if one.state == "done" and name in one.tables}
        reads.audited.add((self.run_id, frozenset(wrote)))
        return table(self, name)

    def of_attack(self: StoredAudit, attack: str, name: str) -> object:
        rows = table_of(self, attack, name)
        if rows is not None:
            reads.audited.add((self.run_id, frozenset({attack})))
        return rows

    def of_files(self: StoredAudit, name: str) -> object:
        found = files(self, name)
        reads.queried |= {(self.run_id, attack) for attack in found}
        return found

    patch.setattr(StoredAudit, "files", of_files)
    patch.setattr(StoredAudit, "table", of_table)
    patch.setattr(StoredAudit, "table_of", of_attack)


def undeclared(claim: Claim, reads: Reads, runs: StoredRuns) -> list[str]:
    """What was read and is not among the claim's needs, a sentence each."""
    needs = _by_id(claim, runs)
    found = [f"{run} is read" for run in sorted(reads.runs - set(needs))]
    large = sorted(run for run in reads.large if run in needs and not needs[run].scores)
    found += [f"a large table of {run} is read" for run in large]
    for what in ("texts", "utility", "canaries"):
        read = sorted(getattr(reads, what))
        found += [f"{what} of {run} are read" for run in read if run in needs and not getattr(needs[run], what)]
    queried = {run for run, _ in reads.queried} & set(needs)
    found += [f"of the audit of {run}, a query reads" for run in sorted(queried) if not needs[run].audit]
    found += [
        f"of the audit of {run}, a table by {', '.join(sorted(wrote))} is read"
        for run, wrote in reads.audited
        if run in needs and not wrote & set(needs[run].audit)
    ]
    found += [f"shadow models of {run} are read" for run in reads.shadows if run in needs and not needs[run].shadows]
    found += [
        f"“{name}” of {run} is read"
        for run, name in sorted(reads.measured)
        if run in needs and name not in needs[run].measured
    ]
    return found


def unread(claim: Claim, reads: Reads, runs: StoredRuns) -> list[str]:
    """What is among the claim's needs and was not read, a sentence each.

    Attacks beside a summary that is read are left out: they say which attacks it rests on.
    """
    found = []
    for run, need in _by_id(claim, runs).items():
        wrote = {name for audited, names in reads.audited if audited == run for name in names}
        wrote |= {name for audited, name in reads.queried if audited == run}
        found += [f"{run} is not read"] if run not in reads.runs else []
        found += [f"no large table of {run} is read"] if need.scores and run not in reads.large else []
        wanted = [what for what in ("texts", "utility", "canaries") if getattr(need, what)]
        found += [f"{what} of {run} are not read" for what in wanted if run not in getattr(reads, what)]
        summed = any(name.startswith(SUMMARY) for name in wrote & set(need.audit))
        found += [f"nothing by “{name}” of {run} is read" for name in need.audit if name not in wrote and not summed]
        found += [f"shadow models of {run} are not read"] if need.shadows and run not in reads.shadows else []
        found += [f"“{name}” of {run} is not read" for name in need.measured if (run, name) not in reads.measured]
    return found


def _by_id(claim: Claim, runs: StoredRuns) -> dict[str, Need]:
    """The claim's needs by the id of the stored run; several of one run together."""
    found: dict[str, Need] = {}
    for need in claim.needs:
        run = runs.find(need.spec)
        assert run is not None, f"{claim.id} needs {need.spec.run_id}, which is not there"
        found[run.id] = found.get(run.id, Need(need.spec)).with_all_of(need)
    return found
