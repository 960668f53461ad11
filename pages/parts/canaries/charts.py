"""The charts of the Canaries page: exposure against copies and epochs, word-for-word rates, bounds, risk."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
import plotly.graph_objects as go

from core.common.formatting import promised_text, proved_text, score_text
from core.evaluation.memorisation.canaries import BLIND
from core.evaluation.memorisation.risk import CALIBRATED, OLD
from pages.parts.common import chart_style

COLOURS = (chart_style.RISK, chart_style.PRIVATE)  # the left run and the right one
SYMBOLS = ("circle", "diamond")
PARTS = {
    "prompt": ("prompt extraction", chart_style.OKABE_ITO["vermillion"]),
    "membership": ("membership", chart_style.OKABE_ITO["blue"]),
    "canary": ("canaries", chart_style.OKABE_ITO["purple"]),
    "memorisation": ("word for word", chart_style.OKABE_ITO["green"]),
}


def exposure(figures: Mapping[str, pd.DataFrame], *, most: float | None) -> go.Figure:
    """Exposure against copies, one line per run, its control left of the first copy.

    Args:
        figures: The table of `exposure_by_copies` by run name; exposure in bits.
        most: The highest possible exposure in bits, drawn as a line; None for none.
    """
    figure = go.Figure()
    copies = sorted({int(n) for table in figures.values() for n in table.loc[table["arm"] == "run", "insertions"]})
    places = {0: 0.0} | {n: at + 1.0 for at, n in enumerate(copies)}
    for number, (name, table) in enumerate(figures.items()):
        shift = 0.06 * (2 * number - len(figures) + 1)
        for arm, colour, width in (("heldout", chart_style.CONTROL, 0), ("run", COLOURS[number], 3)):
            rows = table[table["arm"] == arm]
            figure.add_scatter(
                x=[places[int(n)] + shift for n in rows["insertions"]],
                y=rows["exposure"],
                name=name if arm == "run" else f"{name}: left out",
                mode="lines+markers" if width else "markers",
                line={"color": colour, "width": width},
                marker={"size": 12, "symbol": SYMBOLS[number]},
                error_y={
                    "array": (rows["high"] - rows["exposure"]).fillna(0),
                    "arrayminus": (rows["exposure"] - rows["low"]).fillna(0),
                    "color": colour,
                    "thickness": 1.5,
                },
                customdata=rows[["low", "high", "canaries"]],
                showlegend=arm == "run",
                hovertemplate="%{y:.2f} bits, 95 % interval %{customdata[0]:.2f} to %{customdata[1]:.2f}, "
                f"canaries: %{{customdata[2]}}<extra>{name}</extra>",
            )
    chart_style.level(figure, f"never in the training notes: {BLIND:.2f} bits", y=BLIND)
    if most is not None:
        chart_style.level(figure, f"ranked first: {most:.2f} bits", y=most, dash="dash")
    figure.update_xaxes(
        tickvals=list(places.values()),
        ticktext=["left out", *map(str, copies)],
        title="copies in the training notes",
        range=[-0.4, len(copies) + 0.4],
        zeroline=False,
    )
    figure.update_yaxes(title="exposure, bits", rangemode="tozero")
    figure.update_layout(height=460, **chart_style.LAYOUT)
    return figure


def race(races: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Exposure of the tracked canaries against epochs: one colour per run, one dash per number of copies."""
    figure = go.Figure()
    for number, (name, table) in enumerate(races.items()):
        for canary, rows in table.groupby("canary_id", sort=False):
            copies = int(rows["copies"].iloc[0])
            planted = f"{copies} {'copy' if copies == 1 else 'copies'}" if copies else "never planted"
            figure.add_scatter(
                x=rows["epoch"],
                y=rows["exposure"],
                name=f"{name}: {planted}",
                mode="lines+markers",
                line={
                    "color": COLOURS[number] if copies else chart_style.CONTROL,
                    "width": 3,
                    "dash": {0: "dot", 1: "dash"}.get(copies, "solid"),
                },
                marker={"size": 10, "symbol": SYMBOLS[number]},
                hovertemplate=f"epoch %{{x}}: %{{y:.2f}} bits<extra>{name}, {planted} ({canary})</extra>",
            )
    chart_style.level(figure, f"never in the training notes: {BLIND:.2f} bits", y=BLIND)
    figure.update_xaxes(title="epoch", dtick=1)
    figure.update_yaxes(title="exposure, bits", rangemode="tozero")
    figure.update_layout(height=400, **chart_style.LAYOUT)
    return figure


