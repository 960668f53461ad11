"""Risk against usefulness: a point with both its intervals a defence, its control under it, and the public model."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go

from pages.parts import charts
from pages.parts.tradeoff_charts import Risk

TICKS = [2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000]
ASIDE = 1.03  # a control stands beside its figure, so that neither hides the other
SAME = 0.005  # of the risk's range: points nearer than this, at one perplexity, share their label
PUBLIC = "Public model"


def risk_against_utility(rows: pd.DataFrame, risk: Risk) -> go.Figure:
    """The chart of one risk: the `rows` of `core.evaluation.defences.compare` that were measured, in their order."""
    figure = go.Figure()
    number = ":.1%" if risk.share else ":.2f"
    _controls(figure, rows, number)
    for label, row in _labelled(rows):
        defended = row["defence"] != "nothing"
        colour = charts.PRIVATE if defended else charts.RISK
        figure.add_scatter(
            x=[row["perplexity"]], y=[row["value"]], name=row["name"], showlegend=False,
            mode="markers+text", text=[label], textposition="top right", textfont={"size": charts.TEXT_SIZE - 1},
            marker={"size": 14, "color": colour, "symbol": "circle" if defended else "diamond"},
            error_x=_whiskers(row, "perplexity", "perplexity_low", "perplexity_high", colour),
            error_y=_whiskers(row, "value", "low", "high", colour), customdata=[[row["low"], row["high"]]],
            hovertemplate=f"{label}: %{{y{number}}}<br>95 % interval %{{customdata[0]{number}}} to "
            f"%{{customdata[1]{number}}}<br>perplexity %{{x:.3g}}<extra></extra>",
        )  # fmt: skip
    _public(figure, rows, number)
    figure.update_xaxes(
        type="log",
        title="perplexity on held-out patients' notes, ← more useful",
        tickvals=TICKS,
        ticktext=list(map(str, TICKS)),
    )
    figure.update_yaxes(title=risk.axis, tickformat=".0%" if risk.share else None)
    if risk.floor:
        figure.add_hline(y=0.5, line={"color": charts.CONTROL, "dash": "dash"}, annotation_text="coin")
    figure.update_layout(height=480, margin={"t": 20, "r": 20}, legend={"orientation": "h", "y": -0.2})
    return figure


def _labelled(rows: pd.DataFrame) -> list[tuple[str, pd.Series]]:
    """Each point once: defences that stand at the same place share it, a line each in its label."""
    span = max(rows["value"].max() - rows["value"].min(), 1e-9)
    points: list[tuple[list[str], pd.Series]] = []
    for _, row in rows.iterrows():
        for names, first in points:
            if first["perplexity"] == row["perplexity"] and abs(first["value"] - row["value"]) <= SAME * span:
                names.append(row["name"])
                break
        else:
            points.append(([row["name"]], row))
    return [("<br>".join(names), row) for names, row in points]


def _whiskers(row: pd.Series, value: str, low: str, high: str, colour: str) -> dict:
    ends = {"array": [row[high] - row[value]], "arrayminus": [row[value] - row[low]]}
    return {**ends, "color": colour, "thickness": 1.5, "width": 4}


def _controls(figure: go.Figure, rows: pd.DataFrame, number: str) -> None:
    """The same figure for those who were never trained on, just right of each point."""
    known = rows[rows["control"].notna()]
    if known.empty:
        return
    figure.add_scatter(
        x=known["perplexity"] * ASIDE, y=known["control"], name="control: never trained on", mode="markers",
        marker={"size": 9, "symbol": "square", "color": charts.CONTROL},
        customdata=known[["name", "control_low", "control_high"]],
        error_y={
            "array": known["control_high"] - known["control"], "arrayminus": known["control"] - known["control_low"],
            "color": charts.CONTROL, "thickness": 1.5, "width": 4,
        },
        hovertemplate=f"control of %{{customdata[0]}}: %{{y{number}}}<br>95 % interval %{{customdata[1]{number}}} to "
        f"%{{customdata[2]{number}}}<extra></extra>",
    )  # fmt: skip


def _public(figure: go.Figure, rows: pd.DataFrame, number: str) -> None:
    """Where one stands without any training: the public base model."""
    known = rows[rows["base"].notna() & rows["base_perplexity"].notna()].head(1)
    if len(known):
        figure.add_scatter(
            x=known["base_perplexity"], y=known["base"], mode="markers+text", text=[PUBLIC], showlegend=False,
            textposition="bottom center", marker={"size": 12, "symbol": "x", "color": charts.CONTROL},
            hovertemplate=f"public model: %{{y{number}}}, perplexity %{{x:.3g}}<extra></extra>",
        )  # fmt: skip
