"""The picture of the page Forget a patient: the patient among patients never seen, a row for each model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.evaluation.forgetting import ARMS, patient_gains
from core.evaluation.wording import percent
from core.pipeline.forgetting import ORIGINAL, PRIVATE, PUBLIC, RETRAINED
from pages.parts.common import chart_style

COLOURS = {ORIGINAL: chart_style.RISK, RETRAINED: chart_style.OKABE_ITO["green"], PRIVATE: chart_style.PRIVATE}
OTHER = chart_style.OKABE_ITO["orange"]
MARGIN = {"t": 10, "b": 10, "l": 10, "r": 10}


def places(notes: pd.DataFrame, table: pd.DataFrame, patient: str, named: dict[str, str]) -> go.Figure:
    """Each never-seen patient as a grey point, and the patient, by how much better the model reads them.

    Args:
        notes: The table `standing`.
        table: `core.evaluation.forgetting.summary`.
        patient: Their id.
        named: The models in words.
    """
    rows = table.set_index("arm")
    arms = [arm for arm in ARMS if arm in rows.index and arm != PUBLIC]
    figure = go.Figure()
    jitter = np.random.default_rng(0)
    for place, arm in enumerate(reversed(arms)):
        others = patient_gains(notes[(notes["arm"] == arm) & ~notes["forgotten"]])
        figure.add_scatter(
            x=others,
            y=place + jitter.uniform(-0.28, 0.28, len(others)),
            mode="markers",
            name="patients never seen",
            showlegend=place == 0,
            marker={"color": chart_style.CONTROL, "size": 6, "opacity": 0.55},
            customdata=others.index,
            hovertemplate="%{customdata}, never seen: %{x:.2f}<extra></extra>",
        )
    for place, arm in enumerate(reversed(arms)):
        row = rows.loc[arm]
        figure.add_scatter(
            x=[row["gain"]],
            y=[place],
            mode="markers+text",
            name=patient,
            showlegend=False,
            marker={
                "color": COLOURS.get(arm, OTHER),
                "size": 17,
                "symbol": "diamond",
                "line": {"width": 2, "color": "white"},
            },
            hovertemplate=f"{patient}: %{{x:.2f}}, above {percent(row['percentile'])} of never-seen patients "
            f"({percent(row['low'])} to {percent(row['high'])})<extra></extra>",
        )
        figure.add_annotation(
            x=1, xref="paper", y=place, text=f"above {percent(row['percentile'])}", showarrow=False, xanchor="right"
        )
    figure.add_scatter(
        x=[None], y=[None], mode="markers", name=patient, marker={"color": OTHER, "size": 13, "symbol": "diamond"}
    )
    figure.update_layout(
        margin=MARGIN,
        height=90 + 52 * len(arms),
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        dragmode=False,
    )
    low, high = figure_range(notes, table)
    figure.update_xaxes(title="nats a token better than the public model", range=[low, high], zeroline=False)
    figure.update_yaxes(
        tickvals=list(range(len(arms))),
        ticktext=[chart_style.wrapped(named[arm], 18) for arm in reversed(arms)],
        range=[-0.6, len(arms) - 0.4],
        showgrid=False,
        zeroline=False,
    )
    return figure


def figure_range(notes: pd.DataFrame, table: pd.DataFrame) -> tuple[float, float]:
    """The ends of the horizontal axis, with room on the right for the places in words."""
    shown = notes[notes["arm"] != PUBLIC]
    gains = np.concatenate([patient_gains(of_arm) for _, of_arm in shown.groupby("arm")] or [np.zeros(1)])
    low, high = float(gains.min()), float(gains.max())
    room = max(high - low, 0.1)
    return low - 0.04 * room, high + 0.32 * room


def told_apart(told: dict[str, Any], named: dict[str, str]) -> go.Figure:
    """How often each kind of model is told from one that never read the patient, with intervals; 50 % is chance."""
    rows = [one for one in reversed(told["arms"]) if one["arm"] in named]
    figure = go.Figure()
    figure.add_scatter(
        x=[one["auc"] for one in rows],
        y=[chart_style.wrapped(named[one["arm"]], 18) for one in rows],
        mode="markers",
        showlegend=False,
        marker={"color": [COLOURS.get(one["arm"], OTHER) for one in rows], "size": 14},
        error_x={
            "array": [one["high"] - one["auc"] for one in rows],
            "arrayminus": [one["auc"] - one["low"] for one in rows],
            "thickness": 2,
        },
        hovertemplate="%{x:.1%}<extra></extra>",
    )
    chart_style.level(figure, "tossing a coin", x=0.5)
    figure.update_layout(
        margin=MARGIN, height=90 + 44 * len(rows), legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}
    )
    figure.update_xaxes(title="pairs told apart", tickformat=".0%", range=[0.2, 1.02])
    return figure
