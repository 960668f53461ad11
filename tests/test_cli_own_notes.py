"""`corpus --from` and a run on what it wrote: the whole line, from a CSV file to figures."""

from __future__ import annotations

import json

import pytest

from core.__main__ import main
from core.corpus.hospital import build
from core.corpus.tables import Corpus
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS

NOTES = build(CORPUS_PRESETS["smoke"]).notes


@pytest.fixture
def notes_file(tmp_path):
    path = tmp_path / "ward.csv"
    own = NOTES[NOTES["split"] != "canary"].rename(columns={"text": "Wording"})
    own[["patient_id", "Wording", "note_type"]].to_csv(path, index=False)
    return path


def test_from_a_file_to_a_run_on_it(notes_file, tmp_path, capsys):
    out, data = tmp_path / "mine", tmp_path / "data"
    asked = ["--from", str(notes_file), "--out", str(out), "--canaries", "6", "--population", "0.1", "--json"]
    assert main(["corpus", *asked, "--column", "note=Wording"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["patients"] == 32 and said["canaries"] == 6 and said["records"] == "notes"
    corpus = Corpus.read(out)
    assert corpus.spec.imported == said["spec"]["imported"] == corpus.content_id()
    train = ["train", "--corpus", str(out), "--epochs", "1", "--samples-per-prompt", "1", "--data", str(data), "--json"]
    assert main(train) == 0
    run = Workspace(data).run(json.loads(capsys.readouterr().out)["run"])
    assert run.spec.corpus == corpus.spec and set(run.metrics["arm"]) == {"run", "heldout", "base"}
    judged = corpus.notes[corpus.notes["split"].isin(["member", "heldout"])]
    assert set(run.table("scores")["patient_id"].dropna()) == set(judged["patient_id"])
    assert not Workspace(data, viewer="somebody").runs(), "pages show it to nobody"


def test_notes_that_were_changed_afterwards_are_refused(notes_file, tmp_path, capsys):
    out = tmp_path / "mine"
    assert main(["corpus", "--from", str(notes_file), "--out", str(out), "--column", "note=Wording"]) == 0
    corpus = Corpus.read(out)
    corpus.notes.loc[0, "text"] = "something else"
    corpus.write(out)
    assert main(["train", "--corpus", str(out), "--data", str(tmp_path / "data")]) == 2
    assert "are not those its spec.json names" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--from", "NOTES", "--patients", "40"], "--patients describes a synthetic hospital"),
        (["--identifiers", "NOTES"], "--identifiers is about notes of your own"),
        (["--from", "NOTES", "--column", "Wording"], "is not ROLE=NAME"),
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
