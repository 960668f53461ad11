"""The Defences page, driven without a browser, over runs that the real pipeline made."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pandas as pd
import pytest

from core.common.formatting import REPRODUCIBLE
from core.evaluation.defences.side_by_side import lineup, measured, settings
from core.evaluation.sweep.sweeps import sweeps_of
from core.evaluation.wording import interval_text, percent, perplexity_text, unbroken
from core.jobs.engine import Engine
from core.jobs.work import Job
from core.phi.detector.engine import RULES, rules, shapes
from core.runs.store import Workspace
from pages.parts.common import chart_style
from pages.parts.defences import filter_view, sentences
from pages.parts.defences.charts import LARGE_ROW, ROW, risk_and_cost
from pages.parts.tradeoff import slider
from pages.parts.tradeoff.drawn import risks
from tests.pages.visit import revealed, said, visit

opened = partial(visit, "defences")
SUBMITTED = Job("gpt2-000000000000", None, "queued", "", 0.0, 0)


@pytest.fixture
def data(monkeypatch, smoke_workspace):
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    return Workspace(smoke_workspace, shared=())


def test_without_runs_it_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    assert any("Train one without privacy first" in info.value for info in opened().info)


def test_it_asks_first_then_shows_table_chart_and_what_is_missing(data, monkeypatch):
    asked = []
    monkeypatch.setattr(
        Engine, "submit", lambda self, spec, user=None: asked.append(spec) or replace(SUBMITTED, spec=spec)
    )
    compared = lineup(settings(sweeps_of(data.runs()))[0], recall=0.9)
    table = measured(compared, data)
    app = opened(recall="90 %", guess="1")
    assert not app.get("plotly_chart") and not app.dataframe
    app = revealed(app)
    shown = app.dataframe[0].value
    assert shown["Defence"].tolist() == [one.name for one in compared]
    assert shown["Seeds"].tolist() == ["1", "not trained yet", "not trained yet", "1", "not trained yet", "1", "1"]
    row = table[(table["defence"] == "nothing") & (table["metric"] == "full_name_patients")].iloc[0]
    assert shown["Risk: full names"].iloc[0].startswith(f"{percent(row['value'])} (")
    assert shown["Perplexity"].iloc[0].startswith(perplexity_text(row["perplexity"]))
    assert shown["Risk: full names"].iloc[1] == ""
    assert len(app.get("plotly_chart")) == 1 and len(app.get("download_button")) >= 1
    for one in compared:
        assert unbroken(f"**{one.name}.** {one.sentence}") in said(app)
    public = f"“DP per note, ε = 8”, “DP per note, ε = 8 + filter”: {REPRODUCIBLE}."
    assert public in [caption.value for caption in app.caption]
    next(button for button in app.button if button.label == "Train the missing runs (3)").click().run()
    assert not app.exception
    assert asked == [compared[at].spec for at in (1, 2, 4)]
    assert asked[1].defence.scrub_recall == 0.9 and asked[2].privacy.unit == "patient"


def test_it_opens_after_the_page_trade_off_has_kept_its_epsilon(data):
    """That page keeps its ε as text; a setting of the same name here would be this text, and is a number."""
    app = visit("tradeoff")
    app.session_state[slider.KEY] = "8"
    app.switch_page("pages/defences.py").run()
    assert not app.exception and slider.KEY not in [one.key for one in app.select_slider]


@pytest.mark.parametrize("risk", ["any identifier", "texts with a leak", "AUC of the loss attack"])
def test_every_risk_can_be_drawn(data, risk):
    app = opened(risk=risk)
    assert f"Risk: {risk}" in app.dataframe[0].value.columns
    if risk == "AUC of the loss attack":
        assert "reads probabilities, not text" in said(app)


def test_each_point_stands_in_the_row_of_its_name_where_the_table_says(data, monkeypatch):
    table = measured(lineup(settings(sweeps_of(data.runs()))[0]), data)
    rows = table[(table["metric"] == "full_name_patients") & (table["seeds"] > 0)]
    figure = risk_and_cost(rows, risks({"full_name_patients"})["full_name_patients"], "gpt2")
    axis = figure.layout.yaxis
    row_of = {
        text.replace("<br>", " ").replace("\u00a0", " "): row
        for row, text in zip(axis.tickvals, axis.ticktext, strict=True)
    }
    assert list(row_of) == [*rows["name"], "Public model"]
    drawn = {
        (panel, trace.customdata[at][0]): (trace, at)
        for trace in figure.data
        if trace.name in ("no defence", "with a defence")
        for panel in [trace.xaxis or "x"]
        for at in range(len(trace.x))
    }
    for row in rows.itertuples():
        for panel, value, low, high in (
            ("x", row.value, row.low, row.high),
            ("x2", row.perplexity, row.perplexity_low, row.perplexity_high),
        ):
            trace, at = drawn[panel, row.name]
            assert trace.y[at] == row_of[row.name] and trace.x[at] == value
            assert trace.x[at] + trace.error_x.array[at] == pytest.approx(high)
            assert trace.x[at] - trace.error_x.arrayminus[at] == pytest.approx(low)
    assert figure.layout.showlegend is False and chart_style.legend_html(figure).count("<span>") == 3, "each once"
    for large in (False, True):
        monkeypatch.setattr(chart_style, "large_type", lambda large=large: large)
        names = chart_style.dressed(
            risk_and_cost(rows, risks({"full_name_patients"})["full_name_patients"], "gpt2")
        ).layout.yaxis.tickfont.size
        row = LARGE_ROW if large else ROW
        assert row > 2 * 1.3 * names, "two lines of a name leave a gap to the next"
    controls = next(trace for trace in figure.data if trace.name == "held out (control)")
    assert list(controls.x) == rows["control"].tolist()
    assert all(abs(control - row_of[name]) < 0.5 for control, name in zip(controls.y, rows["name"], strict=True))


@pytest.mark.parametrize(
    ("far", "ticks"),
    [(80.0, ["10", "20", "50"]), (5_000.0, ["10", "100", "1,000"]), (3e8, ["5", "5,000", "5 million"])],
)
def test_the_axis_of_perplexity_has_ticks_that_can_be_read(data, far, ticks):
    table = measured(lineup(settings(sweeps_of(data.runs()))[0]), data)
    rows = table[(table["metric"] == "full_name_patients") & (table["seeds"] > 0)].copy()
    columns = ["perplexity", "perplexity_low", "perplexity_high", "base_perplexity"]
    rows[columns] = 10.0
    rows.loc[rows.index[0], columns] = far
    axis = risk_and_cost(rows, risks({"full_name_patients"})["full_name_patients"], "gpt2").layout.xaxis2
    assert list(axis.ticktext) == ticks


def test_the_answer_is_the_most_useful_of_those_within_their_control(data):
    table = measured(lineup(settings(sweeps_of(data.runs()))[0]), data)
    names = table["metric"] == "full_name_patients"
    table.loc[names, ["low", "control_high"]] = [0.0, 0.1]
    table.loc[names & (table["defence"] == "dp-note"), "perplexity"] = 2.0
    table.loc[names & (table["defence"] == "dp-filter"), "perplexity"] = 2.1
    best = table[names & (table["defence"] == "dp-note")].iloc[0]
    interval = interval_text(best["low"], best["high"])
    assert f"**DP per note, ε = 8**, full names of {percent(best['value'])} of patients ({interval}) at" in (
        sentences.answer(table, "gpt2")
    )
    table.loc[names, "low"] = 0.2
    assert sentences.answer(table, "gpt2").startswith("None")


def test_another_risk_than_names_has_its_own_answer(data):
    """Names are kept out by scrubbing, which leaves canaries and membership as they were."""
    table = measured(lineup(settings(sweeps_of(data.runs()))[0]), data)
    known = risks(set(table["metric"]))
    rows = table[table["metric"] == "auc_loss"].copy()
    rows.loc[rows["defence"] == "dp-note", ["value", "low", "high"]] = (0.4, 0.35, 0.45)
    rows.loc[rows["defence"].str.endswith("filter"), "value"] = 0.1
    told = sentences.lowest(rows, known["auc_loss"])
    assert "**DP per note, ε = 8** is lowest: 0.40" in told, "no filter changes it"
    bare = rows[rows["defence"] == "nothing"].iloc[0]
    assert f"without a defence {bare['value']:.2f}" in told
    assert sentences.lowest(rows[rows["defence"] != "dp-note"].head(1), known["auc_loss"]) == ""


@pytest.mark.parametrize(("metric", "ends"), [("auc_loss", "0.70 to 0.80"), ("exposure:8", "0.7 to 0.8")])
def test_each_result_has_its_interval(metric, ends):
    row = {"defence": "dp-note", "seeds": 1, "value": 0.75, "low": 0.7, "high": 0.8, "control": math.nan}
    assert f"95\u00a0% interval {ends}" in sentences.found(pd.Series(row), metric)


def test_names_that_nobody_could_look_for_are_not_measured():
    """Of uploaded patients no name may be known: then no defence failed, and none kept a name out."""
    row = {"metric": "full_name_patients", "defence": "dp-note", "name": "DP", "seeds": 1, "perplexity": 2.0}
    row["training_seconds"] = 60.0
    row |= dict.fromkeys(("value", "low", "high", "control", "control_low", "control_high"), math.nan)
    assert sentences.answer(pd.DataFrame([row]), "gpt2").startswith("Not measured")
    assert sentences.found(pd.Series(row), "full_name_patients").startswith("Not measured")
    assert "None of those measured" in sentences.answer(pd.DataFrame([row | {"seeds": 0}]), "gpt2")
    assert sentences.found(pd.Series(row | {"seeds": 0}), "full_name_patients") == "*texts not stored.*"
    untrained = row | {"seeds": 0, "training_seconds": math.nan}
    assert sentences.found(pd.Series(untrained), "full_name_patients") == "*not trained yet.*"


def test_of_patients_without_a_known_identifier_no_filter_is_measured(monkeypatch):
    """The audit's table is there and empty; the page says why, and offers no battery that could not fill it."""
    outcome = SimpleNamespace(tables=("walk_around",))
    stored = SimpleNamespace(
        table=lambda name: pd.DataFrame(columns=["wording"]), outcomes=lambda: {"summary: walk_around": outcome}
    )
    monkeypatch.setattr(filter_view.owner, "workspace", lambda: SimpleNamespace(audit=lambda run: stored))
    told: list[str] = []
    monkeypatch.setattr(filter_view.st, "info", lambda text, icon: told.append(text))
    filter_view.show(SimpleNamespace(id="r"))
    assert told == [filter_view.NOBODY]


