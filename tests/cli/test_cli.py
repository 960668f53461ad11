"""The command line: answers, exit codes, one line for bad input, and nothing written because of it."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from core.__main__ import main
from core.cli import training
from core.corpus.synthetic.hospital import build
from core.corpus.tables import Corpus
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, ModelKind, RiskLimit, RunSpec, Unit, recipe_of
from core.training.accounting.choosing import chosen_epsilon
from core.training.accounting.gaussian import epsilon
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.risk import achieved
from core.training.plan import plan

pytestmark = pytest.mark.usefixtures("asks_few_claims")  # runs made before are judged again, by as many claims

ROOT = Path(__file__).resolve().parents[2]


def asked(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """The JSON answer of a command that succeeds."""
    assert main([*map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    """The one line that a command gives on standard error when it refuses."""
    assert main([*map(str, arguments)]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("Error: ")
    assert captured.err.count("\n") == 1 and "Traceback" not in captured.err
    return captured.err


def test_help_and_bad_options_need_no_torch() -> None:
    code = "import sys; from core.__main__ import main; main(['--help']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)  # noqa: S603
    assert done.returncode == 0, done.stderr
    for command in ("corpus", "train", "audit", "sweep", "prompt", "account", "bench", "pretrain", "demo", "runs"):
        assert command in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--epsilon", "-1"], "--epsilon"),
        (["--epsilon", "0"], "above 0"),
        (["--epsilon", "nan"], "--epsilon"),
        (["--epsilon", "abc"], "abc"),
        (["--epsilon", "8", "--noise-multiplier", "1"], "not both"),
        (["--noise-multiplier", "0"], "σ"),
        (["--model", "gpt9"], "gpt9"),
        (["--base", "/nowhere/at/all"], "/nowhere/at/all"),
        (["--unit", "ward"], "--unit"),
        (["--delta", "2"], "--delta"),
        (["--delta", "abc"], "--delta"),
        (["--epochs", "-1"], "--epochs"),
        (["--epochs", "0", "--epsilon", "8"], "at least one epoch"),
        (["--corpus", "no-such-preset"], "classroom"),
        (["--batch-size", "5000"], "5000"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_train_refuses_bad_input_and_writes_nothing(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(capsys, "train", "--corpus", "smoke", "--data", tmp_path / "data", *arguments)
    assert words in line
    assert list(tmp_path.iterdir()) == []


def test_other_commands_refuse_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--data", tmp_path]
    assert "gpt2-000000000000" in refused(capsys, "prompt", "gpt2-000000000000", "hello", *here)
    assert "not a run" in refused(capsys, "audit", "../../etc/passwd", *here)
    assert "above 0" in refused(capsys, "sweep", "--epsilon", "8,-1", "--corpus", "smoke", *here)
    assert "either" in refused(capsys, "account", "--sample-rate", "0.1", "--steps", "5")
    assert "no benchmark" in refused(capsys, "bench", "no-such-thing")
    assert "file not found" in refused(capsys, "pretrain", "--text", tmp_path / "missing.txt")
    assert "command" in refused(capsys, "no-such-command")
    for option, value in (("--epsilon", "-1"), ("--recall", "2")):
        assert f"{option}:" in refused(capsys, "defences", option, value, *here), "the option as it is typed"
    assert "The detectors are: rules" in refused(capsys, "defences", "--detector", "mine", *here)
    assert list(tmp_path.iterdir()) == []


def test_account_says_what_choosing_the_best_of_several_trainings_costs(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--sample-rate", "0.05", "--steps", "100", "--noise-multiplier", "2", "--best-of", "10"]
    one = Mechanism(unit="note", noise_multiplier=2, sample_rate=0.05, steps=100, delta=1e-5, max_grad_norm=1.0)
    found = asked(capsys, "account", *given, "--best-of-shape", "1")
    assert found["best_of_epsilon"] == chosen_epsilon(one, 10, shape=1.0) > found["epsilon"]
    assert "best_of_epsilon" not in asked(capsys, "account", *given[:-2])
    for wrong in ("0.5", "inf", "nan"):
        assert "choosing needs 1 to" in refused(capsys, "account", *given[:-1], wrong)
    for shape in ("-1", "-2", "nan", "inf", "1e13"):
        assert "a shape η above −1" in refused(capsys, "account", *given, "--best-of-shape", shape)
    assert "no limit" in refused(capsys, "account", *given[:4], "--best-of", "10", "--right-guesses", "60")


def test_account_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--sample-rate", "0.05", "--steps", "200", "--accountant", "rdp"]
    found = asked(capsys, "account", "--noise-multiplier", "1.1", *given)
    expected = epsilon(noise_multiplier=1.1, sample_rate=0.05, steps=200, delta=1e-5, accountant="rdp")
    assert found["epsilon"] == expected
    back = asked(capsys, "account", "--epsilon", expected, *given)
    assert back["noise_multiplier"] == pytest.approx(1.1, rel=0.01) and back["epsilon"] <= expected


def test_gdp_is_called_an_approximation_beside_what_prv_proves(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["account", "--noise-multiplier", "1.1", "--sample-rate", "0.01", "--steps", "1000"]
    found, proved = asked(capsys, *given, "--accountant", "gdp"), asked(capsys, *given)
    assert found["approximation"] and found["epsilon_bound"] == proved["epsilon"] > found["epsilon"]
    assert "approximation" not in proved
    assert main([*given, "--accountant", "gdp"]) == 0
    assert "gdp approximates, and can be too small. By prv, ε is at most 1.52547." in capsys.readouterr().out


def test_account_by_what_an_attacker_may_achieve(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--sample-rate", "0.05", "--steps", "200"]
    found = asked(capsys, "account", "--attacker-catches", "5", *given)
    assert found["limit"] == {"caught": 0.05, "accused": 0.01}
    at = {point["accused"]: point["caught"] for point in found["curve"]}
    assert 0.0499 < at[0.01] <= 0.05 and at[0.1] > 0.1
    assert found["by_epsilon"]["noise_multiplier"] > found["noise_multiplier"] / 0.85
    same = asked(capsys, "account", "--noise-multiplier", str(found["noise_multiplier"]), *given)
    assert same["epsilon"] == found["epsilon"]
    assert main(["account", "--right-guesses", "60", *given]) == 0
    told = capsys.readouterr().out
    assert "at most 60 of 100 guesses right" in told and "less noise" in told and "→" in told
    assert main(["account", "--attacker-catches", "1.5", "--delta", "0.01", *given]) == 0
    told = capsys.readouterr().out
    assert "by way of (ε, δ): no ε holds this limit, since δ = 0.01 alone exceeds it" in told and "nan" not in told
    assert "both" in refused(capsys, "account", "--right-guesses", "60", "--attacker-catches", "5", *given)
    assert "either" in refused(capsys, "account", "--right-guesses", "60", "--epsilon", "5", *given)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--attacker-catches", "5", "--epsilon", "8"], "--epsilon"),
        (["--attacker-catches", "1"], "--attacker-catches"),
        (["--attacker-catches", "5", "--falsely-accused", "0"], "--falsely-accused"),
        (["--falsely-accused", "2"], "--attacker-catches"),
        (["--right-guesses", "50"], "--right-guesses"),
        (["--right-guesses", "60", "--falsely-accused", "2"], "--falsely-accused"),
        (["--attacker-catches", "5", "--accountant", "rdp"], "accountant prv"),
        (["--attacker-catches", "5", "--noise-multiplier", "0.5"], "does not hold the limit"),
    ],
)
def test_train_refuses_a_limit_that_cannot_be_meant(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refused(capsys, "train", "--corpus", "smoke", "--data", tmp_path / "data", *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--vocabulary-epsilon", "1e6"], "so large that its noise is too small to be computed"),
        (["--vocabulary-epsilon", "1e-9", "--vocabulary-delta", "1e-12"], "choose a larger ε or a larger δ"),
        (["--vocabulary-epsilon", "1", "--vocabulary-delta", "0.6", "--delta", "0.5"], "below 1 together"),
    ],
)
def test_train_refuses_a_vocabulary_that_cannot_be_promised(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--corpus", "smoke", "--data", tmp_path / "data", "--model", "distilbert", "--epsilon", "8"]
    assert words in refused(capsys, "train", *given, *arguments)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("unit", "model"), [("note", "gpt2"), ("patient", "distilbert")])
def test_train_takes_the_noise_that_holds_the_limit(
    unit: Unit, model: ModelKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[RunSpec] = []
    monkeypatch.setattr(training, "_execute", lambda spec, workspace: made.append(spec))
    monkeypatch.setattr(training, "described", lambda run: {})
    monkeypatch.setattr(training, "_summary_text", lambda run: "")
    limit = ["--attacker-catches", "10", "--unit", unit]
    asked(capsys, "train", "--corpus", "smoke", "--data", tmp_path, *limit, "--model", model, "--epochs", "2")
    (spec,) = made
    assert spec.privacy.risk_limit == RiskLimit(caught=0.1, accused=0.01) and spec.privacy.unit == unit
    notes = len(build(spec.corpus).training_notes(spec.note_cap))
    planned = plan(spec.privacy, spec.training, notes=notes, patients=9).mechanism
    assert 0.0995 < achieved(spec.privacy.risk_limit, [planned]) <= 0.1
    usual = recipe_of(model, spec.privacy, spec.corpus)
    assert spec.training.learning_rate == usual.learning_rate, "that of the noise that was chosen"


def test_corpus_writes_a_folder_that_train_understands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "hospital"
    found = asked(capsys, "corpus", "--preset", "smoke", "--seed", "3", "--out", out)
    corpus = Corpus.read(out)
    assert corpus.spec == CORPUS_PRESETS["smoke"].model_copy(update={"seed": 3})
    assert found["notes"] == len(corpus.notes) == pq.read_metadata(out / "notes.parquet").num_rows
    assert "not an empty folder" in refused(capsys, "corpus", "--preset", "smoke", "--out", out)
    assert "batch" in refused(capsys, "train", "--corpus", out, "--batch-size", 9_999, "--data", tmp_path / "data")
    assert [path.name for path in tmp_path.iterdir()] == ["hospital"]


def test_runs_and_audit_and_prompt(
    smoke_workspace: Path, smoke_specs: dict[str, RunSpec], capsys: pytest.CaptureFixture[str]
) -> None:
    here = ["--data", smoke_workspace]
    listed = {row["run_id"]: row for row in asked(capsys, "runs", *here)["runs"]}
    assert listed[smoke_specs["plain"].run_id]["epsilon"] == "inf"
    assert listed[smoke_specs["dp"].run_id]["epsilon"] == 8.0
    assert listed[smoke_specs["dp"].run_id]["noise_source"] == "public seed", "its ε is shown, not promised"
    assert listed[smoke_specs["plain"].run_id]["noise_source"] is None
    assert listed[smoke_specs["base"].run_id]["is_base"] is True

    plain = smoke_specs["plain"].run_id
    assert asked(capsys, "audit", plain, *here)["equals_stored"] is True

    answers = asked(capsys, "prompt", plain, "Patient:", "--n", 2, "--seed", 5, "--new-tokens", 12, *here)["answers"]
    assert [answer["seed"] for answer in answers] == [5, 6] and all(answer["text"] for answer in answers)
    again = asked(capsys, "prompt", plain, "Patient:", "--n", 1, "--seed", 6, "--new-tokens", 12, *here)["answers"]
    assert again[0] == answers[1], "the same seed gives the same text, alone or in a batch"
    assert "empty" in refused(capsys, "prompt", plain, "  ", *here)
    assert "Shorten the prompt" in refused(capsys, "prompt", plain, "word " * 300, *here)
    assert "shorter answer" in refused(capsys, "prompt", plain, "Patient:", "--new-tokens", 300, *here)
    assert f"{plain} is a GPT-2 model" in refused(capsys, "words", plain, *here)


def test_train_end_to_end_on_the_command_line(
    smoke_workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(smoke_workspace / "corpora", tmp_path / "corpora")
    command = [
        "train",
        "--model",
        "gpt2",
        "--size",
        "micro",
        "--corpus",
        "smoke",
        "--epochs",
        1,
        "--samples-per-prompt",
        1,
        "--data",
        tmp_path,
    ]
    found = asked(capsys, *command)
    run = Workspace(tmp_path).run(found["run"])
    assert found["epsilon"] == "inf" and Path(found["folder"]) == run.folder
    assert {row["metric"] for row in found["metrics"]} == set(run.metrics["metric"])
    values = [row["value"] for row in found["metrics"] if row["metric"] == "perplexity_heldout"]
    assert len(values) == 2 and all(math.isfinite(value) for value in values)
    assert asked(capsys, *command) == found, "a finished run is not made twice"


def test_prove_exits_with_failure_and_no_error_line_when_a_check_fails(
    smoke_workspace, smoke_specs, tmp_path, monkeypatch, capsys
):
    from core.training.checks import gradient_canaries, steps
    from core.training.checks.check import Check

    data = shutil.copytree(smoke_workspace, tmp_path / "data")
    ask = ["prove", smoke_specs["dp"].run_id, "--data", str(data)]
    monkeypatch.setattr(steps, "check_steps", lambda *given: [Check("size", "It is small", "size", 1.0, 0.0, 2.0)])
    assert main([*ask, "--canaries", "100", "--seed", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    planted = told["planted"]
    assert told["passed"] and planted["guesses"] == 10 and not planted["alarm"] and planted["seed"] == 3
    assert planted["promised"] == Workspace(smoke_workspace).run(smoke_specs["dp"].run_id).privacy.epsilon()
    assert planted["ceiling"] < planted["promised"] and not planted["can_alarm"]
    monkeypatch.setattr(gradient_canaries, "watch", lambda *given, **rest: pytest.fail("it trained"))
    assert main([*ask, "--canaries", "49"]) == 2
    assert "at least 50 canaries, not 49" in capsys.readouterr().err
    monkeypatch.setattr(steps, "check_steps", lambda *given: [Check("size", "It is small", "size", 3.0, 0.0, 2.0)])
    assert main(ask) == 1
    out, error = capsys.readouterr()
    assert "WRONG It is small" in out and "1 of 1 checks failed." in out and "Error" not in error


def test_a_weak_limit_on_the_attacker_has_no_infinite_mu(capsys):
    given = ("--sample-rate", "0.05", "--steps", "200", "--attacker-catches", "99.99", "--falsely-accused", "0.1")
    assert main(["account", *given]) == 0
    told = capsys.readouterr().out
    assert "μ is above 6 (Gaussian DP" in told and "inf" not in told
