"""Runs on disk: whole or absent, listed whatever lies about, and never outside their folder."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.__main__ import main
from core.corpus.tables import Corpus
from core.pipeline.training_run import execute
from core.runs import run as run_files
from core.runs.integrity.disk import DiskFull, full_disk_as_sentence
from core.runs.integrity.whole import note_damage
from core.runs.run import Run, RunBroken, RunNotFound, RunUnread, _opened, check_run_id
from core.runs.store import Workspace
from core.runs.tables import SCHEMAS, TableMissing, read_table, write_table
from core.spec import CORPUS_PRESETS, RunSpec


@pytest.fixture
def copied(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    shutil.copytree(smoke_workspace, tmp_path / "data")
    return Workspace(tmp_path / "data", shared=())


def test_runs_are_listed_newest_first_and_one_is_found_by_its_spec(
    copied: Workspace, smoke_specs: dict[str, RunSpec]
) -> None:
    runs = copied.runs()
    finished = [run.status.finished for run in runs]
    assert len(runs) == 3 and finished == sorted(finished, reverse=True)
    assert copied.find(smoke_specs["dp"]).id == smoke_specs["dp"].run_id
    assert (
        copied.find(
            smoke_specs["dp"].model_copy(update={"audit": smoke_specs["dp"].audit.model_copy(update={"seed": 1})})
        )
        is None
    )


def test_a_run_is_read_once_and_again_when_one_of_its_files_changes(
    copied: Workspace, smoke_specs: dict[str, RunSpec]
) -> None:
    name = smoke_specs["plain"].run_id
    first = copied.run(name)
    assert copied.run(name) is first
    (first.folder / "status.json").touch()
    assert copied.run(name) is not first and copied.run(name).status == first.status
    scores = first.folder / "tables" / "scores.parquet"
    note_damage(scores, SCHEMAS["scores"].names, "is damaged (a reader found it)")  # the file itself is as it was
    with pytest.raises(RunBroken, match="a reader found it"):
        copied.run(name)
    scores.write_bytes(scores.read_bytes())
    assert copied.run(name).status == first.status
    shutil.rmtree(first.folder)
    with pytest.raises(RunNotFound):
        copied.run(name)
    with pytest.raises(RunBroken):
        Run.open(first.folder)
    assert not any(folder == first.folder for folder, _ in _opened), "nothing remembers a run that is gone"


@pytest.mark.parametrize("missing", ["spec.json", "status.json", "tables/scores.parquet", "tables/metrics.parquet"])
def test_a_run_that_lacks_a_file_is_a_sentence_not_a_crash(
    copied: Workspace, smoke_specs: dict[str, RunSpec], missing: str
) -> None:
    broken = smoke_specs["plain"].run_id
    (copied.root / "runs" / broken / missing).unlink()
    assert broken not in [run.id for run in copied.runs()] and len(copied.runs()) == 2
    (problem,) = copied.problems()
    assert broken in problem and missing in problem
    with pytest.raises(RunBroken, match=broken):
        copied.run(broken)


def test_damaged_files_and_strangers_are_problems_too(copied: Workspace, smoke_specs: dict[str, RunSpec]) -> None:
    runs = copied.root / "runs"
    (runs / smoke_specs["plain"].run_id / "spec.json").write_text("{ not json")
    shutil.copytree(runs / smoke_specs["dp"].run_id, runs / "gpt2-000000000000")  # the spec of another run
    (runs / "holiday photos").mkdir()
    assert len(copied.runs()) == 2 and len(copied.problems()) == 3


def test_a_damaged_table_and_privacy_file_name_run_and_file(copied: Workspace, smoke_specs: dict[str, RunSpec]) -> None:
    run = copied.run(smoke_specs["dp"].run_id)
    (run.folder / "tables" / "hits.parquet").write_bytes(b"PAR1 nonsense")
    with pytest.raises(TableMissing, match=rf"{run.id}.*hits\.parquet"):
        run.table("hits")
    (run.folder / "privacy.json").write_text('{"unit": "ward"}')
    with pytest.raises(RunBroken, match=r"privacy\.json"):
        _ = run.privacy
    (run.folder / "model" / "model.safetensors").unlink()
    assert not run.has_model
    with pytest.raises(RunBroken, match="no weights"):
        run.model()


def test_a_run_that_the_system_does_not_read_is_a_sentence_and_is_not_made_again(
    copied: Workspace, smoke_specs: dict[str, RunSpec], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    spec = smoke_specs["plain"]
    file = copied.root / "runs" / spec.run_id / "spec.json"
    _opened.clear()

    def refused(folder: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(file))

    monkeypatch.setattr(run_files, "read_stored_spec", refused)  # whoever runs the tests may read everything
    for use in (lambda: copied.run(spec.run_id), lambda: copied.find(spec), lambda: execute(spec, copied)):
        with pytest.raises(RunUnread, match=rf"{spec.run_id} cannot be read at the moment.*spec\.json: permission"):
            use()
    with pytest.raises(RunBroken):
        copied.run(spec.run_id)
    with pytest.raises(OSError):  # as before it had a name
        copied.run(spec.run_id)
    assert main(["prompt", spec.run_id, "Patient:", "--data", str(copied.root)]) == 1, (
        "the run may be sound, and the id is right"
    )
    assert "permission denied" in capsys.readouterr().err
    shutil.rmtree(file.parents[0])
    with pytest.raises(RunNotFound):
        copied.run(spec.run_id)


@given(st.text())
def test_no_name_leaves_the_folder(name: str) -> None:
    try:
        accepted = check_run_id(name)
    except RunNotFound as error:
        assert len(str(error)) < 250
    else:
        assert "/" not in accepted and "." not in accepted


@pytest.mark.parametrize("name", ["../../etc", "gpt2-0123456789ab/..", "gpt2-0123456789ab\n", "gpt2-0123456789AB", "."])
def test_escapes_are_refused(tmp_path: Path, name: str) -> None:
    workspace = Workspace(tmp_path, shared=())
    for use in (workspace.run, workspace.work, workspace.lock_file):
        with pytest.raises(RunNotFound):
            use(name)


def test_shipped_runs_are_read_and_ones_own_hide_them(
    smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    workspace = Workspace(tmp_path, shared=[smoke_workspace])
    assert len(workspace.runs()) == 3 and all(run.shipped for run in workspace.runs())
    assert execute(smoke_specs["dp"], workspace).shipped, "a shipped run is not made again"
    workspace.corpus(CORPUS_PRESETS["smoke"])
    assert list(tmp_path.iterdir()) == [], "a shipped cohort is not stored again"
    run_id = smoke_specs["dp"].run_id
    shutil.copytree(smoke_workspace / "runs" / run_id, tmp_path / "runs" / run_id)
    assert not workspace.run(run_id).shipped and len(workspace.runs()) == 3


def test_a_cohort_is_the_same_from_memory_disk_and_anew(tmp_path: Path) -> None:
    spec = CORPUS_PRESETS["smoke"].model_copy(update={"seed": 11})
    looked = Workspace(tmp_path / "a", shared=()).corpus(spec, store=False)
    assert not (tmp_path / "a").exists()
    stored = Workspace(tmp_path / "a", shared=()).corpus(spec)
    assert stored is looked and (tmp_path / "a" / "corpora" / spec.digest()).is_dir()
    read = Corpus.read(tmp_path / "a" / "corpora" / spec.digest())
    other = Workspace(tmp_path / "b", shared=()).corpus(spec)
    pd.testing.assert_frame_equal(read.patients, other.patients)
    assert read.notes["text"].tolist() == other.notes["text"].tolist()
    assert read.spec == spec


def test_an_incomplete_cohort_is_made_again(tmp_path: Path) -> None:
    spec = CORPUS_PRESETS["smoke"].model_copy(update={"seed": 12})
    folder = tmp_path / "corpora" / spec.digest()
    folder.mkdir(parents=True)
    (folder / "notes.parquet").write_bytes(b"cut off")
    assert len(Workspace(tmp_path, shared=()).corpus(spec).notes) == len(Corpus.read(folder).notes) > 0


@pytest.mark.parametrize("moment", ["a table", "the weights", "every file"])
def test_a_full_disk_is_a_sentence_and_leaves_no_half_run(
    copied: Workspace, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    spec = smoke_spec(epochs=1, seed=21)

    def full(*_: object, **__: object) -> None:
        if moment == "the weights":  # safetensors says it in words only
            raise RuntimeError(f"I/O error: {os.strerror(errno.ENOSPC)} (os error 28)")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch, pytest.raises(DiskFull, match="disk is full"):
        patch.setattr(
            "core.pipeline.training_run.write_table"
            if moment != "the weights"
            else "core.models.build.LanguageModel.save",
            full,
        )
        if moment == "every file":
            patch.setattr("core.runs.events.replace_text", full)
        execute(spec, copied)
    assert copied.find(spec) is None and spec.run_id not in os.listdir(copied.root / "runs")
    assert copied.work(spec.run_id).exists() == (moment != "every file")


def test_only_a_full_disk_is_called_full(tmp_path: Path) -> None:
    with pytest.raises(PermissionError), full_disk_as_sentence("it", tmp_path):
        raise PermissionError(errno.EACCES, "no")


def test_tables_keep_their_schema(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="surprise"):
        write_table(tmp_path, "hits", pd.DataFrame({"surprise": [1]}))
    assert list(tmp_path.iterdir()) == []
    for name, schema in SCHEMAS.items():
        write_table(tmp_path, name, pd.DataFrame())
        assert list(read_table(tmp_path, name, "r").columns) == schema.names
    with pytest.raises(TableMissing, match=r"Run r lacks its file tables/scores\.parquet"):
        read_table(tmp_path / "elsewhere", "scores", "r")
    rows = [{"step": 1, "loss": 2.0, "canary_exposure": {}}, {"step": 2, "loss": None, "canary_exposure": {"C1": 1.5}}]
    write_table(tmp_path, "history", pd.DataFrame(rows))
    history = read_table(tmp_path, "history", "r")
    assert history["canary_exposure"].tolist() == [None, {"C1": 1.5}] and history["epsilon"].isna().all()