def test_the_filter_of_uploaded_notes_is_called_after_its_detector():
    found = pd.DataFrame({"filter": ["no filter", RULES, "known values", "both", "both, answer alone"] * 2})
    headings = filter_view.headings_of(found)
    assert headings[RULES] == f"{RULES} only" and "shapes" not in headings and len(headings) == 4
    rows = [("two answers", name, "run", 0.5, 0.4, 0.6, 10) for name in found["filter"].unique()]
    shown = filter_view.pivoted(pd.DataFrame(rows, columns=["wording", "filter", "arm", "value", "low", "high", "n"]))
    assert f"{RULES} only" in shown.columns and "PHI shapes only" not in shown.columns


def test_the_page_says_which_detector_filtered_uploaded_notes_and_why_no_better_one():
    assert sentences.searched(shapes()) == ""
    told = sentences.searched(rules("The tagger of names is not installed."))
    assert f"“{RULES}”" in told and told.endswith("The tagger of names is not installed.")


def test_the_filter_table_has_a_row_a_wording_and_its_words_tell_the_worst():
    rows = [
        (way, name, arm, value, value / 2, min(1.0, value * 2), 200)
        for way, passed in (("the 14 prompts", 0.0), ("two answers", 0.3))
        for name in ("no filter", *filter_view.HEADINGS)
        for arm, value in (("run", {"no filter": 0.5, "both, answer alone": passed}.get(name, 0.0)), ("heldout", 0.01))
    ]
    found = pd.DataFrame(rows, columns=["wording", "filter", "arm", "value", "low", "high", "n"])
    alarms = pd.DataFrame(
        [("both", "public text", 0.1, 0.05, 0.2, 500)], columns=["filter", "texts", "value", "low", "high", "n"]
    )
    shown = filter_view.pivoted(found).set_index("Way of asking")
    assert shown.loc["two answers", "No filter"] == "50\u00a0% (25 to 100)"
    assert shown.loc["two answers", "Both, answer only"].startswith("30\u00a0%")
    assert shown.loc["two answers", "Control: public model"] == "not measured" and shown.loc[
        "two answers", "Both"
    ].startswith("0\u00a0%")
    told = filter_view.caption(found, alarms)
    assert told.startswith(
        "Both filters together, reading only the answer, let 30\u00a0% of the attempts by “two answers”"
    )
    assert "through (50\u00a0% without a filter). The same two, reading the prompt as well, let nothing through" in told
    assert "10\u00a0% of 500 pieces" in told


