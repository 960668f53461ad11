"""Bringing one's own notes on the Cohort page: upload, columns, checks, use, and whose they are."""

from __future__ import annotations

import errno
import os
import time
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime.context import ContextProxy
from streamlit.testing.v1 import AppTest

from core.corpus.synthetic.hospital import build
from core.jobs.imports import Check
from core.runs.store import Workspace
from core.runs.uploads.records import uploads
from core.spec import CORPUS_PRESETS, RunSpec
from pages.parts.session import cleanup
from pages.parts.uploads import form
from tests.pages.uploads import own_run
from tests.pages.visit import ROOT, WAIT, said, visit

pytestmark = pytest.mark.slow
checked_here = pytest.mark.usefixtures("checks_here")

NOTES = build(CORPUS_PRESETS["smoke"]).notes
NOTES = NOTES[NOTES["split"] != "canary"]


def csv(frame: pd.DataFrame) -> tuple[str, bytes, str]:
    return ("ward.csv", frame.to_csv(index=False).encode(), "text/csv")


@pytest.fixture
def cohort(monkeypatch, tmp_path):
    """Opens Cohort where one's own notes are asked for."""
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    return partial(visit, "cohort", cohort="my notes")


def waited(app: AppTest) -> AppTest:
    """Clicks Check, and looks again when the check has ended."""
    app.button(key="own_check").click().run()
    assert not app.exception
    assert app.button(key="own_cancel").label == "Cancel" and "own_check" not in {one.key for one in app.button}
    check = app.session_state["own_asked"].check
    end = time.monotonic() + WAIT
    while check.active and time.monotonic() < end:
        time.sleep(0.05)
    app.run()
    assert not app.exception
    return app


def checked(app: AppTest, frame: pd.DataFrame) -> AppTest:
    app.file_uploader(key="own_file").set_value(csv(frame)).run()
    assert not app.exception
    return waited(app)


def used(app: AppTest) -> AppTest:
    checked(app, NOTES[["text", "patient_id", "note_type"]])
    app.button(key="own_use").click().run()
    assert not app.exception
    return app


def test_a_browser_that_loads_the_boxes_late_is_sent_the_guessed_columns(cohort):
    app = cohort()
    app.file_uploader(key="own_file").set_value(csv(NOTES[["text", "patient_id", "note_type"]])).run()
    first = app.selectbox(key="own_column_note")
    assert first.value == "text"
    widgets = app._tree.get_widget_states()
    keep = [one for one in widgets.widgets if "own_column_" not in one.id]
    app._run(WidgetStates(widgets=keep))
    late = app.selectbox(key="own_column_note")
    assert not app.exception and late.value == "text" and late.proto.set_value


def test_from_a_file_to_a_cohort_that_can_be_trained_on(cohort, tmp_path):
    app = checked(cohort(), NOTES[["text", "patient_id", "note_type"]])
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["Notes"] == str(len(NOTES)) and shown["Patients"] == str(NOTES["patient_id"].nunique())
    assert "of 2,218 identifiers of clinical queries" in said(app) and "rules 2" in "\n".join(
        c.value for c in app.caption
    )
    assert not uploads(tmp_path), "nothing is stored by looking"
    app.button(key="own_use").click().run()
    (upload,) = uploads(tmp_path)
    assert upload.name == "ward.csv" and upload.owner == app.session_state["owner_of_this_session"]
    (described,) = [caption.value for caption in app.caption if "Your notes:" in caption.value]
    assert f"; {len(NOTES)} notes, of which" in described, "not about that number: it is known"
    assert app.metric[0].label.startswith("Members")
    assert "Synthetic patients, and your notes" in said(app)
    app.switch_page("pages/train.py").run()
    app.session_state["cohort"] = "brought"
    app.run()
    assert not app.exception
    assert any("Your notes:" in caption.value for caption in app.caption)


def begun(app: AppTest) -> tuple[AppTest, Check]:
    """A check that will take a while, just begun."""
    many = pd.concat([NOTES.assign(patient_id=NOTES["patient_id"] + str(n)) for n in range(60)])
    app.file_uploader(key="own_file").set_value(csv(many[["text", "patient_id"]])).run()
    app.button(key="own_check").click().run()
    assert not app.exception
    return app, app.session_state["own_asked"].check


def left_of(tmp_path, check: Check) -> bool:
    return check.cohort.parent.exists() or bool(list(tmp_path.rglob("*.parquet")))


def test_a_check_can_be_cancelled_and_leaves_nothing(cohort, tmp_path):
    app, check = begun(cohort())
    assert check.active and not app.metric
    app.button(key="own_cancel").click().run()
    assert not app.exception and check.state == "ended" and not left_of(tmp_path, check)
    assert app.button(key="own_check") and any("Nothing is stored yet" in caption.value for caption in app.caption)


