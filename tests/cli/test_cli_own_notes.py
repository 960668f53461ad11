"""`corpus --from` and a run on what it wrote: the whole line, from a CSV file to figures."""

from __future__ import annotations

import gzip
import json
import os
import stat
from types import SimpleNamespace

import numpy as np
import pytest

from core.__main__ import main
from core.corpus.importing.importer import read_notes
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.evaluation.report.csv_export import spreadsheet_csv
from core.phi.detector.engine import RULES, SHAPES
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, CorpusSpec, ModelSpec, RunSpec
from core.training.step_gradients import StepGradients

NOTES = build(CORPUS_PRESETS["smoke"]).notes


@pytest.fixture
def notes_file(tmp_path):
    path = tmp_path / "ward.csv"
    own = NOTES[NOTES["split"] != "canary"].rename(columns={"text": "Wording"})
    own[["patient_id", "Wording", "note_type"]].to_csv(path, index=False)
    return path


@pytest.mark.slow
def test_from_a_file_to_a_run_on_it(notes_file, tmp_path, capsys):
    out, data = tmp_path / "mine", tmp_path / "data"
    asked = ["--from", str(notes_file), "--out", str(out), "--canaries", "6", "--population", "0.1", "--json"]
    assert main(["corpus", *asked, "--column", "note=Wording"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["patients"] == 32 and said["canaries"] == 6 and said["records"] == "notes"
    corpus = Corpus.read(out)
    assert corpus.spec.imported == said["spec"]["imported"] == corpus.content_id()
    few = ["--size", "micro", "--epochs", "1", "--samples-per-prompt", "1"]
    assert main(["train", "--corpus", str(out), *few, "--data", str(data), "--json"]) == 0
    run = Workspace(data).run(json.loads(capsys.readouterr().out)["run"])
    assert run.spec.corpus == corpus.spec and set(run.metrics["arm"]) == {"run", "heldout", "base"}
    judged = corpus.notes[corpus.notes["split"].isin(["member", "heldout"])]
    assert set(run.table("scores")["patient_id"].dropna()) == set(judged["patient_id"])
    assert not Workspace(data, viewer="somebody").runs(), "pages show it to nobody"


def test_the_output_filter_searches_with_the_detector_of_the_import(notes_file, tmp_path, capsys):
    out, data = str(tmp_path / "mine"), str(tmp_path / "data")
    asked = ["--from", str(notes_file), "--out", out, "--column", "note=Wording", "--detector", RULES]
    assert main(["corpus", *asked]) == 0
    for corpus, more, name in ((out, [], RULES), (out, ["--detector", SHAPES], SHAPES), ("smoke", [], SHAPES)):
        capsys.readouterr()
        assert main(["defences", "--corpus", corpus, "--data", data, "--json", *more]) == 0
        assert json.loads(capsys.readouterr().out)["filter_detector"] == name


def test_notes_that_were_changed_afterwards_are_refused(notes_file, tmp_path, capsys):
    out = tmp_path / "mine"
    assert main(["corpus", "--from", str(notes_file), "--out", str(out), "--column", "note=Wording"]) == 0
    corpus = Corpus.read(out)
    corpus.notes.loc[0, "text"] = "something else"
    corpus.write(out)
    assert main(["train", "--corpus", str(out), "--data", str(tmp_path / "data")]) == 2
    assert "are not those that its spec.json names" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "notes.csv is empty"),
        (b"patient_id,words\nA,x\n", "say which column holds the note"),
        (b"patient_id,text\nA,x\nB,\xe9\n", "row 3, column “text”: the text is not UTF-8"),
        (b"patient_id,text\nA,x\0y\n", "row 2, column “text”: there is a NUL byte"),
        (b"patient_id,text\nA," + b"x" * 17 * 2**20, "line 2 has more than 16 MiB without an end"),
        (b"patient_id,text,id\nA,x,1\nB,y,1\n", "row 3, column “id”: note “1” is already in row 2"),
        (b"patient_id,text,split\nA,x,member\nA,y,heldout\n", "row 3, column “split”: patient “A” is “heldout”"),
        (
            gzip.compress(b"patient_id,text\n" + (b"A," + b"x" * 1_000 + b"\n") * 40_000, mtime=0),
            "expands to more than 100 times its size",
        ),
        (b"patient_id,text\n", "has a header and no rows"),
        (b"patient_id,text\nA,x\nA,y\n", "notes of 1 patient. At least 4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_files_leave_nothing_behind(tmp_path, capsys, content, complaint):
    path = tmp_path / "notes.csv"
    path.write_bytes(content)
    assert main(["corpus", "--from", str(path), "--out", str(tmp_path / "out")]) == 2
    assert complaint in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_a_formula_in_the_notes_is_disarmed_in_what_is_exported(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text("patient_id,text,type\n" + "".join(f'{who},"=1+1, {who}",@SUM(A1)\n' for who in "ABCD"))
    exported = spreadsheet_csv(read_notes(path).notes[["note_type", "text"]]).decode()
    assert exported.count("\"'=1+1") == 4 and exported.count("\"'@SUM") == 4


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--from", "NOTES", "--patients", "40"], "--patients describes a synthetic hospital"),
        (["--identifiers", "NOTES"], "--identifiers is for your own notes"),
        (["--from", "NOTES", "--column", "Wording"], "does not have the form ROLE=NAME"),
        (["--from", "NOTES", "--column", "body=Wording"], "no such column to map: body"),
        (["--from", "NOTES"], "say which column holds the note"),
        (["--from", "nowhere.csv"], "There is no file nowhere.csv"),
        (
            ["--from", "NOTES", "--column", "note=Wording", "--deduplicate", "some"],
            "“some” is not one of no, exact, near",
        ),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(notes_file, tmp_path, capsys, options, complaint):
    given = [str(notes_file) if one == "NOTES" else one for one in options]
    assert main(["corpus", "--out", str(tmp_path / "out"), *given]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_patients_without_an_identifier_are_counted_and_remarks_are_said(notes_file, tmp_path, capsys):
    """Rows of the table are no identifiers: 9 of the 32 patients have a row and nothing in it, 1 has no row."""
    people = sorted(NOTES.loc[NOTES["split"] != "canary", "patient_id"].unique())
    rows = [f"{who},{'' if n < 9 else f'514-22-{9000 + n}'},70" for n, who in enumerate(people[:-1])]
    table = tmp_path / "ids.csv"
    table.write_text("patient_id,ssn,age\n" + "\n".join([*rows, "nobody,1,18 months"]) + "\n")
    asked = ["--from", str(notes_file), "--identifiers", str(table), "--column", "note=Wording"]
    assert main(["corpus", *asked, "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "identifiers: from the given table; 10 of 32 patients without any" in said
    assert "1 row: the patient has no note (first: ids.csv, row 33, column “patient_id”)" in said


@pytest.mark.parametrize("imported", ["0" * 16, None])
def test_inner_products_of_imported_notes_are_for_their_owner_alone(imported, tmp_path, monkeypatch):
    spec = RunSpec(corpus=CorpusSpec(imported=imported), model=ModelSpec(kind="gpt2", size="micro"))
    monkeypatch.setattr("core.cli.runs.as_trained", lambda *given: (SimpleNamespace(id="run", spec=spec), None))
    gradients = StepGradients(("n1", "n2"), ("p1", "p2"), np.eye(2), 10, 2.0, 2)
    monkeypatch.setattr("core.training.inside_step.first_step", lambda *given, **rest: gradients)
    monkeypatch.setattr("core.models.build.load", lambda model: None)
    out = tmp_path / "open" / "step.safetensors"
    out.parent.mkdir()
    out.parent.chmod(0o755)  # a file follows its folder, and that of a test is private
    before = os.umask(0o022)
    try:
        assert main(["step", "run", "--out", str(out)]) == 0
    finally:
        os.umask(before)
    assert (stat.S_IMODE(out.stat().st_mode) == 0o600) is (imported is not None)
    assert StepGradients.load(out).patients == ("p1", "p2")
    assert main(["step", "run", "--out", str(tmp_path / "new" / "step.safetensors")]) == 0, "the folder is made"
