"""`python -m core report`: files of each kind, a recommendation, and refusals that write nothing."""

from __future__ import annotations

import json
import zipfile

import pytest

from core.__main__ import main


def test_it_writes_what_was_asked_for(smoke_workspace, smoke_specs, tmp_path, capsys):
    files = [tmp_path / f"out.{suffix}" for suffix in ("html", "json", "zip")]
    outs = [part for file in files for part in ("--out", str(file))]
    runs = [smoke_specs["plain"].run_id, smoke_specs["dp"].run_id]
    limits = ["--limit", "auc_loss=1", "--utility", "1", "--use-case", "<b>teaching</b>"]
    assert main(["report", *runs, *outs, *limits, "--data", str(smoke_workspace), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": list(map(str, files)), "runs": runs}
    told = json.loads(files[1].read_text())
    assert told["recommendation"]["epsilon"] == "inf" and told["recommendation"]["use_case"] == "<b>teaching</b>"
    page = files[0].read_text()
    assert "Only training without privacy meets your limits" in page and "<b>teaching" not in page
    assert zipfile.ZipFile(files[2]).read("report.html").decode() == page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.html", "out.json", "out.zip"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "x.pdf"], ".html"),
        (["--out", "/no/such/folder/x.html"], "/no/such/folder"),
        (["--out", "{tmp}/x.html", "--limit", "auc_loss=0.6"], "--utility"),
        (["--out", "{tmp}/x.html", "--limit", "auc_loss", "--utility", "0.5"], "auc_loss=0.55"),
        (["--out", "{tmp}/x.html", "--limit", "luck=0.5", "--utility", "0.5"], "luck"),
        (["--out", "{tmp}/x.html", "--limit", "auc_loss=0.6", "--utility", "5"], "between 0 and 1"),
        ([], "--out"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(smoke_workspace, smoke_specs, tmp_path, capsys, arguments, words):
    given = [one.replace("{tmp}", str(tmp_path)) for one in arguments]
    assert main(["report", smoke_specs["dp"].run_id, *given, "--data", str(smoke_workspace)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and words in captured.err and "Traceback" not in captured.err
    assert list(tmp_path.iterdir()) == []
