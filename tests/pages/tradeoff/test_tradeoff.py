"""ε trade-off, driven without a browser, over runs that the real pipeline made."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.common.formatting import REPRODUCIBLE, setting_text
from core.evaluation import registry
from core.evaluation.sweep.sweeps import sweeps_of
from core.evaluation.wording import perplexity_text
from core.jobs.engine import Engine, Job
from core.runs.store import Workspace
from core.training.accounting.mechanism import Mechanism
from pages.parts.session import classroom
from pages.parts.tradeoff import slider
from pages.parts.tradeoff.charts import EpsilonAxis
from pages.parts.tradeoff.hypothetical import what_if
from tests.pages.visit import visit

opened = partial(visit, "tradeoff")

ROOT = Path(__file__).resolve().parents[3]
SUBMITTED = Job("gpt2-000000000000", None, "queued", "", 0.0, 0)


def said(app: AppTest, start: str) -> str:
    return next(element.value for element in app.markdown if element.value.startswith(start))


def perplexity(data: Path, spec, arm: str) -> str:
    metrics = Workspace(data, shared=()).run(spec.run_id).metrics
    row = metrics[(metrics["metric"] == "perplexity_heldout") & (metrics["arm"] == arm)].iloc[0]
    return perplexity_text(row["value"])


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    app = opened()
    assert any("Train one without privacy" in info.value for info in app.info)


def test_a_measured_epsilon_tells_the_runs_own_figures(data, smoke_specs):
    app = opened(at="8")
    told = said(app, "**Usefulness:**")
    assert f"perplexity {perplexity(data, smoke_specs['dp'], 'run')}" in told
    assert f"without privacy {perplexity(data, smoke_specs['plain'], 'run')}" in told
    assert f"public model {perplexity(data, smoke_specs['dp'], 'base')}" in told
    assert "95\u00a0% interval" in told and "measured (1 seed)" in told
    assert said(app, "**At ε = 8 per note: the promise with secret noise")
    assert any(one.value == "These runs are reproducible: ε is shown, not promised." for one in app.caption)
    assert "for held-out patients" in said(app, "**Risk:**"), "a risk stands beside its control"


def test_the_other_end_is_no_privacy(data, smoke_specs):
    app = opened(at="∞")
    assert said(app, "**Without privacy: no promise") and said(app, "Trained without privacy")
    assert f"perplexity {perplexity(data, smoke_specs['plain'], 'run')}" in said(app, "**Usefulness:**")


@pytest.mark.parametrize(("asked", "moved"), [("2", "8"), ("5000", "8"), ("∞", "∞"), ("soon", "8"), ("-3", "8")])
def test_the_slider_stops_at_measured_epsilons_only(data, asked, moved):
    app = opened(at=asked)
    slider = app.select_slider(key="at")
    assert slider.options == ["8", "∞"] and slider.value == moved
    told = [one.value for one in app.caption if "was not measured" in one.value]
    assert bool(told) == (asked in ("2", "5000")), "a number that was not measured is named"
    if told:
        assert told == [
            f"ε = {setting_text(float(asked))} was not measured on these runs. The nearest measured ε is {moved}."
        ]
    slider.set_value("∞").run()
    assert not app.exception and not any("was not measured" in one.value for one in app.caption)


def test_a_link_that_changes_moves_the_slider_also_where_its_epsilon_was_not_measured(data):
    app = opened(at="8")
    app.select_slider(key="at").set_value("∞").run()
    app.query_params["at"] = "5"
    for _ in range(2):
        app.run()
        assert app.select_slider(key="at").value == "8"
        assert any(one.value.startswith("ε = 5 was not measured") for one in app.caption)
    app.select_slider(key="at").set_value("∞").run()
    app.query_params["at"] = "soon"
    assert app.run().select_slider(key="at").value == "∞", "what is no number moves nothing"


def test_the_nearest_measured_epsilon_is_nearest_in_ratio():
    options = {"0.5": 0.5, "8": 8.0, "10": 10.0, "∞": math.inf}
    wanted = {0.01: "0.5", 1.9: "0.5", 2.1: "8", 8.8: "8", 9.0: "10", 1e6: "10", math.inf: "∞"}
    assert {epsilon: slider.nearest(options, epsilon) for epsilon in wanted} == wanted
    assert slider.nearest({"1": 1.0, "3": 3.0}, math.inf) == "3", "the largest, if ∞ was not measured"


def test_training_at_another_epsilon_is_offered_in_a_fold(data, monkeypatch):
    asked = []
    monkeypatch.setattr(
        Engine, "submit", lambda self, spec, user=None: asked.append(spec) or replace(SUBMITTED, spec=spec)
    )
    app = opened(at="8")
    app.session_state["train-fold"] = True
    app.run()
    app.number_input(key="train-epsilon").set_value(2.0).run()
    app.button(key="train-this").click().run()
    assert not app.exception
    sweep = sweeps_of(Workspace(data, shared=()).runs())[0]
    assert asked == [sweep.spec(2.0)]
    assert asked[0].privacy.target_epsilon == 2.0
    assert any("in the queue" in success.value for success in app.success)
    app.number_input(key="train-epsilon").set_value(8.0).run()
    assert app.button(key="train-this").disabled, "this run exists"
    box = app.number_input(key="train-epsilon")
    assert box.min is None and box.max is None, "the browser would keep another number back, and train with this one"
    box.set_value(3.0).run()
    app.button(key="train-this").click()
    app.number_input(key="train-epsilon").set_value(0.001).run()
    assert [error.value for error in app.error] == ["“ε” takes a number from 0.01 to 1,000,000, not 0.001."]
    assert app.button(key="train-this").disabled and len(asked) == 1


@pytest.mark.parametrize("risk", ["any identifier", "texts with a leak", "AUC of the loss attack"])
def test_every_risk_is_drawn_with_an_interval(data, risk):
    app = opened(risk=risk, at="8")
    assert "95\u00a0% interval" in said(app, "**Risk:**")
    assert app.get("plotly_chart")
    table = next(frame.value for frame in app.dataframe if "base value" in frame.value)
    assert {"metric", "epsilon", "value", "low", "high", "seeds"} <= set(table.columns)


def test_one_run_alone_can_be_drawn(data, smoke_specs, monkeypatch, tmp_path):
    alone = tmp_path / "alone"
    shutil.copytree(data / "runs" / smoke_specs["dp"].run_id, alone / "runs" / smoke_specs["dp"].run_id)
    monkeypatch.setenv("PHILAB_DATA", str(alone))
    app = opened()
    assert "measured (1 seed)" in said(app, "**Usefulness:**")


def test_promise_and_measurement_stand_side_by_side(data, smoke_specs):
    app = opened(at="8")
    counted = said(app, "By exact accounting of these steps")
    assert "of 100 attackers" in counted and "on average" in counted
    run = Workspace(data, shared=()).run(smoke_specs["dp"].run_id)
    leakage = run.metrics.set_index(["metric", "arm"]).loc[("privacy_leakage_loss", "run"), "value"]
    best = said(app, "Out of 100 guesses whether a note was in the data")
    assert f"the loss attack got {round(100 * (1 + leakage) / 2)} right" in best, (
        "privacy leakage, halved around a half"
    )
    assert "95\u00a0% interval" in best and "50 by tossing a coin" in best and "the only membership attack" in best
    captions = [element.value for element in app.caption]
    assert f"These runs are {REPRODUCIBLE}." in captions
    assert "Someone may find a better attack. With secret noise the promise would hold against it, too." in captions
    assert not any("For a patient with" in element.value for element in app.markdown), "not before the fold is opened"
    app.session_state["odds-fold"] = True
    app.run()
    assert not app.exception
    assert said(app, "For a patient with")


def test_the_readers_limits_decide_and_are_told_with_their_worse_end(data, smoke_specs):
    app = opened(view="Which ε?")
    app.multiselect(key="risks").set_value(["auc_loss"]).run()
    app.slider(key="limit_auc_loss").set_value(1.0).run()
    app.slider(key="utility").set_value(100).run()
    assert not app.exception
    assert said(app, "## Recommended: ε = ∞"), "only training without privacy keeps all"
    assert said(app, "Only training without privacy")
    app.slider(key="limit_auc_loss").set_value(0.5).run()
    assert said(app, "## None of these runs meets both")
    table = app.dataframe[0].value
    assert set(table["ε"]) == {"8 per note", "∞ (no privacy)"} and set(table["all met"]) == {"✗"}
    assert said(app, "What may help: more training notes")
    links = {one.proto.label for one in app.get("page_link")}
    assert "Put these limits in a report" in links and "Add to a report" not in links
    assert table["time"].str.fullmatch(r"\d+\.\d min").all(), "what each training took"
    app.multiselect(key="risks").set_value([]).run()
    assert any("at least one risk" in info.value for info in app.info)


def test_the_chosen_risks_are_in_the_link_like_their_limits(data):
    limits = {"view": "Which ε?", "risks": registry.measure_name("auc_loss"), "limit_auc_loss": "0.7", "utility": "40"}
    app = opened(**limits)
    assert app.multiselect(key="risks").value == ["auc_loss"]
    assert (app.slider(key="limit_auc_loss").value, app.slider(key="utility").value) == (0.7, 40)
    app.switch_page("pages/glossary.py").run()
    app.switch_page("pages/tradeoff.py").run()
    assert not app.exception and app.multiselect(key="risks").value == ["auc_loss"]


def test_everybody_gets_all_chosen_risks(data):
    """They stand in the link one after the other, under one name."""
    risks = ["auc_loss", "full_name_patients_excess"]
    code, key = classroom.classroom().open()
    app = opened(view="Which ε?", room=code, host=key, risks=list(map(registry.measure_name, risks)))
    assert app.multiselect(key="risks").value == risks
    app.button(key="class-everybody").click().run()
    sent = classroom.classroom().counts(code).sent
    assert not app.exception and sent is not None
    assert [value for name, value in sent.query if name == "risks"] == list(map(registry.measure_name, risks))


def test_an_imagined_training_starts_from_the_sweeps_own(data, smoke_specs):
    app = opened(view="What if?")
    made = Workspace(data, shared=()).run(smoke_specs["dp"].run_id).privacy
    opening = {name: app.number_input(key=f"wi_{name}").value for name in ("sigma", "units", "batch", "steps")}
    assert opening["sigma"] == pytest.approx(made.noise_multiplier, rel=1e-3) and opening["steps"] == made.steps
    assert opening["batch"] / opening["units"] == pytest.approx(made.sample_rate, rel=1e-3)
    assert said(app, "## ε = ").startswith("## ε = 8 per note")


@pytest.mark.parametrize(
    ("key", "typed", "told"),
    [
        ("wi_sigma", 0.01, "“Noise σ” takes a number from 0.05 to 100, not 0.01."),
        ("wi_units", 0, "“Units in the data” takes a number from 1 to 10,000,000, not 0."),
        ("wi_batch", -1, "“Units per step” takes a number from 1 to 10,000,000, not -1."),
        ("wi_steps", 200_001, "“Steps” takes a number from 1 to 200,000, not 200,001."),
        ("wi_delta", 0.7, "“δ” takes a number from 1e-12 to 0.5, not 0.7."),
        ("wi_notes", 0, "“Notes of one patient (example)” takes a number from 1 to 100,000, not 0."),
    ],
)
def test_no_epsilon_stands_beside_a_number_that_it_is_not_about(data, key, typed, told):
    """A browser keeps a number outside a box's range back, and the page would show ε for the one before."""
    app = opened(view="What if?")
    box = app.number_input(key=key)
    assert box.min is None and box.max is None
    app = box.set_value(typed).run()
    assert [error.value for error in app.error] == [told]
    assert not any("ε = " in one.value for one in app.markdown if one.value.startswith("## "))


