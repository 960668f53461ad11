"""Every setting of a hospital has an option of `corpus`, and `sweep` takes noise multipliers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from core.__main__ import main
from core.cli import training
from core.cli.settings import SIGMAS
from core.corpus.tables import Corpus
from core.evaluation.report.commands import command
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, CorpusSpec, RunSpec

KNOBS = {
    "patients": 12,
    "population": 6,
    "notes_per_patient": 2.0,
    "naming_rate": 0.3,
    "generic_rate": 0.2,
    "copy_forward": 0.4,
    "note_length": "brief",
    "variant": "name-insertion",
    "canaries": 5,
    "canary_patients": 3,
    "random_canaries": 4,
    "canary_copies": 16,
    "seed": 9,
}
OF_IMPORTS = {"imported", "deduplicated", "identifiers", "detector", "split"}


def options(knobs: dict[str, object]) -> list[str]:
    return [part for name, value in knobs.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def test_every_setting_of_a_hospital_is_an_option(tmp_path: Path) -> None:
    assert set(KNOBS) | OF_IMPORTS == set(CorpusSpec.model_fields)
    out = tmp_path / "hospital"
    assert main(["corpus", "--preset", "smoke", "--out", str(out), *options(KNOBS)]) == 0
    corpus = Corpus.read(out)
    assert corpus.spec == CORPUS_PRESETS["smoke"].model_copy(update=KNOBS)
    assert len(corpus.canaries) == 12
    assert (corpus.patients["split"] == "population").sum() == 6


@pytest.mark.parametrize(("option", "value"), [("--population", "0.5"), ("--variant", "none"), ("--naming-rate", "2")])
def test_a_setting_that_no_hospital_can_have_is_named(
    option: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["corpus", "--out", str(tmp_path / "hospital"), option, value]) == 2
    assert option in capsys.readouterr().err and not (tmp_path / "hospital").exists()


def swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: str, command: str = "sweep") -> list[RunSpec]:
    """The specs that a sweep would train."""
    made: list[RunSpec] = []
    monkeypatch.setattr(training, "_execute", lambda spec, workspace, **_: made.append(spec) or spec.run_id)
    monkeypatch.setattr(training, "described", lambda run: None)
    monkeypatch.setattr(training, "_summary_text", lambda run: "")
    data = str(Workspace(tmp_path).root)
    assert main([command, "--corpus", "smoke", "--data", data, "--json", *arguments]) == 0
    return made


def test_a_sweep_over_the_noise_of_the_paper(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = swept(monkeypatch, tmp_path, "--sigma", SIGMAS, "--epsilon", "inf,8", "--delta", "1e-6")
    noises = [(spec.privacy.target_epsilon, spec.privacy.noise_multiplier) for spec in made]
    paper = [2.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-20]  # Jagannatha 2021, §A.1
    assert noises == [(None, None), (8.0, None), *((None, sigma) for sigma in paper)]
    assert {spec.privacy.delta for spec in made if spec.privacy.private} == {1e-6}
    assert json.loads(capsys.readouterr().out) == [None] * 9


def test_the_grid_of_the_paper_is_one_option(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The runs are those of `sweep --sigma` with the table's settings, and no option may change what it decides."""
    made = swept(monkeypatch, tmp_path, "--sigma-grid", "--seed", "3", command="train")
    assert json.loads(capsys.readouterr().out) == [None] * 7
    assert [spec.privacy.noise_multiplier for spec in made] == [2.0, 1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-20]
    assert {(spec.privacy.delta, spec.privacy.max_grad_norm, spec.training.epochs) for spec in made} == {(1e-6, 1.0, 3)}
    assert {spec.training.seed for spec in made} == {3} and not any(spec.privacy.target_epsilon for spec in made)
    first = swept(monkeypatch, tmp_path, "--sigma-grid", command="train")
    arguments = ("--sigma", SIGMAS, "--delta", "1e-6", "--epochs", "3")
    assert [spec.run_id for spec in first] == [spec.run_id for spec in swept(monkeypatch, tmp_path, *arguments)]
    for option in (("--epsilon", "8"), ("--delta", "1e-7"), ("--epochs", "4"), ("--max-grad-norm", "2")):
        assert main(["train", "--sigma-grid", *option, "--corpus", "smoke", "--data", str(tmp_path)]) == 2
        assert "--sigma-grid decides" in capsys.readouterr().err


def test_what_counts_alike_is_an_option_of_training_without_privacy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    by_token, by_note, usual = (
        swept(monkeypatch, tmp_path, *arguments, command="train")[0]
        for arguments in (("--weighting", "token"), ("--weighting", "note"), ())
    )
    assert by_token.training.weighting == "token" and by_note == usual != by_token
    assert command(by_token).endswith(" --weighting token --seed 0") and "--weighting" not in command(usual)
    capsys.readouterr()
    for arguments, said in (
        (["--weighting", "word"], "Choose note or token"),
        (["--weighting", "token", "--epsilon", "8"], "every note counts alike"),
    ):
        assert main(["train", "--corpus", "smoke", "--data", str(tmp_path), *arguments]) == 2
        assert said in capsys.readouterr().err


def test_a_sweep_needs_an_epsilon_or_a_sigma(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "--corpus", "smoke", "--data", str(tmp_path)]) == 2
    assert "--sigma" in capsys.readouterr().err
    assert main(["sweep", "--sigma", "1,much", "--corpus", "smoke", "--data", str(tmp_path)]) == 2
    assert "much" in capsys.readouterr().err