def test_the_public_models_figure_for_the_usual_prompts_is_the_quick_audits_if_both_counted_the_same():
    row = ("the 14 prompts", "no filter", "run", 0.45, 0.43, 0.48, 1400)
    found = pd.DataFrame([row], columns=["wording", "filter", "arm", "value", "low", "high", "n"])
    counted = [("attempts_with_leak", "run", 0.45, 0.43, 0.48, 1400), ("attempts_with_leak", "base", 0, 0, 0.003, 1400)]
    metrics = pd.DataFrame(counted, columns=["metric", "arm", "value", "low", "high", "n"])
    added = filter_view.pivoted(filter_view.with_public(found, metrics)).iloc[0]
    assert added["Control: public model"] == "0\u00a0% (0 to 0.30)" and added["No filter"] == "45\u00a0% (43 to 48)"
    metrics.loc[0, "value"] = 0.44
    assert filter_view.with_public(found, metrics) is found, "another count: its public figure says nothing here"


ROWS = ["defence", "name", "value", "low", "high", "control", "control_low", "control_high", "perplexity"]


def compared(*rows: tuple, metric: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=ROWS).assign(metric=metric, seeds=3, training_seconds=60.0)


def test_a_risk_at_which_defences_tie_names_all_of_them_and_says_that_intervals_overlap():
    """By hand: three defences at 0 %, the next at 2 % from 0.5 %; the upper end of the second, 0.7 %, reaches it."""
    found = compared(
        ("nothing", "No defence", 0.44, 0.4, 0.48, 0.01, 0.0, 0.02, 3.0),
        ("filter", "Output filter", 0.02, 0.005, 0.04, 0.01, 0.0, 0.02, 3.0),
        ("dp-note", "DP", 0.0, 0.0, 0.003, 0.01, 0.0, 0.02, 8.0),
        ("scrub-filter", "Scrubbing + filter", 0.0, 0.0, 0.007, 0.01, 0.0, 0.02, 5.0),
        ("dp-filter", "DP + filter", 0.0, 0.0, 0.002, 0.01, 0.0, 0.02, 8.0),
        metric="direct_patients",
    )
    risk = SimpleNamespace(label="any identifier")
    told = sentences.lowest(found, risk)
    assert told.startswith(
        "By any identifier, **DP**, **Scrubbing + filter** and **DP + filter** are lowest, all 0\u00a0%"
    )
    assert "(widest 95\u00a0% interval 0\u00a0% to 0.70\u00a0%); without a defence 44\u00a0%" in told
    assert told.endswith("Their intervals overlap that of the next, **Output filter**: " + told.split("**: ")[-1])
    apart = found[found["defence"] != "scrub-filter"]
    assert "**DP** and **DP + filter** are lowest, both 0\u00a0%" in sentences.lowest(apart, risk)
    assert "overlap" not in sentences.lowest(apart, risk)


