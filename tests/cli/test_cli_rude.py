"""The command line and odd surroundings: folders that cannot be used, closed pipes, narrow terminals, empty words."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer
from streamlit.testing.v1 import AppTest

from core.__main__ import main
from core.cli.output import BAD_INPUT, FAILURE, errors_as_sentences
from core.cli.settings import corpus_spec
from core.common.program import PROGRAM
from core.runs.integrity.disk import error_sentence
from core.runs.run import check_run_id
from core.runs.store import DataFolderUnusable, Workspace, data_folder
from core.runs.uploads.records import hours_kept
from core.spec import CORPUS_PRESETS
from pages.parts.session import resources
from tests.pages.visit import WAIT

ROOT = Path(__file__).resolve().parents[2]


def line(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    """The one line on standard error of a command that ends with this code."""
    assert main([*map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1 and captured.err.startswith("Error: ")
    assert "Errno" not in captured.err
    return captured.err


def last_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a command that said before what it was about to do."""
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith("Error: ") and "Errno" not in told
    return told


@pytest.mark.parametrize("value", [None, "", "  ", "here", "/somewhere/else"])
def test_the_app_and_the_commands_use_the_same_data_folder(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if value is None:
        monkeypatch.delenv("PHILAB_DATA", raising=False)
    else:
        monkeypatch.setenv("PHILAB_DATA", value)
    expected = Path(value).resolve() if value and value.strip() else PROGRAM / "data"
    assert Workspace(shared=()).root == data_folder() == resources.data() == expected


def test_a_file_is_no_data_folder_for_commands_and_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("not a folder")
    for folder in (file, file / "below"):
        assert f"{file} is a file, but a folder is needed there" in line(capsys, 2, "runs", "--data", folder)
        with pytest.raises(DataFolderUnusable):
            data_folder(folder)
    assert "--data" in line(capsys, 2, "runs", "--data", "")
    monkeypatch.setenv("PHILAB_DATA", str(file))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    assert not app.exception and [f"{file} is a file" in error.value for error in app.error] == [True]


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.EROFS, "disk is read-only. Choose another folder"),
        (errno.EACCES, "permission denied. Choose another folder"),
        (errno.EPERM, "permission denied"),
        (errno.EISDIR, "is a folder, but a file is needed"),
        (errno.ENOENT, "does not exist"),
        (errno.ENAMETOOLONG, "too long"),
        (errno.ENOSPC, "disk is full"),
        (errno.EIO, "Input/output error"),
        (errno.EEXIST, "File exists"),
    ],
)
def test_what_the_system_says_is_a_sentence_that_names_the_place(number: int, says: str, tmp_path: Path) -> None:
    told = error_sentence(OSError(number, os.strerror(number), str(tmp_path / "runs")))
    assert says in told and str(tmp_path / "runs") in told and "Errno" not in told and told.endswith(".")
    assert error_sentence(OSError("A sentence already.")) == "A sentence already."
    assert error_sentence(ValueError("Another.")) == "Another."


def test_a_disk_that_is_only_read_is_a_failure_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = os.mkdir

    def mkdir(path: str, *mode: int, **options: object) -> None:
        if str(path).startswith(str(tmp_path)):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        made(path, *mode, **options)

    monkeypatch.setattr(os, "mkdir", mkdir)
    assert main([*map(str, ("ledger", "--data", tmp_path / "data", *VOCABULARY, tmp_path / "data/v"))]) == 1
    assert f"{tmp_path}/data" in last_line(capsys)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


VOCABULARY = ("--corpus", "smoke", "--reason", "x", "--epsilon", "1", "--words", "1", "--yes", "--vocabulary")


def test_a_vocabulary_that_cannot_be_written_is_not_entered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    here = ("ledger", "--data", tmp_path / "data")
    assert main([*map(str, (*here, *VOCABULARY, tmp_path / "file" / "words.json"))]) == 1
    assert "is a file" in last_line(capsys)
    assert not (tmp_path / "data" / "ledger").exists()


