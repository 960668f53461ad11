"""`delete-upload`: whoever has the code deletes the notes and all that was made from them; nobody else does."""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace

import pytest

from core.__main__ import main
from core.corpus.importing.importer import import_notes
from core.corpus.synthetic.hospital import build
from core.runs.lock import held
from core.runs.store import Workspace
from core.runs.uploads.deletion import keep
from core.runs.uploads.deletion_codes import new_code
from core.runs.uploads.records import uploads, write_record
from core.spec import CORPUS_PRESETS, RunSpec


@pytest.fixture
def stored(tmp_path):
    """A data folder with an upload and a run that is half made from it; and the upload's code."""
    notes = build(CORPUS_PRESETS["smoke"]).notes
    notes[notes["split"] != "canary"][["patient_id", "text"]].to_csv(tmp_path / "notes.csv", index=False)
    workspace = Workspace(tmp_path / "data", shared=())
    made = tmp_path / "data" / "made"
    made.mkdir(parents=True)
    import_notes(tmp_path / "notes.csv", made, owner="session-x")
    code = new_code()
    upload = keep(workspace, made, owner="session-x", name="ward 7", code=code)
    workspace.begin(RunSpec(corpus=upload.spec))
    return workspace, code


def left(workspace: Workspace) -> list[str]:
    return [str(path) for path in workspace.root.rglob("*.parquet")] + [str(path) for path in workspace.works()]


def test_the_code_deletes_everything_at_once(stored, capsys):
    workspace, code = stored
    assert left(workspace)
    assert main(["delete-upload", code.lower().replace("-", " "), "--data", str(workspace.root), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"deleted": 1, "runs": [], "finished": True}
    assert not left(workspace) and not uploads(workspace.root)
    assert main(["delete-upload", code, "--data", str(workspace.root)]) == 2
    assert "No upload in" in capsys.readouterr().err


def test_the_code_is_stored_nowhere(stored):
    workspace, code = stored
    for path in workspace.root.rglob("*"):
        if path.is_file():
            content = path.read_bytes().upper()
            assert code.encode() not in content and code.replace("-", "").encode() not in content


def test_overdue_uploads_are_deleted_without_a_code_and_others_stay(stored, capsys):
    workspace, _ = stored
    command = ["delete-upload", "--overdue", "--data", str(workspace.root)]
    assert main(command) == 0 and "0 sets of notes, and 0 runs" in capsys.readouterr().out
    before = left(workspace)
    assert before and len(uploads(workspace.root)) == 1
    (upload,) = uploads(workspace.root)
    write_record(workspace.root, replace(upload, expires=upload.uploaded))
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"deleted": 1, "runs": [], "finished": True}
    assert not left(workspace) and not uploads(workspace.root)


def test_a_code_and_overdue_are_not_for_one_command(stored, capsys):
    workspace, code = stored
    assert main(["delete-upload", code, "--overdue", "--data", str(workspace.root)]) == 2
    assert "not both" in capsys.readouterr().err and len(uploads(workspace.root)) == 1


def test_another_code_deletes_nothing(stored, capsys):
    workspace, code = stored
    wrong = ("0" if code[0] != "0" else "2") + code[1:]
    for given in (wrong, "", "-", "../../x"):
        assert main(["delete-upload", given, "--data", str(workspace.root)]) == 2
    assert "No upload in" in capsys.readouterr().err and left(workspace) and len(uploads(workspace.root)) == 1


def test_it_is_asked_for_when_it_is_left_out(stored, monkeypatch, capsys):
    workspace, code = stored
    monkeypatch.setattr("typer.prompt", lambda text, err: code)
    assert main(["delete-upload", "--data", str(workspace.root)]) == 0
    assert capsys.readouterr().out.startswith("Deleted: the notes, and 0 runs") and not left(workspace)


def test_it_cannot_be_asked_for_without_standard_input(stored, monkeypatch, capsys):
    workspace, _ = stored
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["delete-upload", "--data", str(workspace.root)]) == 2
    assert "Give the deletion code as an argument" in capsys.readouterr().err and left(workspace)


def test_a_job_that_is_at_work_is_said_to_be_stopping(stored, capsys):
    workspace, code = stored
    run_id = RunSpec(corpus=uploads(workspace.root)[0].spec).run_id
    with held(workspace.lock_file(run_id), should_stop=lambda: True):
        assert main(["delete-upload", code, "--data", str(workspace.root)]) == 0
        assert "asked to stop" in capsys.readouterr().out
        assert not list((workspace.root / "corpora").glob("*/notes.parquet")), "the notes are gone at once"
    assert main(["delete-upload", code, "--data", str(workspace.root)]) == 0 and not left(workspace)


def test_an_upload_of_an_earlier_version_has_no_code_and_is_read(stored, capsys):
    workspace, code = stored
    (record,) = (workspace.root / "uploads").glob("*.json")
    said = json.loads(record.read_text())
    del said["code_hash"]
    record.write_text(json.dumps(said))
    os.utime(record)
    assert uploads(workspace.root)[0].code_hash == ""
    for given in (code, ""):
        assert main(["delete-upload", given, "--data", str(workspace.root)]) == 2
    assert left(workspace) and "No upload" in capsys.readouterr().err
