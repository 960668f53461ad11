"""Usefulness above and risk below on one ε axis: measured values, intervals, controls, and the slider's position."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.common.formatting import setting_text
from core.evaluation import registry
from pages.parts.common import chart_style
from pages.parts.pickers.epsilon_slider import epsilon_key
from pages.parts.tradeoff.drawn import Drawn

if TYPE_CHECKING:
    from core.evaluation.sweep.tradeoff import Estimate
    from core.evaluation.sweep.waking import Waking

GAP = 0.32  # in decades: between the largest ε and ∞, which has no place on a log axis
HEIGHT = 260  # pixels: the slider, the charts and the texts fit on a screen of 1280 × 800
LARGE_HEIGHT = 430  # pixels with large type, where titles and ticks of two axes need more room
LARGE_TICKS = 3
BAND = 0.25  # opacity of the band where a leak begins
DODGE = 0.014  # in decades: a control is drawn beside its figure, so that neither hides the other


class EpsilonAxis:
    """Positions of ε on a log axis, with ∞ as a separate category at the right."""

    def __init__(self, epsilons: list[float]):
        finite = [epsilon for epsilon in epsilons if math.isfinite(epsilon)]
        self.low, self.high = min(finite, default=1.0), max(finite, default=1.0)
        decades = math.log10(self.high / self.low)
        self.infinity = math.log10(self.high) + max(GAP, 0.09 * decades)  # labels must not touch on a wide axis
        ticks = sorted(set(finite))
        self.layout = {
            "tickvals": [*map(math.log10, ticks), self.infinity],
            "autotickangles": [0, 90],  # on a phone, labels at an angle between would meet
            "ticktext": [*map(setting_text, ticks), "∞"],
            "range": [math.log10(self.low) - 0.08, self.infinity + 0.1],
            "zeroline": False,
        }

    def place(self, epsilon: float) -> float:
        """Horizontal position of an ε."""
        return self.infinity if math.isinf(epsilon) else math.log10(epsilon)


def linked_pair(
    points: pd.DataFrame,
    useful: tuple[str, Drawn],
    risk: tuple[str, Drawn],
    now: Mapping[str, Estimate | None],
    at: float,
    seeds: pd.DataFrame,
    begins: Waking | None = None,
) -> go.Figure:
    """The pair of charts.

    Args:
        points: from `core.evaluation.sweep.tradeoff`.
        useful: the metric of usefulness, and how it is drawn.
        risk: the metric of the risk, and how it is drawn.
        now: the figures at the slider's ε, by metric; None where one is unknown.
        at: the slider's ε.
        seeds: the figures of each run (epsilon, seed, metric, value), drawn as small open circles.
        begins: where the risk begins to exceed its control, drawn as a band; None if that is not known.
    """
    axis = EpsilonAxis(points["epsilon"].tolist())
    figure = make_subplots(rows=2, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.5, 0.5])
    for row, (metric, drawn), colour in ((1, useful, chart_style.UTILITY), (2, risk, chart_style.RISK)):
        number = drawn.figure.number.text
        _curve(figure, axis, points, metric, row=row, colour=colour, name=drawn.label, number=number)
        _control(figure, axis, *_controls(points, metric, drawn), row=row, number=number)
        _level(figure, points, metric, row=row, shown=row == 1)
    _references(figure, points, *useful)
    if risk[1].chart.blind_label:
        figure.add_hline(
            y=risk[1].figure.blind,
            line={"color": chart_style.CONTROL, "dash": "dash"},
            annotation_text=risk[1].chart.blind_label,
            row=2,
            col=1,
        )
    for row, (metric, _), colour in ((1, useful, chart_style.UTILITY), (2, risk, chart_style.RISK)):
        _each_seed(figure, axis, seeds[seeds["metric"] == metric], row=row, colour=colour)
        _here(figure, axis.place(at), now[metric], row=row, colour=colour)
    if begins is not None and begins.epsilon is not None:
        _begins(figure, axis, begins)
    _dress(figure, axis, points, useful, risk)
    return figure


def _of(points: pd.DataFrame, metric: str, arm: str) -> pd.DataFrame:
    return points[(points["metric"] == metric) & (points["arm"] == arm)].sort_values("epsilon")


def _curve(
    figure: go.Figure,
    axis: EpsilonAxis,
    points: pd.DataFrame,
    metric: str,
    *,
    row: int,
    colour: str,
    name: str,
    number: Callable[[float], str],
) -> None:
    """Band and line over finite ε, and ∞ apart: no line joins them, because nothing is known between them.

    Where an ε of the curve lacks the figure, band and line have a gap.
    """
    rows = _of(points, metric, "run")
    finite = rows[~rows["epsilon"].map(math.isinf)]
    every = sorted(epsilon for epsilon in points["epsilon"].unique() if math.isfinite(epsilon))
    for stretch in _stretches(finite, every):
        _band(figure, stretch["epsilon"].map(axis.place), stretch, row=row, colour=colour)
    gapped = finite if finite.empty else finite.set_index("epsilon").reindex(every).reset_index()
    for part, shown in ((gapped, True), (rows[rows["epsilon"].map(math.isinf)], False)):
        if part.empty:
            continue
        figure.add_scatter(
            x=part["epsilon"].map(axis.place),
            y=part["value"],
            name=name,
            showlegend=shown or len(rows) == len(part),
            legendgroup=name,
            mode="lines+markers",
            line={"color": colour, "width": 3},
            marker={"size": 10},
            cliponaxis=False,
            error_y=_whiskers(part, colour),
            customdata=chart_style.hover_columns(part[["value", "low", "high"]], number).assign(
                seeds=part["seeds"], key=part["epsilon"].map(epsilon_key), setting=part["epsilon"].map(setting_text)
            )[["key", "setting", "value", "low", "high", "seeds"]],
            hovertemplate="ε = %{customdata[1]}: %{customdata[2]}<br>95 % interval %{customdata[3]} to "
            f"%{{customdata[4]}}, seeds: %{{customdata[5]}}<extra>{name}</extra>",
            row=row,
            col=1,
        )


def _stretches(finite: pd.DataFrame, every: list[float]) -> Iterator[pd.DataFrame]:
    """Rows of two or more neighbouring ε among all those of a curve, in order."""
    place = finite["epsilon"].map(every.index)
    for _, stretch in finite.groupby(place - np.arange(len(finite))):  # equal for neighbours
        if len(stretch) > 1:
            yield stretch


def _whiskers(part: pd.DataFrame, colour: str) -> dict:
    return {
        "array": (part["high"] - part["value"]).fillna(0),
        "arrayminus": (part["value"] - part["low"]).fillna(0),
        "color": colour,
        "thickness": 1.5,
        "width": 4,
    }


def _band(figure: go.Figure, x: pd.Series, part: pd.DataFrame, *, row: int, colour: str) -> None:
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    figure.add_scatter(
        x=[*x, *x[::-1]],
        y=[*part["high"], *part["low"][::-1]],
        fill="toself",
        mode="lines",
        line={"width": 0},
        fillcolor=f"rgba({red},{green},{blue},0.18)",
        hoverinfo="skip",
        showlegend=False,
        row=row,
        col=1,
    )


def _controls(points: pd.DataFrame, metric: str, drawn: Drawn) -> tuple[pd.DataFrame, str]:
    """The control that is drawn over ε, with its name.

    For usefulness this is what chance reaches; for a risk the same for patients (or canaries) that were not trained on.
    """
    if drawn.chart.shows == "risk":
        return _of(points, metric, "heldout"), drawn.figure.control_label
    chance = drawn.chart.chance
    return _of(points, chance, "run"), registry.figure(chance).label if chance else ""


def _control(
    figure: go.Figure, axis: EpsilonAxis, rows: pd.DataFrame, whose: str, *, row: int, number: Callable[[float], str]
) -> None:
    name = f"control: {whose}"
    for part, shown in ((rows[~rows["epsilon"].map(math.isinf)], True), (rows[rows["epsilon"].map(math.isinf)], False)):
        if part.empty:
            continue
        figure.add_scatter(
            x=part["epsilon"].map(axis.place) + DODGE,
            y=part["value"],
            name=name,
            legendgroup="control",
            showlegend=shown or len(rows) == len(part),
            mode="lines+markers",
            line={"color": chart_style.CONTROL, "dash": "dash", "width": 2},
            marker={"size": 8, "symbol": "square"},
            cliponaxis=False,
            error_y=_whiskers(part, chart_style.CONTROL),
            text=[  # no `customdata`: a click on a control does not move the slider
                f"{value}, 95 % interval {low} to {high}"
                for value, low, high in chart_style.hover_columns(part[["value", "low", "high"]], number).to_numpy()
            ],
            hovertemplate=f"%{{text}}<extra>{name}</extra>",
            row=row,
            col=1,
        )


def _level(figure: go.Figure, points: pd.DataFrame, metric: str, *, row: int, shown: bool) -> None:
    """A horizontal line for the public base model, which does not depend on ε."""
    rows = _of(points, metric, "base")
    if rows.empty:
        return
    figure.add_hline(
        y=rows["value"].mean(), line={"color": chart_style.CONTROL, "dash": "dot", "width": 2}, row=row, col=1
    )
    figure.add_scatter(
        x=[None],
        y=[None],
        name="public model",
        showlegend=shown,
        mode="lines",
        line={"color": chart_style.CONTROL, "dash": "dot", "width": 2},
        row=row,
        col=1,
    )


def _references(figure: go.Figure, points: pd.DataFrame, metric: str, drawn: Drawn) -> None:
    """Horizontal lines at what training without privacy reaches, and at what held-out notes themselves reach."""
    plain = _of(points, metric, "run")
    levels = (
        (plain[plain["epsilon"].map(math.isinf)], "without privacy (∞)", chart_style.UTILITY, "dash"),
        (_of(points, metric, "heldout"), drawn.figure.control_label, chart_style.CONTROL, "solid"),
    )
    for rows, name, colour, dash in levels:
        if rows.empty:
            continue
        style = {"color": colour, "dash": dash, "width": 1.5}
        figure.add_hline(y=rows["value"].mean(), line=style, row=1, col=1)
        figure.add_scatter(x=[None], y=[None], name=name, mode="lines", line=style, row=1, col=1)


def _each_seed(figure: go.Figure, axis: EpsilonAxis, rows: pd.DataFrame, *, row: int, colour: str) -> None:
    """Every run as a small open circle, if its ε has several."""
    several = rows[rows.groupby("epsilon")["seed"].transform("nunique") > 1]
    if several.empty:
        return
    figure.add_scatter(
        x=several["epsilon"].map(axis.place) - DODGE,
        y=several["value"],
        mode="markers",
        name="single seeds (small circles)",
        showlegend=row == 1,
        customdata=[
            (seed, registry.figure_text(metric, value))
            for seed, metric, value in several[["seed", "metric", "value"]].itertuples(index=False)
        ],
        hovertemplate="seed %{customdata[0]}: %{customdata[1]}<extra></extra>",
        marker={"size": 7, "symbol": "circle-open", "color": colour, "line": {"width": 1.5}},
        row=row,
        col=1,
    )


def _here(figure: go.Figure, x: float, estimate: Estimate | None, *, row: int, colour: str) -> None:
    """The slider: a line through both charts, and its figure, if known, as an open (interpolated) or filled circle."""
    figure.add_vline(x=x, line={"color": chart_style.OKABE_ITO["orange"], "width": 2}, row=row, col=1)
    if estimate is None or math.isnan(estimate.value):
        return
    fill = "rgba(0,0,0,0)" if estimate.interpolated else colour
    figure.add_scatter(
        x=[x],
        y=[estimate.value],
        mode="markers",
        showlegend=False,
        hoverinfo="skip",
        cliponaxis=False,
        marker={"size": 20, "color": fill, "line": {"color": chart_style.OKABE_ITO["orange"], "width": 4}},
        row=row,
        col=1,
    )


def _begins(figure: go.Figure, axis: EpsilonAxis, begins: Waking) -> None:
    """A band between the measured ε between which the risk begins to exceed its control."""
    assert begins.epsilon is not None  # checked by the caller
    right = axis.place(begins.epsilon)
    left = right - GAP if begins.below is None else axis.place(begins.below)
    colour = chart_style.OKABE_ITO["yellow"]
    figure.add_vrect(x0=left, x1=right, fillcolor=colour, opacity=BAND, line_width=0, layer="below", row=2, col=1)
    style = {"size": 11, "symbol": "square", "color": colour, "opacity": BAND}  # the legend's mark looks as the band
    figure.add_scatter(x=[None], y=[None], name="the leak begins", mode="markers", marker=style, row=2, col=1)


def _dress(
    figure: go.Figure, axis: EpsilonAxis, points: pd.DataFrame, useful: tuple[str, Drawn], risk: tuple[str, Drawn]
) -> None:
    figure.update_xaxes(**axis.layout)
    figure.update_xaxes(title="ε  (← more private · more useful →)", row=2)
    upper, lower = chart_style.wrapped(useful[1].axis, 12), chart_style.wrapped(risk[1].label, 14)
    figure.update_yaxes(title=upper, **_scale(points, *useful), row=1)
    figure.update_yaxes(title=lower, **_scale(points, *risk), row=2)
    figure.update_yaxes(title_standoff=10, nticks=LARGE_TICKS if chart_style.large_type() else None)
    figure.update_layout(
        height=LARGE_HEIGHT if chart_style.large_type() else HEIGHT,
        margin=chart_style.MARGIN,
        showlegend=False,
        clickmode="event+select",
        dragmode=False,
    )


def _scale(points: pd.DataFrame, metric: str, drawn: Drawn) -> dict[str, Any]:
    """Type, range and ticks of a figure's axis, which shows all its values, intervals and controls."""
    shown = points[points["metric"].isin([metric, drawn.chart.chance])]
    if drawn.chart.log:
        ticks = _round_numbers(shown["value"])
        if chart_style.large_type():
            ticks = _few(ticks, shown["value"])
        return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]}
    top = max([drawn.chart.ceiling, *shown["high"].dropna(), *shown["value"].dropna()])
    bottom = min([drawn.chart.floor, *shown["low"].dropna()])
    room = 0.08 * (top - bottom)  # for markers at the ends; no tick lies beyond what is possible
    upper = min(1.05 * top, drawn.figure.range[1] + room)
    return {"range": [bottom - room, upper], "tickformat": drawn.figure.number.tick}


def _few(ticks: list[float], values: pd.Series) -> list[float]:
    """About `LARGE_TICKS` of the ticks that values lie around."""
    inside = [tick for tick in ticks if values.min() <= tick <= values.max()]
    return inside[:: max(1, math.ceil(len(inside) / LARGE_TICKS))]


def _round_numbers(values: pd.Series) -> list[float]:
    """Ticks of a log axis that do not overlap: the wider the range of values, the fewer digits."""
    ratio = values.max() / values.min()
    steps = ((200, (1,)), (20, (1, 3)), (8, (1, 2, 5)))
    digits = next((digits for least, digits in steps if ratio > least), (1, 1.5, 2, 3, 4, 5, 6, 8))
    return [digit * 10**power for power in range(6) for digit in digits]