def test_another_setting_ends_a_check(cohort, tmp_path):
    app, check = begun(cohort())
    app.selectbox(key="own_copies").set_value("near").run()
    assert not app.exception and check.state == "ended" and not left_of(tmp_path, check)
    assert app.button(key="own_check")


@checked_here
def test_a_check_is_there_again_after_another_page_until_it_is_discarded(cohort, tmp_path):
    app = checked(cohort(), NOTES[["text", "patient_id"]])
    check = app.session_state["own_asked"].check
    app.switch_page("pages/glossary.py").run()
    app.switch_page("pages/cohort.py").run()
    app.session_state["cohort"] = "brought"
    app.run()
    assert not app.exception and app.metric[0].value == str(len(NOTES)) and check.state == "done"
    app.button(key="own_discard").click().run()
    assert not app.exception and not app.metric and not left_of(tmp_path, check)
    assert [path.name for path in (tmp_path / "uploads").iterdir()] == [], "the file itself went too"


def test_nobody_else_sees_that_there_is_a_check(cohort):
    _, check = begun(cohort())
    other = cohort()
    assert "own_asked" not in other.session_state and not other.get("progress")
    check.end()


@checked_here
def test_columns_with_other_names_are_mapped(cohort):
    app = cohort()
    odd = NOTES[["text", "patient_id"]].rename(columns={"text": "Befund", "patient_id": "Fall"})
    app.file_uploader(key="own_file").set_value(csv(odd)).run()
    assert any("Choose the column for" in info.value for info in app.info)
    app.selectbox(key="own_column_note").set_value("Befund")
    app.selectbox(key="own_column_patient").set_value("Fall").run()
    waited(app)
    assert app.metric[0].value == str(len(NOTES))


@checked_here
def test_a_recognised_column_can_be_left_out_and_another_file_is_recognised_again(cohort):
    train = NOTES[["text", "patient_id"]].assign(split="train", id=7, admission=NOTES["patient_id"] + "-1")
    app = cohort()
    app.file_uploader(key="own_file").set_value(csv(train)).run()
    boxes = {role: app.selectbox(key=f"own_column_{role}") for role in ("split", "note_id", "admission")}
    assert {role: box.value for role, box in boxes.items()} == {
        "split": "split",
        "note_id": "id",
        "admission": "admission",
    }
    assert all(box.proto.default == 0 and not box.proto.HasField("default") for box in boxes.values()), "has ×"
    for role in ("split", "note_id"):
        app.selectbox(key=f"own_column_{role}").set_value(None).run()
    waited(app)
    assert not app.error and app.metric[0].value == str(len(NOTES))
    app.file_uploader(key="own_file").set_value(csv(train.drop(columns="split").rename(columns={"id": "row_id"}))).run()
    assert app.selectbox(key="own_column_note_id").value == "row_id", "not what was chosen for the file before"
    assert app.selectbox(key="own_column_split").value is None


@checked_here
def test_the_tables_of_mimic_are_taken_together(cohort, tmp_path):
    rows = "".join(f"{n},{n % 6},{n % 6},2150-02-01,Nursing,[**Known lastname {n % 6}**] is well.\n" for n in range(12))
    tables = {
        "NOTEEVENTS": "ROW_ID,SUBJECT_ID,HADM_ID,CHARTDATE,CATEGORY,TEXT\n" + rows,
        "PATIENTS": "SUBJECT_ID,GENDER,DOB\n" + "".join(f"{n},F,2080-03-02\n" for n in range(6)),
        "ADMISSIONS": "SUBJECT_ID,HADM_ID,ADMITTIME\n" + "".join(f"{n},{n},2150-02-01\n" for n in range(6)),
        "DIAGNOSES_ICD": "SUBJECT_ID,HADM_ID,ICD9_CODE\n" + "".join(f"{n},{n},4019\n" for n in range(6)),
    }
    files = [(f"{name}.csv", text.encode(), "text/csv") for name, text in tables.items()]
    app = cohort()
    app.file_uploader(key="own_file").set_value(files[1:]).run()
    (told,) = [error.value.replace("\\", "") for error in app.error]
    assert told.startswith("The box has 3 files (PATIENTS.csv, ADMISSIONS.csv, DIAGNOSES_ICD.csv), since an earlier")
    assert "until you remove it" in told and "NOTEEVENTS is missing" in told
    app.file_uploader(key="own_file").set_value(
        [(f"{n}.csv", csv(NOTES)[1], "text/csv") for n in ("1", "patients-2")]
    ).run()
    (told,) = [error.value.replace("\\", "") for error in app.error]
    assert told.startswith("The box has 2 files (1.csv, patients-2.csv)") and "MIMIC" not in told
    again = ("noteevents.csv.gz", b"", "application/gzip")
    app.file_uploader(key="own_file").set_value([*files, again, again]).run()
    (told,) = [error.value.replace("\\", "") for error in app.error]
    assert told.startswith("The box has several files of one table (NOTEEVENTS.csv, noteevents.csv.gz, noteevents.csv")
    app.file_uploader(key="own_file").set_value(files).run()
    assert not app.exception and not app.selectbox[0].key.startswith("own_column")
    waited(app)
    assert {metric.label: metric.value for metric in app.metric}["Patients"] == "6"
    assert "made-up identities" in said(app)
    app.button(key="own_use").click().run()
    (upload,) = uploads(tmp_path)
    assert upload.name == "MIMIC-III" and (tmp_path / "corpora" / upload.digest / "diagnoses.parquet").exists()


