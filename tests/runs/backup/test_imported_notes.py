"""Imported notes in archives: on request alone, private everywhere, and never beyond the time that was promised."""

from __future__ import annotations

import shutil
import time
import zipfile

import pytest

from core.runs.backup.exporting import ExportRefused, export
from core.runs.backup.importing import import_archive
from core.runs.store import Workspace
from core.runs.uploads.deletion import delete
from core.runs.uploads.records import uploads
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


def test_other_notes_under_an_upload_s_id_are_refused(uploaded, empty, tmp_path) -> None:
    (upload,) = uploads(uploaded.root)
    export(uploaded, tmp_path / "a.zip", uploads=True)
    record = f"uploads/{upload.digest}/record.json"

    def forge(entries: dict[str, bytes]) -> None:
        entries[record] = entries[record].replace(b"session-ada", b"session-bob")

    done = import_archive(empty, rewritten(tmp_path / "a.zip", tmp_path / "b.zip", forge))
    (cohort,) = [one for one in done if one.path.startswith("corpora")]
    assert cohort.outcome == "refused" and "not those that its settings give" in cohort.why
