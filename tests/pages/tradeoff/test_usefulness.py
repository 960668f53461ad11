"""ε trade-off: the figures of what a model is good for, drawn over ε in place of perplexity."""

from __future__ import annotations

import math
from functools import partial

import pandas as pd
import pytest

from core.evaluation import registry
from core.evaluation.sweep.tradeoff import Estimate
from core.runs.store import Workspace
from pages.parts.tradeoff import sentences
from pages.parts.tradeoff.charts import linked_pair
from pages.parts.tradeoff.drawn import lacking, risks, useful
from tests.pages.visit import visit

opened = partial(visit, "tradeoff")
FIT, SHUFFLED, PERPLEXITY = "facts_fit", "facts_fit_shuffled", "perplexity_heldout"
EPSILONS = (0.5, 1.0, 8.0, 100.0, math.inf)


def points_of(figures: dict[tuple[str, str], dict[float, float]], kind: str = "gpt2") -> pd.DataFrame:
    """Points of one curve: (metric, arm) → ε → value, each with an interval of ± 0.01."""
    rows = [
        {"kind": kind, "epsilon": epsilon, "metric": metric, "arm": arm, "value": value}
        for (metric, arm), by_epsilon in figures.items()
        for epsilon, value in by_epsilon.items()
    ]
    frame = pd.DataFrame(rows)
    return frame.assign(low=frame["value"] - 0.01, high=frame["value"] + 0.01, seeds=1, interval="run")


def gapped() -> pd.DataFrame:
    """A curve whose facts were not measured at ε = 8, with their controls."""
    there = [epsilon for epsilon in EPSILONS if epsilon != 8.0]
    return points_of(
        {
            (PERPLEXITY, "run"): dict.fromkeys(EPSILONS, 10.0),
            ("full_name_patients", "run"): dict.fromkeys(EPSILONS, 0.1),
            (FIT, "run"): dict(zip(there, (0.05, 0.06, 0.07, 0.5), strict=True)),
            (FIT, "base"): dict.fromkeys(there, 0.4),
            (FIT, "heldout"): dict.fromkeys(there, 0.6),
            (SHUFFLED, "run"): dict.fromkeys(there, 0.09),
            ("nli_accuracy", "run"): {8.0: 0.6},
        }
    )


def chart(curves: pd.DataFrame, metric: str, at: float = 1.0):
    risk = "full_name_patients"
    seeds = pd.DataFrame(columns=["epsilon", "seed", "metric", "value"])
    known = useful(curves)
    now = {risk: Estimate(0.1, 0.09, 0.11, False, "measured (1 seed)"), metric: None}
    return linked_pair(curves, (metric, known[metric]), (risk, risks([risk])[risk]), now, at, seeds)


def drawn(figure, name: str) -> list:
    return [trace for trace in figure.data if trace.name == name]


def test_only_figures_that_two_epsilons_have_are_offered_and_perplexity_always():
    assert list(useful(gapped())) == [PERPLEXITY, FIT], "inference was measured at one ε only"
    alone = points_of({(PERPLEXITY, "run"): {8.0: 30.0}, ("known_words", "run"): {8.0: 0.9}}, kind="distilbert")
    assert {name: one.label for name, one in useful(alone).items()} == {PERPLEXITY: "pseudo-perplexity"}
    assert lacking(gapped(), FIT) == (1, 5) and lacking(gapped(), PERPLEXITY) == (0, 5)


def test_usefulness_is_no_risk_and_risks_are_not_useful():
    keys = [*(one.key for one in registry.figures() if one.member is None)]
    names = list(registry.charted(keys, "usefulness"))
    assert names == [
        *(PERPLEXITY, "bits_per_character", "known_words", FIT),
        *("text_similarity", "entity_f1", "nli_accuracy"),
    ]
    assert not set(names) & set(risks(keys)) and "auc_loss" in risks(keys)


def test_where_an_epsilon_lacks_the_figure_line_and_band_have_a_gap():
    finite, plain = drawn(chart(gapped(), FIT), "facts that fit")
    assert list(finite.y)[:2] == [0.05, 0.06] and math.isnan(finite.y[2]) and finite.y[3] == 0.07
    assert not finite.connectgaps and list(plain.y) == [0.5]
    bands = [trace for trace in chart(gapped(), FIT).data if trace.fill == "toself" and trace.yaxis == "y"]
    assert [sorted(set(band.x)) for band in bands] == [list(finite.x[:2])], "no band over the gap, nor to one point"


def test_chance_is_drawn_as_a_control_and_real_notes_as_a_level():
    figure = chart(gapped(), FIT)
    control = drawn(figure, "control: the same facts shuffled")
    assert [list(one.y) for one in control] == [[0.09, 0.09, 0.09], [0.09]]
    assert {one.line.dash for one in control} == {"dash"}
    levels = {shape.y0: shape.line.dash for shape in figure.layout.shapes if shape.y0 == shape.y1}
    assert levels == {0.4: "dot", 0.5: "dash", 0.6: "solid"}
    assert drawn(figure, "held-out notes") and drawn(figure, "public model")
    low, high = figure.layout.yaxis.range
    assert low < 0.04 and 0.61 < high < 1, "all values and controls are within the axis"


