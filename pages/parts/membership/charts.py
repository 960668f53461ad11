"""The charts of the Membership page: ROC curves with the guarantee's ceiling, histograms, all attacks."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.evaluation.membership.curve import GRID, Ceiling
from core.evaluation.membership.overlap import Overlap
from core.evaluation.membership.units import Units
from core.evaluation.wording import percent_up
from core.training.accounting.tradeoff import dp_ceiling
from pages.parts.common import chart_style

COLOURS = (chart_style.RISK, chart_style.PRIVATE)  # the first run and the second
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")  # of attacks; `chart_style.DASHES` draws them
SYMBOLS = {"black-box": "circle", "grey-box": "diamond", "white-box": "square"}
SMALLEST_RATE = 1e-3  # left end of a log axis
LAYOUT: dict[str, Any] = {"margin": chart_style.MARGIN, "dragmode": False}


def band_colour(colour: str) -> str:
    """The same colour, translucent."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.15)"


def roc(
    curves: Mapping[tuple[int, str, str], pd.DataFrame],
    corners: Mapping[tuple[int, str, str], pd.DataFrame],
    ceilings: Mapping[tuple[int, str], Ceiling],
    *,
    log: bool,
) -> go.Figure:
    """ROC curves, and the ceilings of the runs with a guarantee.

    Args:
        curves: Bands on a grid (`core.evaluation.membership.curve.curve`) by number of the run, its name and attack.
        corners: The exact curves' steps (`core.evaluation.membership.curve.steps`) by the same keys.
        ceilings: What each guarantee allows, by number and name of the run.
        log: Whether both axes are logarithmic.
    """
    figure = go.Figure()
    attacks = list(dict.fromkeys(attack for _, _, attack in curves))
    for (number, name, attack), table in curves.items():
        style = {"color": COLOURS[number % 2], "dash": DASHES[attacks.index(attack) % len(DASHES)]}
        exact = corners[number, name, attack]
        if log:
            table, exact = table[table["fpr"] >= SMALLEST_RATE], _from_smallest_rate(exact)
        _curve(figure, table, exact, f"{name}: {attack}", style)
    grid = GRID[GRID >= SMALLEST_RATE] if log else GRID
    figure.add_scatter(
        x=grid,
        y=grid,
        name="random guessing",
        mode="lines",
        hoverinfo="skip",
        line={"color": chart_style.CONTROL, "dash": "dot", "width": 2},
    )
    for (number, name), ceiling in ceilings.items():
        allowed = dp_ceiling(grid, ceiling.epsilon, ceiling.delta)
        figure.add_scatter(
            x=grid,
            y=allowed,
            name=f"{name}: what the guarantee allows",
            mode="lines",
            line={"color": chart_style.BUDGET, "width": 3, "dash": ("dash", "dot")[number % 2]},
            customdata=np.column_stack([chart_style.hover_texts(grid), chart_style.hover_texts(allowed, percent_up)]),
            hovertemplate="with %{customdata[0]} accused, no attack can catch more than %{customdata[1]} on average"
            "<extra>the guarantee</extra>",
        )
    kind = "log" if log else "linear"
    ends = [np.log10(SMALLEST_RATE), 0.01] if log else [0.0, 1.005]  # a little more, to keep the tick at 100 %
    wide = [ends[0], ends[1] + 0.03 * (ends[1] - ends[0])]  # and its label, which is written below it
    figure.update_xaxes(title="held out, but accused<br>(false-positive rate)", type=kind, range=wide, tickformat="~%")
    figure.update_yaxes(title="members caught<br>(true-positive rate)", type=kind, range=ends, tickformat="~%")
    figure.update_layout(height=360, showlegend=False, **LAYOUT)  # `chart_style.legend_html`: six lines on a phone
    return figure


def _from_smallest_rate(steps: pd.DataFrame) -> pd.DataFrame:
    """The steps from the left end of a log axis on, where the curve is as high as after the last step before it."""
    later = steps["fpr"] > SMALLEST_RATE
    return pd.concat([steps[~later].tail(1).assign(fpr=SMALLEST_RATE), steps[later]])


def _curve(figure: go.Figure, band: pd.DataFrame, exact: pd.DataFrame, name: str, style: Mapping[str, str]) -> None:
    """One attack on one run: its band, its exact curve, and hovers on the band's grid."""
    figure.add_scatter(
        x=[*band["fpr"], *band["fpr"][::-1]],
        y=[*band["high"], *band["low"][::-1]],
        fill="toself",
        fillcolor=band_colour(style["color"]),
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )
    figure.add_scatter(
        x=exact["fpr"],
        y=exact["tpr"],
        name=name,
        mode="lines",
        line={**style, "width": 3, "shape": "hv"},
        hoverinfo="skip",
    )
    figure.add_scatter(  # invisible, for hovers: the exact curve has many more points
        x=band["fpr"],
        y=band["tpr"],
        mode="markers",
        marker={"color": style["color"], "opacity": 0},
        hoverlabel={"bgcolor": style["color"], "font": {"color": "white"}},  # else as pale as the marker
        showlegend=False,
        customdata=chart_style.hover_columns(band[["fpr", "tpr", "low", "high"]]),
        hovertemplate="accuses %{customdata[0]} of those held out, catches %{customdata[1]} of the members<br>"
        f"95 % interval %{{customdata[2]}} to %{{customdata[3]}}<extra>{name}</extra>",
    )