def test_an_imagined_training_per_patient_counts_patients(monkeypatch):
    """The batch size counts notes for either unit, and q is the same share of both."""
    mechanism = Mechanism(
        unit="patient", noise_multiplier=2.0, sample_rate=1_024 / 11_815, steps=139, delta=1e-5, max_grad_norm=1.0
    )
    run = SimpleNamespace(privacy=mechanism, spec=SimpleNamespace(training=SimpleNamespace(batch_size=1_024)))
    notes = pd.DataFrame({"patient_id": [f"P{number % 1_235}" for number in range(11_815)]})
    monkeypatch.setattr(what_if.noise_grid, "example", lambda sweep: run)
    monkeypatch.setattr(what_if.resources, "training_notes", lambda run: notes)
    first = what_if._opening(SimpleNamespace())
    assert (first.units, first.size, first.unit) == (1_235, 107, "patient")
    monkeypatch.setattr(run, "privacy", mechanism.model_copy(update={"unit": "note"}))
    first = what_if._opening(SimpleNamespace())
    assert (first.units, first.size, first.unit) == (11_815, 1_024, "note")


def test_another_hospital_brings_its_own_settings_and_a_link_stands_at_first(monkeypatch):
    """Units and σ of the hospital before would give an ε that belongs to neither."""
    state = {"wi_units": 7, "wi_sigma": 2.0}
    monkeypatch.setattr(what_if.st, "session_state", state)
    first = what_if.Setting(0.8, 3_000, 256, 140, 1e-5, "note")
    what_if._follow(SimpleNamespace(id="a"), first)
    what_if._follow(SimpleNamespace(id="a"), first)
    assert (state["wi_units"], state["wi_sigma"]) == (7, 2.0)
    what_if._follow(SimpleNamespace(id="b"), first._replace(units=12_000, unit="patient"))
    assert [state[key] for key in what_if.KEYS] == [0.8, 12_000, 256, 140, 1e-5, "patient"]