def test_the_apps_names_of_presets_are_understood(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert corpus_spec("tiny") == corpus_spec("smoke") == CORPUS_PRESETS["smoke"]
    assert corpus_spec("MIMIC scale") == CORPUS_PRESETS["mimic-scale"]
    assert "--preset: “nope”" in line(capsys, 2, "corpus", "--preset", "nope", "--out", tmp_path / "new")
    (tmp_path / "odd.json").write_text('{"patients": 1}')
    assert "patients: 4 at least" in line(capsys, 2, "corpus", "--preset", tmp_path / "odd.json", "--out", "new")


@pytest.mark.parametrize(
    ("command", "option"), [("sweep", "--clip-norm"), ("train", "--clip-norm"), ("train", "--max-grad-norm")]
)
@pytest.mark.parametrize("norm", ["0", "1e-9"])
def test_a_clipping_norm_that_is_too_small_is_refused_by_the_name_that_was_typed(
    command: str, option: str, norm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    private = [] if (command, option) == ("train", "--clip-norm") else ["--epsilon", "8"]
    assert main([command, *private, option, norm, "--data", str(tmp_path)]) == 2
    assert f"Error: {option}: the clipping norm C must be at least 1e-06" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_empty_words_and_addresses_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ("--data", tmp_path / "data")
    assert "--release" in line(capsys, 2, "ledger", "--release", "", "--reason", "x", *here)
    assert "no option --shape" in line(capsys, 2, "bench", "training", "--shape", "gpt2")
    for address in ("nonsense", "foo://bar:1", ":", "tcp://"):
        told = line(capsys, 2, "sweep", "--epsilon", "8", "--corpus", "smoke", "--scheduler", address, *here)
        assert "--scheduler" in told
    assert list(tmp_path.iterdir()) == []


def command(*arguments: str, **environment: str) -> list[str]:
    return [sys.executable, "-m", "core", *arguments]


ACCOUNT = ("account", "--sample-rate", "1", "--steps", "1", "--noise-multiplier", "1", "--accountant", "rdp")


COMMANDS = """
import json, sys
from core.__main__ import main
for arguments in json.loads(sys.argv[1]):
    print("code", main(arguments), end="\\n\\0\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_greek_letters_gets_escapes(encoding: str) -> None:
    """Three commands in one process, since what they import takes far longer than they do."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PHILAB_DATA": os.devnull + "-none"}
    commands = [ACCOUNT, ("account", "--epsilon", "“é”"), ("runs", "--data", "é", "--json")]
    asking = [sys.executable, "-c", COMMANDS, json.dumps(commands)]
    done = subprocess.run(asking, cwd=ROOT, env=environment, capture_output=True)  # noqa: S603
    assert done.returncode == 0 and b"Traceback" not in done.stderr
    account, bad, runs = done.stdout.split(b"\0\n")[:-1]
    assert account.startswith(b"\\u03b5 = ") and account.endswith(b"\ncode 0\n")
    assert bad == b"code 2\n"
    told, code = runs.rsplit(b"code", 1)
    assert json.loads(told)["runs"] == [] and code == b" 0\n"


@pytest.mark.slow
def test_a_reader_who_has_read_enough_is_no_failure() -> None:
    for arguments in (("runs", "--data", os.devnull + "-none"), ("--help",)):
        read, write = os.pipe()
        os.close(read)  # as `| head` after its first lines
        done = subprocess.run(command(*arguments), cwd=ROOT, stdout=write, stderr=subprocess.PIPE)  # noqa: S603
        os.close(write)
        assert done.returncode in (1, 141) and done.stderr == b""


def test_findings_are_not_stored_without_the_shipped_runs(capsys, tmp_path):
    """Claims that rest on these would lose their evidence."""
    assert main(["findings", "--write", "--without-shipped", "--data", str(tmp_path)]) == 2
    assert "leave --without-shipped out" in capsys.readouterr().err


def test_a_command_that_has_said_what_failed_says_no_more(capsys):
    with pytest.raises(typer.Exit) as left, errors_as_sentences():
        raise typer.Exit(FAILURE)
    assert left.value.exit_code == FAILURE and capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("call", "code", "begins"),
    [
        (lambda: check_run_id("x"), BAD_INPUT, "“x” is not a run id."),
        (hours_kept, BAD_INPUT, "PHILAB_UPLOAD_HOURS is “soon”"),
        (lambda: pd.DataFrame()["split"], FAILURE, "An unexpected error (KeyError: 'split')."),
        (lambda: pd.DataFrame({"a": [1], "b": [1, 2]}), FAILURE, "An unexpected error (ValueError: All arrays"),
        (lambda: None + 1, FAILURE, "An unexpected error (TypeError: "),
    ],
)
@pytest.mark.parametrize("asked", ["", "1"])
def test_a_fault_is_not_called_bad_input_and_can_be_traced(capsys, monkeypatch, call, code, begins, asked):
    monkeypatch.setenv("PHILAB_UPLOAD_HOURS", "soon")
    monkeypatch.setenv("PHILAB_TRACEBACK", asked)
    with pytest.raises(typer.Exit) as left, errors_as_sentences():
        call()
    said = capsys.readouterr().err
    assert left.value.exit_code == code and said.splitlines()[-1].startswith(f"Error: {begins}")
    assert ("Traceback" in said) == bool(asked) and (code == BAD_INPUT or "PHILAB_TRACEBACK=1" in said)
