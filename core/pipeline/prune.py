"""Finds what a data folder could do without, and deletes it on request: `python -m core store prune`.

Nothing that cannot be made again is found unless it is asked for: finished figures, imported notes and ledgers never,
weights of runs only by name. The totals of a ledger need its entries and its cohort, so a cohort with a ledger stays,
and so do the weights of what was released.
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from core.common.folders import OLD, folders_in, remove
from core.pipeline import shadows
from core.pipeline.full_audit import target_of
from core.runs import noise_key
from core.runs.backup.kinds import is_name
from core.runs.events import read_status
from core.runs.integrity.checksums import Checksums
from core.runs.integrity.upkeep import DIGEST
from core.runs.ledger.every import ledgers
from core.runs.lock import held, in_use
from core.runs.run import RUN_ID, Run
from core.runs.store import CohortGone, Workspace
from core.runs.uploads.ownership import cohort_of
from core.spec import CorpusSpec

What = Literal["work", "checkpoints", "references", "cohorts", "weights"]
EVERYTHING: tuple[What, ...] = get_args(What)
USUAL: tuple[What, ...] = ("work", "checkpoints", "references", "cohorts")  # can be made again, or is of no use
DAYS = 30.0
DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class Prunable:
    """A folder that could be deleted, its size in bytes, what is lost with it, in words, and when it changed last."""

    what: What
    name: str
    folder: Path
    size: int
    why: str
    changed: float


def plan(
    workspace: Workspace, what: Collection[What] = USUAL, *, days: float = DAYS, waiting: Collection[str] = ()
) -> list[Prunable]:
    """Everything of these kinds that has not changed for `days` days, and that nothing else needs.

    `waiting` are the ids of runs in the queues of servers that live: their work stays.

    Raises:
        LedgerBroken: A ledger is damaged, so it is unknown what was released. Nothing may be deleted then.
    """
    before = time.time() - days * DAY_SECONDS
    released, cohorts = _released(workspace)
    finders: dict[What, Callable[[], Iterator[Prunable]]] = {
        "work": lambda: (one for one in _work(workspace) if one.name not in waiting),
        "checkpoints": lambda: _checkpoints(workspace),
        "references": lambda: _references(workspace),
        "cohorts": lambda: _cohorts(workspace, cohorts),
        "weights": lambda: _weights(workspace, released),
    }
    found = [one for kind in EVERYTHING if kind in what for one in finders[kind]()]
    old = [one for one in found if one.what == "checkpoints" or one.changed <= before]
    gone = {one.folder for one in old if one.what == "work"}
    return [one for one in old if one.folder.parent not in gone]


def prune(workspace: Workspace, planned: Collection[Prunable]) -> list[Prunable]:
    """Delete what was planned, and return what was deleted. What came into use meanwhile stays."""
    return [one for one in planned if _delete(workspace, one)]


# What could be deleted -----------------------------------------------------------------------------------------------


def _work(workspace: Workspace) -> Iterator[Prunable]:
    for folder in folders_in(workspace.root / "work"):
        if RUN_ID.fullmatch(folder.name) and not in_use(workspace.lock_file(folder.name)):
            status = read_status(folder)
            state = "interrupted" if status is None or status.state in ("queued", "running") else status.state
            yield _found("work", folder, f"{state} work: the run would have to begin again")


def _checkpoints(workspace: Workspace) -> Iterator[Prunable]:
    for folder in folders_in(workspace.root / "work"):
        trained = (folder / "tables" / "history.parquet").exists()  # written when the weights are on disk
        if trained and (folder / "checkpoint").is_dir() and not _at_work(workspace, folder):
            yield _found("checkpoints", folder / "checkpoint", "checkpoint of a training that is over", folder.name)


def _references(workspace: Workspace) -> Iterator[Prunable]:
    place = workspace.root / "references"
    there = [folder for folder in folders_in(place) if is_name("references", folder.name)]
    if not there:
        return
    runs = [run for run in workspace.runs() if run.spec.corpus.imported is None]
    needed = {shadows.folder_name(run.spec) for run in runs if not run.spec.is_base}
    if any(not folder.name.startswith("shadows-") for folder in there):
        needed |= _reference_names(workspace, runs)
    for folder in there:
        if folder.name not in needed and not any(in_use(lock) for lock in folder.glob(".*.lock")):
            yield _found("references", folder, "reference model that no run here needs")


def _reference_names(workspace: Workspace, runs: list[Run]) -> set[str]:
    from core.attacks.membership.reference import reference_names

    names: set[str] = set()
    for run in sorted(runs, key=lambda run: run.spec.corpus.digest()):  # each cohort is read once
        with suppress(CohortGone):
            names |= reference_names(target_of(run, workspace))
    return names


def _cohorts(workspace: Workspace, with_ledger: set[str]) -> Iterator[Prunable]:
    roots = (workspace.root, *workspace.shared)
    places = [folder for root in roots for part in ("runs", "work") for folder in folders_in(root / part)]
    needed = {about[0] for folder in places if (about := cohort_of(folder)) is not None} | with_ledger
    for folder in folders_in(workspace.root / "corpora"):
        if DIGEST.fullmatch(folder.name) and folder.name not in needed and _is_synthetic(folder):
            yield _found("cohorts", folder, "synthetic cohort without a run; it is generated again from its settings")


def _is_synthetic(folder: Path) -> bool:
    """Whether the same cohort can be generated again. Imported notes cannot: here is the only copy."""
    try:
        spec = CorpusSpec.model_validate_json((folder / "spec.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return spec.imported is None and spec.digest() == folder.name


def _weights(workspace: Workspace, released: set[str]) -> Iterator[Prunable]:
    for run in workspace.runs():
        kept = run.shipped or run.id in released or in_use(workspace.audit_lock_file(run.id))
        if not kept and (run.folder / "model").is_dir():
            again = "; nobody can train it again, because its noise was secret" if run.spec.secret_noise else ""
            why = f"the run keeps its figures, but can no longer be prompted or attacked{again}"
            yield _found("weights", run.folder / "model", why, run.id)


def _released(workspace: Workspace) -> tuple[set[str], set[str]]:
    """Names of everything that was released, and digests of the cohorts with a ledger. Raises LedgerBroken."""
    cohorts = {folder.name for folder in folders_in(workspace.root / "ledger")}
    names = {release.name for ledger in ledgers(workspace) for release in ledger.releases()}
    return names, cohorts


# Deleting ------------------------------------------------------------------------------------------------------------


def _delete(workspace: Workspace, one: Prunable) -> bool:
    """Delete a folder, unless a process has begun to use it. Whether it is gone."""
    match one.what:
        case "work":
            with held(workspace.lock_file(one.name), should_stop=lambda: True) as nobody_at_it:
                if nobody_at_it and _changed(one.folder) == one.changed:  # else it was submitted again, and waits
                    workspace.discard(one.folder)
        case "checkpoints":
            with held(workspace.lock_file(one.name), should_stop=lambda: True) as nobody_at_it:
                if nobody_at_it:
                    noise_key.destroy(one.folder.parent)
                    _remove_within(workspace.root / "work", one.folder)
        case "weights":
            with held(workspace.audit_lock_file(one.name), should_stop=lambda: True) as nobody_at_it:
                if nobody_at_it:
                    _forget_weights(workspace, one.folder)
        case _ if _changed(one.folder) == one.changed:
            remove(one.folder)
    return not one.folder.exists()


def _forget_weights(workspace: Workspace, model: Path) -> None:
    """Delete a run's model. Its checksums are without it first, so that the run is whole at every moment."""
    taken = Checksums.read(model.parent)
    if taken is not None:
        kept = {file: sha for file, sha in taken.sha256.items() if not file.startswith(f"{model.name}/")}
        taken.model_copy(update={"sha256": kept}).write(model.parent)
    _remove_within(workspace.root / "runs", model)


def _remove_within(place: Path, folder: Path) -> None:
    """Remove a folder, if it is there, by way of `place`, where the leftovers of a killed process are removed."""
    beside = place / f"{OLD}{secrets.token_hex(6)}"
    with suppress(FileNotFoundError):
        os.rename(folder, beside)
    shutil.rmtree(beside, ignore_errors=True)


def _at_work(workspace: Workspace, folder: Path) -> bool:
    return not RUN_ID.fullmatch(folder.name) or in_use(workspace.lock_file(folder.name))


def _found(what: What, folder: Path, why: str, name: str = "") -> Prunable:
    size, changed = 0, _changed(folder)
    with suppress(FileNotFoundError):  # it disappears at this moment; then it has also changed
        files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        for path in files:
            size += path.stat().st_size
    return Prunable(what, name or folder.name, folder, size, why, changed)


def _changed(folder: Path) -> float:
    """When anything in a folder last changed, in Unix seconds; now, if it disappears at this moment."""
    try:
        return max(path.lstat().st_mtime for path in [folder, *folder.rglob("*")])
    except FileNotFoundError:
        return time.time()
