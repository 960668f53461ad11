"""Risk against usefulness: one point with both intervals per defence, its control next to it, and the public model.

Points are labelled with the numbers of the table's rows, since names would overlap on a narrow screen.
"""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go

from pages.parts.common import chart_style
from pages.parts.tradeoff.charts import Risk

TICKS = [2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000]
ASIDE = 1.03  # a control is drawn beside its figure, so that neither hides the other
NEAR = 0.15  # of both ranges: labels on the same side of points nearer than this would overlap
SIDES = ("top left", "bottom left", "bottom right", "top right")
SAME = 0.005  # of the risk's range: points nearer than this, at one perplexity, share their label
PUBLIC = "public model, before any training"


def risk_against_utility(rows: pd.DataFrame, risk: Risk) -> go.Figure:
    """The chart of one risk: the measured `rows` of `side_by_side.compare`, with their `number`."""
    figure = go.Figure()
    number = ":.1%" if risk.share else ":.2f"
    _controls(figure, rows, number)
    for (label, names, row), place in _placed(_labelled(rows)):
        defended = row["defence"] != "nothing"
        colour = chart_style.PRIVATE if defended else chart_style.RISK
        figure.add_scatter(
            x=[row["perplexity"]],
            y=[row["value"]],
            name=row["name"],
            showlegend=False,
            mode="markers+text",
            text=[label],
            textposition=place,
            textfont={"size": chart_style.TEXT_SIZE},
            marker={"size": 14, "color": colour, "symbol": "circle" if defended else "diamond"},
            error_x=_whiskers(row, "perplexity", "perplexity_low", "perplexity_high", colour),
            error_y=_whiskers(row, "value", "low", "high", colour),
            customdata=[[row["low"], row["high"]]],
            hovertemplate=f"{names}: %{{y{number}}}<br>95 % interval %{{customdata[0]{number}}} to "
            f"%{{customdata[1]{number}}}<br>perplexity %{{x:.3g}}<extra></extra>",
        )
    _public(figure, rows, number)
    figure.update_xaxes(
        type="log",
        title="perplexity on held-out notes<br>← more useful",
        tickvals=TICKS,
        ticktext=list(map(str, TICKS)),
        range=_wide(rows),
    )
    figure.update_yaxes(title=risk.axis, tickformat=".0%" if risk.share else None)
    if risk.floor:
        chart_style.level(figure, "coin toss: 0.5", y=0.5)
    figure.update_layout(
        height=480,
        margin={"t": 20, "r": 20, "l": 10, "b": 10},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
    )
    return figure


def _wide(rows: pd.DataFrame) -> list[float] | None:
    """The axis range in log10 of perplexity, with room for a label at both ends; None (Plotly's own) without points."""
    known = pd.concat([rows["perplexity"], rows["base_perplexity"]]).dropna()
    if known.empty:
        return None
    low, high = math.log10(known.min()), math.log10(known.max())
    room = max(0.18 * (high - low), 0.1)
    return [low - room, high + room]


def _placed(points: list[tuple[str, str, pd.Series]]) -> list[tuple[tuple[str, str, pd.Series], str]]:
    """Each point with the side of its label; of neighbouring points, the lower one has its label below."""
    values = [row["value"] for _, _, row in points]
    places = [math.log10(row["perplexity"]) for _, _, row in points]
    tall, wide = (max(max(ends, default=1) - min(ends, default=0), 1e-9) for ends in (values, places))
    found = []
    for at, point in enumerate(points):
        above = sum(
            abs(values[at] - values[other]) < NEAR * tall
            and abs(places[at] - places[other]) < NEAR * wide
            and (values[other], -other) > (values[at], -at)
            for other in range(len(points))
        )
        found.append((point, SIDES[above % len(SIDES)]))
    return found


def _labelled(rows: pd.DataFrame) -> list[tuple[str, str, pd.Series]]:
    """(numbers, names, first row) of each point; defences at the same place share one label."""
    span = max(rows["value"].max() - rows["value"].min(), 1e-9)
    points: list[list[pd.Series]] = []
    for _, row in rows.iterrows():
        for same in points:
            first = same[0]
            if first["perplexity"] == row["perplexity"] and abs(first["value"] - row["value"]) <= SAME * span:
                same.append(row)
                break
        else:
            points.append([row])
    return [
        (", ".join(str(row["number"]) for row in same), "<br>".join(row["name"] for row in same), same[0])
        for same in points
    ]


def _whiskers(row: pd.Series, value: str, low: str, high: str, colour: str) -> dict:
    ends = {"array": [row[high] - row[value]], "arrayminus": [row[value] - row[low]]}
    return {**ends, "color": colour, "thickness": 1.5, "width": 4}


def _controls(figure: go.Figure, rows: pd.DataFrame, number: str) -> None:
    """The control of each point, the same figure for patients never trained on, just right of it."""
    known = rows[rows["control"].notna()]
    if known.empty:
        return
    figure.add_scatter(
        x=known["perplexity"] * ASIDE,
        y=known["control"],
        name="control: never trained on",
        mode="markers",
        marker={"size": 9, "symbol": "square", "color": chart_style.CONTROL},
        customdata=known[["name", "control_low", "control_high"]],
        error_y={
            "array": known["control_high"] - known["control"],
            "arrayminus": known["control"] - known["control_low"],
            "color": chart_style.CONTROL,
            "thickness": 1.5,
            "width": 4,
        },
        hovertemplate=f"control of %{{customdata[0]}}: %{{y{number}}}<br>95 % interval %{{customdata[1]{number}}} to "
        f"%{{customdata[2]{number}}}<extra></extra>",
    )


def _public(figure: go.Figure, rows: pd.DataFrame, number: str) -> None:
    """The public base model, which was not trained on any notes."""
    known = rows[rows["base"].notna() & rows["base_perplexity"].notna()].head(1)
    if len(known):
        figure.add_scatter(
            x=known["base_perplexity"],
            y=known["base"],
            mode="markers",
            name=PUBLIC,
            marker={"size": 12, "symbol": "x", "color": chart_style.CONTROL},
            hovertemplate=f"public model: %{{y{number}}}, perplexity %{{x:.3g}}<extra></extra>",
        )
