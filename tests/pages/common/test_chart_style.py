"""A figure that all sessions share is made once for what it shows, and drawing it does not change it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import plotly.graph_objects as go
import pytest
import streamlit as st

from core.evaluation.wording import percent
from pages.parts.common import chart_style
from pages.parts.membership import charts as membership_charts
from pages.parts.session import resources
from tests.pages.visit import visit


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    resources.forget_process()
    yield
    resources.forget_process()


def _figure() -> go.Figure:
    figure = go.Figure()
    figure.add_scatter(x=[1, 2], y=[3, 4], name="curve", mode="lines", line={"dash": "dot"})
    figure.add_scatter(x=[1], y=[3], name="point", mode="markers", marker={"color": "red"})
    return figure


def test_a_kept_figure_is_made_once_for_all_that_it_is_made_from(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def make() -> go.Figure:
        made.append("")
        return _figure()

    first = chart_style.kept("a", ("run", 1.0), make)
    assert chart_style.kept("a", ("run", 1.0), make) is first and len(made) == 1
    assert first == chart_style.dressed(_figure()), "it looks as one that is not kept"
    others = [chart_style.kept(*other, make) for other in (("b", ("run", 1.0)), ("a", ("run", 2.0)), ("a", ("run",)))]
    assert len(made) == 4 and len({id(one) for one in (first, *others)}) == 4
    monkeypatch.setitem(st.session_state, "large_type", True)
    large = chart_style.kept("a", ("run", 1.0), make)
    assert large.layout.font.size == chart_style.LARGE_TEXT_SIZE and first.layout.font.size == chart_style.TEXT_SIZE
    resources.empty_caches()
    assert chart_style.kept("a", ("run", 1.0), make) is not large, "a cohort was deleted"


def test_sessions_that_draw_a_kept_figure_at_once_do_not_change_it() -> None:
    figure = chart_style.kept("a", (), _figure)
    before = figure.to_json()

    def draw(number: int) -> str:
        chart_style.show(figure, key=f"chart-{number}", alt="")
        return chart_style.legend_html(figure) + figure.to_json()

    with ThreadPoolExecutor(8) as threads:
        drawn = set(threads.map(draw, range(200)))
    assert len(drawn) == 1 and figure.to_json() == before


def test_a_legend_tells_every_pattern_of_line_and_every_kind_of_mark_apart() -> None:
    figure = go.Figure()
    for dash in membership_charts.DASHES:
        figure.add_scatter(x=[1], y=[1], name=dash, mode="lines", line={"dash": dash, "color": "#0072B2"})
    figure.add_scatter(x=[1], y=[1], name="round unless a symbol is named", mode="markers", marker={"color": "#000000"})
    figure.add_bar(x=[1], y=[1], name="pale bar", opacity=0.45, marker={"color": "#000000"})
    looks = re.findall(r'<i style="([^"]+)"', chart_style.legend_html(figure))
    assert len(set(looks)) == len(figure.data) == len(membership_charts.DASHES) + 2
    assert looks[0].endswith("repeating-linear-gradient(90deg, #0072B2 0px 3px)"), "a solid line has no gap"
    assert looks[3].count("transparent") == 2, "a dash, a gap, a dot, a gap"
    assert "border-radius: 50%" in looks[-2] and looks[-1].endswith("opacity: 0.45")


@pytest.mark.parametrize("page", ["membership", "step", "defences"])
def test_on_a_phone_no_legend_is_drawn_before_the_picture(page, data) -> None:
    first = visit(page).get("plotly_chart")[0]
    assert json.loads(first.proto.spec)["layout"]["showlegend"] is False


@pytest.mark.parametrize("page", ["tradeoff", "probes"])
def test_a_page_shows_the_same_figures_when_they_are_kept(page, data) -> None:
    first, second = (visit(page).get("plotly_chart") for _ in range(2))
    assert [one.proto.spec for one in first] == [one.proto.spec for one in second]


def test_a_title_below_a_chart_keeps_its_lines_in_every_browser() -> None:
    """A narrow window need not be a phone's, and the server does not know its width."""
    title = chart_style.wrapped("patients for whom it wrote a direct identifier", 28)
    assert title == "patients for whom it wrote a<br>direct identifier"
    assert chart_style.dressed(_figure().update_xaxes(title=title)).layout.xaxis.title.text == title


def test_percentages_on_an_axis_are_written_as_in_the_texts() -> None:
    figure = _figure().update_yaxes(tickformat=".0%")
    chart_style.dressed(figure)
    shown = figure.layout.yaxis.labelalias
    for share, plotly in ((0.0, "0%"), (0.5, "50%"), (1.0, "100%"), (0.025, "2.5%"), (0.0005, "0.05%"), (-0.2, "−20%")):
        assert shown[plotly] == percent(share), share
    assert figure.layout.xaxis.labelalias is None, "an axis of other numbers"
