"""The lesson's chart: one row per figure, each with its interval, controls in grey."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from core.evaluation.wording import percent
from pages.parts.common import chart_style

COLOURS = {"run": chart_style.RISK, "private": chart_style.PRIVATE, "control": chart_style.CONTROL}
SYMBOLS = {"run": "circle", "private": "diamond", "control": "square"}
MEANING = {"run": "without privacy", "private": "with differential privacy", "control": "control"}
ROW, NARROW_ROW = 46, 28  # pixels; narrow where there are more rows than FEW, so that the last is not far below
FEW = 6


def dots(frame: pd.DataFrame, axis: str, *, shares: bool, chance: float | None = None) -> go.Figure:
    """One dot per row of `frame` (columns what, value, low, high, arm), the first on top.

    Args:
        frame: The rows; `arm` is `run`, `private` or `control`.
        axis: The title of the axis.
        shares: Whether values are shares, which are drawn in percent.
        chance: The share that tossing a coin gets right, drawn as a line; None without one.
    """
    figure = go.Figure()
    for arm in ("run", "private", "control"):
        rows = frame[frame["arm"] == arm]
        if rows.empty:
            continue
        figure.add_scatter(
            x=rows["value"],
            y=rows["what"],
            name=MEANING[arm],
            mode="markers",
            cliponaxis=False,
            marker={"color": COLOURS[arm], "symbol": SYMBOLS[arm], "size": 13},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": (rows["high"] - rows["value"]).fillna(0),
                "arrayminus": (rows["value"] - rows["low"]).fillna(0),
                "thickness": 2,
            },
            customdata=chart_style.hover_texts(rows["value"], percent if shares else "{:.3g}".format),
            hovertemplate="%{y}: %{customdata}<extra></extra>",
        )
    if chance is not None:
        chart_style.level(figure, f"coin toss: {percent(chance)}", x=chance)
    figure.update_yaxes(categoryorder="array", categoryarray=list(frame["what"])[::-1], automargin=True)
    figure.update_xaxes(
        title=chart_style.wrapped(axis, 28),
        range=chart_style.roomy(frame[["value", "low", "high"]].assign(chance=chance), zero=True),
        zeroline=False,
        tickformat="~%" if shares else None,
    )
    figure.update_layout(
        height=170 + (ROW if len(frame) <= FEW else NARROW_ROW) * len(frame),
        margin={"l": 0, "r": 10, "t": 30, "b": 0},
        legend=chart_style.LEGEND,
        showlegend=frame["arm"].nunique() > 1 or chance is not None,
    )
    return figure
