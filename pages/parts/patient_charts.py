"""The picture of the Patients page: leakage by rarity, rare profiles on the left."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from pages.parts import charts

COLOURS = tuple(charts.OKABE_ITO[name] for name in ("sky", "blue", "green", "purple", "orange", "yellow"))
SYMBOLS = ("square", "diamond", "triangle-up", "cross", "star", "triangle-down")
TITLES = {
    "privacy leakage": "privacy leakage (caught − wrongly accused)",
    "score percentile": "mean score percentile of members",
}
BLIND = {"privacy leakage": 0.0, "score percentile": 0.5}


def bars(table: pd.DataFrame, control: pd.DataFrame | None, measure: str, selected: int | None) -> go.Figure:
    """One bar a kept bucket with its interval, the public model's figure as a mark; each bar can be clicked.

    `table` and `control` are tables of core.evaluation.patient_leakage.leakage; `selected` is a bucket.
    """
    kept = table[table["kept"] & table["value"].notna()]
    figure = go.Figure()
    figure.add_bar(
        x=kept["bucket"] + 1, y=kept["value"], name="this model",
        marker={
            "color": charts.RISK, "line": {"width": [4 if one == selected else 0 for one in kept["bucket"]]},
            "opacity": [1.0 if selected is None or one == selected else 0.55 for one in kept["bucket"]],
        },
        error_y={"array": kept["high"] - kept["value"], "arrayminus": kept["value"] - kept["low"], "thickness": 1.5},
        customdata=kept[["bucket", "patients", "members", "heldout", "low", "high", "tpr", "fpr"]],
        hovertemplate="bucket %{x}: %{y:.3f} (%{customdata[4]:.3f} to %{customdata[5]:.3f})<br>"
        "%{customdata[2]} members, %{customdata[3]} held out; caught %{customdata[6]:.1%}, accused "
        "%{customdata[7]:.1%}<extra></extra>",
    )  # fmt: skip
    if control is not None:
        shown = control[control["kept"] & control["value"].notna()]
        figure.add_scatter(
            x=shown["bucket"] + 1, y=shown["value"], mode="markers", name="public model (control)",
            marker={"color": charts.CONTROL, "size": 11, "symbol": "diamond", "line": {"width": 1}},
            hovertemplate="public model, bucket %{x}: %{y:.3f}<extra></extra>",
        )  # fmt: skip
    return _framed(figure, measure)


def lines(tables: Mapping[str, pd.DataFrame], measure: str, colours: Mapping[str, str]) -> go.Figure:
    """Several runs over the same buckets, a line each, by name; a run without a colour of its own gets one."""
    figure = go.Figure()
    others = [name for name in tables if name not in colours]
    for name, table in tables.items():
        kept = table[table["kept"] & table["value"].notna()]
        number = others.index(name) if name in others else 0
        colour = colours.get(name, COLOURS[number % len(COLOURS)])
        symbol = SYMBOLS[number % len(SYMBOLS)] if name in others else "circle"
        figure.add_scatter(
            x=kept["bucket"] + 1, y=kept["value"], mode="lines+markers", name=name,
            line={"color": colour, "width": 2, "dash": "dot" if name in others and number >= len(COLOURS) else "solid"},
            marker={"size": 9, "symbol": symbol}, customdata=kept[["bucket", "low", "high"]],
            hovertemplate="bucket %{x}: %{y:.3f} (%{customdata[1]:.3f} to %{customdata[2]:.3f})"
            f"<extra>{name}</extra>",
        )  # fmt: skip
    return _framed(figure, measure)


def _framed(figure: go.Figure, measure: str) -> go.Figure:
    few = max((len(trace.x) for trace in figure.data if trace.x is not None), default=0) <= 12
    charts.level(figure, "a blind guess", y=BLIND[measure])
    figure.update_xaxes(title="bucket, from the rarest disease profiles", dtick=1 if few else 5)
    figure.update_yaxes(title=TITLES[measure])
    figure.update_layout(
        height=430, clickmode="event+select", bargap=0.15, dragmode=False,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        margin={"t": 10, "b": 10, "l": 10, "r": 10},
    )  # fmt: skip
    return figure