def test_where_nothing_leaks_without_a_defence_the_answer_says_so_first_and_names_pseudo_perplexity():
    """DistilBERT's figures: 0.06 % of members against at most 0.74 % of the control without any defence."""
    found = compared(
        ("nothing", "No defence", 0.0006, 0.0, 0.0042, 0.0, 0.0, 0.0074, 4.0),
        ("dp-note", "DP", 0.0, 0.0, 0.003, 0.0, 0.0, 0.0074, 7.87),
        metric="full_name_patients",
    )
    told = sentences.answer(found, "distilbert")
    assert told.startswith(
        "Without a defence there is no clear excess of full names over the control either: 0.06\u00a0%"
    )
    assert "at pseudo-perplexity 4.00. For names, this comparison does not show" in told
    assert "**DP**, full names of 0\u00a0% of patients" in told and told.endswith("at pseudo-perplexity 7.87.")
    found.loc[0, ["value", "low", "high"]] = (0.3, 0.25, 0.35)
    assert sentences.answer(found, "gpt2").startswith("Of the measured defences with no clear excess")
    drawn = risk_and_cost(
        found.assign(base=math.nan, base_perplexity=math.nan, perplexity_low=3.0, perplexity_high=9.0),
        risks({"full_name_patients"})["full_name_patients"],
        "distilbert",
    )
    assert drawn.layout.xaxis2.title.text.startswith("pseudo-<br>perplexity")


