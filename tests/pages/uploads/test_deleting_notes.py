"""Notes that were uploaded go: by their code from any browser, and an hour after their own browser is gone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from core.__main__ import main
from core.runs import store
from core.runs.lock import held
from core.runs.store import Workspace
from core.runs.uploads.deletion_codes import Attempts
from core.runs.uploads.records import read_record, uploads, write_record
from core.spec import RunSpec
from pages.parts.common import shell
from pages.parts.session import cleanup, owner, resources
from pages.parts.uploads import after, form
from tests.pages.uploads.test_upload_form import NOTES, checked, checked_here, cohort, csv, used, waited  # noqa: F401 — `cohort` is a fixture
from tests.pages.visit import said

THREAD = cleanup.start_thread  # tests of pages have none (tests/pages/conftest.py)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _fresh_attempts(monkeypatch):
    monkeypatch.setattr(form, "ATTEMPTS", Attempts(3, 60.0))


def shown_code(app: AppTest) -> str:
    (code,) = {block.value for block in app.code if re.fullmatch(r"\w{4}(-\w{4}){4}", block.value)}
    return code


def typed(app: AppTest, code: str) -> AppTest:
    app.text_input(key="own_code").set_value(code)
    next(button for button in app.button if button.label == "Delete").click().run()
    assert not app.exception
    return app


@checked_here
def test_another_browser_deletes_by_the_code_and_sees_nothing(cohort, tmp_path):  # noqa: F811
    app = used(cohort())
    code = shown_code(app)
    (upload,) = uploads(tmp_path)
    Workspace(tmp_path).begin(RunSpec(corpus=upload.spec))
    assert not any(code in path.read_text(errors="replace") for path in tmp_path.rglob("*.json"))
    other = cohort()
    assert upload.name not in said(other)
    typed(other, code.lower().replace("-", ""))
    assert [one.value for one in other.success] == [after.DELETED], "a message that lasts"
    assert other.text_input(key="own_code").value == "", "the code is used up"
    other.run()
    assert [one.value for one in other.success] == [after.DELETED]
    other.switch_page("pages/glossary.py").run()
    other.switch_page("pages/cohort.py").run()
    assert not other.success, "it ends with its page"
    assert not uploads(tmp_path) and not list(tmp_path.rglob("*.parquet")) and not Workspace(tmp_path).works()
    app.run()
    assert not app.exception and "Deletion code" not in "".join(block.value for block in app.code)
    assert [one.value for one in app.warning] == [shell.LOST], "the owner's browser says that they are gone"
    app.run()
    assert [one.value for one in app.warning] == [shell.LOST]
    app.switch_page("pages/glossary.py").run()
    assert not app.warning and not app.exception


@checked_here
def test_wrong_codes_delete_nothing_and_cannot_be_tried_for_ever(cohort, tmp_path):  # noqa: F811
    code = shown_code(used(cohort()))
    other = cohort()
    for _ in range(3):
        typed(other, "AAAA-BBBB-CCCC-DDDD-EEEE")
        assert "No upload has this code" in other.error[0].value and len(uploads(tmp_path)) == 1
    typed(other, code)
    assert "Too many wrong codes. Try again in" in other.error[0].value and len(uploads(tmp_path)) == 1
    typed(cohort(), code)
    assert not uploads(tmp_path), "whoever tried no wrong one may delete"


@checked_here
def test_the_code_is_shown_to_the_session_that_uploaded_alone(cohort):  # noqa: F811
    app = used(cohort())
    assert app.button(key="own_code_seen").click().run() and not app.exception
    assert "own_code_seen" not in {button.key for button in app.button}, "once"
    assert "Write this code down" in said(app)
    assert shown_code(app) and "*Deletion code* on this page shows it until you reload or close the page" in said(app)
    assert not [block for block in cohort().code if re.fullmatch(r"\w{4}(-\w{4}){4}", block.value)]
    app.run()
    assert shown_code(app)


@checked_here
def test_the_first_code_stays_valid_when_the_same_notes_are_uploaded_again(cohort, tmp_path):  # noqa: F811
    app = used(cohort())
    code = shown_code(app)
    app.file_uploader[0].set_value(csv(NOTES[["text", "patient_id", "note_type"]])).run()
    waited(app).button(key="own_use").click().run()
    assert not app.exception and shown_code(app) == code and len(uploads(tmp_path)) == 1
    typed(cohort(), code)
    assert not uploads(tmp_path) and not list(tmp_path.rglob("*.parquet"))


@checked_here
def test_a_job_that_still_runs_is_named_when_its_notes_are_deleted(cohort, tmp_path, monkeypatch):  # noqa: F811
    app = used(cohort())
    (upload,) = uploads(tmp_path)
    workspace, spec = Workspace(tmp_path), RunSpec(corpus=upload.spec)
    work = workspace.begin(spec)
    with held(workspace.lock_file(spec.run_id), should_stop=lambda: True) as training:
        assert training
        app.button(key=f"delete-{upload.digest}").click().run()
        assert not app.exception and after.STILL_IN_USE in [one.value for one in app.info] and not app.success
        assert work.exists() and upload.name not in said(app)
        assert not Workspace(tmp_path, viewer=upload.owner).shows(upload.spec)
    cleanup.clear_out(workspace, thorough=False)
    assert not work.exists() and not uploads(tmp_path), "the rest is deleted when the job has stopped"
    app.run()
    assert [one.value for one in app.success] == [after.DELETED]


@checked_here
def test_a_message_about_a_deletion_ends_when_notes_are_used_again(cohort, tmp_path):  # noqa: F811
    app = used(cohort())
    (upload,) = uploads(tmp_path)
    ask = "Delete these notes and their models"
    (asked,) = [one for one in app.get("popover") if one.proto.popover.label == ask]
    assert [one.key for one in asked.button] == [f"delete-{upload.digest}"], "it asks once more"
    assert asked.markdown[0].value == "Deletes the notes and all results. This cannot be undone."
    app.button(key=f"delete-{upload.digest}").click().run()
    assert [one.value for one in app.success] == [after.DELETED]
    assert upload.digest not in app.session_state[form.CODES]
    app.file_uploader[0].set_value(csv(NOTES[["text", "patient_id", "note_type"]])).run()
    waited(app).button(key="own_use").click().run()
    assert not app.exception and [one.digest for one in uploads(tmp_path)] == [upload.digest]
    assert not app.success and after.STILL_IN_USE not in [one.value for one in app.info]
    typed(cohort(), shown_code(app))
    app.run()
    assert not app.exception and [one.value for one in app.warning] == [shell.LOST], "deleted here, and then elsewhere"


@checked_here
def test_a_new_session_says_that_notes_of_an_earlier_one_cannot_be_opened(cohort, tmp_path):  # noqa: F811
    app = used(cohort())
    code = shown_code(app)
    assert app.query_params["uploaded"] == "1"
    assert not app.run().warning, "this session has them"
    reloaded = cohort(uploaded="1")
    (told,) = [one.value for one in reloaded.warning]
    assert "belong to another browser session, which may have ended" in told
    assert "deleted an hour after that session has ended, and at the latest 24 hours after the upload" in told
    assert not cohort().warning, "a page that showed none misses none"
    reloaded.run()
    assert [one.value for one in reloaded.warning] == [told]
    typed(reloaded, code)
    assert [one.value for one in reloaded.success] == [after.DELETED] and not reloaded.warning
    assert "uploaded" not in reloaded.query_params and not uploads(tmp_path)


def set_back(tmp_path: Path, seconds: float) -> None:
    for record in (tmp_path / "uploads").glob("*.json"):
        os.utime(record, (time.time() - seconds,) * 2)


@checked_here
def test_an_hour_after_its_browser_is_gone_an_upload_goes(cohort, tmp_path, monkeypatch):  # noqa: F811
    used(cohort())
    (upload,) = uploads(tmp_path)
    monkeypatch.setitem(owner.sessions(), upload.owner, lambda: True)  # no server runs here that knows
    set_back(tmp_path, 5 * 3600)
    cleanup.clear_out(Workspace(tmp_path), thorough=False)
    assert uploads(tmp_path) == [upload], "its browser is there"
    monkeypatch.setitem(owner.sessions(), upload.owner, lambda: False)
    cleanup.clear_out(Workspace(tmp_path), thorough=False)
    assert uploads(tmp_path) == [upload], "it was there a moment ago"
    set_back(tmp_path, 3500)
    cleanup.clear_out(Workspace(tmp_path), thorough=False)
    assert uploads(tmp_path) == [upload]
    set_back(tmp_path, 3601)
    cleanup.clear_out(Workspace(tmp_path), thorough=False)
    assert not uploads(tmp_path) and not list(tmp_path.rglob("*.parquet"))
    cleanup.clear_out(Workspace(tmp_path), thorough=False)
    assert upload.owner not in owner.sessions(), "nobody is remembered for nothing"


@checked_here
def test_what_a_command_deleted_leaves_the_memory_of_the_pages(cohort, tmp_path, monkeypatch):  # noqa: F811
    code = shown_code(used(cohort()))
    cleanup.clear_out(Workspace(tmp_path), thorough=False)
    emptied: list[int] = []
    monkeypatch.setattr(resources, "empty_caches", lambda: emptied.append(1))
    cleanup.clear_out(Workspace(tmp_path), thorough=False)
    assert not emptied
    assert main(["delete-upload", code, "--data", str(tmp_path)]) == 0
    cleanup.clear_out(Workspace(tmp_path), thorough=False)
    cleanup.clear_out(Workspace(tmp_path), thorough=False)
    assert len(emptied) == 1


class _Looks(threading.Event):
    """Stands in for the waiting between looks: instead of time passing, the next of `acts` happens."""

    def __init__(self, acts: list[Callable[[], None]]) -> None:
        super().__init__()
        self.acts, self.looks = acts, 0

    def wait(self, timeout: float | None = None) -> bool:
        if not self.is_set():
            self.looks += 1
            self.acts.pop(0)()  # an IndexError if what was deleted is not noticed
        return self.is_set()


@checked_here
@pytest.mark.parametrize("whole", [True, False], ids=["deleted", "being deleted"])
def test_what_another_process_deletes_leaves_the_memory_before_the_next_check(cohort, tmp_path, monkeypatch, whole):  # noqa: F811
    """As with two servers on one data folder: the other one deletes, and this one has notes in its caches."""
    code, workspace = shown_code(used(cohort())), Workspace(tmp_path)
    cleanup.clear_out(workspace, thorough=False)
    assert [key for key in store._corpora if key[0] == workspace.root], "the notes are in memory"
    emptied: list[int] = []
    monkeypatch.setattr(resources, "empty_caches", lambda: emptied.append(1))
    (record,) = (tmp_path / "uploads").glob("*.json")

    def delete() -> None:
        assert not emptied, "a record that a connected browser touches is no deletion"
        if whole:
            command = [sys.executable, "-m", "core", "delete-upload", code, "--data", str(tmp_path)]
            assert subprocess.run(command, cwd=ROOT, check=False, capture_output=True).returncode == 0  # noqa: S603
        else:  # the other process goes on after this server's look
            write_record(workspace.root, replace(read_record(record), leaving=True))

    looks = _Looks([lambda: None, lambda: os.utime(record), lambda: None, delete])
    monkeypatch.setattr(cleanup, "LOOK_SECONDS", 36_000.0)
    again = cleanup._ClearAgain(wake=looks)
    monkeypatch.setattr(cleanup, "_clear_again", lambda: again)
    assert cleanup._wait(workspace, cleanup._last_change(tmp_path)), "a thorough check comes next"
    assert looks.looks == 4 and len(emptied) == 1
    assert not [key for key in store._corpora if key[0] == workspace.root]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_another_process_deletes_during_a_check_leaves_the_memory_at_once(tmp_path, monkeypatch):
    """A check walks through the whole store: what goes meanwhile must not wait for the next one."""
    (tmp_path / "uploads").mkdir()
    checks: list[int] = []

    def unloaded(workspace: Workspace) -> None:
        if checks:  # the check itself looked before the deletion
            raise SystemExit  # ends the thread

    def later_in_the_check() -> None:
        checks.append(1)
        (tmp_path / "uploads" / "left").touch()  # as a record that goes

    monkeypatch.setattr(cleanup, "_unload_deleted", unloaded)
    monkeypatch.setattr(cleanup.classroom, "rooms_of", lambda root: SimpleNamespace(clear_out=later_in_the_check))
    monkeypatch.setattr(cleanup, "LOOK_SECONDS", 36_000.0)
    monkeypatch.setattr(cleanup, "WATCH_SECONDS", 0.01)
    cleanup._clear_again().wake.clear()
    thread = THREAD(str(tmp_path), Workspace(tmp_path, shared=()))
    thread.join(60)
    assert not thread.is_alive() and checks == [1]


@checked_here
def test_the_pages_say_when_notes_go(cohort):  # noqa: F811
    app = cohort()
    assert "an hour after this browser session has ended, and at the latest 24 hours after the upload" in said(app)
    used(app)
    assert "at most an hour after this browser session has ended" in "".join(caption.value for caption in app.caption)


@checked_here
def test_the_header_says_whose_file_is_looked_at(cohort):  # noqa: F811
    app = cohort()
    assert "no real people" in said(app)
    app.file_uploader(key="own_file").set_value(csv(NOTES[["text", "patient_id"]])).run()
    assert "Your file: only you see it" in said(app) and "no real people" not in said(app)
    checked(app, NOTES[["text", "patient_id"]])
    app.switch_page("pages/glossary.py").run()
    assert "Your file" in said(app), "its check is still there"
    app.switch_page("pages/cohort.py").run()
    app.session_state["cohort"] = "brought"
    app.run()
    app.button(key="own_discard").click().run()
    assert "no real people" in said(app)
