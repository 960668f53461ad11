"""The charts of the Patients page: how well members are told from held-out patients, by rarity, rarest left."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from pages.parts.common import chart_style

COLOURS = tuple(chart_style.OKABE_ITO[name] for name in ("sky", "blue", "green", "purple", "orange", "yellow"))
SYMBOLS = ("square", "diamond", "triangle-up", "cross", "star", "triangle-down")
BLIND = 0.5
MEMBERS, HELD_OUT = "members", "held-out patients"


def bars(table: pd.DataFrame, control: pd.DataFrame | None, selected: int | None) -> go.Figure:
    """One clickable bar per kept bucket, from an AUC of 0.5 up or down, with its interval.

    The public model's AUC is a mark.

    Args:
        table: The table of `core.evaluation.rarity.leakage.leakage`.
        control: The same table for the public model; None if there is none.
        selected: The selected bucket, from 0; None for all.
    """
    kept = table[table["kept"]]
    figure = go.Figure()
    figure.add_bar(
        x=kept["bucket"] + 1,
        y=kept["auc"] - BLIND,
        base=BLIND,
        name="members against held-out (AUC)",
        marker={
            "color": chart_style.RISK,
            "line": {"width": [4 if one == selected else 0 for one in kept["bucket"]]},
            "opacity": [1.0 if selected is None or one == selected else 0.55 for one in kept["bucket"]],
        },
        error_y={"array": kept["high"] - kept["auc"], "arrayminus": kept["auc"] - kept["low"], "thickness": 1.5},
        customdata=kept[["auc", "members", "heldout", "low", "high"]].join(
            chart_style.hover_columns(kept[["members_percentile", "heldout_percentile"]])
        ),
        hovertemplate="bucket %{x}: AUC %{customdata[0]:.3f} (%{customdata[3]:.3f} to %{customdata[4]:.3f})<br>"
        "%{customdata[1]} members, %{customdata[2]} held out; mean score percentile %{customdata[5]} and "
        "%{customdata[6]}<extra></extra>",
    )
    if control is not None:
        shown = control[control["kept"]]
        figure.add_scatter(
            x=shown["bucket"] + 1,
            y=shown["auc"],
            mode="markers",
            name="public model (control)",
            marker={"color": chart_style.CONTROL, "size": 11, "symbol": "diamond", "line": {"width": 1}},
            hovertemplate="public model by its loss, bucket %{x}: AUC %{y:.3f}<extra></extra>",
        )
    figure.update_xaxes(title="bucket, from the rarest disease profiles", dtick=1)
    return _framed(figure)


def levels(table: pd.DataFrame) -> go.Figure:
    """Mean score percentile of members and of held-out patients by bucket: how rarity moves both.

    Args:
        table: The table of `core.evaluation.rarity.leakage.leakage`.
    """
    kept = table[table["kept"]]
    figure = go.Figure()
    for name, column, colour in (
        (MEMBERS, "members_percentile", chart_style.RISK),
        (HELD_OUT, "heldout_percentile", chart_style.CONTROL),
    ):
        figure.add_scatter(
            x=kept["bucket"] + 1,
            y=kept[column],
            mode="lines+markers",
            name=name,
            line={"color": colour, "width": 2},
            marker={"size": 9},
            customdata=chart_style.hover_texts(kept[column]),
            hovertemplate=f"{name} in bucket %{{x}}: mean score percentile %{{customdata}}<extra></extra>",
        )
    figure.update_xaxes(title="bucket, from the rarest disease profiles", dtick=1)
    figure.update_yaxes(title="mean score percentile", tickformat="~%")
    return figure.update_layout(height=280, **chart_style.LAYOUT)


def lines(tables: Mapping[str, pd.DataFrame], colours: Mapping[str, str]) -> go.Figure:
    """AUC and its interval against rarity, one line per run or attack, by name.

    A name without an entry in `colours` gets a colour.
    """
    figure = go.Figure()
    others = [name for name in tables if name not in colours]
    for name, table in tables.items():
        kept = table[table["kept"]]
        number = others.index(name) if name in others else 0
        colour = colours.get(name, COLOURS[number % len(COLOURS)])
        symbol = SYMBOLS[number % len(SYMBOLS)] if name in others else "circle"
        figure.add_scatter(
            x=kept["rarer_than"],
            y=kept["auc"],
            mode="lines+markers",
            name=name,
            line={"color": colour, "width": 2, "dash": "dot" if name in others and number >= len(COLOURS) else "solid"},
            marker={"size": 9, "symbol": symbol},
            error_y={"array": kept["high"] - kept["auc"], "arrayminus": kept["auc"] - kept["low"], "thickness": 1},
            customdata=kept[["bucket", "low", "high"]].assign(rarer=chart_style.hover_texts(kept["rarer_than"])),
            hovertemplate="rarer than %{customdata[3]}: AUC %{y:.3f} (%{customdata[1]:.3f} to %{customdata[2]:.3f})"
            f"<extra>{name}</extra>",
        )
    figure.update_xaxes(
        title="share of patients with more common profiles (rarest on the left)", tickformat="~%", autorange="reversed"
    )
    return _framed(figure)


def _framed(figure: go.Figure) -> go.Figure:
    chart_style.level(figure, "random guessing", y=BLIND)
    figure.update_yaxes(title="AUC within the bucket")
    figure.update_layout(height=400, clickmode="event+select", bargap=0.35, **chart_style.LAYOUT)
    return figure
