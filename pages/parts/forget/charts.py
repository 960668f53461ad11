"""The picture of the page Forget a patient: the patient among held-out patients, a row for each model."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from core.evaluation.forgetting import ARMS, patient_gains
from core.evaluation.wording import percent
from core.pipeline.forgetting import ORIGINAL, PRIVATE, PUBLIC, RETRAINED
from pages.parts.common import chart_style
from pages.parts.forget.sentences import deviations

COLOURS = {ORIGINAL: chart_style.RISK, RETRAINED: chart_style.OKABE_ITO["green"], PRIVATE: chart_style.PRIVATE}
MEANING = {ORIGINAL: "as trained", RETRAINED: "not trained on", PRIVATE: "with privacy"}
OTHER = chart_style.OKABE_ITO["orange"]
ROW, AXIS = 46, 28  # pixels for a label of two lines; letters of an axis title that a phone has room for
BELOW = 110  # pixels for the margins, the numbers of the axis and its title of two lines


def places(notes: pd.DataFrame, table: pd.DataFrame, patient: str, named: dict[str, str]) -> go.Figure:
    """Each held-out patient as a grey point, and the patient, by how well each model reads their notes.

    Args:
        notes: The table `standing`.
        table: `core.evaluation.forgetting.summary`.
        patient: Their id.
        named: The models in words.
    """
    rows, who = table.set_index("arm"), html.escape(patient)  # Plotly reads markup in names
    arms = [arm for arm in ARMS if arm in rows.index and arm != PUBLIC]
    figure = go.Figure()
    jitter = np.random.default_rng(0)
    for place, arm in enumerate(reversed(arms)):
        row = rows.loc[arm]
        others = (patient_gains(notes[(notes["arm"] == arm) & ~notes["forgotten"]]) - row["mean"]) / row["spread"]
        figure.add_scatter(
            x=others,
            y=place + jitter.uniform(-0.28, 0.28, len(others)),
            mode="markers",
            name="held-out patients",
            showlegend=place == 0,
            marker={"color": chart_style.CONTROL, "size": 6, "opacity": 0.55},
            customdata=[html.escape(one) for one in others.index],
            hovertemplate="%{customdata}, held out: %{x:+.1f}<extra></extra>",
        )
    for place, arm in enumerate(reversed(arms)):
        row = rows.loc[arm]
        figure.add_scatter(
            x=[deviations(row)],
            y=[place],
            mode="markers+text",
            name=who,
            showlegend=False,
            marker={
                "color": COLOURS.get(arm, OTHER),
                "size": 17,
                "symbol": "diamond",
                "line": {"width": 2, "color": "white"},
            },
            hovertemplate=f"{who}: %{{x:+.1f}}, above {percent(row['percentile'])} of held-out patients "
            f"({percent(row['low'])} to {percent(row['high'])})<extra></extra>",
        )
    for colour, what in dict.fromkeys((COLOURS.get(arm, OTHER), MEANING.get(arm, "unlearned")) for arm in arms):
        figure.add_scatter(
            x=[None],
            y=[None],
            mode="markers",
            name=f"{who}, {what}",
            marker={"color": colour, "size": 13, "symbol": "diamond"},
        )
    if RETRAINED in arms:
        chart_style.level(figure, "as if not trained on", x=deviations(rows.loc[RETRAINED]))
    figure.update_layout(
        margin=chart_style.MARGIN,
        height=BELOW + ROW * len(arms),
        showlegend=False,  # `chart_style.legend_html`: six lines on a phone
        dragmode=False,
    )
    figure.update_xaxes(
        title=chart_style.wrapped("standard deviations above the average grey point", AXIS), zeroline=False
    )
    figure.update_yaxes(
        tickvals=list(range(len(arms))),
        ticktext=[
            f"{chart_style.wrapped(named[arm], 18)}: {percent(rows.loc[arm, 'percentile'])}" for arm in reversed(arms)
        ],
        range=[-0.6, len(arms) - 0.4],
        showgrid=False,
        zeroline=False,
    )
    return figure


def told_apart(told: dict[str, Any], named: dict[str, str]) -> go.Figure:
    """How often each model is the odd one beside two not trained on the patient; a third is chance."""
    rows = [one for one in reversed(told["arms"]) if "odd" in one]
    figure = go.Figure()
    figure.add_scatter(
        x=[one["odd"] for one in rows],
        y=[chart_style.wrapped(named[one["arm"]], 18) for one in rows],
        mode="markers",
        showlegend=False,
        marker={"color": [COLOURS.get(one["arm"], OTHER) for one in rows], "size": 14},
        customdata=chart_style.hover_texts(one["odd"] for one in rows),
        hovertemplate="%{customdata}<extra></extra>",
    )
    chart_style.level(figure, "forgotten: a third", x=1 / 3)
    figure.update_layout(margin=chart_style.MARGIN, height=130 + 40 * len(rows), legend=chart_style.LEGEND)
    figure.update_xaxes(
        title=chart_style.wrapped("patients for whom it is the odd one out", AXIS), tickformat="~%", range=[-0.02, 1.04]
    )
    return figure
