"""What still leaks under each defence, and what it costs: a row a defence, with both intervals and its control.

Each row begins with its name, so that none overlaps on a narrow screen; the two panels share the rows. The axes are
above the rows, so that what is measured is in view with the first of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd
import plotly.graph_objects as go

from core.evaluation.wording import count_text, perplexity_name, perplexity_text
from pages.parts.common import chart_style
from pages.parts.tradeoff.drawn import Drawn

TICKS = tuple(step * 10**power for power in range(13) for step in (1, 2, 5))
MOST_TICKS = 3  # on the panel of perplexity, so that they do not touch on a phone
BELOW = 0.27  # of a row: how far below its defence a control is drawn
ROW, AXES, NAME = 38, 78, 13  # pixels: a row, what is above the rows, and letters of which two lines leave a gap
LARGE_ROW, LARGE_AXES, LARGE_NAME = 56, 108, 18  # the same in large type
PUBLIC = "Public model"
RISKS = ["value", "low", "high", "control", "control_low", "control_high", "base"]
PANELS = ((0.0, 0.56), (0.64, 1.0))  # parts of the width: what leaks, what it costs


def risk_and_cost(rows: pd.DataFrame, risk: Drawn, kind: str) -> go.Figure:
    """The chart of one risk.

    Args:
        rows: The trained rows of `core.evaluation.defences.side_by_side.measured` for the risk, in the order to draw.
        risk: The risk.
        kind: The kind of model, which says what its perplexity is called.
    """
    figure = go.Figure()
    number, useful = risk.figure.number.text, perplexity_name(kind)
    place = pd.Series(range(len(rows), 0, -1), index=rows.index, dtype=float)
    bare = rows["defence"] == "nothing"
    for name, colour, symbol, part in (
        ("no defence", chart_style.RISK, "circle", rows[bare]),
        ("with a defence", chart_style.PRIVATE, "diamond", rows[~bare]),
    ):
        if part.empty:
            continue
        style = {"name": name, "mode": "markers", "marker": {"size": 13, "color": colour, "symbol": symbol}}
        figure.add_scatter(**style, **_dots(part, place, ("value", "low", "high"), number, "95 % interval"))
        cost = _dots(part, place, ("perplexity", "perplexity_low", "perplexity_high"), perplexity_text, useful)
        figure.add_scatter(**style, **cost, xaxis="x2", showlegend=False)
    known = rows[rows["control"].notna()]
    if len(known):
        figure.add_scatter(
            name="held out (control)",
            mode="markers",
            marker={
                "size": 10,
                "symbol": "square",
                "color": chart_style.CONTROL,
            },  # the ends of a short bar show in an open one
            **_dots(known, place - BELOW, ("control", "control_low", "control_high"), number, "control"),
        )
    _public(figure, rows, number)
    if risk.floor:
        chart_style.level(figure, "coin toss: 0.5", x=0.5)
    _frame(figure, rows, risk, useful)
    return figure


def _dots(
    rows: pd.DataFrame, place: pd.Series, ends: tuple[str, str, str], number: Callable[[float], str], what: str
) -> dict:
    """Points with their intervals at the rows' places, as arguments of a trace."""
    value, low, high = (rows[end] for end in ends)
    return {
        "x": value,
        "y": place[rows.index],
        "cliponaxis": False,
        "error_x": {"array": high - value, "arrayminus": value - low, "thickness": 1.5, "width": 4},
        "customdata": rows[["name"]].join(chart_style.hover_columns(rows[list(ends)], number)),
        "hovertemplate": f"%{{customdata[0]}}: %{{customdata[1]}}<br>{what} %{{customdata[2]}} to %{{customdata[3]}}"
        "<extra></extra>",
    }


def _public(figure: go.Figure, rows: pd.DataFrame, number: Callable[[float], str]) -> None:
    """The public base model, which was not trained on any notes, in the last row."""
    known = rows[rows["base"].notna() & rows["base_perplexity"].notna()].head(1)
    for column, shown, axis in (("base", number, "x"), ("base_perplexity", perplexity_text, "x2")):
        figure.add_scatter(
            x=known[column],
            y=[0] * len(known),
            xaxis=axis,
            mode="markers",
            showlegend=False,
            cliponaxis=False,
            marker={"size": 12, "symbol": "x", "color": chart_style.CONTROL},
            customdata=chart_style.hover_texts(known[column], shown),
            hovertemplate="public model: %{customdata}<extra></extra>",
        )


def _frame(figure: go.Figure, rows: pd.DataFrame, risk: Drawn, useful: str) -> None:
    names = [*rows["name"], PUBLIC]
    large = chart_style.large_type()
    figure.update_layout(
        yaxis={
            "tickvals": list(range(len(rows), -1, -1)),
            "ticktext": [chart_style.wrapped(name.replace("ε = ", "ε\u00a0=\u00a0"), 14) for name in names],
            "range": [-0.6, len(rows) + 0.5],
            "tickfont": {"size": LARGE_NAME if large else NAME},
            "automargin": True,
            "zeroline": False,
        },
        xaxis={
            "domain": PANELS[0],
            "side": "top",
            "title": chart_style.wrapped(risk.axis, 20),
            "tickformat": "~%" if risk.share else None,
            "range": chart_style.roomy(rows[RISKS].assign(floor=risk.floor), zero=not risk.floor),
            "nticks": 4,
            "tickangle": 0,
            "zeroline": False,
        },
        xaxis2={
            "domain": PANELS[1],
            "anchor": "y",
            "side": "top",
            "type": "log",
            "title": f"{useful.replace('-', '-<br>')}<br>← more useful",
            **_perplexities(rows),
        },
        height=LARGE_AXES + LARGE_ROW * len(names) if large else AXES + ROW * len(names),
        margin={"t": 0, "r": 20, "l": 10, "b": 10},
        showlegend=False,  # `chart_style.legend_html`: three lines on a phone would push the rows into each other
        dragmode=False,
    )


def _perplexities(rows: pd.DataFrame) -> dict:
    """Range (log10) and ticks of the panel of perplexity; empty (Plotly's own) without points."""
    columns = ["perplexity", "perplexity_low", "perplexity_high", "base_perplexity"]
    known = rows[columns].stack().dropna()
    if known.empty:
        return {}
    low, high = math.log10(known.min()), math.log10(known.max())
    room = max(0.08 * (high - low), 0.05)
    ticks = [tick for tick in TICKS if low - room <= math.log10(tick) <= high + room]
    ticks = ticks[:: math.ceil(len(ticks) / MOST_TICKS)] if ticks else []
    texts = [count_text(tick) for tick in ticks]
    return {"range": [low - room, high + room], "tickvals": ticks, "ticktext": texts, "tickangle": 0}
