"""`python -m core store`: what the three commands say, their exit codes, and that refusals write nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from core.__main__ import main
from core.runs.store import Workspace
from core.spec import RunSpec


@pytest.fixture
def data(smoke_workspace: Path, tmp_path: Path) -> Path:
    return shutil.copytree(smoke_workspace, tmp_path / "data")


def test_an_archive_is_written_and_read(data, smoke_specs: dict[str, RunSpec], tmp_path, capsys) -> None:
    (tmp_path / "backups").mkdir()
    assert main(["store", "export", str(tmp_path / "backups"), "--data", str(data)]) == 0
    said = capsys.readouterr()
    archive = tmp_path / "backups" / "phi-leak-lab.zip"
    assert said.out.startswith(f"Wrote {archive} (") and "MB): 1 cohort, 3 runs." in said.out
    there = tmp_path / "there"
    assert main(["store", "import", str(archive), "--dry-run", "--data", str(there)]) == 0
    assert capsys.readouterr().out == "Would import: 1 cohort, 3 runs.\n" and not there.exists()
    assert main(["store", "import", str(archive), "--data", str(there), "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert {one["outcome"] for one in out["items"]} == {"imported"} and not out["dry_run"]
    assert {run.id for run in Workspace(there, shared=()).runs()} == {spec.run_id for spec in smoke_specs.values()}
    assert main(["store", "import", str(archive), "--data", str(there)]) == 0
    assert capsys.readouterr().out == "Already here with equal content: 1 cohort, 3 runs.\n"


def test_refusals_have_one_line_and_write_nothing(data, smoke_specs, tmp_path, capsys) -> None:
    thesis = tmp_path / "thesis.txt"
    thesis.write_text("text", encoding="utf-8")
    there = tmp_path / "there"
    for arguments in (
        ["export", str(thesis), "--data", str(data)],
        ["export", str(tmp_path / "a.zip"), "--run", "gpt2-0123456789ab", "--data", str(data)],
        ["import", str(thesis), "--data", str(there)],
        ["import", str(tmp_path / "nothing.zip"), "--data", str(there)],
        ["prune", "--what", "everything", "--data", str(data)],
        ["prune", "--yes", "--dry-run", "--data", str(data)],
        ["prune", "--older-than", "-1", "--data", str(data)],
    ):
        assert main(["store", *arguments]) == 2, arguments
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.count("Error: ") == 1 and captured.err.count("\n") == 1
    assert thesis.read_text(encoding="utf-8") == "text" and not there.exists() and not (tmp_path / "a.zip").exists()


def test_what_was_left_out_or_refused_gives_exit_code_1(data, smoke_specs, tmp_path, capsys) -> None:
    archive = tmp_path / "a.zip"
    assert main(["store", "export", str(archive), "--data", str(data)]) == 0
    card = data / "runs" / smoke_specs["dp"].run_id / "README.md"
    card.write_text("another card", encoding="utf-8")
    capsys.readouterr()
    assert main(["store", "import", str(archive), "--data", str(data)]) == 1
    assert f"runs/{smoke_specs['dp'].run_id} was not imported: the one here differs" in capsys.readouterr().out
    assert main(["store", "export", str(archive), "--data", str(data)]) == 1
    assert f"runs/{smoke_specs['dp'].run_id} was left out" in capsys.readouterr().out
    assert card.read_text(encoding="utf-8") == "another card"


def test_an_empty_folder_gives_an_archive_of_nothing(tmp_path, capsys) -> None:
    assert main(["store", "export", str(tmp_path / "a.zip"), "--data", str(tmp_path / "none")]) == 0
    assert "nothing." in capsys.readouterr().out
    assert main(["store", "import", str(tmp_path / "a.zip"), "--data", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out == "The archive is empty.\n"
    assert main(["store", "prune", "--data", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out == "There is nothing to delete.\n" and not (tmp_path / "none").exists()
