"""The charts of the trade-off on a projector and on a telephone: few ticks, names that wrap, and a true legend."""

from __future__ import annotations

import math
from itertools import pairwise

import pandas as pd
import plotly.graph_objects as go
import pytest

from core.evaluation.sweep.noise_grid import Setting
from pages.parts.common import chart_style
from pages.parts.tradeoff import charts
from pages.parts.tradeoff.drawn import risks, useful
from pages.parts.tradeoff.hypothetical import noise_grid
from pages.parts.tradeoff.where_leaks_begin import _labels


def curves() -> pd.DataFrame:
    """Perplexity and full names at four ε."""
    rows = [
        (epsilon, metric, arm, value, value * 0.9, value * 1.1, 3, "seeds")
        for epsilon, perplexity in ((1.0, 60.0), (8.0, 20.0), (100.0, 8.0), (math.inf, 3.0))
        for metric, arm, value in (
            ("perplexity_heldout", "run", perplexity),
            ("full_name_patients", "run", 0.1),
            ("full_name_patients", "heldout", 0.01),
        )
    ]
    columns = ["epsilon", "metric", "arm", "value", "low", "high", "seeds", "interval"]
    return pd.DataFrame(rows, columns=columns).assign(kind="gpt2")


def pair() -> go.Figure:
    points = curves()
    usefulness = ("perplexity_heldout", useful(points)["perplexity_heldout"])
    risk = ("full_name_patients", risks({"full_name_patients"})["full_name_patients"])
    seeds = pd.DataFrame([(8.0, seed, "perplexity_heldout", 20.0 + seed) for seed in (0, 1)])
    seeds.columns = ["epsilon", "seed", "metric", "value"]
    now = {"perplexity_heldout": None, "full_name_patients": None}
    return charts.linked_pair(points, usefulness, risk, now, 8.0, seeds)


def test_large_type_gets_a_higher_chart_with_three_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = pair()
    monkeypatch.setattr(chart_style, "large_type", lambda: True)
    large = pair()
    assert (usual.layout.height, large.layout.height) == (charts.HEIGHT, charts.LARGE_HEIGHT)
    assert len(large.layout.yaxis.tickvals) <= charts.LARGE_TICKS < len(usual.layout.yaxis.tickvals)
    assert large.layout.yaxis2.nticks == charts.LARGE_TICKS and usual.layout.yaxis2.nticks is None


def test_the_legend_draws_markers_as_markers_and_a_band_as_pale_as_it_is() -> None:
    legend = chart_style.legend_html(pair())
    circle = f"width: 9px; height: 9px; border: 2px solid {chart_style.UTILITY}; border-radius: 50%"
    assert f'<i style="{circle}"></i>single seeds (small circles)' in legend
    (plain,) = [trace.line for trace in pair().data if trace.name == "without privacy (∞)"]
    dashes = f"repeating-linear-gradient(90deg, {plain.color} 0px 9px, transparent 9px 18px)"
    assert plain.dash == "dash" and f'{dashes}"></i>without privacy (∞)' in legend
    band = go.Scatter(marker={"symbol": "square", "color": "#F0E442", "opacity": charts.BAND})
    assert chart_style._marker_css(band).endswith("background: #F0E442; opacity: 0.25")


def test_many_epsilons_have_few_numbers_and_a_few_have_all() -> None:
    assert _labels([0.5, 1, 3, 8, 30, 100, 1_000, 10_000, math.inf]) == ["", "1", "", "8", "", "100", "1,000", "", "∞"]
    assert _labels([0.5, 2, math.inf]) == ["0.5", "2", "∞"]


def test_the_four_ways_to_vary_a_training_have_titles_that_fit_beside_one_another() -> None:
    spent = pd.DataFrame({"panel": list(noise_grid.PANELS) * 3, "x": [1, 1, 8, 8, 2, 2, 16, 16, 4, 4, 32, 32]})
    figure = noise_grid._chart(Setting(2.0, 2.0, 16.0), spent.assign(epsilon=8.0), None, "")
    axes = list(figure.select_xaxes())
    assert [axis.title.text for axis in axes] == ["noise σ", "epochs", "batch,<br>σ fixed", "batch,<br>σ ∝ √batch"]


@pytest.mark.parametrize(("low", "high"), [(2.2, 3.0), (2.2, 4.4), (3.9, 33.0), (1.94, 107.0), (1.94, 980.0)])
def test_ticks_of_perplexity_do_not_overlap(low: float, high: float) -> None:
    """A model without privacy on few own notes has 1.94, and the public one 107."""
    ticks = [tick for tick in charts._round_numbers(pd.Series([low, high])) if low / 1.2 <= tick <= high * 1.2]
    height = charts.HEIGHT * 0.3  # of one panel, in pixels: a line of text has 15
    nearest = min(math.log(after / before) for before, after in pairwise(ticks)) / math.log(1.4 * high / low)
    assert len(ticks) >= 2 and nearest * height > 15
