"""A record of an upload that cannot be read harms nobody else's, shows its notes to nobody, and keeps none of them."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.pipeline.repair import repair
from core.runs.integrity.verify import damages
from core.runs.lock import held
from core.runs.store import Workspace
from core.runs.uploads.deletion import delete, keep
from core.runs.uploads.records import damaged_records, due, put_aside_damaged, uploads
from core.spec import CORPUS_PRESETS, RunSpec

HOUR = 3600.0


def changed(**fields: object) -> Callable[[Path], None]:
    """Damage that sets these fields of a record."""
    return lambda path: path.write_text(json.dumps(json.loads(path.read_text()) | fields))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:100]),
    "zero bytes": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "no text": lambda path: path.write_bytes(b"\xff\xfe\x00garbage"),
    "no object": lambda path: path.write_text("[]"),
    "an unknown field": changed(colour="green"),
    "a time in words": changed(expires="soon"),
    "no end": lambda path: path.write_text(path.read_text().replace('"expires": ', '"expires": 1e999, "was": ')),
    "another's name": changed(digest="0" * 12),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "data", shared=())


@pytest.fixture
def upload(workspace: Workspace, tmp_path: Path) -> Callable[[str], str]:
    """Uploads the smoke cohort as somebody's: `upload("ada")` is its digest."""

    def made(owner: str) -> str:
        cohort = build(CORPUS_PRESETS["smoke"])
        spec = cohort.spec.model_copy(update={"imported": cohort.content_id(owner)})
        folder = tmp_path / owner
        folder.mkdir()
        Corpus(spec, cohort.patients, cohort.notes, cohort.canaries).write(folder)
        return keep(workspace, folder, owner=owner, name=f"notes of {owner}").digest

    return made


def record_of(workspace: Workspace, digest: str) -> Path:
    return workspace.root / "uploads" / f"{digest}.json"


def spec_of(workspace: Workspace, digest: str):
    return Corpus.read(workspace.root / "corpora" / digest).spec


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_record_is_left_out_named_and_put_aside(workspace, upload, damage, monkeypatch, caplog):
    bad, good = upload("ada"), upload("bob")
    spec = spec_of(workspace, bad)
    DAMAGE[damage](record_of(workspace, bad))
    monkeypatch.setenv("PHILAB_SHOW_IMPORTED", "1")

    def nobody_sees_it() -> bool:
        return not any(Workspace(workspace.root, (), viewer=who).shows(spec) for who in ("ada", "bob", "eve"))

    assert [one.digest for one in uploads(workspace.root)] == [good] and nobody_sees_it()
    (told,) = damaged_records(workspace.root)
    assert f"{bad}.json" in told and told in workspace.problems()
    assert "ada" not in told.replace(str(workspace.root), ""), "the record's content is nobody's business"
    with caplog.at_level(logging.WARNING):
        assert len(put_aside_damaged(workspace.root)) == 1
    assert f"{bad}.json" in caplog.text and not record_of(workspace, bad).exists()
    assert (workspace.root / "uploads" / "damaged" / f"{bad}.json").exists() and nobody_sees_it()
    assert any(f"{bad}.json" in problem for problem in workspace.problems())
    assert not put_aside_damaged(workspace.root) and [one.digest for one in uploads(workspace.root)] == [good]


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], contextlib.AbstractContextManager[None]]:
    """While `with unread(path):` the system cannot read that file, as when a process has too many files open."""
    whole = Path.read_bytes

    @contextlib.contextmanager
    def of(path: Path) -> Iterator[None]:
        def read(one: Path) -> bytes:
            if one == path:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(one))
            return whole(one)

        with monkeypatch.context() as failing:
            failing.setattr(Path, "read_bytes", read)
            yield

    return of


