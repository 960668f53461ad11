"""`python -m core ledger --release … --best-of`: a choice is confirmed, entered, counted, and otherwise refused."""

from __future__ import annotations

import io
import json
import shutil

import pytest

from core.__main__ import main
from core.runs.ledger.entries import Ledger
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from core.training.accounting.choosing import chosen_epsilon

SMOKE = CORPUS_PRESETS["smoke"]
SCORE = "loss on public notes"


@pytest.fixture
def data(smoke_workspace, smoke_specs, mark_secret, tmp_path):
    shutil.copytree(smoke_workspace, tmp_path / "data")
    mark_secret(tmp_path / "data", smoke_specs["dp"])
    return tmp_path / "data"


@pytest.fixture
def command(data, smoke_specs):
    return ["ledger", "--release", smoke_specs["dp"].run_id, "--reason", "for a class", "--data", str(data)]


def refused(capsys, *arguments) -> str:
    assert main([*map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.splitlines()[-1].count("Error: ") == 1
    return captured.err


def test_a_choice_is_confirmed_by_itself_and_counts(data, smoke_specs, command, capsys):
    chosen = [*command, "--delta", "1e-3", "--best-of", "10", "--best-of-shape", "1", "--chosen-by", SCORE]
    told = refused(capsys, *chosen, "--yes")
    assert "Add --choice-holds if it is true" in told and "best of 10 expected runs (η = 1)" in told
    assert "used only public notes" in told and "A fixed number of runs" in told
    assert not (data / "ledger").exists()
    assert main([*chosen, "--yes", "--choice-holds", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    (cohort,), preview = answer["cohorts"], answer["release"]
    run = Workspace(data, shared=()).run(smoke_specs["dp"].run_id)
    expected = chosen_epsilon(run.privacy, 10, shape=1.0, delta=1e-3)
    note, (entry,) = cohort["totals"]["note"], cohort["releases"]
    assert note["epsilon"] == preview["changes"][0]["after"]["epsilon"] == expected > run.privacy.epsilon()
    assert (note["accountant"], note["choices"]) == ("rdp", 1)
    assert entry["choice"] == preview["choice"] == {"trainings": 10.0, "shape": 1.0, "score": SCORE}
    assert main(["ledger", "--data", str(data)]) == 0
    text = capsys.readouterr().out
    assert f"(best of 10 expected runs (η = 1), chosen by {SCORE}); for a class" in text
    assert "added up by Rényi divergences (RDP), because the run was chosen among several runs;" in text


def test_a_total_without_a_choice_names_its_accountant(command, data, capsys):
    assert main([*command, "--yes"]) == 0
    assert "(composed by PRV; the sum of the single ε is" in capsys.readouterr().out


def test_the_question_names_what_a_choice_needs(data, command, capsys, monkeypatch):
    chosen = [*command, "--best-of", "10", "--chosen-by", SCORE]
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    told = refused(capsys, *chosen)
    assert "“y” confirms that all of this is true." in told and "nothing else from these runs is released" in told
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(chosen) == 0
    (entry,) = Ledger.of(Workspace(data, shared=()), SMOKE).releases()
    assert entry.choice is not None and (entry.choice.trainings, entry.choice.shape) == (10.0, 0.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--best-of", "10"], "--best-of needs --chosen-by"),
        (["--best-of", "10", "--chosen-by", " "], "enter each run as a separate release"),
        (["--chosen-by", SCORE], "can only be used with --best-of"),
        (["--best-of-shape", "0"], "can only be used with --best-of"),
        (["--choice-holds"], "can only be used with --best-of"),
        (["--best-of", "0.5", "--chosen-by", SCORE], "choosing needs 1 to"),
        (["--best-of", "10", "--best-of-shape", "-1", "--chosen-by", SCORE], "no finite sum"),
    ],
)
def test_what_is_no_choice_is_refused_and_writes_nothing(data, command, capsys, options, words):
    assert words in refused(capsys, *command, "--yes", *options)
    assert not (data / "ledger").exists()


def test_a_run_that_the_theorem_does_not_cover_is_refused(data, smoke_specs, capsys):
    plain = ["ledger", "--release", smoke_specs["plain"].run_id, "--reason", "x", "--data", data]
    assert "trained without privacy" in refused(capsys, *plain, "--best-of", 10, "--chosen-by", SCORE, "--yes")
    assert "only be used with --release" in refused(
        capsys, "ledger", "--data", data, "--best-of", 10, "--chosen-by", SCORE
    )
    assert not (data / "ledger").exists()
