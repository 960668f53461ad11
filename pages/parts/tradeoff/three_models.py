"""What noise, clipping and training less cost and save: the private run beside its controls at one ε."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from plotly.subplots import make_subplots

from core.evaluation import registry
from core.evaluation.sweep import beside
from core.evaluation.sweep.beside import BITS, NAMES, PATIENT_AUC
from core.evaluation.wording import interval_text, percent
from pages.parts.common import chart_style
from pages.parts.common.data_table import data_table
from pages.parts.pickers.comparison import trained
from pages.parts.session import owner, resources
from pages.parts.tradeoff.charts import epsilon_label
from pages.parts.tradeoff.models import Models, metrics_of

NAMED_PATIENTS, AUC = "full_name_patients", "auc_loss"
COLOURS = {
    beside.BASE: chart_style.CONTROL,
    beside.PRIVATE: chart_style.PRIVATE,
    beside.NOISELESS: chart_style.OKABE_ITO["orange"],
    beside.PLAIN: chart_style.RISK,
}
MISSING = (
    "The same training without noise was not run at this ε. So nothing here tells what noise costs from what clipping, "
    "larger batches and fewer steps cost."
)


def show(epsilon: float, models: Models) -> None:
    """The comparison at ε: which models, what each leaks, how useful each is; at ∞ there is no private run."""
    st.subheader("What do noise, clipping and training less cost and save?", anchor=False)
    named = models.named()
    st.markdown("\n".join(f"- **{_heading(name, epsilon)}**: {_about(name, models)}." for name in named))
    if models.private and not models.noiseless:
        st.caption(MISSING)
    if not models.private:
        st.caption("Move the slider to an ε to see a private run and its controls.")
    figures = _figures(str(owner.workspace().root), tuple(named.items()))
    chosen = _measures(figures)
    chart_style.show(_chart(figures, chosen, epsilon), key="three-models", alt=_alt(figures, chosen, epsilon))
    said = cost_sentence(figures, chosen, epsilon)
    if said:
        st.markdown(said)
    st.caption(
        "Squares: the control of each model, on patients it never saw (canaries never planted); the dashed line: a "
        "blind guess. Bits per character compare models with different tokenizers; lower is more useful."
    )
    data_table(_table(figures, chosen), name="three-models")


@resources.cached_data(max_entries=100, show_spinner="Comparing the models …")
def _figures(root: str, named: tuple[tuple[str, tuple[str, ...]], ...]) -> pd.DataFrame:
    models = dict(named)
    return beside.beside(metrics_of([run_id for run_ids in models.values() for run_id in run_ids]), models)


def _heading(name: str, epsilon: float) -> str:
    if name == beside.PRIVATE:
        return f"Private run, ε = {epsilon_label(epsilon)}"
    return name[0].upper() + name[1:]


def _about(name: str, models: Models) -> str:
    """What a model is, with the steps and batch of its first run."""
    runs = dict(zip(beside.MODELS, ([models.base], models.private, models.noiseless, models.plain), strict=True))[name]
    run = runs[0]
    recipe = "" if run is None or name == beside.BASE else f" ({trained(run)})"
    return f"{beside.ABOUT[name]}{recipe}"


def _measures(figures: pd.DataFrame) -> list[tuple[str, str]]:
    """(metric, label) of what is drawn: names, membership by note and by patient, canaries, bits per character."""
    there = set(figures.loc[figures["arm"] == "run", "metric"])
    exposure = max((one for one in there if one.startswith("exposure:")), key=_copies, default="")
    names = (NAMES, "texts with a full name") if NAMES in there else (NAMED_PATIENTS, "patients by full name")
    wanted = [
        names,
        (AUC, "AUC, note"),
        (PATIENT_AUC, "AUC, patient"),
        (exposure, f"canaries, bits ({_copies(exposure)} copies)" if exposure else ""),
        (BITS, "bits per character"),
    ]
    return [(metric, label) for metric, label in wanted if metric in there]


def _copies(metric: str) -> int:
    return int(metric.partition(":")[2] or 0)


def _chart(figures: pd.DataFrame, chosen: list[tuple[str, str]], epsilon: float) -> go.Figure:
    """One small panel a figure, one row a model."""
    figure = make_subplots(
        cols=len(chosen),
        shared_yaxes=True,
        horizontal_spacing=0.03,
        subplot_titles=[_titled(label) for _, label in chosen],
    )
    names = list(dict.fromkeys(figures["model"]))
    for column, (metric, _) in enumerate(chosen, start=1):
        for arm, symbol, size in (("heldout", "square-open", 9), ("run", "circle", 13)):
            rows = figures[(figures["metric"] == metric) & (figures["arm"] == arm)]
            figure.add_scatter(
                x=rows["value"],
                y=[_heading(name, epsilon) for name in rows["model"]],
                mode="markers",
                showlegend=False,
                marker={
                    "symbol": symbol,
                    "size": size,
                    "color": [COLOURS[name] if arm == "run" else chart_style.CONTROL for name in rows["model"]],
                },
                error_x={
                    "array": (rows["high"] - rows["value"]).fillna(0),
                    "arrayminus": (rows["value"] - rows["low"]).fillna(0),
                    "color": chart_style.CONTROL,
                    "thickness": 1.5,
                },
                hovertemplate=f"%{{y}}: %{{x:{'.2%' if _share(metric) else '.3g'}}}"
                f"<extra>{'control' if arm == 'heldout' else ''}</extra>",
                row=1,
                col=column,
            )
        known = registry.find(metric)
        blind = 0.5 if metric == PATIENT_AUC else None if known is None else known.blind
        if blind is not None:
            figure.add_vline(x=blind, line={"color": chart_style.CONTROL, "dash": "dash"}, row=1, col=column)
        zero = metric not in (AUC, PATIENT_AUC)
        figure.update_xaxes(
            tickformat=".0%" if _share(metric) else None, rangemode="tozero" if zero else "normal", nticks=4, col=column
        )
    figure.update_yaxes(
        categoryorder="array", categoryarray=[_heading(name, epsilon) for name in names][::-1], automargin=True
    )
    figure.update_layout(height=110 + 48 * len(names), margin={"l": 0, "r": 10, "t": 60, "b": 0})
    return figure


def _titled(label: str) -> str:
    return chart_style.wrapped(label, 16)


def _share(metric: str) -> bool:
    return metric in (NAMES, NAMED_PATIENTS)


def _number(metric: str, value: float) -> str:
    return percent(value) if _share(metric) else f"{value:.2f}"


def cost_sentence(figures: pd.DataFrame, chosen: list[tuple[str, str]], epsilon: float) -> str:
    """What clipping and fewer steps cost in bits per character, and what noise costs beyond; empty without both."""
    rows = figures[(figures["arm"] == "run") & (figures["metric"] == BITS)].set_index("model")["value"]
    if not {beside.PRIVATE, beside.NOISELESS, beside.PLAIN} <= set(rows.index):
        return ""
    trained, noise = rows[beside.NOISELESS] - rows[beside.PLAIN], rows[beside.PRIVATE] - rows[beside.NOISELESS]
    return (
        f"In bits per character, clipping, larger batches and fewer steps cost **{trained:.2f}**, and the noise of "
        f"ε = {epsilon_label(epsilon)} costs **{noise:.2f}** more."
    )


def _table(figures: pd.DataFrame, chosen: list[tuple[str, str]]) -> pd.DataFrame:
    rows = figures[figures["metric"].isin([metric for metric, _ in chosen])]
    return rows.assign(figure=rows["metric"].map(dict(chosen)))[
        ["model", "figure", "arm", "value", "low", "high", "seeds", "interval"]
    ]


def _alt(figures: pd.DataFrame, chosen: list[tuple[str, str]], epsilon: float) -> str:
    said = []
    for metric, label in chosen:
        rows = figures[(figures["metric"] == metric) & (figures["arm"] == "run")]
        values = ", ".join(f"{_heading(row.model, epsilon)} {_with_interval(metric, row)}" for row in rows.itertuples())
        said.append(f"{label}: {values}")
    return ". ".join(said)


def _with_interval(metric: str, row: Any) -> str:
    number = partial(_number, metric)
    return f"{number(row.value)} ({interval_text(row.low, row.high, number)})"
