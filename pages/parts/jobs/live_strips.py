"""Three charts on one time axis: loss, ε spent against its budget, exposure of three canaries."""

from __future__ import annotations

import math
from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.runs.progress import Progress
from pages.parts.common import chart_style

# Mean of log2|R| − log2(rank) if the rank is uniform, as for a canary never trained on (Carlini et al. 2019).
NULL_EXPOSURE = 1 / math.log(2)
MOST_POINTS = 600  # a strip is a few hundred pixels wide; more points only slow the browser
FEW_POINTS = 60
TITLES = (
    "Loss, nats per token (falls while the model learns)",
    "ε spent",
    f"Exposure of canaries, bits (dashed: {NULL_EXPOSURE:.2f}, the mean for one never trained on)",
)
CANARY_LINES = (
    (chart_style.EXPOSURE, "circle"),
    (chart_style.OKABE_ITO["orange"], "square"),
    (chart_style.OKABE_ITO["green"], "diamond"),
)


def strips(progress: Progress, *, copies: Mapping[str, int], budget: float | None, private: bool) -> go.Figure:
    """The figure of a run so far.

    Args:
        progress: The run's progress.
        copies: How often each canary was planted; 0 for those that the coin left out.
        budget: The target ε; None if the run has a given σ or no privacy.
        private: Whether the run is trained with privacy.
    """
    figure = make_subplots(rows=3, shared_xaxes=True, vertical_spacing=0.1, subplot_titles=TITLES)
    _loss(figure, progress)
    _epsilon(figure, progress, budget, private=private)
    _exposure(figure, progress, copies)
    figure.update_xaxes(range=[0, max(1, progress.steps) * 1.02])
    figure.update_xaxes(title="step", row=3)
    figure.update_annotations(selector=_is_title, x=0, xanchor="left")
    figure.update_layout(
        height=640,
        margin={"t": 30, "b": 10, "l": 10, "r": 10},
        legend={"orientation": "h", "y": -0.13, "yanchor": "top"},
        hovermode="x unified",
        uirevision="strips",
    )
    return figure


def _is_title(annotation: go.layout.Annotation) -> bool:
    return annotation.text in TITLES


def _thinned(steps: list[int], values: list[float | None]) -> tuple[list[int], list[float | None]]:
    """At most about MOST_POINTS evenly spaced points, including the last."""
    stride = max(1, math.ceil(len(steps) / MOST_POINTS))
    keep = sorted({*range(0, len(steps), stride), *range(len(steps) - 1, len(steps))})
    return [steps[at] for at in keep], [values[at] for at in keep]


def _mode(steps: list[int]) -> str:
    """With markers as long as there are few points: a line of one step is invisible."""
    return "lines+markers" if len(steps) <= FEW_POINTS else "lines"


def _loss(figure: go.Figure, progress: Progress) -> None:
    x, y = _thinned(progress.steps_taken, progress.loss)
    figure.add_scatter(
        x=x,
        y=y,
        name="loss on training notes",
        mode=_mode(x),
        connectgaps=True,
        marker={"size": 5},
        line={"color": chart_style.OKABE_ITO["sky"]},
        row=1,
        col=1,
    )
    figure.add_scatter(
        x=progress.epoch_steps,
        y=progress.eval_loss,
        name="loss on held-out notes",
        mode="lines+markers",
        marker={"size": 9, "symbol": "diamond"},
        line={"color": chart_style.UTILITY, "width": 3},
        row=1,
        col=1,
    )


def _epsilon(figure: go.Figure, progress: Progress, budget: float | None, *, private: bool) -> None:
    if not private:
        figure.add_annotation(
            text="no privacy: ε = ∞ from the first step",
            x=0.5,
            y=0.5,
            xref="x2 domain",
            yref="y2 domain",
            showarrow=False,
        )
        figure.update_yaxes(visible=False, row=2)
        return
    x, y = _thinned(progress.steps_taken, progress.epsilon)
    figure.add_scatter(
        x=x,
        y=y,
        name="ε spent",
        mode=_mode(x),
        line={"color": chart_style.BUDGET, "width": 3},
        marker={"size": 5},
        fill="tozeroy",
        row=2,
        col=1,
    )
    if budget is not None:
        figure.add_hline(
            y=budget,
            line_dash="dash",
            line_color=chart_style.RISK,
            annotation_text=f"budget ε = {budget:g}",
            annotation_position="top right",
            row=2,
            col=1,
        )
    figure.update_yaxes(rangemode="tozero", row=2)


def _exposure(figure: go.Figure, progress: Progress, copies: Mapping[str, int]) -> None:
    for (canary, bits), (colour, symbol) in zip(sorted(progress.exposure.items()), CANARY_LINES, strict=False):
        figure.add_scatter(
            x=progress.epoch_steps,
            y=bits,
            name=_canary_name(canary, copies),
            mode="lines+markers",
            line={"color": colour},
            marker={"size": 9, "symbol": symbol},
            row=3,
            col=1,
        )
    figure.add_hline(y=NULL_EXPOSURE, line_dash="dash", line_color=chart_style.CONTROL, row=3, col=1)
    figure.update_yaxes(rangemode="tozero", row=3)


def _canary_name(canary: str, copies: Mapping[str, int]) -> str:
    if canary not in copies:
        return f"canary {canary}"
    times = copies[canary]
    planted = "never planted" if times == 0 else f"planted {times} time{'' if times == 1 else 's'}"
    return f"canary {canary}, {planted}"
