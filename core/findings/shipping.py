"""Copies what the stored evidence rests on to `assets/findings`: runs that are not whole in the demonstration.

They are kept apart, so that the pickers of the pages do not list two epochs, tiny noise and template notes beside the
runs that the pages compare.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from core.common.files import make_folder, replaced
from core.common.folders import building
from core.demo.export import copy_run, publish_packed, thinned
from core.findings.claim import Claim
from core.findings.from_weights.tables import FOLDER, file_of
from core.findings.needs import Need, together
from core.findings.stored_runs import CANARIES, SHIPPED, StoredRuns, wrote
from core.pipeline.full_audit import SUMMARY
from core.pipeline.shadows import folder_name, made
from core.runs.card import CARD_FILE
from core.runs.figures_only import leave_out
from core.runs.run import Run
from core.runs.store import DEMO, Workspace
from core.runs.tables import FIGURES_ONLY_FILE, UTILITY, read_table, write_table

TEXTS = ("generations", "hits")  # the texts that a model wrote, and what was found in them
SCORES = "scores"  # of single notes
UNREAD = (
    "split_scores",
)  # of an audit, which no claim reads: white-box attacks fitted on other fifths of the patients
EXAMPLES = ("examples", "example_hits")  # the same of a few attempts, in runs with figures only


def ship(claims: Iterable[Claim], workspace: Workspace, out: Path = SHIPPED) -> list[str]:
    """Copy the finished runs of the data folder that claims need and that are not shipped yet. Returns their ids.

    A run goes without its weights, and with scores of notes, answers to tasks, losses of canaries and texts that its
    model wrote only if a claim reads them; an audit with the tables that claims read; and shadow models with what they
    say of the notes, which is all that is kept of them. Tables from a run's weights go also where the run is shipped
    already.
    """
    here, shipped = StoredRuns(Workspace(workspace.root, shared=())), StoredRuns(Workspace(out, shared=(DEMO,)))
    claims, shipping = list(claims), []
    read = _read_in_full(claims)
    lacking = [need for claim in claims for need in claim.needs if not shipped.has(need)]
    there = [need for need in lacking if here.has(need)]  # one claim's needs may be here while another's are not
    for need in together(there):
        run = here.run(need.spec)
        _copy(run, shipped.find(need.spec), out, need)
        if need.audit:
            _copy_audit(need, run, workspace, out, read[need.spec.run_id])
        if need.shadows:
            _copy_shadows(need, here.workspace, out)
        _copy_measured(need, run.id, workspace, out)
        shipping.append(run.id)
    for need in together(need for need in lacking if need not in there and shipped.has(need.of_the_run())):
        if _copy_measured(need, shipped.run(need.spec).id, workspace, out):
            shipping.append(shipped.run(need.spec).id)
    return list(dict.fromkeys(shipping))


def _copy(run: Run, known: Run | None, out: Path, need: Need) -> None:
    """Copy a run without its weights; one that is there with fewer tables makes room for one with more.

    `known` is the run of this spec that is shipped already, here or in the demonstration. A copy comes before the
    demonstration's for claims and never has fewer tables, or claims that read scores would no longer find them.
    """
    final, tables = out / "runs" / run.id, need.scores or need.utility or need.texts
    whole = known is not None and not known.figures_only
    worded = known is not None and wrote(known)
    answered, planted = (known is not None and known.has_table(name) for name in (UTILITY, CANARIES))
    enough = (whole or not tables) and (worded or not need.texts)
    enough = enough and (answered or not need.utility) and (planted or not need.canaries)
    if known is not None and enough and (final.exists() or known.training == run.training):
        return
    with building(final.parent, private=False) as beside:
        copy_run(run, beside / run.id, weights=False, tables=tables or whole)
        (beside / run.id / CARD_FILE).unlink()  # says what the tables say, and no page shows these runs
        stored = beside / run.id / "tables"
        if (beside / run.id / FIGURES_ONLY_FILE).exists():
            for name in ("history", "membership"):  # no claim reads single steps, or figures of one resampling
                leave_out(beside / run.id, name)
            if not (need.canaries or planted):
                leave_out(beside / run.id, CANARIES)
        else:
            write_table(stored, "history", thinned(read_table(stored, "history", run.id)))
        if not (need.utility or answered):
            (stored / f"{UTILITY}.parquet").unlink(missing_ok=True)
        if run.spec.corpus.is_public_text or not (need.texts or worded):
            # No claim reads them, or a model that read public text may have written some, which is not ours to keep.
            _empty(stored, (*TEXTS, *EXAMPLES), run.id)
        publish_packed(beside / run.id, final)


def _empty(tables: Path, names: Sequence[str], run_id: str) -> None:
    """Leave no row in these tables of a copy, as far as it has them."""
    for name in (one for one in names if (tables / f"{one}.parquet").exists()):
        write_table(tables, name, read_table(tables, name, run_id).iloc[:0])


def _read_in_full(claims: Iterable[Claim]) -> dict[str, set[str]]:
    """The attacks and summaries of each run, by its id, of which a claim reads the tables.

    A claim that names attacks and a summary reads the summary: a large table, such as the ranks of all conditions, is
    read by a claim that names its attack alone.
    """
    found: dict[str, set[str]] = defaultdict(set)
    for need in (need for claim in claims for need in claim.needs):
        summaries = {name for name in need.audit if name.startswith(SUMMARY)}
        found[need.spec.run_id] |= summaries or set(need.audit)
    return found


def _copy_audit(need: Need, run: Run, workspace: Workspace, out: Path, read: set[str]) -> None:
    """Copy how the attacks that claims name ended, with the tables of those in `read`. What is there already stays."""
    final, stored = out / "audits" / run.id, workspace.audit(run.id)
    there = replace(stored, folder=final, shared=())
    with building(final.parent, private=False) as beside:
        copy = replace(stored, folder=beside / run.id, shared=())
        known = there.outcomes()
        new = [name for name in need.audit if name not in known or (name in read and not known[name].tables)]
        for source, names in ((there, known.keys()), (stored, new)):
            for outcome in (source.outcomes()[name] for name in names):
                kept = [name for name in outcome.tables if name not in UNREAD]
                kept = kept if source is there or outcome.attack in read else []
                tables = {name: source.table_of(outcome.attack, name) for name in kept}
                found = {name: table for name, table in tables.items() if table is not None}
                if source is stored and SCORES in found:
                    found[SCORES] = _single(found[SCORES])
                copy.record(replace(outcome, tables=tuple(found)), found)
        publish_packed(beside / run.id, final)


def _single(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores in single precision, in which models compute: so they take half as much room."""
    return scores.assign(score=scores["score"].astype("float32").astype("float64"))


def _copy_shadows(need: Need, here: Workspace, out: Path) -> None:
    final = make_folder(out / "references" / folder_name(need.spec))
    for file in made(need.spec, here).values():
        with replaced(final / file.name) as unfinished:
            shutil.copyfile(file, unfinished)


def _copy_measured(need: Need, run_id: str, workspace: Workspace, out: Path) -> bool:
    """Copy the tables that were made from the run's weights in the data folder. Returns whether there were any."""
    here = Workspace(workspace.root, shared=())
    files = [file for name in need.measured if (file := file_of(run_id, name, here)) is not None]
    for file in files:
        with replaced(make_folder(out / FOLDER / run_id) / file.name) as unfinished:
            shutil.copyfile(file, unfinished)
    return bool(files)
