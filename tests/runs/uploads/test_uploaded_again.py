"""The same notes uploaded again by their owner while the earlier upload is being deleted, or was to be."""

from __future__ import annotations

import shutil
import threading

import pytest

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.runs.store import Workspace
from core.runs.uploads import deletion
from core.runs.uploads.deletion import delete, keep
from core.runs.uploads.records import Upload, due, record_file, uploads
from core.spec import CORPUS_PRESETS


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(tmp_path / "data", shared=())


@pytest.fixture
def upload(workspace, tmp_path):
    """Uploads the same small cohort each time it is called."""
    made = build(CORPUS_PRESETS["smoke"])
    spec = made.spec.model_copy(update={"imported": made.content_id("ada")})
    Corpus(spec, made.patients, made.notes, made.canaries).write(tmp_path / "notes")

    def put() -> Upload:
        imported = workspace.root / "uploads" / "made"
        return keep(workspace, shutil.copytree(tmp_path / "notes", imported), owner="ada", name="ward 7")

    return put


def test_what_is_uploaded_during_a_deletion_stays(workspace, upload, monkeypatch):
    first, set_aside, again = upload(), deletion._set_aside, threading.Thread(target=upload)

    def meanwhile(root, digest):
        again.start()
        again.join(0.5)
        return set_aside(root, digest)

    monkeypatch.setattr(deletion, "_set_aside", meanwhile)
    assert delete(workspace, first.digest)
    again.join(30)
    assert [one.digest for one in uploads(workspace.root, "ada")] == [first.digest]
    assert Workspace(workspace.root, shared=(), viewer="ada").corpus(first.spec).notes.shape[0] > 0


def test_what_is_uploaded_before_its_earlier_upload_is_cleared_away_stays(workspace, upload, monkeypatch):
    first = upload()
    overdue = due(workspace.root, now=first.expires)
    upload()
    assert overdue == [first.digest] and delete(workspace, first.digest, only_if_due=True)
    assert record_file(workspace.root, first.digest).exists() and workspace.corpus_folder(first.spec) is not None
    monkeypatch.setattr("core.runs.uploads.records.time.time", lambda: first.expires + 60)
    assert delete(workspace, first.digest, only_if_due=True)
    assert not record_file(workspace.root, first.digest).exists() and workspace.corpus_folder(first.spec) is None
