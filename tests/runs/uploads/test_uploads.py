"""Uploaded cohorts: whose they are, how long they stay, and that nothing made from them is left."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.runs.audits import Outcome
from core.runs.integrity.checksums import take as take_checksums
from core.runs.integrity.disk import DiskFull
from core.runs.lock import held
from core.runs.run import RunNotFound
from core.runs.store import CohortGone, Workspace
from core.runs.uploads.deletion import MOST_UPLOADS, delete, keep, made_from, until_deleted
from core.runs.uploads.deletion_codes import matches, new_code
from core.runs.uploads.records import Upload, due, hours_kept, record_file, still_here, uploads, with_code, write_record
from core.spec import CORPUS_PRESETS, CorpusSpec, RunSpec

NEVER = {"should_stop": lambda: False}


@pytest.fixture
def brought() -> Corpus:
    """A small cohort that says it was imported."""
    made = build(CORPUS_PRESETS["smoke"])
    return Corpus(
        made.spec.model_copy(update={"imported": made.content_id("ada")}), made.patients, made.notes, made.canaries
    )


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(tmp_path / "data", shared=())


@pytest.fixture
def made(workspace, brought):
    """The folder that an import would have written it to."""
    folder = workspace.root / "uploads" / "made"
    folder.mkdir(parents=True)
    brought.write(folder)
    return folder


@pytest.fixture
def run_on(workspace, smoke_workspace, smoke_specs):
    """Puts a finished run on a cohort into the workspace: the tables of a smoke run under another spec."""

    def put(spec: CorpusSpec) -> RunSpec:
        run = smoke_specs["plain"].model_copy(update={"corpus": spec})
        folder = workspace.root / "runs" / run.run_id
        shutil.copytree(smoke_workspace / "runs" / smoke_specs["plain"].run_id, folder)
        (folder / "spec.json").write_text(run.model_dump_json(), encoding="utf-8")
        return run

    return put


def seen_by(workspace: Workspace, viewer: str) -> Workspace:
    return Workspace(workspace.root, shared=(), viewer=viewer)


def test_nobody_may_have_more_than_so_many_uploads(workspace, made):
    upload = keep(workspace, made, owner="ada", name="ward 7")

    def other(number: int, owner: str = "ada") -> None:
        spec = upload.spec.model_copy(update={"imported": f"{number:016x}"})
        write_record(workspace.root, replace(upload, digest=spec.digest(), spec=spec, owner=owner))

    for number in range(MOST_UPLOADS):
        other(number, "bob" if number == 3 else "ada")
    again = shutil.copytree(workspace.corpus_folder(upload.spec), made.parent / "again")
    assert keep(workspace, again, owner="ada", name="again").digest == upload.digest, "the same notes are no others"
    other(MOST_UPLOADS)
    with pytest.raises(ValueError, match="You have 10 sets of notes on this server already"):
        keep(workspace, again, owner="ada", name="once more")


def test_a_cohort_and_its_runs_are_there_for_their_owner_alone(workspace, brought, made, run_on):
    upload = keep(workspace, made, owner="ada", name="ward 7")
    private, public = run_on(brought.spec), run_on(CORPUS_PRESETS["smoke"])
    ada, bob = seen_by(workspace, "ada"), seen_by(workspace, "bob")
    assert ada.corpus(upload.spec).content_id() == brought.content_id()
    assert {run.id for run in ada.runs()} == {private.run_id, public.run_id} == {run.id for run in workspace.runs()}
    assert [run.id for run in bob.runs()] == [public.run_id] and bob.find(private) is None
    with pytest.raises(RunNotFound):
        bob.run(private.run_id)
    with pytest.raises(CohortGone, match="not here"):
        bob.corpus(upload.spec)
    assert [one.name for one in uploads(workspace.root, "ada")] == ["ward 7"] and not uploads(workspace.root, "bob")


def test_notes_of_the_command_line_are_shown_only_where_the_server_says_so(workspace, brought, monkeypatch):
    workspace.add(brought)
    monkeypatch.delenv("PHILAB_SHOW_IMPORTED", raising=False)
    assert not seen_by(workspace, "ada").shows(brought.spec) and workspace.shows(brought.spec)
    monkeypatch.setenv("PHILAB_SHOW_IMPORTED", "1")
    assert seen_by(workspace, "ada").shows(brought.spec)


def test_jobs_of_a_deleted_upload_are_nobodys(workspace, made, monkeypatch):
    """Where a server shows notes of commands, a deleted upload must not pass for one of them: the queue lists jobs."""
    upload = keep(workspace, made, owner="ada", name="ward 7")
    monkeypatch.setenv("PHILAB_SHOW_IMPORTED", "1")
    assert delete(workspace, upload.digest)
    assert not any(seen_by(workspace, who).shows(upload.spec) for who in ("ada", "bob"))


def test_deleting_leaves_nothing_made_from_the_notes(workspace, brought, made, run_on):
    upload = keep(workspace, made, owner="ada", name="ward 7")
    private, public = run_on(brought.spec), run_on(CORPUS_PRESETS["smoke"])
    workspace.begin(RunSpec(corpus=brought.spec))
    for folder in (workspace.audit(private.run_id).folder, workspace.references(brought.spec)):
        (folder / "deep").mkdir(parents=True)
    workspace.corpus(upload.spec)
    assert made_from(workspace, upload.digest) == [private.run_id]
    assert delete(workspace, upload.digest)
    assert [run.id for run in workspace.runs()] == [public.run_id] and not workspace.works()
    left = {path.name for path in workspace.root.rglob("*") if path.is_dir()}
    assert not {upload.digest, private.run_id} & left and not uploads(workspace.root)
    with pytest.raises(CohortGone):
        workspace.corpus(upload.spec)
    assert delete(workspace, upload.digest), "deleting what is gone is no error"


def test_what_a_killed_process_had_set_aside_goes_with_the_upload(workspace, brought, made, run_on):
    upload = keep(workspace, made, owner="ada", name="ward 7")
    run = run_on(brought.spec)
    folder = workspace.root / "runs" / run.run_id
    take_checksums(folder, brought.spec)
    places = [folder.parent, workspace.work(run.run_id).parent]  # what a killed removal leaves
    aside = [shutil.copytree(folder, place / ".old-0123456789ab") for place in places]
    assert made_from(workspace, upload.digest) == [run.run_id]
    assert delete(workspace, upload.digest)
    assert not any(one.exists() for one in (*aside, folder)) and not due(workspace.root)


def test_a_run_that_is_being_made_is_asked_to_stop_and_deleted_later(workspace, brought, made):
    upload = keep(workspace, made, owner="ada", name="ward 7")
    spec = RunSpec(corpus=brought.spec)
    work = workspace.begin(spec)
    with held(workspace.lock_file(spec.run_id), **NEVER):
        assert not delete(workspace, upload.digest)
        assert (work / "cancel").exists()
        assert not seen_by(workspace, "ada").shows(brought.spec) and not uploads(workspace.root, "ada")
        assert due(workspace.root) == [upload.digest]
    assert delete(workspace, upload.digest) and not workspace.works() and not due(workspace.root)


def test_what_an_audit_that_is_under_way_still_writes_is_deleted_too(workspace, brought, made, run_on):
    upload = keep(workspace, made, owner="ada", name="ward 7")
    run = run_on(brought.spec)
    audit = workspace.audit(run.run_id)
    audit.folder.mkdir(parents=True)
    with held(workspace.audit_lock_file(run.run_id), **NEVER):
        assert not delete(workspace, upload.digest)
        assert (audit.folder / "cancel").exists()
        assert not seen_by(workspace, "ada").runs()
        outcome = Outcome("loss", "done", 1.0, "", ("scores",), 1, 0.0)
        audit.record(outcome, {"scores": brought.notes[["note_id", "text"]]})  # its attack ends before it looks
    assert due(workspace.root) == [upload.digest] and delete(workspace, upload.digest)
    assert not audit.folder.exists() and not made_from(workspace, upload.digest) and not due(workspace.root)


@pytest.mark.parametrize("place", ["forget", "prove"])
def test_what_is_made_within_an_audit_at_this_moment_holds_its_deletion_back(workspace, brought, made, run_on, place):
    upload = keep(workspace, made, owner="ada", name="ward 7")
    run = run_on(brought.spec)
    audit = workspace.audit(run.run_id)
    inner = (audit.forgetting("P0001") if place == "forget" else audit.proving()).folder
    inner.mkdir(parents=True)
    with held(inner / ".lock", **NEVER):
        assert not delete(workspace, upload.digest)
        assert (inner / "cancel").exists() and due(workspace.root) == [upload.digest]
    assert delete(workspace, upload.digest)
    assert not inner.exists() and not made_from(workspace, upload.digest) and not due(workspace.root)


def test_no_record_is_left_of_notes_that_could_not_be_stored(workspace, made, monkeypatch):
    def broken(*arguments):
        raise ValueError("no folder of this disk")

    monkeypatch.setattr(Workspace, "adopt", broken)
    with pytest.raises(ValueError, match="no folder"):
        keep(workspace, made, owner="ada", name="ward 7")
    assert not uploads(workspace.root)


def test_what_is_past_its_time_is_due(workspace, made, monkeypatch):
    monkeypatch.setenv("PHILAB_UPLOAD_HOURS", "2")
    upload = keep(workspace, made, owner="ada", name="ward 7")
    assert upload.expires == pytest.approx(upload.uploaded + 7200)
    assert not due(workspace.root, upload.expires - 1) and due(workspace.root, upload.expires) == [upload.digest]
    monkeypatch.setenv("PHILAB_UPLOAD_HOURS", "for ever")
    with pytest.raises(ValueError, match="set it to a number of hours above 0"):
        hours_kept()


def test_only_imported_notes_with_an_owner_are_kept(workspace, made):
    with pytest.raises(ValueError):
        keep(workspace, made, owner="", name="x")
    build(CORPUS_PRESETS["smoke"]).write(made)
    with pytest.raises(ValueError):
        keep(workspace, made, owner="ada", name="x")
    assert not uploads(workspace.root)


def test_what_a_browser_session_left_goes_an_hour_after_it(workspace, made):
    upload = keep(workspace, made, owner="session-ada", name="ward 7")
    start, hour = upload.uploaded, 3600.0
    assert not due(workspace.root, start + 0.98 * hour) and due(workspace.root, start + 1.02 * hour) == [upload.digest]
    still_here(workspace.root, "session-ada", now=start + 5 * hour)
    still_here(workspace.root, "session-bob", now=start + 50 * hour)
    assert not due(workspace.root, start + 5.98 * hour) and due(workspace.root, start + 6.02 * hour) == [upload.digest]
    still_here(workspace.root, "session-ada", now=start + 23.9 * hour)
    assert due(workspace.root, start + 24.1 * hour) == [upload.digest], "a day is the most, however long it stays open"


def test_what_somebody_signed_in_brought_waits_for_them(workspace, made):
    upload = keep(workspace, made, owner="user-ada", name="ward 7")
    assert not due(workspace.root, upload.expires - 1) and due(workspace.root, upload.expires) == [upload.digest]


def test_a_shorter_time_than_an_hour_holds_for_all(workspace, made, monkeypatch):
    monkeypatch.setenv("PHILAB_UPLOAD_HOURS", "0.5")
    upload = keep(workspace, made, owner="session-ada", name="ward 7")
    assert due(workspace.root, upload.uploaded + 1801) == [upload.digest]


def test_work_on_notes_ends_when_it_is_asked_to_or_the_notes_are_deleted(workspace, made):
    upload = keep(workspace, made, owner="ada", name="notes.csv")
    asked: list[bool] = []
    stop = until_deleted(workspace, upload.spec, None, lambda: bool(asked))
    assert not stop()
    asked.append(True)
    assert stop(), "by the second of those who may ask"
    asked.clear()
    shutil.rmtree(workspace.corpus_folder(upload.spec))
    assert stop()
    assert not until_deleted(workspace, CORPUS_PRESETS["smoke"])(), "a synthetic cohort need not be on disk"


def test_being_here_brings_no_deleted_upload_back(workspace, made):
    upload = keep(workspace, made, owner="session-ada", name="ward 7")
    before = (workspace.root / "uploads" / f"{upload.digest}.json").read_bytes()
    still_here(workspace.root, "session-ada")
    assert (workspace.root / "uploads" / f"{upload.digest}.json").read_bytes() == before
    delete(workspace, upload.digest)
    still_here(workspace.root, "session-ada")
    assert not uploads(workspace.root) and not list((workspace.root / "uploads").glob("*.json"))


def test_an_upload_is_found_by_its_own_code_alone(workspace, made):
    code = new_code()
    upload = keep(workspace, made, owner="ada", name="ward 7", code=code)
    assert upload.code_hash and code not in str(upload)
    assert with_code(workspace.root, code) == [upload]
    assert not with_code(workspace.root, new_code()) and not with_code(workspace.root, "")


def test_the_code_of_an_upload_stays_when_its_owner_uploads_the_same_notes_again(workspace, brought, made):
    first, second, third = new_code(), new_code(), new_code()
    keep(workspace, made, owner="ada", name="ward 7", code=first)

    def again(code: str) -> Upload:
        brought.write(made)
        return keep(workspace, made, owner="ada", name="ward 8", code=code)

    upload = again(second)
    assert upload.name == "ward 8" and matches(first, upload.code_hash) and not matches(second, upload.code_hash)
    assert with_code(workspace.root, first) == [upload] and not with_code(workspace.root, second)
    write_record(workspace.root, replace(upload, leaving=True))
    assert with_code(workspace.root, second) == [] and matches(second, again(second).code_hash), "another upload"
    record_file(workspace.root, upload.digest).write_bytes(b"")
    assert with_code(workspace.root, third) == [] and matches(third, again(third).code_hash), "no code is left"


def test_an_upload_that_fails_leaves_the_record_of_an_earlier_one(workspace, brought, made, monkeypatch):
    code = new_code()
    upload = keep(workspace, made, owner="ada", name="ward 7", code=code)
    shutil.rmtree(workspace.root / "corpora" / upload.digest)  # as `verify --repair` moves away a damaged cohort
    brought.write(made)

    def full(*_: object) -> None:
        raise DiskFull("The disk is full.")

    monkeypatch.setattr(Workspace, "adopt", full)
    with pytest.raises(DiskFull):
        keep(workspace, made, owner="ada", name="ward 8", code=new_code())
    assert uploads(workspace.root, "ada") == with_code(workspace.root, code) == [upload]
