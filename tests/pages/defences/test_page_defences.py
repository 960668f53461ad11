"""The Defences page, driven without a browser, over runs that the real pipeline made."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pandas as pd
import pytest

from core.common.formatting import REPRODUCIBLE
from core.evaluation.defences.side_by_side import lineup, measured, settings
from core.evaluation.sweep.sweeps import sweeps_of
from core.evaluation.wording import percent, perplexity_text
from core.jobs.engine import Engine
from core.jobs.work import Job
from core.runs.store import Workspace
from pages.parts.defences import filter_view, sentences
from pages.parts.defences.charts import _labelled, _placed, risk_against_utility
from pages.parts.tradeoff.charts import risks
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
    assert shown["No."].tolist() == list(range(1, len(compared) + 1)), "the numbers of the chart's points"
    assert shown["Seeds"].tolist() == ["1", "not trained yet", "not trained yet", "1", "not trained yet", "1", "1"]
    row = table[(table["defence"] == "nothing") & (table["metric"] == "full_name_patients")].iloc[0]
    assert shown["Risk: full names"].iloc[0].startswith(f"{percent(row['value'])} (")
    assert shown["Perplexity"].iloc[0].startswith(perplexity_text(row["perplexity"]))
    assert shown["Risk: full names"].iloc[1] == ""
    assert len(app.get("plotly_chart")) == 1 and len(app.get("download_button")) >= 1
    for number, one in enumerate(compared, start=1):
        assert f"**{number}. {one.name}.** {one.sentence}" in said(app)
    public = f"“DP per note, ε = 8”, “DP per note, ε = 8 + filter”: {REPRODUCIBLE}."
    assert public in [caption.value for caption in app.caption]
    next(button for button in app.button if button.label == "Train the missing runs (3)").click().run()
    assert not app.exception
    assert asked == [compared[at].spec for at in (1, 2, 4)]
    assert asked[1].defence.scrub_recall == 0.9 and asked[2].privacy.unit == "patient"


@pytest.mark.parametrize("risk", ["any identifier", "attempts with a leak", "membership (AUC)"])
def test_every_risk_can_be_drawn(data, risk):
    app = opened(risk=risk)
    assert f"Risk: {risk}" in app.dataframe[0].value.columns
    if risk == "membership (AUC)":
        assert "reads probabilities, not text" in said(app)


def test_points_stand_where_the_table_says_and_share_a_label_where_they_coincide(data):
    compared = lineup(settings(sweeps_of(data.runs()))[0])
    table = measured(compared, data)
    rows = table[table["metric"] == "auc_loss"]
    rows = rows.assign(number=range(1, len(rows) + 1))
    names = dict(zip(rows["number"], rows["name"], strict=True))
    rows = rows[rows["seeds"] > 0]
    drawn = [trace for trace in risk_against_utility(rows, risks({"auc_loss"})["auc_loss"]).data if trace.error_x.array]
    by_key = rows.set_index("defence")
    labels = [[names[int(number)] for number in trace.text[0].split(", ")] for trace in drawn]
    assert labels == [["Nothing", "Filter alone"], ["DP per note, ε = 8", "DP per note, ε = 8 + filter"]]
    assert all(trace.hovertemplate.startswith("<br>".join(same)) for trace, same in zip(drawn, labels, strict=True))
    for trace, key in zip(drawn, ("nothing", "dp-note"), strict=True):
        assert (trace.x[0], trace.y[0]) == (by_key.loc[key, "perplexity"], by_key.loc[key, "value"])
        assert trace.y[0] + trace.error_y.array[0] == pytest.approx(by_key.loc[key, "high"])
        assert trace.x[0] - trace.error_x.arrayminus[0] == pytest.approx(by_key.loc[key, "perplexity_low"])


def test_labels_of_neighbours_stand_on_different_sides():
    rows = pd.DataFrame(
        {"number": [1, 2, 3], "name": list("abc"), "value": [0.38, 0.42, 0.0], "perplexity": [4.6, 4.5, 90.0]}
    )
    assert [side for _, side in _placed(_labelled(rows))] == ["bottom left", "top left", "top left"]


def test_the_answer_is_the_most_useful_of_those_within_their_control(data):
    table = measured(lineup(settings(sweeps_of(data.runs()))[0]), data)
    names = table["metric"] == "full_name_patients"
    table.loc[names, ["low", "control_high"]] = [0.0, 0.1]
    table.loc[names & (table["defence"] == "dp-note"), "perplexity"] = 2.0
    table.loc[names & (table["defence"] == "dp-filter"), "perplexity"] = 2.1
    assert "**DP per note, ε = 8**" in sentences.answer(table)
    table.loc[names, "low"] = 0.2
    assert sentences.answer(table).startswith("None")


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
    assert shown.loc["two answers", "Control: public model"] == "" and shown.loc["two answers", "Both"].startswith(
        "0\u00a0%"
    )
    told = filter_view.caption(found, alarms)
    assert "30\u00a0% of the attempts by “two answers” through (50\u00a0% without a filter)" in told
    assert "10\u00a0% of 500 pieces" in told
