"""What noise, epochs and batch size do to ε and to usefulness, each varied alone: the measured grid of one hospital."""

from __future__ import annotations

import math
from itertools import chain

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from core.common.formatting import epochs_text, promised_text
from core.evaluation.registry import figure as figure_of
from core.evaluation.sweep.beside import BASE, NOISELESS, PRIVATE, is_noiseless
from core.evaluation.sweep.noise_grid import PANELS, Setting, budget, grid_of, measured, notes_of, setting_of
from core.evaluation.sweep.sweeps import Sweep
from core.runs.run import Run
from pages.parts.common import chart_style
from pages.parts.common.data_table import data_table
from pages.parts.session import owner, resources

LINES = {
    PRIVATE: {"color": chart_style.PRIVATE, "width": 3},
    NOISELESS: {"color": chart_style.OKABE_ITO["orange"], "width": 3, "dash": "dash"},
    BASE: {"color": chart_style.CONTROL, "width": 2, "dash": "dot"},
}
BITS, ENTITIES = "bits_per_character", "entity_f1"
SCALED = (
    "With σ in proportion to the root of the batch size, a larger batch costs no more ε, while the noise of a step's "
    "mean gradient falls. The learning rate falls where that noise is large."
)


def useful_metric(sweep: Sweep) -> str:
    """How usefulness is measured: of masked models by entities, except on imported notes, which have no labels."""
    return BITS if sweep.model.kind == "gpt2" or sweep.corpus.imported is not None else ENTITIES


def example(sweep: Sweep) -> Run | None:
    """The sweep's private run nearest to ε = 8 in ratio; None without a private run."""
    runs = [run for run in map(owner.workspace().run, sweep.run_ids) if run.privacy is not None]
    return min(runs, key=lambda one: abs(math.log((one.spec.privacy.target_epsilon or 8.0) / 8.0)), default=None)


def show(sweep: Sweep) -> None:
    """A chart with a column for each way to vary the training: ε, and usefulness where a grid was measured.

    Without a measured grid for this hospital, the lines of ε are those around one of the sweep's own runs. Without
    a private run per note nothing is shown.
    """
    every = owner.workspace().runs()
    same = [run for run in every if (run.spec.corpus, run.spec.model) == (sweep.corpus, sweep.model)]
    found = grid_of(
        run
        for run in same
        if run.spec.privacy.unit == "note" and not run.spec.on_other_notes and run.spec.vocabulary is None
    )
    metric = useful_metric(sweep)
    name = figure_of(metric).label
    if found is None:
        _show_budget(example(sweep), name)
        return
    centre, runs = found
    spent = _spent(centre, next(run for run in runs if setting_of(run) == centre))
    without = {run.spec.run_id: run.id for run in same if is_noiseless(run)}
    controls = {run.id: without[control] for run in runs if (control := run.spec.clipped_id) in without}
    ids = tuple(run.id for run in runs), tuple(controls.values())
    useful = _measured(str(owner.workspace().root), ids, centre, metric, runs, controls)
    _head(centre, f"Above: ε per note. Below: {name}, measured.")
    figure = _chart(centre, spent, useful, name)
    st.html(chart_style.legend_html(figure))
    chart_style.show(figure, key="noise-grid", alt=_alt(useful, name))
    st.caption(
        f"{SCALED} Bars are 95\u00a0% intervals. Choosing a setting by these results would cost more ε than its "
        "run says."
    )
    data_table(useful, name="noise-grid")


def _show_budget(run: Run | None, name: str) -> None:
    """The lines of ε alone, around a private run."""
    if run is None or run.privacy is None or run.privacy.unit != "note":
        return
    training = run.spec.training
    centre = Setting(run.privacy.noise_multiplier, training.epochs, training.batch_size)
    spent = _spent(centre, run)
    _head(centre, f"Lines: ε per note, by exact accounting. Not measured for the other settings: {name}.")
    ends = [
        f"{panel.title}: ε from {promised_text(line.iloc[0])} to {promised_text(line.iloc[-1])}"
        for key, panel in PANELS.items()
        if len(line := spent.loc[spent["panel"] == key, "epsilon"])
    ]
    chart_style.show(_chart(centre, spent, None, name), key="noise-grid", alt=". ".join(ends))
    st.caption(SCALED)
    data_table(spent, name="noise-grid")


