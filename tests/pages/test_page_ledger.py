"""The Ledger page, driven without a browser: releases are explicit, cannot be undone, and count by unit."""

from __future__ import annotations

import shutil
from functools import partial

import pytest
from visit import said, visit

from core.runs.ledger import Ledger, Vocabulary
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS

opened = partial(visit, "ledger")
SMOKE = CORPUS_PRESETS["smoke"]


@pytest.fixture
def workspace(monkeypatch, smoke_workspace, tmp_path):
    shutil.copytree(smoke_workspace, tmp_path / "data")
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path / "data"))
    return Workspace(tmp_path / "data", shared=())


def release(app, run_id: str, reason: str, sure: bool):
    """Fill the form and send it."""
    app.selectbox(key="release_run").set_value(run_id)
    app.text_input(key="release_reason").set_value(reason)
    if sure:
        app.checkbox(key="release_sure").check()
    next(button for button in app.button if button.label == "Enter the release").click().run()
    assert not app.exception
    return app


def totals(app) -> dict[str, str]:
    return {metric.label: metric.value for metric in app.metric}


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert any("no trained model" in info.value for info in opened().info)


def test_a_release_needs_a_reason_and_a_tick_and_then_counts(workspace, smoke_specs):
    run_id, ledger = smoke_specs["dp"].run_id, Ledger.of(workspace, SMOKE)
    app = opened()
    assert any("Nothing of this cohort was entered" in info.value for info in app.info)
    app = release(app, run_id, "for the class", sure=False)
    assert any("cannot be undone" in error.value for error in app.error) and ledger.releases() == []
    assert app.text_input(key="release_reason").value == "for the class", "a refusal costs nobody their words"
    app = release(app, run_id, "   ", sure=True)
    assert any("needs a reason" in error.value for error in app.error) and ledger.releases() == []
    app = release(app, run_id, "for the class", sure=True)
    assert [(one.name, one.reason) for one in ledger.releases()] == [(run_id, "for the class")]
    assert app.text_input(key="release_reason").value == "" and not app.checkbox(key="release_sure").value
    app.number_input(key="ledger_delta").set_value(1e-3).run()
    assert totals(app)["For one note, all releases together"] == "ε = 8"
    assert totals(app)["For one patient, all releases together"] == "no promise"
    assert app.dataframe[0].value["reason"].tolist() == ["for the class"]
    assert run_id not in app.selectbox(key="release_run").options, "it cannot be released twice"
    assert "For the patient with the most notes" in said(app)
    assert app.get("plotly_chart")


def test_a_release_without_privacy_makes_the_totals_infinite_and_says_so(workspace, smoke_specs):
    app = release(opened(), smoke_specs["plain"].run_id, "by mistake", sure=True)
    assert set(totals(app).values()) == {"ε = ∞"}
    assert any("was trained without privacy" in warning.value for warning in app.warning)


def test_releases_per_note_and_per_patient_are_told_together(workspace):
    ledger = Ledger.of(workspace, SMOKE)
    for unit in ("note", "patient"):
        words = Vocabulary(epsilon=0.5, delta=1e-9, words=2, unit=unit)
        ledger.release_vocabulary(f"{unit}s", words, "a tokenizer")
    app = opened()
    assert totals(app) == {f"For one {unit}, what was released per {unit}": "ε = 1" for unit in ("note", "patient")}
    assert "For one note all of it together promises ε = 3 at δ = 4.7·10⁻⁵." in said(app)
    assert "For the patient with the most notes" in said(app)
    assert any("Without the releases per patient, which count below: within" in one.value for one in app.caption)
    assert not any(button.label == "What may one more run spend?" for button in app.button), "no run to be like"


def test_what_fits_into_a_budget_counts_the_vocabularies(workspace, smoke_specs):
    ledger = Ledger.of(workspace, SMOKE)
    ledger.release_run(workspace.run(smoke_specs["dp"].run_id), "for the class")
    words = Vocabulary(epsilon=2.0, delta=1e-10, words=3, unit="note")
    ledger.release_vocabulary("words", words, "a tokenizer")
    app = opened(ledger_delta="0.001", budget="13")  # more than the run's 8, less than 8 and 6
    next(button for button in app.button if button.label == "What may one more run spend?").click().run()
    assert not app.exception and "For one note: nothing fits into the budget any more." in said(app)


def test_a_damaged_ledger_gives_no_total(workspace):
    ledger = Ledger.of(workspace, SMOKE)
    words = Vocabulary(epsilon=0.1, delta=1e-12, words=4, unit="patient")
    ledger.release_vocabulary("words", words, "a tokenizer")
    app = opened()
    assert totals(app)["For one patient, all releases together"] == "ε = 0.4"
    (ledger.folder / "0001.json").write_text("{}")
    app = opened()
    assert not app.metric and any("no total can be told" in error.value for error in app.error)
