"""The pictures of the page Findings: a tile for each claim, and the figures of one claim."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Sequence
from statistics import fmean

import plotly.graph_objects as go

from core.evaluation.wording import NBSP
from core.findings.claim import PAPERS
from core.findings.judging import Finding
from core.findings.rules import Above, Below, Within
from core.findings.wording import figure_text
from pages.parts.common import chart_style

HIDDEN = "not shown yet"
# Colour and sign together, so that neither has to be told apart alone: fill, colour of the text, sign.
LOOKS = {
    "holds": (chart_style.OKABE_ITO["green"], "#000000", "✓"),
    "does not hold": (chart_style.OKABE_ITO["vermillion"], "#000000", "✗"),
    "cannot tell": (chart_style.OKABE_ITO["yellow"], "#000000", "?"),
    "not run": ("#D9D9D9", "#000000", "…"),
    HIDDEN: (chart_style.OKABE_ITO["sky"], "#000000", ""),
}
SCALE = {"points": 100.0, "share": 100.0, "ratio": 1.0, "number": 1.0}
PER_LINE = 19  # tiles that a telephone can show beside one another
OUTLINE, OUTLINED = 4, chart_style.OKABE_ITO["blue"]  # pixels and colour, of the chosen tile: seen on both themes
ROW = 46  # pixels of a figure, whose label may have two lines
LINE = 32  # pixels of a line, for a number and a sign: on a desk the claim under the tiles begins above the fold
AXES = {"points": "points", "share": "%", "ratio": "ratio"}  # of a "number" the claim says what it is


def tiles(found: Sequence[Finding], hidden: Collection[str], chosen: str = "") -> go.Figure:
    """Tiles for each paper, PER_LINE a line. Each carries the claim's id and title, which the pointer shows.

    The tile of the claim whose id is `chosen` has an outline.
    """
    figure = go.Figure()
    lines = _lines_of(found)
    for look, (colour, text, sign) in LOOKS.items():
        shown = [
            (column, line, one)
            for line, (_, row) in enumerate(lines)
            for column, one in enumerate(row)
            if (HIDDEN if one.claim.id in hidden else one.verdict) == look
        ]
        if not shown:
            continue
        figure.add_bar(
            orientation="h",
            base=[column + 0.03 for column, _, _ in shown],
            x=[0.94] * len(shown),
            y=[row for _, row, _ in shown],
            width=0.86,
            name=f"{sign} {look}".strip(),
            text=[f"{_number(one)}<br>{sign}" for _, _, one in shown],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            constraintext="none",
            textfont={"color": text, "size": 10},
            marker={"color": colour, "line": {"width": 0}},
            selected={"textfont": {"color": text}},  # Plotly's click ends in an error if only one of the two is given
            unselected={"marker": {"opacity": 1}, "textfont": {"color": text}},
            customdata=[[one.claim.id, html.escape(one.claim.title)] for _, _, one in shown],
            hoverlabel={"bgcolor": "white", "font": {"color": "black"}},
            hovertemplate="<b>%{customdata[0]}</b>: %{customdata[1]}<br>" + look + "<extra></extra>",
        )
    _outline(figure, lines, chosen)
    most = max(len(row) for _, row in lines)
    papers = list(dict.fromkeys(letter for letter, _ in lines))
    figure.update_layout(
        height=80 + LINE * len(lines),
        barmode="overlay",
        margin={"t": 10, "b": 0, "l": 10, "r": 10},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "itemsizing": "constant"},
        dragmode=False,
    )
    figure.update_xaxes(showticklabels=False, showgrid=False, zeroline=False, range=[0, most])
    figure.update_yaxes(
        tickvals=[fmean(line for line, (letter, _) in enumerate(lines) if letter == paper) for paper in papers],
        ticktext=[chart_style.wrapped(PAPERS[paper], 12) for paper in papers],
        range=[len(lines) - 0.5, -0.5],
        showgrid=False,
        zeroline=False,
    )
    return figure


def _outline(figure: go.Figure, lines: Sequence[tuple[str, Sequence[Finding]]], chosen: str) -> None:
    """A frame around the tile of the claim `chosen`; a line of the bar itself would be in the legend too."""
    for line, (_, row) in enumerate(lines):
        for column, one in enumerate(row):
            if one.claim.id == chosen:
                place = {"x0": column + 0.03, "x1": column + 0.97, "y0": line - 0.43, "y1": line + 0.43}
                figure.add_shape(**place, line={"width": OUTLINE, "color": OUTLINED})


def _lines_of(found: Sequence[Finding]) -> list[tuple[str, list[Finding]]]:
    """Each line of tiles, with its paper's letter."""
    lines = []
    for letter in PAPERS:
        row = [one for one in found if one.claim.id.startswith(letter)]
        lines += [(letter, row[start : start + PER_LINE]) for start in range(0, len(row), PER_LINE)]
    return lines