def _head(centre: Setting, what: str) -> None:
    st.header("What do noise, epochs and batch size do?", anchor=False)
    st.markdown(
        f"Starting from one run (σ = {centre.sigma:.4g}, {epochs_text(round(centre.epochs))}, batches of "
        f"{centre.batch:,g} notes), one setting varies at a time. {what}"
    )


def _spent(centre: Setting, run: Run) -> pd.DataFrame:
    """ε around the setting of a private run, on its notes and at its δ."""
    return _budget(centre.sigma, centre.epochs, centre.batch, notes_of(run), run.spec.privacy.delta)


@resources.cached_data(max_entries=20, show_spinner="Adding up the privacy loss of all steps …")
def _budget(sigma: float, epochs: float, batch: float, notes: int, delta: float) -> pd.DataFrame:
    return budget(Setting(sigma, epochs, batch), notes=notes, delta=delta)


@resources.cached_data(max_entries=20, show_spinner=False)
def _measured(
    root: str,
    ids: tuple[tuple[str, ...], tuple[str, ...]],
    _centre: Setting,
    metric: str,
    _runs: list[Run],
    _controls: dict[str, str],
) -> pd.DataFrame:
    from core.runs import queries

    metrics = queries.metrics(owner.workspace(), frozenset(chain(*ids)))
    return measured(_centre, _runs, _controls, metrics, metric)


def _chart(centre: Setting, spent: pd.DataFrame, useful: pd.DataFrame | None, name: str) -> go.Figure:
    """A column for each panel: ε above, and what was measured below; without `useful` ε alone."""
    rows, columns = 1 if useful is None else 2, len(PANELS)
    figure = make_subplots(
        rows=rows,
        cols=columns,
        shared_xaxes="columns",
        shared_yaxes="rows",
        vertical_spacing=0.06,
        horizontal_spacing=0.08,  # the last tick of an axis and the first of the next do not touch
    )
    for column, (key, panel) in enumerate(PANELS.items(), start=1):
        line = spent[spent["panel"] == key]
        figure.add_scatter(
            row=1,
            col=column,
            x=line["x"],
            y=line["epsilon"],
            mode="lines",
            line={"color": chart_style.BUDGET, "width": 3},
            customdata=[promised_text(value) for value in line["epsilon"]],
            hovertemplate="%{x:.3g}: ε = %{customdata}<extra></extra>",
        )
        ends = sorted({line["x"].min(), panel.x(centre), line["x"].max()})  # on a telephone Plotly turns them
        ticks = {"tickvals": ends, "ticktext": [f"{end:,.3g}" if end < 1_000 else f"{end:,.0f}" for end in ends]}
        figure.update_xaxes(row=rows, col=column, title=panel.title.replace(", ", ",<br>"), **ticks)
        if useful is not None:
            _add_measured(figure, column, useful[useful["panel"] == key])
    figure.update_xaxes(type="log")
    figure.update_yaxes(row=1, type="log", dtick=1)
    figure.update_yaxes(row=1, col=1, title="ε")
    if useful is not None:
        figure.update_yaxes(row=2, col=1, title=chart_style.wrapped(name, 24))
    figure.update_layout(
        height=230 * rows + 30 * (useful is None), showlegend=False, margin={"l": 0, "r": 20, "t": 10, "b": 0}
    )
    return figure


def _add_measured(figure: go.Figure, column: int, useful: pd.DataFrame) -> None:
    """The points of one panel with their intervals, and a line for the public model, which has one value."""
    for model, dots in useful.groupby("model", sort=False):
        public = model == BASE
        bars = {"array": dots["high"] - dots["value"], "arrayminus": dots["value"] - dots["low"], "visible": not public}
        figure.add_scatter(
            row=2,
            col=column,
            name=model,
            showlegend=model not in {trace.name for trace in figure.data},
            x=dots["x"],
            y=dots["value"],
            mode="lines" if public else "lines+markers",
            line=LINES[str(model)],
            marker={"size": 10},
            error_y=bars,
            hovertemplate=f"%{{x:.3g}}: %{{y:.3f}}<extra>{model}</extra>",
        )


def _alt(useful: pd.DataFrame, name: str) -> str:
    said = []
    for key, panel in PANELS.items():
        ends = [
            (model, rows.iloc[0], rows.iloc[-1])
            for model, rows in useful[useful["panel"] == key].groupby("model", sort=False)
            if len(rows) > 1
        ]
        said += [
            f"{panel.title} from {first['x']:g} to {last['x']:g}, {model}: {name} from {first['value']:.3g} to "
            f"{last['value']:.3g}"
            for model, first, last in ends
        ]
    return ". ".join(said)
