"""The pictures of one step: lengths of gradients, the growing sum in a plane, and what one unit changes."""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING

import numpy as np
import plotly.graph_objects as go

from pages.parts.common import chart_style

if TYPE_CHECKING:
    from core.training.step_gradients import StepGradients

KEPT, CUT, ONE = chart_style.PRIVATE, chart_style.OKABE_ITO["orange"], chart_style.RISK
CLOUD = 400  # draws of the noise in the picture


def lengths(step: StepGradients, norm: float, chosen: np.ndarray, one: int, unit: str) -> go.Figure:
    """A bar for each unit in the sum, longest first: what clipping keeps and what it cuts off."""
    order = np.flatnonzero(chosen)[np.argsort(-step.norms[chosen], kind="stable")]
    kept = np.minimum(step.norms[order], norm)
    names = [html.escape(f"{step.notes[row]}, patient {step.patients[row]}") for row in order]
    hover = "%{customdata}: length %{text}<extra></extra>"
    text = [f"{length:.2f}" for length in step.norms[order]]
    places = list(range(1, len(order) + 1))
    colours = [ONE if row == one else KEPT for row in order]
    figure = go.Figure()
    bars = {"x": places, "customdata": names, "text": text, "textposition": "none", "hovertemplate": hover}
    figure.add_bar(y=kept, name="kept", marker={"color": colours, "line": {"width": 0}}, showlegend=False, **bars)
    figure.add_bar(x=[None], y=[None], name="kept", marker={"color": KEPT})
    figure.add_bar(
        y=step.norms[order] - kept, name="cut off", opacity=0.45, marker={"color": CUT, "line": {"width": 0}}, **bars
    )
    if one in order:
        figure.add_bar(x=[None], y=[None], name=f"kept of the chosen {unit}", marker={"color": ONE})
    chart_style.level(figure, f"C = {norm:.3g}", y=norm, dash="dash")
    figure.update_layout(**chart_style.LAYOUT, barmode="stack", bargap=0.15, height=230)
    figure.update_layout(showlegend=False)  # `chart_style.legend_html`: four lines on a phone
    figure.update_xaxes(title=f"{unit}s of this step,<br>longest gradient first", showticklabels=False)
    figure.update_yaxes(title="length of<br>the gradient", rangemode="tozero")
    return figure


def plane(step: StepGradients, norm: float, sigma: float, chosen: np.ndarray, seed: int, unit: str) -> go.Figure:
    """The clipped gradients added up along their two principal directions, and where noise may put their sum."""
    total = step.clipped(norm, chosen)
    path = np.vstack([np.zeros(2), np.cumsum(total.factors[chosen, None] * step.places[chosen], axis=0)])
    draws = np.random.default_rng([seed, 1]).normal(size=(CLOUD, 2)) * sigma * norm + path[-1]
    figure = go.Figure()
    figure.add_scatter(
        x=path[:, 0], y=path[:, 1], mode="lines", name=f"sum, {unit} by {unit}", line={"color": KEPT, "width": 3}
    )
    figure.add_scatter(
        x=draws[:, 0],
        y=draws[:, 1],
        mode="markers",
        name="with noise",
        marker={"color": chart_style.CONTROL, "size": 4, "opacity": 0.5},
    )
    figure.add_scatter(
        x=[path[-1, 0]], y=[path[-1, 1]], mode="markers", showlegend=False, marker={"color": KEPT, "size": 11}
    )
    figure.update_traces(hovertemplate="%{x:.2f}, %{y:.2f}<extra></extra>")
    figure.update_layout(**chart_style.LAYOUT, height=290)
    figure.update_layout(legend={"itemsizing": "constant"})  # the points of the noise are too small for a legend
    figure.update_xaxes(title="first principal direction", zeroline=True)
    figure.update_yaxes(title="second principal direction", zeroline=True, scaleanchor="x", scaleratio=1)
    return figure


def bells(moved: float, norm: float, sigma: float, seen: float) -> go.Figure:
    """The noisy sum along one unit's own gradient: its distribution with that unit, and without it.

    Args:
        moved: distance between the two, at most C.
        norm: C.
        sigma: noise multiplier; the standard deviation is σC.
        seen: where one draw of the noise put the sum with the unit.
    """
    spread = sigma * norm
    low, high = min(-3.2 * spread, seen) - 0.05 * norm, max(moved + 3.2 * spread, seen) + 0.05 * norm
    figure = go.Figure()
    x = np.linspace(low, high, 240)
    for centre, name, colour in ((0.0, "without it", chart_style.CONTROL), (moved, "with it", ONE)):
        if spread > 0:
            y = np.exp(-0.5 * ((x - centre) / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
            figure.add_scatter(
                x=x, y=y, name=name, mode="lines", fill="tozeroy", line={"color": colour, "width": 3}, opacity=0.8
            )
        else:
            figure.add_scatter(
                x=[centre, centre], y=[0, 1], name=name, mode="lines", line={"color": colour, "width": 4}
            )
    chart_style.level(figure, "what was seen", x=seen)
    figure.update_traces(hoverinfo="skip")
    figure.update_layout(**chart_style.LAYOUT, height=290)
    figure.update_xaxes(title="noisy sum along this gradient", zeroline=False)
    figure.update_yaxes(title="density", showticklabels=False, rangemode="tozero")
    return figure