def verbatim(rates: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Share of notes repeated word for word against the number of tokens shown, for each run and its controls."""
    figure = go.Figure()
    styles = {"run": ("members", "solid"), "heldout": ("held-out", "dash"), "base": ("public model", "dot")}
    for number, (name, table) in enumerate(rates.items()):
        for arm, (group, dash) in styles.items():
            rows = table[table["arm"] == arm].sort_values("prefix_tokens")
            colour = COLOURS[number] if arm == "run" else chart_style.CONTROL
            figure.add_scatter(
                x=rows["prefix_tokens"].astype(str),
                y=rows["verbatim"],
                name=f"{name}: {group}",
                mode="lines+markers",
                line={"color": colour, "dash": dash, "width": 3 if arm == "run" else 2},
                marker={"size": 11, "symbol": SYMBOLS[number]},
                error_y={
                    "array": rows["high"] - rows["verbatim"],
                    "arrayminus": rows["verbatim"] - rows["low"],
                    "color": colour,
                    "thickness": 1.5,
                },
                customdata=rows[["found", "notes"]].join(chart_style.hover_columns(rows[["low", "high"]])),
                hovertemplate="%{customdata[0]} of %{customdata[1]} notes, 95 % interval %{customdata[2]} to "
                f"%{{customdata[3]}}<extra>{name}: {group}</extra>",
            )
    figure.update_xaxes(title="tokens shown to the model", type="category")
    figure.update_yaxes(title="notes completed word for word", tickformat="~%", rangemode="tozero")
    figure.update_layout(height=400, **chart_style.LAYOUT)
    return figure


def leak_curve(curves: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Share of patients with a direct identifier in the texts read so far, for training and held-out patients."""
    figure = go.Figure()
    for number, (name, table) in enumerate(curves.items()):
        for arm, group, dash in (("run", "training patients", "solid"), ("heldout", "held-out (control)", "dash")):
            rows = table[table["arm"] == arm]
            colour = COLOURS[number] if arm == "run" else chart_style.CONTROL
            figure.add_scatter(
                x=rows["samples"],
                y=rows["share"],
                name=f"{name}: {group}",
                mode="lines",
                line={"color": colour, "dash": dash, "width": 3, "shape": "hv"},
                customdata=chart_style.hover_columns(rows[["share", "low", "high"]]),
                hovertemplate="%{x:,} texts: %{customdata[0]}, 95 % interval %{customdata[1]} to %{customdata[2]}"
                f"<extra>{name}: {group}</extra>",
            )
            end = rows.tail(1)
            figure.add_scatter(
                x=end["samples"],
                y=end["share"],
                mode="markers",
                showlegend=False,
                hoverinfo="skip",
                marker={"color": colour, "size": 10, "symbol": SYMBOLS[number]},
                error_y={"array": end["high"] - end["share"], "arrayminus": end["share"] - end["low"], "color": colour},
            )
    figure.update_xaxes(
        title="texts read (all prompts in turn)",
        type="log",
        tickvals=[1, 10, 100, 1_000, 10_000],
        ticktext=["1", "10", "100", "1,000", "10,000"],
    )
    figure.update_yaxes(title="patients with a direct identifier in the texts", tickformat="~%", rangemode="tozero")
    figure.update_layout(height=400, **chart_style.LAYOUT)
    return figure


def bounds(table: pd.DataFrame) -> go.Figure:
    """Each audit of one run: the ε it proved (dot), the most it could have proved (mark), the promised ε (line)."""
    figure = go.Figure()
    rows = table.iloc[::-1]
    names = [chart_style.wrapped(name, 20) for name in rows["audit"]]
    for place, row in enumerate(rows.itertuples()):
        figure.add_scatter(
            x=[0, row.ceiling],
            y=[place, place],
            mode="lines",
            showlegend=False,
            hoverinfo="skip",
            line={"color": chart_style.CONTROL, "width": 2, "dash": "dot"},
        )
    figure.add_scatter(
        x=rows["ceiling"],
        y=list(range(len(rows))),
        mode="markers",
        name="the most these trials can prove",
        marker={"symbol": "line-ns-open", "size": 22, "color": chart_style.CONTROL, "line": {"width": 3}},
        customdata=[proved_text(value) for value in rows["ceiling"]],
        hovertemplate="ceiling ε = %{customdata}<extra></extra>",
    )
    colours = [chart_style.RISK if alarm else chart_style.EXPOSURE for alarm in rows["alarm"]]
    figure.add_scatter(
        x=rows["epsilon"],
        y=list(range(len(rows))),
        mode="markers",
        name="proved: ε is at least",
        marker={"size": 15, "color": colours},
        cliponaxis=False,
        customdata=rows[["correct", "trials", "confidence"]].assign(proved=rows["epsilon"].map(proved_text)),
        hovertemplate="ε ≥ %{customdata[3]}: %{customdata[0]} of %{customdata[1]} correct, confidence "
        "%{customdata[2]:.3f}<extra></extra>",
    )
    promised = float(rows["promised"].iloc[0])
    if math.isfinite(promised):
        figure.add_vline(x=promised, line={"color": chart_style.BUDGET, "width": 3})
        figure.add_scatter(
            x=[None],
            y=[None],
            mode="lines",
            name=f"promised: ε = {promised_text(promised)}",
            line={"color": chart_style.BUDGET, "width": 3},
        )
    furthest = max([*rows["ceiling"], *rows["epsilon"], promised if math.isfinite(promised) else 0.0])
    figure.update_xaxes(title="ε per protected unit", range=[-0.02 * furthest, 1.05 * furthest or 1.0])
    figure.update_yaxes(tickvals=list(range(len(rows))), ticktext=names, range=[-0.6, len(rows) - 0.4])
    figure.update_layout(height=170 + 62 * len(rows), **chart_style.LAYOUT)
    return figure


VERSIONS = {OLD: "as published,<br>without controls", CALIBRATED: "calibrated:<br>controls subtracted"}


def risk(scores: Mapping[str, pd.DataFrame]) -> go.Figure:
    """The risk score of the PrivAI-Leak report, old and calibrated, stacked by part; whiskers belong to the sum."""
    figure = go.Figure()
    labels = [f"{name}<br>{meaning}" for meaning in VERSIONS.values() for name in scores]
    for part, (label, colour) in PARTS.items():
        values = []
        for version in VERSIONS:
            for table in scores.values():
                row = table[(table["version"] == version) & (table["part"] == part)]
                values.append(float((row["weight"] * row["value"]).sum()))
        figure.add_bar(
            x=values,
            y=labels,
            name=label,
            orientation="h",
            marker_color=colour,
            hovertemplate=f"{label}: %{{x:.3f}}<extra></extra>",
        )
    sums = [
        table[(table["version"] == version) & (table["part"] == "score")].iloc[0]
        for version in VERSIONS
        for table in scores.values()
    ]
    figure.add_scatter(
        x=[row["value"] for row in sums],
        y=labels,
        mode="markers",
        name="score",
        marker={"color": chart_style.CONTROL, "size": 10, "symbol": "diamond"},
        error_x={
            "array": [row["high"] - row["value"] for row in sums],
            "arrayminus": [row["value"] - row["low"] for row in sums],
            "color": chart_style.CONTROL,
        },
        hovertemplate="score %{x:.3f}<extra></extra>",
    )
    for label, row in zip(labels, sums, strict=True):
        if not math.isnan(row["value"]):
            figure.add_annotation(
                x=max(row["high"], row["value"]),
                y=label,
                text=f"<b>{score_text(row['value'])}</b>",
                showarrow=False,
                xanchor="left",
                xshift=8,
            )
    figure.update_xaxes(title="risk score", range=_room([row["low"] for row in sums], [row["high"] for row in sums]))
    figure.update_yaxes(autorange="reversed")
    figure.update_layout(height=120 + 75 * len(labels), barmode="relative", **chart_style.LAYOUT)
    return figure


def _room(lows: list[float], highs: list[float]) -> list[float]:
    """The range of the risk axis, with room for the numbers at its right."""
    low, high = (
        limit([0.0, *(end for end in ends if not math.isnan(end))]) for limit, ends in ((min, lows), (max, highs))
    )
    return [low - 0.02, 1.12 * high + 0.02]


def whole_patients(people: Mapping[str, pd.DataFrame]) -> go.Figure:
    """Exposure in bits of every canary patient, planted and left out. `people` is `canary_patients` by run name."""
    figure = go.Figure()
    for number, (name, table) in enumerate(people.items()):
        for inserted, colour, symbol in (
            (True, COLOURS[number], SYMBOLS[number]),
            (False, chart_style.CONTROL, f"{SYMBOLS[number]}-open"),
        ):
            rows = table[table["inserted"] == inserted]
            arm = "planted" if inserted else "left out"
            figure.add_scatter(
                x=rows["exposure"],
                y=[f"{name}: {arm}"] * len(rows),
                mode="markers",
                showlegend=False,
                marker={"size": 14, "symbol": symbol, "color": colour, "opacity": 0.75, "line": {"width": 2}},
                customdata=rows[["canary_id", "rank", "notes"]],
                hovertemplate="%{customdata[0]}: rank %{customdata[1]} of 1,000, %{x:.2f} bits, "
                f"%{{customdata[2]}} notes<extra>{name}, {arm}</extra>",
            )
    figure.add_vline(
        x=BLIND,
        line={"color": chart_style.CONTROL, "dash": "dot"},
        annotation={"text": f"never trained on: {BLIND:.2f} bits", "yref": "paper", "y": 1.0, "yanchor": "bottom"},
    )
    figure.update_xaxes(title="exposure of the name, bits", range=[-0.3, math.log2(1_000) + 0.4], zeroline=False)
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_layout(
        height=110 + 60 * 2 * len(people), **{**chart_style.LAYOUT, "margin": {**chart_style.MARGIN, "t": 30}}
    )
    return figure
