"""`python -m core ledger`: totals, releases, a vocabulary, and refusals that write nothing."""

from __future__ import annotations

import io
import json
import math
import shutil

import pytest

from core.__main__ import main
from core.cli import ledger as ledger_command
from core.runs.ledger.entries import Ledger, Vocabulary
from core.runs.store import CohortGone, Workspace
from core.spec import CORPUS_PRESETS
from core.training.accounting.mechanism import Mechanism

SMOKE = CORPUS_PRESETS["smoke"]


@pytest.fixture
def data(smoke_workspace, smoke_specs, mark_secret, tmp_path):
    shutil.copytree(smoke_workspace, tmp_path / "data")
    mark_secret(tmp_path / "data", smoke_specs["dp"])
    return tmp_path / "data"


def asked(capsys, *arguments):
    """The JSON answer of a command that succeeds, its one cohort."""
    assert main(["ledger", *map(str, arguments), "--json"]) == 0
    (cohort,) = json.loads(capsys.readouterr().out)["cohorts"]
    return cohort


def entered(capsys, *arguments):
    """The same of a command that enters something."""
    return asked(capsys, *arguments, "--yes")


def answered(monkeypatch, text: str | None) -> None:
    """What stands on standard input; None: there is none."""
    monkeypatch.setattr("sys.stdin", None if text is None else io.StringIO(text))