def test_a_marker_at_zero_is_drawn_whole():
    """The control is 0 at every ε: its squares must not be cut in half by the axis."""
    curves = points_of(
        {(PERPLEXITY, "run"): {1.0: 30.0, 8.0: 20.0}, ("full_name_patients", "run"): {1.0: 0.0, 8.0: 0.3}}
        | {("full_name_patients", "heldout"): {1.0: 0.0, 8.0: 0.0}}
    )
    figure = chart(curves.assign(low=curves["low"].clip(lower=0.0)), PERPLEXITY)
    below = [trace for trace in figure.data if trace.yaxis == "y2" and "markers" in trace.mode]
    marked = [trace for trace in below if len(trace.y) and trace.y[0] is not None]
    assert len(marked) >= 3 and all(trace.cliponaxis is False for trace in marked)
    low, high = figure.layout.yaxis2.range
    assert low <= -0.05 * (high - low)


def test_no_tick_lies_beyond_a_hundred_percent():
    curves = points_of(
        {
            (PERPLEXITY, "run"): {1.0: 9.0, 8.0: 8.0},
            ("full_name_patients", "run"): {1.0: 0.0, 8.0: 0.0},
            ("known_words", "run"): {1.0: 0.89, 8.0: 0.98},
        }
    )
    low, high = chart(curves, "known_words").layout.yaxis.range
    assert low < 0.88 and 1 < high < 1.01


def test_the_sentence_compares_with_chance_and_says_what_was_not_measured():
    one = useful(gapped())[FIT]
    said = partial(sentences.usefulness, FIT, one)
    now = Estimate(0.05, 0.02, 0.08, False, "measured (1 seed)")
    here = {(FIT, "run"): now, (FIT, "base"): None, (FIT, "heldout"): None, (SHUFFLED, "run"): None}
    told = said(here, None).replace("\u00a0", " ")
    assert told == (
        "facts that fit 5.0 % (95 % interval 2.0 % to 8.0 %; without privacy not measured, public model not "
        "measured), measured (1 seed). Higher is better. Control, the same facts shuffled: not measured."
    )
    for (low, high), verdict in {
        (0.07, 0.11): "cannot be distinguished from it",
        (0.09, 0.11): "is no better than it",
        (0.0, 0.01): "exceeds it",
    }.items():
        chance = Estimate((low + high) / 2, low, high, False, "measured (1 seed)")
        assert said(here | {(SHUFFLED, "run"): chance}, now).endswith(f"; the model {verdict}."), verdict
    between = Estimate(0.05, 0.02, 0.08, True, "interpolated between ε = 1 and ε = 100")
    assert said(here | {(FIT, "run"): between}, None) == "facts that fit not measured at this ε."


def test_a_risk_between_two_measured_epsilons_gets_no_verdict():
    """A straight line bounds no risk: where the curve bends upwards early, the true value is above it."""
    (name,) = risks({"full_name_patients"})
    one, control = risks({name})[name], Estimate(0.1, 0.05, 0.2, False, "measured (1 seed)")
    at, told = partial(sentences.risk_at, name, one), "interpolated between ε = 1 and ε = 8"
    said = at({(name, "run"): Estimate(0.02, 0.0, 0.03, True, told), (name, "heldout"): control})
    assert said.replace("\u00a0", " ").endswith(
        ": not measured at this ε. **Interpolated between ε = 1 and ε = 8**: 2.0 %. The true value may be higher."
    )
    said = at({(name, "run"): Estimate(0.02, 0.0, 0.03, False, "measured (1 seed)"), (name, "heldout"): control})
    assert "this is less than chance" in said and "measured (1 seed)" in said.lower() and "higher" not in said


def test_the_caption_says_at_how_many_epsilons_it_was_not_measured():
    curves = gapped()
    known = useful(curves)
    told = sentences.caption(curves, (FIT, known[FIT]), "full_name_patients")
    assert "Facts that fit: not measured at 1 of the 5 ε." in told
    assert registry.explain(FIT) in told and registry.explain("full_name_patients") in told
    assert "gaps" not in sentences.caption(curves, (PERPLEXITY, known[PERPLEXITY]), "full_name_patients")


@pytest.mark.parametrize("metric", ["known_words", "bits_per_character"])
def test_a_link_chooses_usefulness_and_the_page_tells_the_runs_own_figures(data, smoke_specs, metric):
    figure = registry.figure(metric)
    app = opened(usefulness=figure.label, at="8")
    of_run = Workspace(data, shared=()).run(smoke_specs["dp"].run_id).metrics.set_index(["metric", "arm"])["value"]
    plain = Workspace(data, shared=()).run(smoke_specs["plain"].run_id).metrics.set_index(["metric", "arm"])["value"]
    told = next(one.value for one in app.markdown if one.value.startswith("**Usefulness:**"))
    assert f"{figure.label} {figure.number.text(of_run[metric, 'run'])}" in told
    assert f"without privacy {figure.number.text(plain[metric, 'run'])}" in told
    assert f"public model {figure.number.text(of_run[metric, 'base'])}" in told
    table = next(frame.value for frame in app.dataframe if "base value" in frame.value)
    assert metric in set(table["metric"]) and PERPLEXITY not in set(table["metric"])


def test_perplexity_is_chosen_at_first_and_for_a_figure_that_no_run_has(data):
    for link in ({}, {"usefulness": "entities (F1)"}):
        app = opened(**link)
        assert not app.exception and app.selectbox(key="usefulness").value == PERPLEXITY
        assert "entities (F1)" not in app.selectbox(key="usefulness").options, "GPT-2 finds no entities"
