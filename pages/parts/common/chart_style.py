"""How every chart looks: Okabe and Ito's colours, one meaning per colour, type that is readable from the last row."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.evaluation.wording import NBSP, percent
from pages.parts.common import page_files
from pages.parts.session import resources

# Okabe and Ito 2008, "Color universal design": colours that colour-blind readers can distinguish.
OKABE_ITO: dict[str, str] = {
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "yellow": "#F0E442",
    "blue": "#0072B2",
    "vermillion": "#D55E00",
    "purple": "#CC79A7",
    "grey": "#8A8A8A",
}
# One meaning, one colour, on every page.
RISK = OKABE_ITO["vermillion"]  # leakage, attackers, "no privacy"
UTILITY = OKABE_ITO["blue"]  # perplexity, usefulness
PRIVATE = OKABE_ITO["blue"]  # a model trained with DP
BUDGET = OKABE_ITO["green"]  # ε spent
EXPOSURE = OKABE_ITO["purple"]  # canaries
CONTROL = OKABE_ITO["grey"]  # held-out patients, the public base model
MODEL_COLOURS: dict[str, str] = {
    "gpt2": OKABE_ITO["blue"],
    "distilbert": OKABE_ITO["orange"],
    "bert": OKABE_ITO["green"],
}

CONFIG = {"displaylogo": False, "displayModeBar": False, "scrollZoom": False}
MARGIN = {"t": 10, "b": 10, "l": 10, "r": 10}  # pixels
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0}  # a row above the chart
LAYOUT: dict[str, Any] = {"margin": MARGIN, "legend": LEGEND, "dragmode": False}
_TICKS = {f"{at / of:g}" for of, most in ((1, 100), (10, 100), (100, 100), (1_000, 10)) for at in range(most + 1)}
# Plotly writes 50%, everything else here 50 %.
PERCENT_TICKS = {f"{sign}{one}%": f"{sign}{one}{NBSP}%" for one in _TICKS for sign in ("", "−")}
# Dashes and gaps in turn, in widths of the line.
DASHES = {"dot": (1, 1), "dash": (3, 3), "longdash": (5, 5), "dashdot": (3, 1, 1, 1), "longdashdot": (5, 2, 1, 2)}
THICK = 3  # pixels of a line in a legend
TEXT_SIZE = 16  # pixels
LARGE_TEXT_SIZE = 22  # when the page is presented (the switch is in `shell.page`)


def show(
    figure: go.Figure,
    *,
    key: str,
    alt: str,
    on_select: Literal["ignore", "rerun"] | Callable[[], None] = "ignore",
    fills: bool = False,
) -> Any:
    """Draw a Plotly figure as every page does.

    Args:
        figure: The figure; its fonts are set here, unless it is a `kept` one.
        key: The element's key, unique on the page.
        alt: The sentence that a screen reader speaks.
        on_select: `"rerun"` reruns the page when points are clicked; a function is called before that rerun. Lines
            need markers to be clickable.
        fills: Draw with large type, as high as the container (of a fixed height) leaves room.

    Returns:
        The selection (clicked points), or the element if `on_select` is `"ignore"`.
    """
    dressed(figure, large=fills)
    if fills:
        figure.update_layout(height=None)
    height: Literal["content", "stretch"] = "stretch" if fills else "content"
    if on_select != "ignore":
        taps = st.components.v2.component("philab_chart_taps", js=page_files.component("chart_taps.js"))
        taps(key=f"chart-taps-{key}")
    return st.plotly_chart(figure, width="stretch", height=height, key=key, alt=alt, config=CONFIG, on_select=on_select)


def level(figure: go.Figure, label: str, *, x: float | None = None, y: float | None = None, dash: str = "dot") -> None:
    """A grey line, horizontal at `y` or vertical at `x`. The legend names it: a label beside it would hide marks."""
    line = {"color": CONTROL, "dash": dash, "width": 2}
    if x is not None:
        figure.add_vline(x=x, line=line)
    if y is not None:
        figure.add_hline(y=y, line=line)
    figure.add_scatter(x=[None], y=[None], mode="lines", name=label, line=line)


def legend_html(figure: go.Figure) -> str:
    """A figure's legend as HTML, which wraps on a narrow screen, where Plotly's would take the chart's height."""
    items = []
    for trace in figure.data:
        if not trace.name or trace.showlegend is False:
            continue
        if trace.type == "scatter" and "lines" in (trace.mode or ""):
            style = _line_css(trace.line)
        else:
            style = _marker_css(trace)
        items.append(f'<span><i style="{html.escape(style)}"></i>{html.escape(trace.name)}</span>')
    return f'<div class="chart-legend">{"".join(items)}</div>'