def refused(capsys, *arguments):
    assert main(["ledger", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.splitlines()[-1].count("Error: ") == 1
    return captured.err


def test_a_release_is_entered_once_and_told_with_what_is_left(data, smoke_specs, capsys):
    here, run_id = ["--data", data], smoke_specs["dp"].run_id
    assert asked(capsys, *here)["releases"] == []
    cohort = entered(capsys, "--release", run_id, "--reason", "for a class", "--delta", 1e-3, "--budget", 10, *here)
    (entry,), note = cohort["releases"], cohort["totals"]["note"]
    assert (entry["name"], entry["reason"], entry["unit"]) == (run_id, "for a class", "note")
    mechanism = Mechanism.model_validate(entry["mechanism"])
    assert note["epsilon"] == pytest.approx(mechanism.epsilon())
    assert note["left"] == pytest.approx(10 - mechanism.epsilon())
    assert 0 < note["one_more_run_like_the_last"] < 10
    assert cohort["totals"]["patient"]["epsilon"] is None, "a promise for notes is no ε = 0 for patients"
    assert "already, as entry 1" in refused(capsys, "--release", run_id, "--reason", "again", *here)
    cohort = entered(capsys, "--release", smoke_specs["plain"].run_id, "--reason", "a mistake", *here)
    assert cohort["totals"]["note"]["epsilon"] == "inf" and cohort["totals"]["patient"]["epsilon"] == "inf"
    assert main(["ledger", *map(str, here)]) == 0
    assert "trained without privacy" in capsys.readouterr().out


def test_releases_per_note_and_per_patient_are_told_together(data, capsys):
    """A promise of each unit: the text and the JSON say what both come to, and call each total by its unit."""
    ledger = Ledger.of(Workspace(data, shared=()), SMOKE)
    for unit in ("note", "patient"):
        words = Vocabulary(epsilon=0.5, delta=1e-9, words=2, unit=unit)
        ledger.enter(ledger.draft_vocabulary(f"{unit}s", words, "a tokenizer"))
    cohort = asked(capsys, "--data", data)
    assert [cohort["totals"][unit]["epsilon"] for unit in ("note", "patient")] == [1.0, 1.0]
    patient, note = cohort["together"]
    most = int(Workspace(data, shared=()).corpus(SMOKE).training_notes(10**6).groupby("patient_id").size().max())
    assert (patient["unit"], patient["notes"], patient["epsilon"]) == ("patient", most, most + 1)
    assert (note["unit"], note["epsilon"]) == ("note", 3.0)
    assert note["delta"] == pytest.approx((2 + math.e) * 1e-5)
    assert main(["ledger", "--data", str(data)]) == 0
    told = capsys.readouterr().out
    assert "what was released per note, together: ε = 1 " in told and "what was released per patient" in told
    assert "For one note, everything together promises ε = 3 at δ = 4.8·10⁻⁵." in told
    assert f"For the patient with the most notes ({most}), everything together promises " in told


def test_what_fits_into_a_budget_counts_the_vocabularies(data, smoke_specs, capsys):
    here = ["--data", data, "--delta", 1e-3]
    words = Vocabulary(epsilon=2.0, delta=1e-10, words=3, unit="note")
    ledger = Ledger.of(Workspace(data, shared=()), SMOKE)
    ledger.enter(ledger.draft_vocabulary("words", words, "a tokenizer"))
    cohort = entered(capsys, "--release", smoke_specs["dp"].run_id, "--reason", "for a class", "--budget", 15, *here)
    note = cohort["totals"]["note"]
    assert note["left"] == pytest.approx(15 - 14, abs=0.05)
    assert 0 < note["one_more_run_like_the_last"] < 9, "8 and 6 are gone"
    assert asked(capsys, "--budget", 13, *here)["totals"]["note"]["one_more_run_like_the_last"] == 0.0


def test_a_vocabulary_is_entered_and_written(data, tmp_path, capsys):
    out = tmp_path / "words.json"
    cohort = entered(
        capsys,
        "--vocabulary",
        out,
        "--corpus",
        "smoke",
        "--epsilon",
        2,
        "--words",
        3,
        "--vocabulary-delta",
        1e-4,
        "--reason",
        "a tokenizer",
        "--delta",
        1e-2,
        "--data",
        data,
    )
    (entry,) = cohort["releases"]
    assert entry["kind"] == "vocabulary" and cohort["totals"]["note"]["epsilon"] == pytest.approx(6.0)
    kept = json.loads(out.read_text())
    assert all(count >= 1 + 2 * math.log(2 / 1e-4) / 2 for count in kept.values())
    words = set(" ".join(Workspace(data, shared=()).corpus(SMOKE).training_notes()["text"]).split())
    assert set(kept) <= words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--release", "gpt2-000000000000"], "--reason"),
        (["--release", "gpt2-000000000000", "--reason", "x"], "gpt2-000000000000"),
        (["--release", "gpt2-000000000000", "--vocabulary", "x", "--reason", "x"], "not both"),
        (["--vocabulary", "x", "--reason", "x"], "--words"),
        (["--reason", "x"], "--release"),
        (["--yes"], "--release"),
        (["--budget", "-1"], "--budget"),
        (["--delta", "2"], "δ"),
        (["--corpus", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_refused_and_writes_nothing(data, capsys, arguments, words):
    assert words in refused(capsys, *arguments, "--data", data)
    assert not (data / "ledger").exists()
    assert Ledger.of(Workspace(data, shared=()), SMOKE).releases() == []


def test_what_a_release_does_is_shown_and_agreed_to_before_it_is_written(data, smoke_specs, capsys, monkeypatch):
    run_id, ledger = smoke_specs["dp"].run_id, Ledger.of(Workspace(data, shared=()), SMOKE)
    arguments = ["--release", run_id, "--reason", "for a class", "--delta", 1e-3, "--data", data]
    for answer in ("n\n", "\n", "yess\n"):
        answered(monkeypatch, answer)
        told = refused(capsys, *arguments)
        assert "nothing released → ε = 8 at δ = 0.001" in told and "For the patient with the most notes" in told
        assert "[y/N]" in told and "Nothing was entered" in told
    for nobody in (None, ""):
        answered(monkeypatch, nobody)
        assert "standard input is closed" in refused(capsys, *arguments)
    assert not (data / "ledger").exists()
    answered(monkeypatch, "y\n")
    assert main(["ledger", *map(str, arguments)]) == 0
    assert [one.name for one in ledger.releases()] == [run_id] and "1 released" in capsys.readouterr().out
    answered(monkeypatch, "n\n")
    told = refused(capsys, "--release", smoke_specs["plain"].run_id, "--reason", "a mistake", "--data", data)
    assert "→ ε = ∞ (nothing is promised)" in told and "trained without privacy" in told
    assert len(ledger.releases()) == 1, "the total is told to become infinite before it does"


def test_json_without_yes_only_shows(data, smoke_specs, capsys, monkeypatch):
    answered(monkeypatch, None)
    command = ["ledger", "--release", smoke_specs["dp"].run_id, "--reason", "x", "--json", "--data", str(data)]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)["release"]
    assert told["entered"] is False and told["entry"] == 1 and told["changes"][0]["before"] is None
    assert told["changes"][0]["after"]["epsilon"] > 0 and not (data / "ledger").exists()
    assert main([*command, "--yes"]) == 0
    assert json.loads(capsys.readouterr().out)["release"]["entered"] is True
    assert len(Ledger.of(Workspace(data, shared=()), SMOKE).releases()) == 1


def test_a_release_over_the_budget_needs_more_than_yes(data, smoke_specs, capsys, monkeypatch):
    command = ["--release", smoke_specs["dp"].run_id, "--reason", "x", "--delta", 1e-3, "--budget", 7, "--data", data]
    assert "exceed the budget of 7. Add --over-budget" in refused(capsys, *command, "--yes")
    answered(monkeypatch, "n\n")
    assert "would exceed the budget of 7. A release cannot be undone" in refused(capsys, *command)
    assert not (data / "ledger").exists()
    assert len(entered(capsys, *command, "--over-budget")["releases"]) == 1


def test_an_entry_that_came_meanwhile_is_not_agreed_to(data, smoke_specs, capsys, monkeypatch):
    ledger = Ledger.of(Workspace(data, shared=()), SMOKE)

    class Slow(io.StringIO):
        def readline(self, *_):
            words = Vocabulary(epsilon=0.5, delta=1e-9, words=2, unit="note")
            ledger.enter(ledger.draft_vocabulary("words", words, "by somebody else"))
            return "y\n"

    monkeypatch.setattr("sys.stdin", Slow())
    told = refused(capsys, "--release", smoke_specs["dp"].run_id, "--reason", "x", "--data", data)
    assert "another entry after" in told and [one.name for one in ledger.releases()] == ["words"]


def test_a_private_run_with_a_public_seed_is_not_released(smoke_workspace, smoke_specs, tmp_path, capsys):
    shutil.copytree(smoke_workspace, tmp_path / "data")
    told = refused(capsys, "--release", smoke_specs["dp"].run_id, "--reason", "x", "--yes", "--data", tmp_path / "data")
    assert "public seed" in told and "Its ε is shown, not promised" in told and "--secret-noise" in told
    assert not (tmp_path / "data" / "ledger").exists()


def test_a_promise_is_rounded_up_as_on_the_page():
    release = {"number": 1, "kind": "run", "name": "x", "unit": "note", "chosen": None, "reason": "r"}
    total = {"releases": 2, "reasons": [], "delta": 1e-5, "accounting": "composed"}
    told = ledger_command._text(
        {
            "cohort": "c",
            "patients": 8,
            "releases": [{**release, "epsilon": 10.00049}],
            "totals": {
                "note": {**total, "epsilon": 123.44, "sum_of_epsilons": 20.02},
                "patient": {**total, "epsilon": math.inf, "sum_of_epsilons": math.inf},
            },
            "together": [],
            "together_unknown": "",
        }
    )
    assert "ε = 10.1 per note" in told
    assert "ε = 124 at" in told and "single ε is 20.1)" in told
    assert "ε = ∞ at δ = 1e-05\n" in f"{told}\n", "nothing was composed, and a release without privacy is in no sum"


def test_a_released_cohort_without_a_run_is_listed(data, smoke_specs, capsys):
    entered(capsys, "--release", smoke_specs["dp"].run_id, "--reason", "the trial", "--data", data)
    shutil.rmtree(data / "runs")
    (cohort,) = [one for one in all_of(capsys, data) if one["cohort"] == SMOKE.digest()]
    assert [release["name"] for release in cohort["releases"]] == [smoke_specs["dp"].run_id]


def all_of(capsys, data) -> list[dict]:
    assert main(["ledger", "--data", str(data), "--json"]) == 0
    return json.loads(capsys.readouterr().out)["cohorts"]


def test_the_releases_of_a_cohort_that_is_gone_are_told_without_what_needs_its_notes(
    data, smoke_specs, capsys, monkeypatch
):
    entered(capsys, "--release", smoke_specs["dp"].run_id, "--reason", "the trial", "--data", data)
    before = asked(capsys, "--corpus", "smoke", "--data", data)

    def gone(self, spec, *, store=True):
        raise CohortGone("The notes of this cohort are not here.")

    monkeypatch.setattr(Workspace, "corpus", gone)
    after = asked(capsys, "--corpus", "smoke", "--data", data)
    assert before["together"] and not before["together_unknown"]
    assert after["together"] == [] and after["together_unknown"].endswith("The notes of this cohort are not here.")
    assert after["releases"] == before["releases"] and after["totals"] == before["totals"]
    assert main(["ledger", "--corpus", "smoke", "--data", str(data)]) == 0
    assert "for one patient or one note is not known" in capsys.readouterr().out