def histogram(units: Units, threshold: float) -> go.Figure:
    """Histogram of the scores of members and of those held out, as shares of each group, with the threshold."""
    low, high = np.quantile(units.score, [0.005, 0.995])
    edges = np.linspace(low, high, 41) if high > low else np.array([low - 0.5, low + 0.5])
    figure = go.Figure()
    for name, side, colour in (
        ("held out", ~units.member, chart_style.CONTROL),
        ("members", units.member, chart_style.RISK),
    ):
        counts = np.histogram(np.clip(units.score[side], edges[0], edges[-1]), edges)[0]
        figure.add_bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts / counts.sum(),
            width=np.diff(edges),
            name=name,
            marker={"color": colour, "line": {"width": 0}},
            opacity=0.6,
            customdata=np.column_stack([counts, chart_style.hover_texts(counts / counts.sum())]),
            hovertemplate=f"%{{customdata[0]}} {name} (%{{customdata[1]}}) score about %{{x:.3g}}<extra></extra>",
        )
    place, middle = float(np.clip(threshold, edges[0], edges[-1])), (low + high) / 2
    figure.add_vline(
        x=place,
        line={"color": chart_style.UTILITY, "width": 4},
        annotation_text="called a member →",
        annotation={"yref": "paper", "y": 1.0, "yanchor": "bottom", "xanchor": "left" if place < middle else "right"},
    )
    figure.update_xaxes(title="score of the attack<br>(higher = looks more like a member)")
    figure.update_yaxes(title="share of the group", tickformat="~%")
    figure.update_layout(
        height=360,
        barmode="overlay",
        legend={"orientation": "h", "y": 1.1, "yanchor": "bottom", "x": 0},  # above the threshold's annotation
        **LAYOUT,
    )
    return figure


def overlap(found: Overlap, order: Sequence[str]) -> go.Figure:
    """Who is accused by which attack: a line for each attack, a thin column for each patient.

    Members are on the left, held-out patients on the right; in each group the patients accused by most attacks come
    first.
    """
    groups = [("members", True, chart_style.RISK), ("held-out patients", False, chart_style.CONTROL)]
    rows = {member: found.group(member) for _, member, _ in groups}
    sizes = [len(rows[True]), len(rows[False])]
    figure = make_subplots(
        cols=2,
        shared_yaxes=True,
        horizontal_spacing=0.02,
        column_widths=[max(0.25, size / sum(sizes)) for size in sizes],
    )
    for place, (name, member, colour) in enumerate(groups, start=1):
        table = rows[member]
        names = [f"{attack} ({int(rows[True][attack].sum()):,})" for attack in order]
        figure.add_heatmap(
            z=[table[attack].astype(int) for attack in order],
            x=list(range(1, len(table) + 1)),
            y=names,
            customdata=[[html.escape(str(one)) for one in table.index]] * len(order),
            colorscale=[[0, band_colour(colour)], [1, colour]],
            zmin=0,
            zmax=1,
            showscale=False,
            ygap=4,
            hovertemplate="%{customdata}: %{y}<extra></extra>",
            row=1,
            col=place,
        )
        figure.update_xaxes(title=f"{len(table):,} {name}", showticklabels=False, ticks="", row=1, col=place)
    figure.update_yaxes(autorange="reversed", ticks="")
    figure.update_layout(height=120 + 34 * len(order), **LAYOUT)
    return figure


def attacks(tables: Mapping[str, pd.DataFrame], order: Sequence[str]) -> go.Figure:
    """AUC of every attack with its interval: one colour per run, one symbol per kind of access.

    Args:
        tables: By run name, a table with the columns attack, access, value, low, high.
        order: The attacks from top to bottom.
    """
    figure = go.Figure()
    places = {attack: at for at, attack in enumerate(order)}
    for number, (name, table) in enumerate(tables.items()):
        shift = 0.14 * (2 * number - len(tables) + 1)
        for kind, rows in table.groupby("access", sort=True):
            figure.add_scatter(
                x=rows["value"],
                y=[places[attack] + shift for attack in rows["attack"]],
                mode="markers",
                name=f"{name}: {kind}",
                marker={"size": 13, "symbol": SYMBOLS[kind], "color": COLOURS[number % 2]},
                error_x={
                    "array": rows["high"] - rows["value"],
                    "arrayminus": rows["value"] - rows["low"],
                    "thickness": 1.5,
                },
                customdata=rows[["attack", "low", "high"]],
                hovertemplate="%{customdata[0]}: AUC %{x:.3f}, 95 % interval %{customdata[1]:.3f} to "
                f"%{{customdata[2]:.3f}}<extra>{name}</extra>",
            )
    chart_style.level(figure, "random guessing: 0.5", x=0.5)
    figure.update_xaxes(title="AUC: how often a member<br>scores above a non-member")
    figure.update_yaxes(tickvals=list(places.values()), ticktext=list(places), autorange="reversed")
    figure.update_layout(height=170 + 46 * len(places), legend=chart_style.LEGEND, **LAYOUT)
    return figure
