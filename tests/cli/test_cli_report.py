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


def test_a_folder_that_is_missing_is_made(smoke_workspace, smoke_specs, tmp_path):
    """As `store export` and `notes` make it; a refusal leaves none behind."""
    run, out, data = smoke_specs["dp"].run_id, tmp_path / "for" / "the board" / "out.json", str(smoke_workspace)
    assert main(["report", "no-such-run", "--out", str(out), "--data", data]) == 2 and not any(tmp_path.iterdir())
    assert main(["report", run, "--out", str(out), "--data", data]) == 0
    assert json.loads(out.read_text())["subject"]["run"] == run


@pytest.mark.parametrize("name", ["auc_strongest", "members_caught_strongest", "privacy_leakage_strongest", "auc_loss"])
def test_new_and_old_names_of_limits_are_taken(smoke_workspace, smoke_specs, tmp_path, name):
    out = tmp_path / "out.json"
    limits = ["--limit", f"{name}=1", "--utility", "0"]
    assert main(["report", smoke_specs["dp"].run_id, "--out", str(out), *limits, "--data", str(smoke_workspace)]) == 0
    told = json.loads(out.read_text())["recommendation"]
    assert (told["epsilon"], told["unit"], told["limits"][name]) == (8.0, "note", 1.0)
    text = " ".join(told["sentences"])
    assert "a patient with the median number of training notes" in text, "ε per note says what a patient gets"
    assert ("Only the loss attack" in text) == name.endswith("_strongest")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "x.pdf"], ".html"),
        (["--out", "/dev/null/reports/x.html"], "--out: /dev/null is a file, not a folder."),
        (["--out", "{tmp}/x.html", "--limit", "auc_loss=0.6"], "--utility"),
        (["--out", "{tmp}/x.html", "--limit", "auc_loss", "--utility", "0.5"], "auc_strongest=0.6"),
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


def test_the_first_page_is_about_the_run_that_is_named(smoke_workspace, smoke_specs, tmp_path):
    runs, out = [smoke_specs[name].run_id for name in ("plain", "dp")], tmp_path / "out.json"
    answers = tmp_path / "decision.json"
    answers.write_text('{"access": "weights", "owner": "<b>CISO</b>"}', encoding="utf-8")
    common = ["report", *runs, "--out", str(out), "--data", str(smoke_workspace)]
    assert main([*common, "--about", runs[0], "--decision", str(answers)]) == 0
    told = json.loads(out.read_text())
    assert told["subject"]["run"] == runs[0] and told["subject"]["verdict"] == "unprotected"
    assert told["decision"]["owner"] == "<b>CISO</b>" and "The recipient gets the weights" in told["conditions"][1]
    assert f"--about {runs[0]} --decision decision.json" in told["commands"][-1]
    assert main(common) == 0
    assert json.loads(out.read_text())["subject"]["run"] == runs[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--about", "gpt2-000000000000"], "not among the runs of the report"),
        (["--decision", "{tmp}/none.json"], "cannot be read"),
        (["--decision", "{tmp}/bad.json"], "Its keys are recipient, access"),
    ],
)
def test_a_wrong_subject_or_decision_is_a_sentence(smoke_workspace, smoke_specs, tmp_path, capsys, arguments, words):
    (tmp_path / "bad.json").write_text('{"who": 1}', encoding="utf-8")
    given = [one.replace("{tmp}", str(tmp_path)) for one in arguments]
    out = tmp_path / "out.html"
    assert main(["report", smoke_specs["dp"].run_id, *given, "--out", str(out), "--data", str(smoke_workspace)]) == 2
    captured = capsys.readouterr()
    assert words in captured.err and captured.err.count("\n") == 1 and not out.exists()
