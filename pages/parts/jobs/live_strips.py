"""Three charts on one time axis: loss, ε spent against its budget, exposure of three canaries."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from core.common.formatting import promised_text
from core.runs.progress import Progress
from pages.parts.common import chart_style

# Mean of log2|R| − log2(rank) if the rank is uniform, as for a canary never trained on (Carlini et al. 2019).
NULL_EXPOSURE = 1 / math.log(2)
MOST_POINTS = 600  # a strip is a few hundred pixels wide; more points only slow the browser
FEW_POINTS = 60
FEWEST_TO_SMOOTH = 20
WINDOWS = 10  # a mean is over this part of the steps so far
RISEN = 0.02  # share by which the held-out loss must exceed its lowest value to be called risen
LOSS, EPSILON, EXPOSURE = "Loss, nats per token", "ε spent", "Canary exposure, bits"  # fit beside 390 pixels
TRAINING_LOSS = chart_style.OKABE_ITO["orange"]  # sky is too near to the blue of the held-out loss
CANARY_LINES = (  # colours that no other line of the figure has; green is ε spent
    (chart_style.EXPOSURE, "circle"),
    (chart_style.OKABE_ITO["vermillion"], "square"),
    (chart_style.OKABE_ITO["sky"], "diamond"),
)


def strips(progress: Progress, *, copies: Mapping[str, int], budget: float | None, private: bool) -> go.Figure:
    """The figure of a run so far; without privacy it has no strip of ε. Its legend is `chart_style.legend_html`.

    Args:
        progress: The run's progress.
        copies: How often each canary was planted; 0 for those that the coin left out.
        budget: The ε that the training guarantees; None if that is not known, or without privacy.
        private: Whether the run is trained with privacy.
    """
    titles = [LOSS, *([EPSILON] if private else []), *([EXPOSURE] if progress.exposure else [])]
    figure = make_subplots(
        rows=len(titles), shared_xaxes=True, vertical_spacing=0.3 / len(titles), subplot_titles=titles
    )
    _loss(figure, progress)
    if private:
        _epsilon(figure, progress, budget)
    if progress.exposure:
        _exposure(figure, progress, copies, row=len(titles))
    figure.update_xaxes(range=[0, max(1, progress.steps) * 1.02])
    figure.update_xaxes(title="step", row=len(titles))
    figure.update_annotations(x=0, xanchor="left")
    figure.update_layout(
        height=110 + 125 * len(titles),
        margin={"t": 30, "b": 10, "l": 10, "r": 10},
        showlegend=False,
        hovermode="x unified",
        uirevision="strips",
    )
    return figure


# Loss ----------------------------------------------------------------------------------------------------------------


def window(steps: int) -> int:
    """How many steps a point of the smoothed loss averages; 1 while there are few."""
    return max(1, steps // WINDOWS) if steps >= FEWEST_TO_SMOOTH else 1


def smoothed(values: Sequence[float | None], width: int) -> list[float | None]:
    """Mean of the last `width` values at each place, without those that are None; None where there is none."""
    means: list[float | None] = []
    for end in range(1, len(values) + 1):
        inside = [value for value in values[max(0, end - width) : end] if value is not None]
        means.append(sum(inside) / len(inside) if inside else None)
    return means


def loss_sentence(progress: Progress, *, private: bool, masked: bool) -> str:
    """What the loss strip draws, and, if the held-out loss has risen, what that means."""
    width = window(len(progress.loss))
    drawn = f"mean of the last {width} steps (dots: single steps)" if width > 1 else "each step"
    random = "a random part of the notes under random masks" if masked else "other notes"
    told = f"Lower is better. On training notes: {drawn}; each step reads {random}, so values scatter."
    known = [(loss, epoch) for epoch, loss in enumerate(progress.eval_loss, start=1) if loss is not None]
    if not known:
        return told
    lowest, since = min(known)
    if known[-1][0] <= lowest * (1.0 + RISEN):
        return told
    why = (
        "In private training the usual cause is the noise, once it moves the weights more than the notes do: a lower "
        "learning rate or fewer epochs help"
        if private
        else "The model now learns its training notes by heart, at the cost of others (overfitting)"
    )
    return f"{told} The loss on held-out notes has risen since epoch {since}. {why}."


def _loss(figure: go.Figure, progress: Progress) -> None:
    width = window(len(progress.loss))
    if width > 1:
        x, y = _thinned(progress.steps_taken, progress.loss)
        dots = {"size": 4, "color": TRAINING_LOSS, "opacity": 0.35}
        # No legend: the sentence below the chart says what the dots are.
        drawn = {"name": "single steps", "mode": "markers", "marker": dots, "hoverinfo": "skip", "showlegend": False}
        figure.add_scatter(x=x, y=y, row=1, col=1, **drawn)
    x, y = _thinned(progress.steps_taken, smoothed(progress.loss, width))
    figure.add_scatter(
        x=x,
        y=y,
        name="loss on training notes",
        mode=_mode(x),
        connectgaps=True,
        marker={"size": 5},
        line={"color": TRAINING_LOSS, "width": 3},
        row=1,
        col=1,
    )
    figure.add_scatter(
        x=progress.epoch_steps,
        y=progress.eval_loss,
        name="loss on held-out notes, once an epoch",
        mode="lines+markers",
        marker={"size": 9, "symbol": "diamond"},
        line={"color": chart_style.UTILITY, "width": 3},
        row=1,
        col=1,
    )


def _thinned(steps: list[int], values: list[float | None]) -> tuple[list[int], list[float | None]]:
    """At most about MOST_POINTS evenly spaced points, including the last."""
    stride = max(1, math.ceil(len(steps) / MOST_POINTS))
    keep = sorted({*range(0, len(steps), stride), *range(len(steps) - 1, len(steps))})
    return [steps[at] for at in keep], [values[at] for at in keep]


def _mode(steps: list[int]) -> str:
    """With markers as long as there are few points: a line of one step is invisible."""
    return "lines+markers" if len(steps) <= FEW_POINTS else "lines"


# ε and canaries ------------------------------------------------------------------------------------------------------


def _epsilon(figure: go.Figure, progress: Progress, budget: float | None) -> None:
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
        _level(figure, progress, budget, f"budget ε = {promised_text(budget)}", chart_style.RISK, row=2)
    figure.update_yaxes(rangemode="tozero", row=2)


def _exposure(figure: go.Figure, progress: Progress, copies: Mapping[str, int], row: int) -> None:
    for (canary, bits), (colour, symbol) in zip(sorted(progress.exposure.items()), CANARY_LINES, strict=False):
        figure.add_scatter(
            x=progress.epoch_steps,
            y=bits,
            name=_canary_name(canary, copies),
            mode="lines+markers",
            line={"color": colour},
            marker={"size": 9, "symbol": symbol},
            row=row,
            col=1,
        )
    name = f"{NULL_EXPOSURE:.2f} bits: mean of a canary never trained on"
    _level(figure, progress, NULL_EXPOSURE, name, chart_style.CONTROL, row=row)
    figure.update_yaxes(rangemode="tozero", row=row)


def _level(figure: go.Figure, progress: Progress, y: float, name: str, colour: str, row: int) -> None:
    """A dashed line that the legend names: a label beside it would be cut off."""
    ends = [0, max(1, progress.steps) * 1.02]
    line = {"color": colour, "dash": "dash", "width": 2}
    figure.add_scatter(x=ends, y=[y, y], name=name, mode="lines", line=line, hoverinfo="skip", row=row, col=1)


def _canary_name(canary: str, copies: Mapping[str, int]) -> str:
    if canary not in copies:
        return f"canary {canary}"
    times = copies[canary]
    planted = "never planted" if times == 0 else f"planted {times} time{'' if times == 1 else 's'}"
    return f"canary {canary}, {planted}"
