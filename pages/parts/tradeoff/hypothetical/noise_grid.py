"""What noise, epochs and batch size do to ε and to usefulness, each varied alone: the measured grid of one hospital."""

from __future__ import annotations

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from core.common.formatting import promised_text
from core.evaluation.registry import figure as figure_of
from core.evaluation.sweep.noise_grid import PANELS, Setting, budget, grid_of, measured, notes_of, setting_of
from core.evaluation.sweep.sweeps import Sweep
from core.runs.run import Run
from pages.parts.common import chart_style
from pages.parts.common.data_table import data_table
from pages.parts.session import owner, resources

METRICS = {"gpt2": "bits_per_character"}  # usefulness by the kind of model; of others the F1 of entities
OTHERWISE = "entity_f1"


def show(sweep: Sweep) -> None:
    """A chart with a column for each way to vary the training; nothing without a measured grid for this hospital."""
    every = owner.workspace().runs()
    same = [run for run in every if (run.spec.corpus, run.spec.model) == (sweep.corpus, sweep.model)]
    found = grid_of(
        run
        for run in same
        if run.spec.privacy.unit == "note" and run.spec.training.clip_norm is None and run.spec.without is None
    )
    if found is None:
        return
    centre, runs = found
    metric = METRICS.get(sweep.model.kind, OTHERWISE)
    name, delta = figure_of(metric).label, runs[0].spec.privacy.delta
    notes = notes_of(next(run for run in runs if setting_of(run) == centre))
    spent = _budget(centre.sigma, centre.epochs, centre.batch, notes, delta)
    useful = _measured(str(owner.workspace().root), tuple(run.id for run in runs), centre, metric, runs)
    st.header("What do noise, epochs and batch size do?", anchor=False)
    st.markdown(
        f"Around one training (σ = {centre.sigma:g}, {centre.epochs:g} epochs, batches of {centre.batch:g} notes), one "
        f"setting varies at a time. Above: ε per note. Below: {name}, measured."
    )
    chart_style.show(_chart(spent, useful, name), key="noise-grid", alt=_alt(useful, name))
    st.caption(
        "With σ in proportion to the root of the batch size, a larger batch costs no more ε, while the noise of a "
        "step's mean gradient falls. The learning rate falls where that noise is large. Bars are 95\u00a0% intervals. "
        "Choosing a setting by these results would cost more ε than its run says."
    )
    data_table(useful, name="noise-grid")


@resources.cached_data(max_entries=20, show_spinner="Counting the privacy loss of every step …")
def _budget(sigma: float, epochs: float, batch: float, notes: int, delta: float) -> pd.DataFrame:
    return budget(Setting(sigma, epochs, batch), notes=notes, delta=delta)


@resources.cached_data(max_entries=20, show_spinner=False)
def _measured(root: str, run_ids: tuple[str, ...], _centre: Setting, metric: str, _runs: list[Run]) -> pd.DataFrame:
    from core.runs import queries

    return measured(_centre, _runs, queries.metrics(owner.workspace(), frozenset(run_ids)), metric)


def _chart(spent: pd.DataFrame, useful: pd.DataFrame, name: str) -> go.Figure:
    figure = make_subplots(rows=2, cols=len(PANELS), shared_xaxes="columns", shared_yaxes="rows", vertical_spacing=0.06)
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
        dots = useful[useful["panel"] == key]
        figure.add_scatter(
            row=2,
            col=column,
            x=dots["x"],
            y=dots["value"],
            mode="lines+markers",
            line={"color": chart_style.PRIVATE, "width": 3},
            marker={"size": 10},
            error_y={"array": dots["high"] - dots["value"], "arrayminus": dots["value"] - dots["low"]},
            hovertemplate="%{x:.3g}: %{y:.3f}<extra></extra>",
        )
        figure.update_xaxes(row=2, col=column, title=panel.title)
    figure.update_xaxes(type="log", dtick="D2")
    figure.update_yaxes(row=1, type="log")
    figure.update_yaxes(row=1, col=1, title="ε")
    figure.update_yaxes(row=2, col=1, title=chart_style.wrapped(name, 24))
    figure.update_layout(height=460, showlegend=False, margin={"l": 0, "r": 10, "t": 10, "b": 0})
    return figure


def _alt(useful: pd.DataFrame, name: str) -> str:
    said = []
    for key, panel in PANELS.items():
        rows = useful[useful["panel"] == key]
        if len(rows) > 1:
            first, last = rows.iloc[0], rows.iloc[-1]
            said.append(
                f"{panel.title} from {first['x']:g} to {last['x']:g}: {name} from {first['value']:.3g} to "
                f"{last['value']:.3g}"
            )
    return ". ".join(said)
