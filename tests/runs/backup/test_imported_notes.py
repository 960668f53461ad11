"""Imported notes in archives: on request alone, private everywhere, and never beyond the time that was promised."""

from __future__ import annotations

import shutil
import time
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.runs.backup.exporting import ExportRefused, export
from core.runs.backup.importing import Outcome, import_archive
from core.runs.store import Workspace
from core.runs.uploads.deletion import delete
from core.runs.uploads.records import due, record_file, uploads, write_record
from core.spec import CORPUS_PRESETS
from tests.runs.backup.conftest import contents, rewritten


def test_nothing_of_them_is_exported_unless_it_is_asked_for(uploaded, tmp_path) -> None:
    (upload,), (run,) = uploads(uploaded.root), uploaded.runs()
    done = export(uploaded, tmp_path / "a.zip")
    assert done.items == [] and done.private == 3, "the record, the cohort and the run"
    with zipfile.ZipFile(tmp_path / "a.zip") as zipped:
        assert zipped.namelist() == ["manifest.json"]
        assert upload.digest.encode() not in zipped.read("manifest.json")
    with pytest.raises(ExportRefused, match="only with --uploads"):
        export(uploaded, tmp_path / "b.zip", runs=[run.id])
    assert not (tmp_path / "b.zip").exists()


def test_they_come_back_private_and_their_owner_s(uploaded, empty, tmp_path) -> None:
    export(uploaded, tmp_path / "a.zip", uploads=True)
    assert (tmp_path / "a.zip").stat().st_mode & 0o077 == 0
    assert {one.outcome for one in import_archive(empty, tmp_path / "a.zip")} == {"imported"}
    assert contents(empty.root, "runs", "corpora") == contents(uploaded.root, "runs", "corpora")
    assert uploads(empty.root) == uploads(uploaded.root)
    (run,) = empty.runs()
    for folder in (run.folder, empty.corpus_folder(run.spec.corpus), empty.root / "uploads"):
        assert all(path.stat().st_mode & 0o077 == 0 for path in [folder, *folder.rglob("*")])
    assert Workspace(empty.root, shared=(), viewer="session-bob").runs() == []
    assert [one.id for one in Workspace(empty.root, shared=(), viewer="session-ada").runs()] == [run.id]
    (upload,) = uploads(empty.root)
    assert delete(empty, upload.digest) and not contents(empty.root)


def test_an_upload_whose_time_is_over_does_not_come_back(uploaded, empty, tmp_path, monkeypatch) -> None:
    export(uploaded, tmp_path / "a.zip", uploads=True)
    (upload,) = uploads(uploaded.root)
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 25 * 3600)
    for dry_run in (True, False):
        done = import_archive(empty, tmp_path / "a.zip", dry_run=dry_run)
        assert {one.outcome for one in done} == {"refused"}
        assert "had to be deleted by now" in done[0].why and all("time is over" in one.why for one in done[1:])
    assert not contents(empty.root) and upload.expires < now + 25 * 3600


def test_an_upload_without_its_record_is_neither_exported_nor_imported(uploaded, empty, tmp_path) -> None:
    (upload,) = uploads(uploaded.root)
    export(uploaded, tmp_path / "a.zip", uploads=True)
    record = f"uploads/{upload.digest}/record.json"
    forged = rewritten(tmp_path / "a.zip", tmp_path / "b.zip", lambda entries: entries.pop(record) and None)
    assert {one.outcome for one in import_archive(empty, forged)} == {"refused"} and not contents(empty.root)
    shutil.rmtree(uploaded.root / "uploads")
    done = export(uploaded, tmp_path / "c.zip", uploads=True)
    assert done.items == [] and all("nothing says until when it may be kept" in one for one in done.problems)


@pytest.mark.parametrize("file", ["corpora/0123456789ab/spec.json", "ledger/0123456789ab/0001.json"])
def test_settings_that_are_nested_too_deeply_may_be_of_imported_notes(empty, tmp_path, file) -> None:
    damaged = empty.root / file
    damaged.parent.mkdir(parents=True)
    damaged.write_text("[" * 100_000, encoding="utf-8")
    done = export(empty, tmp_path / "a.zip")
    assert (done.items, done.private) == ([], 1), "the rest can still be exported"


