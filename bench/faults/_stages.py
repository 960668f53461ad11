"""Stages of work on a store that are interrupted, and what is looked at in the store afterwards."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.faults import _store
from core.spec import CORPUS_PRESETS, ModelSpec, VocabularySpec

CORPUS = CORPUS_PRESETS["smoke"]
WORDS = {"model": ModelSpec(kind="distilbert"), "vocabulary": VocabularySpec(epsilon=2.0, pieces=64)}
SPEC = _store.spec_of(CORPUS, 8.0).model_copy(update=WORDS)
PLAIN = _store.spec_of(CORPUS)
ATTACKS = ("loss", "zlib", "prefix")
VARYING = {"status.json", "events.jsonl", "checksums.json", "README.md", "attacks.json"}  # hold times
Work = Callable[[Path], None]


@dataclass(frozen=True)
class Stage:
    """Work on a store, and what it needs there before."""

    name: str
    work: Work
    before: Work | None = None


# The stages ----------------------------------------------------------------------------------------------------------


def _workspace(root: Path) -> Any:
    from core.runs.store import Workspace

    return Workspace(root, shared=())


def _cohort(root: Path) -> None:
    _workspace(root).corpus(CORPUS)


def _train(root: Path) -> None:
    from core.pipeline.training_run import execute

    execute(SPEC, _workspace(root))


def _train_plain(root: Path) -> None:
    from core.pipeline.training_run import execute

    execute(PLAIN, _workspace(root))


def _audit(root: Path) -> None:
    from core.pipeline.full_audit import audit

    workspace = _workspace(root)
    stored = audit(workspace.run(PLAIN.run_id), workspace, attacks=list(ATTACKS))
    failed = [one for one in stored.outcomes().values() if one.state == "failed"]
    if failed:
        raise RuntimeError(f"{failed[0].attack}: {failed[0].message}")


def _release(root: Path) -> None:
    """As the command does: a release that is there already is not entered again."""
    from core.runs.ledger.entries import Ledger

    ledger = Ledger.of(_workspace(root), CORPUS)
    if not any(one.name == PLAIN.run_id for one in ledger.releases()):
        _store.enter_release(root, _workspace(root).run(PLAIN.run_id))


def _notes(root: Path) -> None:
    """A file of notes beside the store."""
    from core.corpus.synthetic.hospital import build

    root.mkdir(parents=True, exist_ok=True)
    notes = build(CORPUS).notes
    notes[notes["split"] != "canary"][["patient_id", "note_type", "text"]].to_csv(source(root), index=False)


def source(root: Path) -> Path:
    return root.with_name(f"{root.name}.csv")


def _import(root: Path) -> None:
    from core.cli.import_notes import new_folder
    from core.corpus.importing.importer import import_notes

    out = root / "imported"
    if not out.exists():
        with new_folder(out, private=True) as beside:
            import_notes(source(root), beside, seed=0)


def _made(root: Path) -> None:
    _notes(root)
    _import(root)


def _keep(root: Path) -> None:
    """Take over an upload, as a page does after the check, and only if it is not there yet."""
    from core.runs.integrity.disk import full_disk_as_sentence
    from core.runs.uploads.deletion import keep
    from core.runs.uploads.records import uploads

    workspace = _workspace(root)
    if any(workspace.corpus_folder(one.spec) for one in uploads(root)):
        return
    copy = Path(tempfile.mkdtemp(prefix="again-", dir=root)) / "cohort"
    with full_disk_as_sentence("the cohort", root):  # as the import task does
        shutil.copytree(root / "imported", copy)
    keep(workspace, copy, owner="session-ada", name="ward.csv")
    shutil.rmtree(copy.parent, ignore_errors=True)


STAGES = (
    Stage("cohort", _cohort),
    Stage("training, attacks, publishing", _train),
    Stage("audit", _audit, _train_plain),
    Stage("ledger", _release, _train_plain),
    Stage("import", _import, _notes),
    Stage("upload", _keep, _made),
)


# What came of faults --------------------------------------------------------------------------------------------------


@dataclass
class Found:
    """What came of the kills of one stage; `stages` counts them by what was under way, where that is known."""

    kills: int = 0
    endings: int = 0
    stages: dict[str, int] = field(default_factory=dict)
    half_written: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)

    def end(self, what: str, now: dict[str, str], known: dict[str, str]) -> bool:
        """Count work that was done to its end. Returns whether its `contents` equal the uninterrupted ones."""
        changed = [name for name in sorted({*now, *known}) if now.get(name) != known.get(name)]
        self.endings += 1
        self.differs += [f"{what}: {name}" for name in changed]
        return not changed


def copy_store(before: Path, to: Path) -> None:
    """A copy of the store, with the file of notes beside it."""
    shutil.copytree(before, to)
    if source(before).exists():
        shutil.copy(source(before), source(to))


# What is in a store --------------------------------------------------------------------------------------------------


def visible(root: Path) -> list[str]:
    """What pages and `verify` find wrong with the store."""
    from core.runs.integrity.verify import damages
    from core.runs.ledger.entries import Ledger
    from core.runs.uploads.records import uploads

    workspace = _workspace(root)
    found = [*workspace.problems(), *(line for one in damages(workspace) for line in one.sentences())]
    for run in workspace.runs():
        run.table("metrics")
    names = [one.name for one in Ledger.of(workspace, CORPUS).releases()]
    found += [f"{name} was released {times} times" for name, times in Counter(names).items() if times > 1]
    owners = [one.digest for one in uploads(root)]
    found += [f"upload {name} is there {times} times" for name, times in Counter(owners).items() if times > 1]
    out = root / "imported"
    if out.exists() and not all((out / name).exists() for name in ("spec.json", "notes.parquet", "patients.parquet")):
        found.append("an import is half-written")
    return found


def contents(root: Path) -> dict[str, str]:
    """SHA-256 of every file whose bytes the work determines, by path; and ε and releases by their values."""
    from core.runs.ledger.entries import Ledger
    from core.runs.uploads.records import uploads

    workspace = _workspace(root)
    found = {}
    for place in ("runs", "audits", "corpora", "imported"):
        for path in sorted((root / place).rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
            if path.is_file() and path.name not in VARYING and not hidden:
                found[str(path.relative_to(root))] = _sha(path)
    for run in workspace.runs():
        for outcome in workspace.audit(run.id).outcomes().values():
            found[f"{outcome.attack} on {run.id}"] = f"{outcome.state} {outcome.message}"
        if run.privacy is not None:
            found[f"ε of {run.id}"] = repr(run.privacy.epsilon())
    for one in Ledger.of(workspace, CORPUS).releases():
        found[f"release {one.number}"] = f"{one.name} {one.reason}"
    for upload in uploads(root):
        found[f"upload {upload.digest}"] = upload.owner
    for path in (root / "work").glob("*/"):
        found[f"left in {path.relative_to(root)}"] = "a folder"
    return found


def _sha(path: Path) -> str:
    if path.name == "history.parquet":  # has the seconds of each epoch
        import pyarrow.parquet as pq

        frame = pq.read_table(path).to_pandas()
        frame = frame[[name for name in frame.columns if "second" not in name and "time" not in name]]
        return hashlib.sha256(frame.to_csv(index=False).encode()).hexdigest()
    return hashlib.sha256(path.read_bytes()).hexdigest()
