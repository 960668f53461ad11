"""The Report page, driven without a browser: verdict, odds, tables and downloads of chosen runs."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from datetime import date
from functools import partial
from types import SimpleNamespace
from urllib.parse import parse_qs

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.evaluation.guarantee.audit_guarantee import BY_CURVE
from core.evaluation.report.decision import Decision
from core.evaluation.report.facts import Report
from core.runs.ledger.choice import Choice
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS
from pages.parts.pickers import linked_choice, run_picker
from pages.parts.report import annex, decision_form, picture, views
from pages.parts.session import classroom
from tests.pages.uploads import own_run
from tests.pages.visit import ROOT, WAIT, said, visit

opened = partial(visit, "report")


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert any("no trained model" in info.value for info in opened().info)


def test_the_verdict_stands_before_the_tables_and_the_link_keeps_the_choice(data, smoke_specs):
    app = opened(runs=f"{smoke_specs['dp'].run_id},{smoke_specs['plain'].run_id}")
    assert app.multiselect(key="report_runs").value == [smoke_specs["dp"].run_id, smoke_specs["plain"].run_id]
    assert app.selectbox(key="report_about").value == smoke_specs["dp"].run_id, "the private model is decided about"
    assert "Not for release: its noise can be generated again" in said(app)
    facts = next(table.value for table in app.table if "fact" in table.value).set_index("question")["fact"]
    assert len(facts) == 10 and "Attacks on the finished model prove" in facts["**Does an attack contradict ε?**"]
    assert "Attacks and controls" not in [expander.label for expander in app.expander], "the annex is behind a switch"
    app.toggle(key="report_annex").set_value(True).run()
    door = next(one.proto for one in app.get("page_link") if one.proto.label.startswith("Set limits"))
    assert parse_qs(door.query_string) == {"view": ["Which ε?"]}, "the view with the limits"
    text = said(app).replace("\u00a0=\u00a0", " = ")
    label = next(table.value for table in app.table if "label" in table.value).set_index("")["label"]
    assert label["Unit of privacy"] == "one note" and label["ε at δ"].replace("\\", "").startswith("ε = 8 at δ")
    assert label["Status"].startswith("shown, not promised") and "**Not protected**" in text
    assert "**A\\: ε = 8 per note** would guarantee ε = 8 for each note if its noise were secret." in text
    assert "**B\\: no privacy** gives no guarantee." in text
    assert len(app.get("plotly_chart")) == 1
    plain = text.replace("\\", "")
    assert "for one note (neighbours: add/remove one note)" in plain
    assert "Treat it like the notes themselves" in plain
    assert "By exact accounting of these steps" in plain and "held-out patients" in plain
    assert "not a statement about compliance" in text and "nothing is recommended" in text
    odds = next(frame.value for frame in app.dataframe if "right guesses by (ε, δ)" in frame.value)
    assert odds["ε"].tolist() == ["8", "∞ (no privacy)"]
    folds = [expander.label for expander in app.expander]
    assert "A\\: ε = 8 per note: guarantee and findings" in folds
    assert "HIPAA’s 18 identifiers" in folds and "Attacks and controls" in folds
    assert "Rare diseases: how well members are recognised, by rarity" in folds
    assert "Rare diseases: do patients with them leak more?" in folds
    dp = smoke_specs["dp"].run_id
    assert any(f"python -m core notes {dp} " in code.value for code in app.code), "notes instead of the model"
    labels = [button.proto.label for button in app.get("download_button")]
    assert {"Report (HTML, prints to PDF)", "JSON", "All tables (CSV)"} <= set(labels)


def test_after_training_on_one_s_own_notes_the_report_is_about_that_run_alone(
    monkeypatch, smoke_workspace, smoke_specs, tmp_path
):
    """A run without privacy of another cohort is most like it, but no report is about two cohorts."""
    root = tmp_path / "data"
    shutil.copytree(smoke_workspace, root)
    _, run = own_run.give(root, smoke_workspace, smoke_specs["dp"])
    monkeypatch.setenv("PHILAB_DATA", str(root))
    app = AppTest.from_file(str(ROOT / "app.py"), default_timeout=WAIT).run()
    app.session_state["owner_of_this_session"], app.session_state[run_picker.OWN] = own_run.OWNER, run.id
    app.switch_page("pages/report.py").run()
    assert not app.exception and not app.error
    assert app.multiselect(key="report_runs").value == [run.id]
    assert len(app.multiselect(key="report_runs").options) > 1


def test_back_to_the_address_without_runs_shows_what_it_opened_with(data, smoke_specs, monkeypatch):
    app = opened()
    start = app.multiselect(key="report_runs").value
    app.multiselect(key="report_runs").set_value([smoke_specs["plain"].run_id]).run()
    assert "runs" in app.query_params and start != [smoke_specs["plain"].run_id]
    del app.query_params["runs"]
    assert app.run().multiselect(key="report_runs").value == [smoke_specs["plain"].run_id], "the menu keeps the choice"
    monkeypatch.setattr(linked_choice, "by_history", lambda: True)
    app.query_params["runs"] = smoke_specs["plain"].run_id
    app.run()
    del app.query_params["runs"]
    assert app.run().multiselect(key="report_runs").value == start


def test_a_link_to_a_run_that_is_gone_says_so(data, smoke_specs):
    app = opened(runs=f"gpt2-gone,{smoke_specs['plain'].run_id}")
    assert app.multiselect(key="report_runs").value == [smoke_specs["plain"].run_id]
    assert ["gpt2-gone" in one.value.replace("\\", "") for one in app.warning] == [True]


def test_a_score_in_the_ledger_is_no_markup_on_the_page(monkeypatch):
    """What one user typed into the ledger is in the findings of a report that others open."""
    choice = Choice.of(10.0, 0.0, "loss ![x](https://example.org/a.png)")
    assert "![x]" in choice.text()
    shown: list[str] = []
    monkeypatch.setattr(annex.st, "markdown", shown.append)
    facts = {"names": {"run": "A"}, "verdict": [{"run": "run", "sentences": [choice.text()]}]}
    annex._findings(SimpleNamespace(facts=facts))
    assert len(shown) == 1 and "![x]" not in shown[0] and "loss" in shown[0]


def test_notes_are_not_offered_of_a_run_that_cannot_write_them(data, smoke_specs, monkeypatch):
    monkeypatch.setattr(Run, "has_model", property(lambda run: False))
    app = opened(runs=smoke_specs["dp"].run_id)
    app.toggle(key="report_annex").set_value(True).run()
    assert not app.exception and len(app.code)
    assert not any("core notes" in code.value for code in app.code)


def test_limits_that_were_set_on_the_trade_off_page_are_in_the_report(data, smoke_specs):
    app = visit("tradeoff", view="Which ε?")
    app.multiselect(key="risks").set_value(["auc_loss"]).run()
    app.slider(key="limit_auc_loss").set_value(1.0).run()
    app.slider(key="utility").set_value(100).run()
    app.switch_page("pages/report.py").run()
    assert not app.exception
    assert "Only training without privacy meets your limits" in said(app)
    assert app.multiselect(key="report_runs").value == [smoke_specs["plain"].run_id]
    assert app.query_params["runs"] in (smoke_specs["plain"].run_id, [smoke_specs["plain"].run_id]), "to be sent on"
    app.toggle(key="report_annex").set_value(True).run()
    assert "Every ε against your limits" in [expander.label for expander in app.expander]


def test_a_name_before_a_sentence_has_no_colon():
    assert picture.name_in_bold("B: ε = 8 per note").replace("\\", "") == "**B (ε = 8 per note).**"
    assert picture.name_in_bold("model").replace("\\", "") == "**model.**"


def test_the_verdict_on_release_comes_before_anything_else(data, smoke_specs):
    """The page asks whether the models can be released, so the answer must not wait below the picture."""
    app = opened(runs=f"{smoke_specs['plain'].run_id},{smoke_specs['dp'].run_id}")
    lines = [line.value for line in app.markdown]
    verdict = next(place for place, line in enumerate(lines) if "Not for release" in line)
    assert lines[verdict].startswith(picture.name_in_bold("B: ε = 8 per note").replace(" = ", "\u00a0=\u00a0"))
    assert sum("Not for release" in line for line in lines) == 1
    assert verdict < min(place for place, line in enumerate(lines) if "wrote a direct identifier of" in line)


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
    views._first_page.clear()
    app.multiselect(key="report_runs").set_value([smoke_specs["plain"].run_id, smoke_specs["dp"].run_id]).run()
    assert not app.exception
    (error,) = (error.value for error in app.error)
    assert error.startswith("A report is about one cohort") and error.endswith(".")


def test_the_link_and_the_class_get_the_model_that_is_decided_about(data, smoke_specs):
    plain, dp = smoke_specs["plain"].run_id, smoke_specs["dp"].run_id
    app = opened(runs=f"{dp},{plain}", about=plain)
    assert app.selectbox(key="report_about").value == plain
    assert app.session_state[classroom._ON_SCREEN]["about"] == plain, "“Show the class” sends it"
    app.selectbox(key="report_about").set_value(dp).run()
    assert app.query_params["about"] == dp and app.selectbox(key="report_about").value == dp
    app.query_params["about"] = plain
    assert app.run().selectbox(key="report_about").value == plain, "as by the Back button"
    app.query_params["about"] = "gpt2-elsewhere"
    assert not app.run().exception and app.selectbox(key="report_about").value == plain
    assert opened(runs=f"{dp},{plain}", about="gpt2-elsewhere").selectbox(key="report_about").value == dp


def test_what_a_board_fills_in_changes_conditions_and_files(data, smoke_specs):
    app = opened(runs=smoke_specs["dp"].run_id)
    assert "Decide who receives the model" in said(app)
    app.text_area(key="decision_owner").set_value("<b>CISO</b>")
    app.selectbox(key="decision_access").set_value("weights")
    app.text_input(key="decision_name_0").set_value("A. Example")
    next(button for button in app.button if "Add to the report" in button.label).click().run()
    assert not app.exception
    text = said(app)
    assert "The recipient gets the weights" in text and "the risk owner" not in text and "who approves" not in text
    kept = Decision.model_validate_json(app.session_state[decision_form.KEPT])
    assert (kept.owner, kept.access, [one.name for one in kept.approvers]) == ("<b>CISO</b>", "weights", ["A. Example"])
    assert "who approves" in said(opened(runs=smoke_specs["dp"].run_id)), "another session has no answers"


@pytest.mark.parametrize(
    ("box", "question"),
    [("recipient", "Who gets the model, and what for?"), ("name_1", "Approver 2"), ("role_2", "Role 3")],
)
def test_an_answer_that_is_too_long_is_refused_by_its_question(data, smoke_specs, box, question):
    app = opened(runs=smoke_specs["dp"].run_id)
    field = app.text_area if box == "recipient" else app.text_input
    field(key=f"decision_{box}").set_value("x" * 1601)
    next(button for button in app.button if "Add to the report" in button.label).click().run()
    said_so = f"“{question}” takes at most 600 characters, not 1,601."
    assert said_so in [error.value for error in app.error] and decision_form.KEPT not in app.session_state


def test_dates_in_the_wrong_order_are_refused_and_nothing_is_kept(data, smoke_specs):
    app = opened(runs=smoke_specs["dp"].run_id)
    app.date_input(key="decision_review").set_value(date(2028, 1, 1))
    app.date_input(key="decision_expires").set_value(date(2027, 1, 1))
    next(button for button in app.button if "Add to the report" in button.label).click().run()
    assert any("must not be after" in error.value for error in app.error)
    assert decision_form.KEPT not in app.session_state


@pytest.fixture
def made():
    """A report of four models: without privacy, private by public noise, private by secret noise, and the base."""
    models = [("a", math.inf, "", ""), ("b", 8.0, "note", "seed"), ("c", 2.0, "patient", "secret"), ("d", 0.0, "", "")]
    figures = [
        ("a", 0.41, 0.35, 0.46, 0.047, 0.021, 0.098, "exceeds its control"),
        ("b", 0.02, 0.01, 0.04, 0.01, 0.0, 0.03, "cannot be told from its control"),
        ("d", 0.0, 0.0, 0.01, 0.0, 0.0, 0.02, "cannot be told from its control"),
    ]
    columns = ["run", "value", "low", "high", "heldout_value", "heldout_low", "heldout_high", "verdict"]
    controls = pd.DataFrame(figures, columns=columns).assign(metric=picture.LEAK, against="held out")
    other = controls.assign(metric="auc_loss", value=0.9)
    tables = {
        "models": pd.DataFrame(models, columns=["run", "epsilon", "unit", "noise_source"]),
        "controls": pd.concat([other, controls], ignore_index=True),
        "bounds": pd.DataFrame(columns=["run", "evidence", "looks", "epsilon", "alarm"]),
        "planted": pd.DataFrame(columns=["run", "canaries", "alarm"]),
    }
    return Report({"names": {one: f"model {one}" for one in "abcd"}}, tables)


def test_the_answer_has_the_guarantee_and_the_leak_beside_its_control(made):
    assert picture.answers(made) == [
        "**model a** gives no guarantee. It memorised patients: it wrote a direct identifier of 41\u00a0% of its "
        "patients, and of 4.7\u00a0% of patients it never saw.",
        "**model b** would guarantee ε = 8 for each note if its noise were secret. What it wrote cannot be "
        "distinguished from chance: it wrote a direct identifier of 2.0\u00a0% of its patients, and of 1.0\u00a0% of "
        "patients it never saw.",
        "**model c** guarantees ε = 2 for each patient.",
        "**model d** was trained on none of these notes.",
    ]


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("bounds", {"evidence": "canary ranks", "looks": 4, "epsilon": 9.0, "alarm": True}),
        ("bounds", {"evidence": BY_CURVE, "looks": 1, "epsilon": 9.0, "alarm": True}),
        ("planted", {"canaries": 5_000, "alarm": True}),
    ],
)
def test_after_an_alarm_no_sentence_says_that_epsilon_is_guaranteed(made, table, row):
    told = {}
    for run in ("b", "c"):
        rows = pd.DataFrame([{"run": run, **row}])
        told[run] = picture.answers(replace(made, tables=made.tables | {table: rows}))
    assert told["b"][1].startswith(
        "**model b** guarantees nothing: an attack proves more than ε = 8 for each note allows. What it wrote"
    )
    assert told["b"][2] == "**model c** guarantees ε = 2 for each patient.", "an alarm is about its own run"
    assert told["c"][2] == "**model c** guarantees nothing: an attack proves more than ε = 2 for each patient allows."


def test_the_picture_has_each_leak_above_its_own_control(made):
    figure = picture.dots(picture.leaks(made))
    row_of = dict(zip(map(str, figure.layout.yaxis.ticktext), figure.layout.yaxis.tickvals, strict=True))
    drawn = {trace.name: trace for trace in figure.data}
    assert list(drawn["without privacy"].x) == [0.41, 0.0] and list(drawn["with differential privacy"].x) == [0.02]
    assert list(drawn["without privacy"].y) == [row_of["model a"], row_of["model d"]]
    control = drawn["held-out patients (control)"]
    assert list(control.x) == [0.047, 0.01, 0.0]
    assert [place + picture.BELOW for place in control.y] == list(row_of.values())
    assert drawn["without privacy"].error_x.array[0] == pytest.approx(0.05)
    assert control.error_x.arrayminus[0] == pytest.approx(0.026)


def test_limits_of_the_form_are_compared_and_kept(data, smoke_specs):
    app = opened(runs=smoke_specs["dp"].run_id)
    assert "none were given" in said(app)
    app.number_input(key="decision_limit_auc_strongest").set_value(0.05)
    app.number_input(key="decision_limit_full_name_patients_excess").set_value(7.1)
    next(button for button in app.button if "Add to the report" in button.label).click().run()
    assert not app.exception
    text = said(app)
    assert "Accepted limit: membership AUC at most 0.05: not met" in text.replace("\\", "")
    assert "Do not release it while" in text and "none were given" not in text
    kept = Decision.model_validate_json(app.session_state[decision_form.KEPT])
    assert kept.limits == {"auc_strongest": 0.05, "full_name_patients_excess": 0.071}
    assert app.number_input(key="decision_limit_full_name_patients_excess").value == 7.1


def test_a_limit_out_of_its_range_is_refused_by_its_box(data, smoke_specs):
    app = opened(runs=smoke_specs["dp"].run_id)
    app.text_area(key="decision_owner").set_value("CISO")
    app.number_input(key="decision_limit_full_name_patients_excess").set_value(150.0)
    next(button for button in app.button if "Add to the report" in button.label).click().run()
    (error,) = [error.value for error in app.error if "takes a number" in error.value]
    assert error.endswith("at most (%)” takes a number from 0 to 100, not 150.")
    assert decision_form.KEPT not in app.session_state
    assert app.text_area(key="decision_owner").value == "CISO", "the other answers stay in the form"
    app.number_input(key="decision_limit_full_name_patients_excess").set_value(15.0)
    next(button for button in app.button if "Add to the report" in button.label).click().run()
    assert Decision.model_validate_json(app.session_state[decision_form.KEPT]).owner == "CISO"