def reference(workspace: Workspace, digest: str) -> str:
    """Adds a reference model of these notes, and returns its path in the data folder."""
    folder = workspace.root / "references" / digest / "gpt2-0123456789ab"
    folder.mkdir(parents=True)
    save_file({"w": np.ones(4, np.float32)}, folder / "model.safetensors")
    return str(folder.relative_to(workspace.root))


def twice(workspace: Workspace, archive: Path) -> dict[str, Outcome]:
    """The outcomes of an import, by path, after a dry run with the same ones."""
    dry, done = (
        {one.path: one.outcome for one in import_archive(workspace, archive, dry_run=dry)} for dry in (True, False)
    )
    assert dry == done
    return done


def test_reference_models_of_an_upload_come_back_with_its_record_and_go_with_it(uploaded, empty, tmp_path) -> None:
    (upload,) = uploads(uploaded.root)
    model = reference(uploaded, upload.digest)
    export(uploaded, tmp_path / "a.zip", uploads=True)
    assert twice(empty, tmp_path / "a.zip")[model] == "imported" and (empty.root / model).is_dir()
    assert due(empty.root, upload.expires) == [upload.digest]
    assert delete(empty, upload.digest) and not contents(empty.root)


def test_reference_models_of_an_upload_whose_time_is_over_do_not_come_back(
    uploaded, empty, tmp_path, monkeypatch
) -> None:
    (upload,) = uploads(uploaded.root)
    model = reference(uploaded, upload.digest)
    export(uploaded, tmp_path / "a.zip", uploads=True)
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 25 * 3600)
    assert twice(empty, tmp_path / "a.zip")[model] == "refused" and not contents(empty.root)


@pytest.mark.parametrize("state", ["being deleted", "damaged", "gone"])
def test_reference_models_of_an_upload_without_a_sound_record_stay_out(uploaded, tmp_path, state) -> None:
    (upload,) = uploads(uploaded.root)
    model, record = reference(uploaded, upload.digest), record_file(uploaded.root, upload.digest)
    export(uploaded, tmp_path / "a.zip", uploads=True)
    match state:
        case "being deleted":
            write_record(uploaded.root, replace(upload, leaving=True))
        case "damaged":
            record.write_bytes(b"")
        case "gone":
            record.unlink()
    done = export(uploaded, tmp_path / "b.zip", uploads=True)
    assert done.items == []
    assert any(one.startswith(model) and "may still be kept" in one for one in done.problems)
    if state != "gone":  # then the archive has what is missing here
        shutil.rmtree(uploaded.root / model)
        assert twice(uploaded, tmp_path / "a.zip")[model] == "refused" and not (uploaded.root / model).exists()


def test_reference_models_of_notes_imported_by_command_come_back_with_their_cohort(empty, tmp_path) -> None:
    made = build(CORPUS_PRESETS["smoke"])
    spec = made.spec.model_copy(update={"imported": made.content_id()})
    here = Workspace(tmp_path / "here", shared=())
    here.add(Corpus(spec, made.patients, made.notes, made.canaries))
    model, cohort = reference(here, spec.digest()), f"corpora/{spec.digest()}"
    export(here, tmp_path / "a.zip", uploads=True)
    assert twice(empty, tmp_path / "a.zip") == {cohort: "imported", model: "imported"}
    other = Workspace(tmp_path / "other", shared=())

    def without_the_cohort(entries: dict[str, bytes]) -> None:
        for name in [name for name in entries if name.startswith(cohort)]:
            del entries[name]

    alone = rewritten(tmp_path / "a.zip", tmp_path / "b.zip", without_the_cohort)
    assert twice(other, alone) == {model: "refused"}
    shutil.rmtree(here.root / cohort)
    assert not export(here, tmp_path / "c.zip", uploads=True).items


def test_other_notes_under_an_upload_s_id_are_refused(uploaded, empty, tmp_path) -> None:
    (upload,) = uploads(uploaded.root)
    export(uploaded, tmp_path / "a.zip", uploads=True)
    record = f"uploads/{upload.digest}/record.json"

    def forge(entries: dict[str, bytes]) -> None:
        entries[record] = entries[record].replace(b"session-ada", b"session-bob")

    done = import_archive(empty, rewritten(tmp_path / "a.zip", tmp_path / "b.zip", forge))
    (cohort,) = [one for one in done if one.path.startswith("corpora")]
    assert cohort.outcome == "refused" and "not those that its settings give" in cohort.why
