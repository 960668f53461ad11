"""The Report page, driven without a browser: verdict, odds, tables and downloads of chosen runs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from pages.parts.report import views
from tests.pages.visit import said, visit

opened = partial(visit, "report")


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert any("no trained model" in info.value for info in opened().info)


def test_the_verdict_stands_before_the_tables_and_the_link_keeps_the_choice(data, smoke_specs):
    app = opened(runs=f"{smoke_specs['dp'].run_id},{smoke_specs['plain'].run_id}")
    assert app.multiselect(key="report_runs").value == [smoke_specs["dp"].run_id, smoke_specs["plain"].run_id]
    text = said(app)
    assert "## A: ε = 8 per note" in text and "## B: no privacy" in text
    assert "for one note (neighbours: add/remove one note)" in text
    assert "Treat it like the notes themselves" in text
    assert "By this run's exact accounting" in text and "held-out patients" in text
    assert "not a statement about compliance" in text and "nothing is recommended" in text
    odds = app.dataframe[0].value
    assert odds["ε"].tolist() == ["8", "∞ (no privacy)"]
    folds = [expander.label for expander in app.expander]
    assert "HIPAA’s 18 identifiers" in folds and "Attacks and controls" in folds
    assert "Rare diseases: how well members are recognised, by rarity" in folds
    assert "Rare diseases: do patients with them leak more?" in folds
    labels = [button.proto.label for button in app.get("download_button")]
    assert labels[:3] == ["Report (HTML, prints to PDF)", "JSON", "All tables (CSV)"]


def test_limits_that_were_set_on_the_trade_off_page_are_in_the_report(data, smoke_specs):
    app = visit("tradeoff", view="Which ε?")
    app.multiselect(key="risks").set_value(["auc_loss"]).run()
    app.slider(key="limit_auc_loss").set_value(1.0).run()
    app.slider(key="utility").set_value(100).run()
    app.switch_page("pages/report.py").run()
    assert not app.exception
    assert "Only training without privacy meets your limits" in said(app)
    assert app.multiselect(key="report_runs").value == [smoke_specs["plain"].run_id]
    assert "Every ε against your limits" in [expander.label for expander in app.expander]


def test_none_chosen_and_several_cohorts_are_sentences(data, smoke_specs, monkeypatch):
    app = opened()
    app.multiselect(key="report_runs").set_value([]).run()
    assert any("at least one model" in info.value for info in app.info)
    real = Workspace.run

    def strange(self, run_id):
        run = real(self, run_id)
        if run_id != smoke_specs["plain"].run_id:
            return run
        return replace(run, spec=run.spec.model_copy(update={"corpus": CORPUS_PRESETS["classroom"]}))

    monkeypatch.setattr(Workspace, "run", strange)
    views._report.clear()
    app.multiselect(key="report_runs").set_value([smoke_specs["plain"].run_id, smoke_specs["dp"].run_id]).run()
    assert not app.exception
    assert any("about one cohort" in error.value for error in app.error)