def scrubbed_and_private(low: float, dp_low: float = 0.499) -> pd.DataFrame:
    """The shipped figures: scrubbing keeps names out at less cost than DP, and its AUC of the loss attack is 0.61."""
    names = compared(
        ("nothing", "No defence", 0.29, 0.27, 0.32, 0.0, 0.0, 0.0074, 2.9),
        ("scrubbing", "Scrubbing, recall 95 %", 0.0008, 0.0001, 0.0047, 0.0, 0.0, 0.0074, 5.3),
        ("dp-note", "DP per note, ε = 8", 0.0, 0.0, 0.0032, 0.0, 0.0, 0.0074, 8.7),
        metric="full_name_patients",
    )
    aucs = names.assign(metric="auc_loss", value=[0.785, 0.612, 0.515], low=[0.775, low, dp_low], high=0.62)
    return pd.concat([names, aucs.assign(control=math.nan, control_low=math.nan, control_high=math.nan)])


def test_the_answer_by_names_says_whether_the_loss_attack_beats_guessing():
    told = sentences.answer(scrubbed_and_private(0.601), "gpt2")
    assert "the most useful is **Scrubbing, recall 95 %**" in told and told.endswith(
        "But the loss attack beats guessing on its training notes: AUC 0.612 (0.601 to 0.620); not clearly with "
        "**DP per note, ε = 8** (perplexity 8.70): 0.515 (0.499 to 0.620)."
    )
    both = sentences.answer(scrubbed_and_private(0.601, dp_low=0.503), "gpt2")
    assert "beats guessing" in both and "not clearly with" not in both
    assert "loss attack" not in sentences.answer(scrubbed_and_private(0.5), "gpt2"), "no more than guessing"
    found = scrubbed_and_private(0.601)
    assert "loss attack" not in sentences.answer(found[found["metric"] != "auc_loss"], "gpt2"), "not measured"
    apart = sentences.answer(found.assign(base=0.49, base_low=0.48, base_high=0.51), "gpt2")
    assert apart == told, "the public model is where guessing is"
    alike = sentences.answer(found.assign(base=0.576, base_low=0.47, base_high=0.7), "gpt2")
    assert alike.endswith(
        "AUC 0.612 (0.601 to 0.620). That cannot be distinguished from the public model's, which read none of these "
        "notes: 0.576 (0.470 to 0.700)."
    )


@pytest.mark.parametrize(
    ("metric", "begins"),
    [
        ("full_name_patients", "Training patients whose full name the model wrote: 29\u00a0%"),
        ("direct_patients", "Training patients with an identifier in the texts: 29\u00a0%"),
        ("attempts_with_leak", "Texts with a value of a patient: 29\u00a0%"),
    ],
)
@pytest.mark.parametrize("defence", ["nothing", "filter"])
def test_a_share_of_text_has_a_subject_and_its_control_an_interval(metric, begins, defence):
    figures = {"value": 0.29, "low": 0.27, "high": 0.32, "control": 0.01, "control_low": 0.0, "control_high": 0.02}
    told = sentences.found(pd.Series({"defence": defence, "seeds": 1} | figures), metric)
    assert told.startswith(f"{begins} (95\u00a0% interval 27\u00a0% to 32\u00a0%) against 1.0\u00a0% ("), told
    assert "(95\u00a0% interval 0\u00a0% to 2.0\u00a0%) for held-out patients" in told


def test_only_the_sentence_of_the_chosen_risk_stands_above_the_chart(data):
    by_name, by_auc = (said(opened(risk=risk)) for risk in ("full names", "AUC of the loss attack"))
    answer = ":material/lightbulb:"
    assert answer in by_name and "By AUC of the loss attack" not in by_name
    assert answer not in by_auc and "By AUC of the loss attack" in by_auc