@checked_here
@pytest.mark.parametrize("box", ["own_file", "own_identifiers"])
def test_a_file_that_was_cut_off_by_a_full_disk_is_not_used_when_there_is_room_again(
    cohort, tmp_path, monkeypatch, box
):
    notes = csv(NOTES[["text", "patient_id"]])
    table = ("people.csv", b"patient_id,full_name\nP0001,Ann Ames\n", "text/csv")
    name, content, _ = {"own_file": notes, "own_identifiers": table}[box]
    whole = Path.write_bytes

    def half(path: Path, data: bytes) -> int:
        if path.name != name:
            return whole(path, data)
        whole(path, bytes(data)[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    app = cohort()
    with monkeypatch.context() as full:
        full.setattr(Path, "write_bytes", half)
        app.file_uploader(key="own_identifiers").set_value(table)
        app.file_uploader(key="own_file").set_value(notes).run()
        assert any("The disk is full" in one.value and "Nothing was kept" in one.value for one in app.error)
        assert not list((tmp_path / "uploads").rglob(name)), "half a file is nothing to keep"
    app.run()
    assert not app.exception and not app.error
    (file,) = (tmp_path / "uploads").rglob(name)
    assert file.read_bytes() == content


@checked_here
def test_copies_are_told_before_training(cohort):
    twice = pd.concat([NOTES, NOTES.head(7).assign(patient_id="P0001")])[["text", "patient_id"]]
    app = checked(cohort(), twice)
    assert any("7 of them word for word" in warning.value for warning in app.warning)
    few = [warning.value for warning in app.warning if "its intervals stay wide" in warning.value]
    assert len(few) == 1 and few[0].startswith("With 22 members and 10 held-out patients"), "fewer than 20 held out"


@checked_here
@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        (NOTES[["text", "patient_id"]].head(2).assign(patient_id="P1"), "notes of 1 patient"),
        (NOTES[["text", "patient_id"]].assign(note_id="N1"), "note “N1” is already in row 2"),
        (NOTES[["text", "patient_id"]].assign(text="bad \0 byte"), "row 2, column “text”: there is a NUL byte"),
    ],
)
def test_bad_files_are_sentences_and_nothing_is_kept(cohort, tmp_path, frame, complaint):
    app = cohort()
    app.file_uploader(key="own_file").set_value(csv(frame)).run()
    for button in app.button:
        if button.key == "own_check":
            waited(app)
            break
    assert not app.exception
    assert any(complaint in error.value.replace("\\", "") for error in app.error)
    assert not uploads(tmp_path) and not list(tmp_path.rglob("*.parquet"))


@checked_here
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\x00\xff\xfe garbage \x01" * 50, "the names of the columns are not UTF-8"),
        (b'patient_id,text\nP1,"never closed\n', "a quote was opened here and never closed"),
        (b"![x](http://x/y.png),![x](http://x/y.png)\n1,2\n", "no column of text that can be chosen"),
        (",".join(f"c{n}" for n in range(3_000)).encode() + b"\n", "3,000 columns"),
        (("c" * 100_000 + ",text\n1\n").encode(), "row 2: 1 cell, but the header names 2"),
    ],
)
def test_rude_files_are_sentences_too(cohort, tmp_path, content, complaint):
    app = cohort()
    app.file_uploader(key="own_file").set_value(("ward.csv", content, "text/csv")).run()
    assert not app.exception
    (error,) = [error.value for error in app.error]
    assert complaint in error.replace("\\", "") and len(error) < 1_000
    assert "![x](" not in error, "a picture's address in a name is text"
    assert not uploads(tmp_path)


