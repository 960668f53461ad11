"""An upload with a run on it, without a training: the files of a run of the smoke cohort are taken for it."""

from __future__ import annotations

import shutil
from pathlib import Path

from core.corpus.importing.importer import import_notes
from core.corpus.synthetic.hospital import build
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.uploads.deletion import keep
from core.runs.uploads.records import Upload
from core.spec import CORPUS_PRESETS, RunSpec

OWNER = "session-ada"
CODE = "ABCD-EFGH-JKMN-PQRS-TVWX"


def bring(root: Path, *, name: str = "ward 7", without: int = 0) -> Upload:
    """OWNER's upload in the data folder `root`: the notes of the smoke cohort, without the first few."""
    notes = build(CORPUS_PRESETS["smoke"]).notes
    file = root.parent / "notes.csv"
    notes[notes["split"] != "canary"][["patient_id", "text"]][without:].to_csv(file, index=False)
    made = root / "made"
    made.mkdir(parents=True)
    import_notes(file, made, owner=OWNER)
    return keep(Workspace(root, shared=()), made, owner=OWNER, name=name, code=CODE)


def give(root: Path, source: Path, spec: RunSpec, *, name: str = "ward 7") -> tuple[Upload, Run]:
    """OWNER's upload in the data folder `root`, and the run `spec` of `source` as if it was trained on that upload."""
    workspace, upload = Workspace(root, shared=()), bring(root, name=name)
    work = workspace.begin(spec.model_copy(update={"corpus": upload.spec}))
    for path in (source / "runs" / spec.run_id).iterdir():
        if path.name not in ("spec.json", "checksums.json"):
            shutil.copytree(path, work / path.name) if path.is_dir() else shutil.copy(path, work / path.name)
    return upload, workspace.complete(work)
