"""The chart of a probe: the figure, its controls, their intervals, and the line of random guessing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go

from core.attacks.probes import cosine, fill_in, generated, half_name, mlp, name_seen, per_condition
from core.evaluation.probes import tables as measures
from core.evaluation.wording import percent
from pages.parts.common import chart_style

ROW_HEIGHT, MARGIN = 38, 110  # pixels


@dataclass(frozen=True)
class Line:
    """One row of a chart: which figure, its label, and whether it is a control."""

    label: str
    method: str
    model: str = "target"
    split: str = "member"
    bin: str = "all"
    control: bool = True


def _ranked() -> list[Line]:
    return [
        Line("own name", fill_in.NAME, control=False),
        Line("another's name", fill_in.OTHER_NAME),
        Line("no name", fill_in.CONDITION_ONLY),
        Line("frequency", fill_in.FREQUENCY),
        Line("held-out, own name", fill_in.NAME, split="heldout"),
        Line("public model", fill_in.NAME, model="public"),
    ]


def _by_frequency() -> list[Line]:
    names = [per_condition.bin_name(*one) for one in per_condition.BINS]
    own = [Line(f"{name} members", fill_in.NAME, bin=name, control=False) for name in names]
    others = [Line(f"{name}, held-out", fill_in.NAME, split="heldout", bin=name) for name in names]
    return [line for pair in zip(own, others, strict=True) for line in pair]


def _cosines() -> list[Line]:
    link = measures.OWN_MINUS_OTHER
    return [
        Line("this model", f"{cosine.CONTEXTUAL}, {link}", control=False),
        Line("held-out", f"{cosine.CONTEXTUAL}, {link}", split="heldout"),
        Line("public model", f"{cosine.CONTEXTUAL}, {link}", model="public"),
        Line("CBoW of the notes", f"CBoW, {link}", control=False),
        Line("skip-gram of the notes", f"skip-gram, {link}", control=False),
    ]


def _halves() -> list[Line]:
    lines = []
    for hidden in (half_name.LAST, half_name.FIRST):
        lines += [
            Line(hidden, half_name.OWN, control=False, split=measures.BOTH, bin=hidden),
            Line(f"{hidden}, wrong half shown", half_name.OTHERS, split=measures.BOTH, bin=hidden),
            Line(f"{hidden}, public model", half_name.OWN, model="public", split=measures.BOTH, bin=hidden),
        ]
    return lines


PICTURES: dict[str, tuple[str, str, list[Line]]] = {  # probe → measure, axis, lines
    fill_in.PROBE: (measures.AUC, "AUC per patient", _ranked()),
    mlp.PROBE: (measures.AUC, "AUC per patient", _ranked()),
    per_condition.PROBE: (measures.AUC, "AUC per disease", _by_frequency()),
    cosine.PROBE: (measures.DIFFERENCE, "cosine,<br>own − another's name", _cosines()),
    name_seen.PROBE: (
        measures.AUC,
        "AUC of members",
        [
            Line("this model", name_seen.METHOD, split=measures.BOTH, control=False),
            Line("public model", name_seen.METHOD, model="public", split=measures.BOTH),
        ],
    ),
    half_name.PROBE: (measures.AUC, "AUC of members", _halves()),
    generated.NAMES: (
        measures.TOP100,
        "share of the top names",
        [
            Line("members'", fill_in.NAME, control=False),
            Line("held-out patients', scaled", fill_in.NAME, split="heldout"),
        ],
    ),
}


NUMBERS: dict[str, Callable[[float], str]] = {  # as many digits as the intervals allow
    measures.AUC: "{:.2f}".format,
    measures.DIFFERENCE: "{:.3f}".format,
    measures.TOP100: percent,
}


def picture(figures: pd.DataFrame, probe: str) -> go.Figure:
    """Markers with 95 % whiskers, from the top; grey ones are controls, the dotted line is random guessing."""
    measure, axis, lines = PICTURES[probe]
    rows = figures[(figures["probe"] == probe) & (figures["measure"] == measure)].set_index(
        ["method", "model", "split", "bin"]
    )
    keys = [(line, (line.method, line.model, line.split, line.bin)) for line in lines]
    drawn = [(line, rows.loc[key]) for line, key in keys if key in rows.index]
    figure, number = go.Figure(), NUMBERS[measure]
    for line, row in drawn:
        figure.add_scatter(
            x=[row["value"]],
            y=[line.label],
            mode="markers",
            marker={
                "size": 13,
                "color": chart_style.CONTROL if line.control else chart_style.RISK,
                "symbol": "circle-open" if line.control else "circle",
                "line": {"width": 2},
            },
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [row["high"] - row["value"]],
                "arrayminus": [row["value"] - row["low"]],
                "thickness": 2,
            },
            hovertemplate=f"{line.label}: {number(row['value'])}<br>95 %: {number(row['low'])} to {number(row['high'])}"
            f"<br>n = {row['n']:,} {row['note']}<extra></extra>",
            showlegend=False,
        )
    blind = drawn[0][1]["blind"] if drawn else math.nan
    if not math.isnan(blind):
        figure.add_vline(x=blind, line={"color": chart_style.CONTROL, "dash": "dot"})
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(title_text=axis if math.isnan(blind) else f"{axis}<br>(dotted: random)", automargin=True)
    figure.update_layout(height=MARGIN + ROW_HEIGHT * len(drawn), margin={"l": 0, "r": 10, "t": 10, "b": 0})
    return figure