@checked_here
def test_odd_cells_and_names_are_taken_as_text(cohort):
    rude = "<script>alert(1)</script>\u202e👩‍⚕️ "
    odd = NOTES[["text", "patient_id"]].assign(note_type="![x](http://x/y.png)", **{"<b>" + "c" * 5_000: "=1+1"})
    odd.loc[odd.index[0], "text"] = rude + "word " * 4_000
    app = checked(cohort(), odd)
    shown = {metric.label: metric.value for metric in app.metric}
    assert shown["Notes"] == str(len(NOTES))
    app.button(key="own_use").click().run()
    assert not app.exception and "![x](" not in said(app)


@checked_here
def test_one_upload_that_cannot_be_deleted_keeps_no_other_one(monkeypatch, cohort, tmp_path, caplog):
    """The thread that deletes what is past its time must not end at the first failure."""
    gone, real = [], cleanup.remove
    for _ in range(2):  # two sessions: the same notes are a cohort of each
        used(cohort())
    first, second = (upload.digest for upload in uploads(tmp_path))
    # Threads that earlier tests started look at their own data folders.
    monkeypatch.setattr("core.runs.uploads.records.due", lambda root: [first, second] if root == tmp_path else [])

    def remove(workspace: Workspace, digest: str, **_: bool) -> bool:
        gone.append(digest)
        if digest == first:
            raise OSError("the disk is read-only")
        return real(workspace, digest)

    monkeypatch.setattr(cleanup, "remove", remove)
    cleanup.clear_out(Workspace(tmp_path))
    assert gone == [first, second] and [upload.digest for upload in uploads(tmp_path)] == [first]
    assert "deleting the upload" in caplog.text and "the disk is read-only" in caplog.text


@checked_here
def test_nobody_else_sees_them_and_a_button_deletes_them(cohort, tmp_path):
    app = used(cohort())
    (upload,) = uploads(tmp_path)
    other = visit("cohort", cohort="my notes")
    assert not any("Your notes:" in caption.value for caption in other.caption)
    assert "no real people" in said(other)
    assert Workspace(tmp_path, viewer=upload.owner).shows(upload.spec)
    assert not Workspace(tmp_path, viewer=other.session_state["owner_of_this_session"]).shows(upload.spec)
    with pytest.raises(ValueError, match="not here"):
        Workspace(tmp_path, viewer="somebody").corpus(upload.spec)
    Workspace(tmp_path).begin(RunSpec(corpus=upload.spec))
    app.button(key=f"delete-{upload.digest}").click().run()
    assert not app.exception
    assert not uploads(tmp_path) and not list(tmp_path.rglob("*.parquet"))
    assert not Workspace(tmp_path).works()


@checked_here
def test_notes_that_were_chosen_stay_chosen_on_the_next_page_until_they_are_deleted(tmp_path, monkeypatch):
    root = tmp_path / "data"
    monkeypatch.setenv("PHILAB_DATA", str(root))
    first, second = (own_run.bring(root, name=f"ward {number}", without=number) for number in range(2))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT)
    app.session_state["owner_of_this_session"], app.session_state["cohort"] = own_run.OWNER, "brought"
    app.run().switch_page("pages/cohort.py").run()
    assert app.selectbox(key="own_cohort").value == second.digest, "the newest"
    app.selectbox(key="own_cohort").set_value(first.digest).run()
    for page in ("glossary", "train", "cohort"):
        app.switch_page(f"pages/{page}.py").run()
        assert not app.exception
        assert page == "glossary" or app.selectbox(key="own_cohort").value == first.digest
    checked(app, NOTES[["text", "patient_id"]][2:]).button(key="own_use").click().run()
    assert not app.exception, "the box is on the page when a third upload is chosen"
    box = app.selectbox(key="own_cohort")
    assert box.value not in (first.digest, second.digest) and len(box.options) == 3
    box.set_value(first.digest).run()
    cleanup.remove(Workspace(root, shared=()), first.digest)
    app.switch_page("pages/glossary.py").run()
    assert form._CHOSEN not in app.session_state
    app.switch_page("pages/cohort.py").run()
    assert not app.exception and app.selectbox(key="own_cohort").value not in (first.digest, second.digest)


@pytest.mark.parametrize(
    ("in_class", "url", "warned"),
    [
        ("1", None, True),
        ("1", "http://10.0.0.5:8501/cohort", True),
        ("1", "https://lab.example.org/cohort", False),
        ("0", "http://localhost:8501/cohort", False),
    ],
)
def test_a_class_over_plain_http_is_warned_before_an_upload(cohort, monkeypatch, in_class, url, warned):
    monkeypatch.setenv("PHILAB_CLASS", in_class)
    monkeypatch.setattr(ContextProxy, "url", url)
    assert (form.UNENCRYPTED in [warning.value for warning in cohort().warning]) == warned