def test_a_record_that_could_not_be_read_for_a_moment_stays_its_owner_s(workspace, upload, unread):
    kept, other = upload("ada"), upload("bob")
    spec, record = spec_of(workspace, kept), record_of(workspace, kept)
    with unread(record):
        assert put_aside_damaged(workspace.root) == [] and record.exists()
        assert [one.digest for one in uploads(workspace.root)] == [other]
        (told,) = damaged_records(workspace.root)
        assert f"{kept}.json" in told and os.strerror(errno.EMFILE) in told
        (damage,) = [one for one in damages(workspace) if one.kind == "upload"]
        assert repair(damage, workspace) == (
            f"Moved away: 0. Their notes are shown to nobody and deleted when their time is over. {told}"
        )
    assert [one.digest for one in uploads(workspace.root, "ada")] == [kept]
    assert Workspace(workspace.root, (), viewer="ada").shows(spec) and not damaged_records(workspace.root)


def test_an_upload_whose_record_cannot_be_read_is_deleted_all_the_same(workspace, upload, unread):
    bad, good = upload("ada"), upload("bob")
    work = workspace.begin(RunSpec(corpus=spec_of(workspace, bad)))
    record = record_of(workspace, bad)
    with unread(record), held(workspace.lock_file(work.name), should_stop=lambda: False):
        assert bad in due(workspace.root, (workspace.root / "corpora" / bad).stat().st_mtime + 24 * HOUR)
        assert not delete(workspace, bad), "a job works on it"
    assert [one.digest for one in uploads(workspace.root)] == [good], "nobody sees it again"
    assert bad in due(workspace.root) and delete(workspace, bad) and not work.exists()
    assert bad not in due(workspace.root, 4e9) and not damaged_records(workspace.root)


@pytest.mark.parametrize("aside", [False, True])
def test_deletion_goes_on_and_takes_the_cohort_without_a_record_when_its_folder_is_old(workspace, upload, aside):
    bad, good = upload("ada"), upload("bob")
    expires = uploads(workspace.root, "bob")[0].expires
    work = workspace.begin(RunSpec(corpus=spec_of(workspace, bad)))
    workspace.corpus(spec_of(workspace, bad))
    record_of(workspace, bad).write_bytes(b"")
    if aside:
        put_aside_damaged(workspace.root)
    folder = workspace.root / "corpora" / bad
    brought = folder.stat().st_mtime
    assert good in due(workspace.root, expires), "one bad record must not keep the others"
    assert not due(workspace.root, brought + 23.9 * HOUR) and bad in due(workspace.root, brought + 24 * HOUR)
    assert delete(workspace, bad)
    assert good in due(workspace.root, expires) and bad not in due(workspace.root, 4e9)
    assert not folder.exists() and not work.exists() and not damaged_records(workspace.root)
    assert [one.digest for one in uploads(workspace.root)] == [good]


def test_a_cohort_whose_record_is_gone_is_nobodys_and_does_not_stay(workspace, upload, monkeypatch):
    lost = upload("ada")
    spec = spec_of(workspace, lost)
    record_of(workspace, lost).unlink()
    monkeypatch.setenv("PHILAB_SHOW_IMPORTED", "1")
    assert not Workspace(workspace.root, (), viewer="eve").shows(spec)
    long_ago = (workspace.root / "corpora" / lost).stat().st_mtime - 25 * HOUR
    os.utime(workspace.root / "corpora" / lost, (long_ago, long_ago))
    assert due(workspace.root) == [lost] and delete(workspace, lost)
    assert not (workspace.root / "corpora" / lost).exists() and not due(workspace.root)


def test_notes_of_the_command_line_are_never_due(workspace, monkeypatch):
    cohort = build(CORPUS_PRESETS["smoke"])
    spec = cohort.spec.model_copy(update={"imported": cohort.content_id()})
    workspace.add(Corpus(spec, cohort.patients, cohort.notes, cohort.canaries))
    assert not due(workspace.root, 4e9)
    assert delete(workspace, spec.digest()) and workspace.corpus_folder(spec) is not None


def test_a_wrong_setting_does_not_stop_deletion(workspace, upload, monkeypatch):
    bad, good = upload("ada"), upload("bob")
    record_of(workspace, bad).write_bytes(b"")
    monkeypatch.setenv("PHILAB_UPLOAD_HOURS", "for ever")
    assert set(due(workspace.root, 4e9)) == {bad, good}
