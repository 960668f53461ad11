"""`python -m core verify --repair`: rebuild what can be derived, move away what cannot, and invent nothing.

Metrics and model card are computed from the other tables of a run, a synthetic cohort from its spec. Everything else
that is damaged is moved to `damaged/` in the data folder, where it can be inspected, and is made again on request.
"""

from __future__ import annotations

from pathlib import Path

from core.corpus.tables import Corpus
from core.pipeline.derived import DERIVED, differing, rebuild
from core.pipeline.full_audit import outdate_figures
from core.runs.events import EVENTS_FILE
from core.runs.integrity.checksums import FILE as CHECKSUMS
from core.runs.integrity.checksums import take
from core.runs.integrity.verify import Damage, put_aside
from core.runs.run import RunBroken, read_spec
from core.runs.store import Workspace
from core.runs.uploads.records import damaged_records, put_aside_damaged
from core.spec import CorpusSpec


def repair(damage: Damage, workspace: Workspace) -> str:
    """Repair something damaged or move it away; returns a sentence about what was done, or why nothing could be."""
    if damage.shipped:
        return "Nothing was done: shipped files are read-only. Install the software again."
    match damage.kind:
        case "run":
            return _run(damage, workspace)
        case "audit":
            return _audit(damage, workspace)
        case "cohort":
            return _cohort(damage, workspace)
        case "upload":
            moved = put_aside_damaged(workspace.root)
            done = f"Moved away: {len(moved)}. Their notes are shown to nobody and deleted when their time is over."
            return " ".join([done, *damaged_records(workspace.root, aside=False)])
    return "Nothing was done: a ledger is never changed. Restore the file from a backup."


def _run(damage: Damage, workspace: Workspace) -> str:
    done = []
    left = set(damage.files)
    if EVENTS_FILE in left:  # the log only shows how training went, and nothing is computed from it
        if (damage.folder / EVENTS_FILE).exists():
            put_aside(workspace, damage.folder / EVENTS_FILE)
        left.discard(EVENTS_FILE)
        done.append(f"{EVENTS_FILE} was moved to damaged/; the run works without it")
    if CHECKSUMS in left:
        left.discard(CHECKSUMS)
        done.append("checksums were computed again: the files can be read, but nothing is left to compare them with")
    if left and left <= DERIVED:
        try:
            rebuild(damage.folder, workspace)
            outdate_figures(workspace.run(damage.name), workspace)
        except (RunBroken, ValueError, LookupError, OSError) as error:
            return f"{_run_aside(damage, workspace)} It could not be rebuilt: {error}"
        done.append(_compared(damage.folder, left))
    elif left:
        return f"{_run_aside(damage, workspace)} To get the run back, train it again."
    take(damage.folder, read_spec(damage.folder).corpus)
    return f"{'; '.join(done)}.".replace(".;", ";")


def _run_aside(damage: Damage, workspace: Workspace) -> str:
    """Move a run away, with its audit if training it again gives another model."""
    audit = workspace.audit(damage.name).folder
    along = audit.exists() and _is_another_when_trained_again(damage.folder)
    said = _aside(damage, workspace)
    if not along:
        return said
    return f"{said} Its audit is about this model alone and was moved to {put_aside(workspace, audit)}."


def _is_another_when_trained_again(folder: Path) -> bool:
    """Whether the run's noise was secret; also if its spec cannot tell any more."""
    try:
        return read_spec(folder).secret_noise
    except RunBroken:
        return True


def _compared(folder: Path, files: set[str]) -> str:
    differ = differing(folder)
    named = " and ".join(sorted(files))
    if differ is None:
        return f"{named} was computed again from the run's other tables; there are no checksums to compare it with"
    if differ:
        return (
            f"{named} was computed again from the run's other tables. Its bytes differ from those that were written: "
            "another version of the software wrote them"
        )
    return f"{named} was computed again from the run's other tables and is identical to what was written"


def _audit(damage: Damage, workspace: Workspace) -> str:
    return f"{_aside(damage, workspace)} Audit the run again: `python -m core audit {damage.name} --suite full`."


def _cohort(damage: Damage, workspace: Workspace) -> str:
    try:
        spec = CorpusSpec.model_validate_json((damage.folder / "spec.json").read_bytes())
    except (OSError, ValueError):
        spec = None
    if spec is None or spec.digest() != damage.name:
        return f"{_aside(damage, workspace)} A synthetic cohort is made again when it is needed."
    aside = _aside(damage, workspace)
    if spec.imported is not None:
        return f"{aside} Import the notes again."
    workspace.forget(damage.name)
    made: Corpus = workspace.corpus(spec)
    return f"{aside} It was made again from its spec: {len(made.notes):,} notes."


def _aside(damage: Damage, workspace: Workspace) -> str:
    return f"Moved to {put_aside(workspace, damage.folder)}."