def _line_css(line: go.scatter.Line) -> str:
    """The look of a line in the legend, with Plotly's lengths of dashes and gaps (CSS borders know two patterns)."""
    pixels, stops = 0, []
    for place, length in enumerate(DASHES.get(line.dash, (1,))):
        end = pixels + THICK * length
        stops.append(f"{'transparent' if place % 2 else line.color} {pixels}px {end}px")
        pixels = end
    return f"width: 32px; height: {THICK}px; background: repeating-linear-gradient(90deg, {', '.join(stops)})"


def _marker_css(trace: go.Scatter | go.Bar) -> str:
    """The look of a trace's markers or bars in the legend; a symbol that is not listed is a square."""
    colour, opacity = trace.marker.color, trace.opacity or trace.marker.opacity or 1
    symbol = trace.marker.symbol or "circle" if trace.type == "scatter" else "square"
    if symbol == "circle-open":
        return f"width: 9px; height: 9px; border: 2px solid {colour}; border-radius: 50%"
    shape = {"circle": "; border-radius: 50%", "diamond": "; transform: rotate(45deg) scale(0.85)"}
    return f"width: 13px; height: 13px; background: {colour}; opacity: {opacity}{shape.get(symbol, '')}"


def roomy(values: pd.DataFrame, *, zero: bool) -> list[float] | None:
    """A range of all values (and 0, if `zero`) with room for whole markers at both ends; None without values."""
    known = values.stack().dropna()
    if known.empty:
        return None
    low, high = float(known.min()), float(known.max())
    low, high = (min(low, 0.0), max(high, 0.0)) if zero else (low, high)
    room = 0.05 * (high - low) or 0.05
    return [low - room, high + room]


def hover_texts(values: Iterable[float], number: Callable[[float], str] = percent) -> list[str]:
    """Numbers as words for a chart's `customdata`, as sentences write them; `–` for NaN.

    Plotly's own formats would show 99.96 % as 100.0 % and 0.04 % as 0.0 %.
    """
    return ["–" if math.isnan(value) else number(value) for value in values]


def hover_columns(frame: pd.DataFrame, number: Callable[[float], str] = percent) -> pd.DataFrame:
    """The same for each column of a table."""
    return frame.apply(lambda column: pd.Series(hover_texts(column, number), index=column.index, dtype=object))


def wrapped(text: str, width: int = 24) -> str:
    """The text in lines of at most about `width` characters, so that an axis label leaves room for the chart.

    Lines end at spaces, but not at non-breaking ones. The server does not know how wide a window is: a title below a
    chart that is to fit every one has lines of 28 characters.
    """
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(lines)


def kept(chart: str, of: tuple[Any, ...], make: Callable[[], go.Figure]) -> go.Figure:
    """A figure that is made once for all sessions: building one takes longer than everything else on some pages.

    Do not modify it.

    Args:
        chart: The chart's name, one for each function that makes a figure.
        of: Everything that the figure is made from, as ids and settings whose `repr` is their identity.
        make: Makes the figure from those, and from nothing of the session.
    """
    return _kept(chart, repr(of), _type_size(), make)


@resources.cached_object(max_entries=64, show_spinner=False)
def _kept(chart: str, of: str, size: int, _make: Callable[[], go.Figure]) -> go.Figure:
    return dressed(_make())


def _type_size(*, large: bool = False) -> int:
    return LARGE_TEXT_SIZE if large or large_type() else TEXT_SIZE


def large_type() -> bool:
    """Whether the page is presented with large type, for which a chart needs more room and fewer ticks."""
    return bool(st.session_state.get("large_type"))


def dressed(figure: go.Figure, *, large: bool = False) -> go.Figure:
    """The same figure, with type that is readable from the last row."""
    size = _type_size(large=large)
    if figure.layout.font.size == size:
        return figure  # it was dressed when it was made
    figure.update_layout(font={"size": size}, hoverlabel={"font": {"size": size}}, legend={"font": {"size": size - 2}})
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        axis.title.font.size, axis.tickfont.size = size, axis.tickfont.size or size - 1
        if (axis.tickformat or "").endswith("%"):
            axis.labelalias = PERCENT_TICKS
    return figure