def test_a_training_is_imagined_by_four_accountants(data):
    asked = {"wi_sigma": "2.28287", "wi_units": "1500", "wi_batch": "4", "wi_steps": "3000", "wi_delta": "1e-05"}
    app = opened(view="What if?", **asked)
    head = said(app, "## ε = ")
    assert "ε = 0.227 per note" in head and "would give 9.94, 44 times as much" in head, "row P's own example"
    table = next(frame.value for frame in app.dataframe if "accountant" in frame.value)
    assert set(table["accountant"]) == {"PRV", "RDP", "GDP", "PrivAI-Leak"}
    assert any("With a public seed, ε is shown, not promised." in element.value for element in app.caption)
    last = table[table["steps"] == 3000].set_index("accountant")["epsilon"]
    assert last["GDP"] < last["PRV"] < last["RDP"] < last["PrivAI-Leak"]
    app.number_input(key="wi_notes").set_value(60).run()  # training per note reads all notes of a patient
    assert said(app, "- Of ") and any("For a patient with 60 notes" in element.value for element in app.markdown)
    app.number_input(key="wi_batch").set_value(2_000).run()
    assert any("more units than there are" in error.value for error in app.error)


def test_the_axis_puts_infinity_after_every_number():
    axis = EpsilonAxis([0.1, 8.0, 20.0, math.inf])
    places = [axis.place(epsilon) for epsilon in (0.1, 0.5, 8.0, 20.0, math.inf)]
    assert places == sorted(places) and len(set(places)) == 5
    wide = EpsilonAxis([0.5, 8.0, 1000.0, math.inf])
    assert wide.layout["ticktext"] == ["0.5", "8", "1,000", "∞"]
    assert wide.layout["autotickangles"] == [0, 90], "at an angle between, labels meet on a phone"


@pytest.mark.slow
def test_drawing_it_needs_no_torch():
    """Importing it takes seconds, and a first screen must not wait for it."""
    code = (
        "import sys; import core.evaluation.sweep.tradeoff, core.evaluation.sweep.sweeps, core.runs.queries,"
        "pages.parts.jobs.monitor, pages.parts.tradeoff.charts, pages.parts.tradeoff.sentences,"
        "pages.parts.tradeoff.odds_view, pages.parts.tradeoff.hypothetical.what_if, pages.parts.tradeoff.same_prompt,"
        "pages.parts.tradeoff.sweep_choice, pages.parts.tradeoff.where_leaks_begin, pages.parts.tradeoff.three_models,"
        "pages.parts.tradeoff.hospital_size, pages.parts.tradeoff.real_or_written, pages.parts.tradeoff.train_another;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0  # noqa: S603