def _number(one: Finding) -> str:
    return one.claim.id.split("-")[1].removeprefix("c")


def figures(one: Finding) -> go.Figure:
    """The claim's figures with their intervals, the values that support it shaded."""
    assert one.evidence is not None  # the page asks
    claim, scale = one.claim, SCALE[one.claim.unit]
    shown = list(reversed(one.evidence.figures))
    colour = LOOKS[one.verdict][0] if one.verdict != "cannot tell" else chart_style.CONTROL
    measured = [figure for figure in shown if figure.has_interval]
    picture = go.Figure()
    ends = [scale * end for figure in measured for end in (figure.low, figure.high)]
    low, high = _range(one, ends, scale)
    supported = _supported(one, low, high, scale)
    picture.add_vrect(
        x0=supported[0], x1=supported[1], fillcolor=chart_style.OKABE_ITO["green"], opacity=0.12, line_width=0
    )
    picture.add_scatter(
        x=[scale * figure.value for figure in measured],
        y=[_label(figure.label) for figure in measured],
        mode="markers",
        showlegend=False,
        marker={"color": colour, "size": 13, "line": {"width": 1, "color": "#444444"}},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [scale * (figure.high - figure.value) for figure in measured],
            "arrayminus": [scale * (figure.value - figure.low) for figure in measured],
            "thickness": 3,
            "color": colour,
        },
        customdata=[figure_text(figure, claim.unit) for figure in measured],
        hovertemplate="%{y}: %{customdata}<extra></extra>",
    )
    picture.add_scatter(
        x=[None],
        y=[None],
        mode="markers",
        name="values that support the claim",
        marker={"symbol": "square", "size": 14, "color": chart_style.OKABE_ITO["green"], "opacity": 0.3},
    )
    picture.update_layout(height=130 + ROW * len(shown), **chart_style.LAYOUT)
    title = AXES.get(claim.unit) or chart_style.wrapped(html.escape(claim.quantity), 60)
    picture.update_xaxes(title=title, range=[low, high], zeroline=False)
    picture.update_yaxes(
        categoryorder="array", categoryarray=[_label(figure.label) for figure in shown], showgrid=False
    )
    return picture


def _label(text: str) -> str:
    return chart_style.wrapped(html.escape(re.sub(r"seed (?=\d)", f"seed{NBSP}", text)), 22)


def _lines(one: Finding) -> list[float]:
    rule = one.claim.rule
    if isinstance(rule, Within):
        return [rule.low, rule.high]
    assert isinstance(rule, (Above, Below))  # every rule of `core.findings.rules`
    return [rule.line]


def _range(one: Finding, ends: Sequence[float], scale: float) -> tuple[float, float]:
    every = [*ends, *(scale * line for line in _lines(one))]
    room = 0.08 * (max(every) - min(every)) or 1.0
    return min(every) - room, max(every) + room


def _supported(one: Finding, low: float, high: float, scale: float) -> tuple[float, float]:
    lines = [scale * line for line in _lines(one)]
    if isinstance(one.claim.rule, Within):
        return lines[0], lines[1]
    return (lines[0], high) if isinstance(one.claim.rule, Above) else (low, lines[0])
