"""After a deletion nothing of it is in any process's memory, also where it was being read that very moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.jobs import task
from core.runs import store
from core.runs.events import read_status
from core.runs.store import CohortGone, Workspace
from core.runs.uploads.deletion import delete, keep
from core.serving.server import Server
from core.serving.streams import ServingError
from core.spec import CORPUS_PRESETS, CorpusSpec, RunSpec


class Slow:
    """A load that waits in its middle: `begun` is set when it is there, `go_on` lets it end."""

    def __init__(self, load: Callable) -> None:
        self.load, self.begun, self.go_on = load, threading.Event(), threading.Event()

    def __call__(self, *arguments):
        loaded = self.load(*arguments)
        self.begun.set()
        assert self.go_on.wait(60)
        return loaded


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "data", shared=())


@pytest.fixture
def upload(workspace: Workspace, tmp_path: Path) -> CorpusSpec:
    cohort = build(CORPUS_PRESETS["smoke"])
    spec = cohort.spec.model_copy(update={"imported": cohort.content_id("ada")})
    (tmp_path / "made").mkdir()
    Corpus(spec, cohort.patients, cohort.notes, cohort.canaries).write(tmp_path / "made")
    return keep(workspace, tmp_path / "made", owner="ada", name="ward 7").spec


@pytest.fixture(autouse=True)
def nothing_in_memory() -> None:
    """Other tests of this process read the same cohort in their own folders."""
    store._corpora.clear()


def in_memory(spec: CorpusSpec) -> bool:
    return any(digest == spec.digest() for _, digest in store._corpora)


def test_a_cohort_that_was_being_read_when_it_was_deleted_is_not_kept(workspace, upload, monkeypatch):
    slow = Slow(Corpus.read)
    monkeypatch.setattr(Corpus, "read", slow)
    ended: list[object] = []

    def look() -> None:
        try:
            ended.append(workspace.corpus(upload))
        except CohortGone as error:
            ended.append(str(error))

    reader = threading.Thread(target=look)
    reader.start()
    assert slow.begun.wait(60)
    assert delete(workspace, upload.digest())
    slow.go_on.set()
    reader.join(60)
    assert ended == ["The notes of this cohort have just been deleted."] and not in_memory(upload)


def test_a_worker_keeps_no_imported_cohort_after_its_job(workspace, upload, monkeypatch):
    synthetic = CORPUS_PRESETS["smoke"]
    held: list[bool] = []

    def made(spec: RunSpec, own: Workspace, **_: object) -> None:
        own.corpus(spec.corpus)
        own.corpus(synthetic)
        held.append(in_memory(upload))
        raise ValueError("it fails, too")

    monkeypatch.setattr(task, "execute", made)
    spec = RunSpec(corpus=upload)
    submitted = read_status(workspace.begin(spec)).submitted
    assert task.make_run(spec.model_dump_json(), str(workspace.root), (), submitted)[0] == "failed"
    assert held == [True] and not in_memory(upload) and in_memory(synthetic)


def test_a_cohort_that_another_process_deleted_is_dropped(workspace, upload):
    workspace.corpus(upload)
    workspace.forget_imported(gone=True)
    assert in_memory(upload), "it is still there"
    import shutil

    shutil.rmtree(workspace.root / "corpora" / upload.digest())
    workspace.forget_imported(gone=True)
    assert not in_memory(upload)


def test_a_model_that_was_being_loaded_when_its_run_was_deleted_is_not_kept():
    slow = Slow(lambda: SimpleNamespace(model=SimpleNamespace(eval=lambda: None)))
    server = Server(SimpleNamespace(run=lambda run_id: SimpleNamespace(model=slow, weights_identity=None)))
    ended: list[object] = []

    def load() -> None:
        try:
            ended.append(server._model("gpt2-000000000000"))
        except ServingError as error:
            ended.append(str(error))

    loader = threading.Thread(target=load)
    loader.start()
    assert slow.begun.wait(60)
    assert server.loaded() == {"gpt2-000000000000"}, "whoever unloads what another process deleted asks for these"
    server.forget("gpt2-000000000000")
    slow.go_on.set()
    loader.join(60)
    assert ended == ["Run gpt2-000000000000 has just been deleted."] and not server._models
    assert server._model("gpt2-000000000000") and server._models, "a run of that name may be made again"
