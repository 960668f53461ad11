"""A data folder with one of everything that an archive may hold, and tools to look at it and to damage archives."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from core.corpus.importing.importer import import_notes
from core.corpus.synthetic.hospital import build
from core.pipeline.full_audit import audit, target_of
from core.pipeline.shadows import train_shadows
from core.runs.integrity.checksums import take
from core.runs.ledger.entries import Ledger
from core.runs.store import Workspace
from core.runs.uploads.deletion import keep
from core.spec import CORPUS_PRESETS, RunSpec

SMOKE = CORPUS_PRESETS["smoke"]


def contents(root: Path, *kinds: str) -> dict[str, str]:
    """SHA-256 of every file that is not hidden, by its path in the data folder; of these kinds, or of all."""
    files = [path for path in root.rglob("*") if path.is_file()]
    named = {str(path.relative_to(root)): path for path in files}
    wanted = {name: path for name, path in named.items() if not any(part.startswith(".") for part in name.split("/"))}
    return {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in wanted.items()
        if not kinds or name.split("/")[0] in kinds
    }


def rewritten(archive: Path, to: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A copy of an archive whose entries were changed, with a manifest that fits them: as somebody may forge it."""
    with zipfile.ZipFile(archive) as zipped:
        entries = {name: zipped.read(name) for name in zipped.namelist()}
    manifest = json.loads(entries.pop("manifest.json"))
    change(entries)
    for item in manifest["items"]:
        path = f"{item['kind']}/{item['name']}/"
        item["files"] = {
            name.removeprefix(path): {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in entries.items()
            if name.startswith(path)
        }
    manifest["items"] = [item for item in manifest["items"] if item["files"]]
    with zipfile.ZipFile(to, "w") as zipped:
        for name, content in entries.items():
            zipped.writestr(name, content)
        zipped.writestr("manifest.json", json.dumps(manifest))
    return to


@pytest.fixture(scope="session")
def full_folder(made_once, smoke_workspace: Path, smoke_specs: dict[str, RunSpec], mark_secret) -> Path:
    """The smoke runs, an audit with reference models, a shadow model, a ledger, and work in progress. Read-only."""

    def make(root: Path) -> None:
        shutil.copytree(smoke_workspace, root, dirs_exist_ok=True)
        workspace, dp = Workspace(root, shared=()), smoke_specs["dp"]
        mark_secret(root, dp)
        take(root / "runs" / dp.run_id, dp.corpus)
        run = workspace.run(dp.run_id)
        audit(run, workspace, attacks=["loss", "ratio population"])
        plain = workspace.run(smoke_specs["plain"].run_id)
        train_shadows(target_of(plain, workspace), workspace, 1)
        ledger = Ledger.of(workspace, dp.corpus)
        ledger.enter(ledger.draft_run(run, "for a class"))
        work = workspace.begin(dp.model_copy(update={"training": dp.training.model_copy(update={"seed": 7})}))
        (work / "noise.key").write_bytes(b"k" * 32)
        (root / "signed-out").mkdir()
        (root / "signed-out" / ("0" * 64)).touch()
        (root / "classes").mkdir(exist_ok=True)  # a test of the pages may have opened a class
        (root / "classes" / "rooms.sqlite").write_bytes(b"who joined, and their votes")

    return made_once("full", make)


@pytest.fixture
def full(full_folder: Path, tmp_path: Path) -> Workspace:
    """A copy of `full_folder` to change."""
    return Workspace(shutil.copytree(full_folder, tmp_path / "full"), shared=())


@pytest.fixture
def empty(tmp_path: Path) -> Workspace:
    """A data folder that does not exist yet."""
    return Workspace(tmp_path / "empty", shared=())


@pytest.fixture
def uploaded(tmp_path: Path, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]) -> Workspace:
    """A data folder with an upload of `session-ada`, a run on it, and a ledger of it."""
    notes = build(SMOKE).notes
    notes[notes["split"] != "canary"][["patient_id", "text"]].to_csv(tmp_path / "notes.csv", index=False)
    workspace = Workspace(tmp_path / "uploaded", shared=())
    made = workspace.root / "made"
    made.mkdir(parents=True)
    import_notes(tmp_path / "notes.csv", made, owner="session-ada")
    upload = keep(workspace, made, owner="session-ada", name="ward 7", code="0123")
    spec = smoke_specs["plain"].model_copy(update={"corpus": upload.spec})
    work = workspace.begin(spec)
    for path in (smoke_workspace / "runs" / smoke_specs["plain"].run_id).iterdir():
        if path.name not in ("spec.json", "checksums.json"):
            shutil.copytree(path, work / path.name) if path.is_dir() else shutil.copy(path, work / path.name)
    workspace.complete(work)
    return workspace
