"""ε trade-off: how useful and how risky is a model, and what does moving ε change?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.evaluation.sweep.sweeps import Sweep, sweeps_of
from pages.parts.common import chart_style, shell
from pages.parts.common.data_table import data_table
from pages.parts.common.query_params import KEEP
from pages.parts.jobs import monitor
from pages.parts.pickers import sweep_picker
from pages.parts.session import owner, resources
from pages.parts.tradeoff import odds_view, sentences, what_if
from pages.parts.tradeoff.charts import PERPLEXITY, epsilon_label, linked_pair, risks

if TYPE_CHECKING:
    from core.evaluation.sweep.tradeoff import Estimate

shell.page(
    "ε trade-off", "How useful and how risky is a model, and what does moving ε change?", icon=":material/balance:"
)

# Roughly even steps on a log scale that include round values.
GRID = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.2, 1.5, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 5.5, 6, 7, 8, 9, 10, math.inf)


@resources.cached_data(max_entries=50, show_spinner=False)
def curves_of(root: str, run_ids: tuple[str, ...]) -> pd.DataFrame:
    """The points of a sweep's runs in the data folder `root`. Runs never change, so the result can be cached."""
    from core.evaluation.sweep.tradeoff import points
    from core.runs import queries

    metrics = queries.metrics(owner.workspace())
    return points(metrics[metrics["run_id"].isin(run_ids)])


@resources.cached_data(max_entries=50, show_spinner=False)
def seeds_of(root: str, run_ids: tuple[str, ...]) -> pd.DataFrame:
    """The figures of each run: epsilon, seed, metric, value."""
    from core.runs import queries

    metrics = queries.metrics(owner.workspace())
    rows = metrics[metrics["run_id"].isin(run_ids) & (metrics["arm"] == "run") & (metrics["epsilon"] > 0)]
    return rows[["epsilon", "seed", "metric", "value"]]


def choose_family(found: list[Sweep]) -> Sweep:
    """Let the reader choose the model and, if its runs form several sweeps, the sweep."""
    kinds = [kind for kind in chart_style.MODEL_NAMES if any(sweep.model.kind == kind for sweep in found)]
    left, right = st.columns([1, 2], vertical_alignment="bottom")
    kind = left.segmented_control(
        "Model",
        kinds,
        default=kinds[0],
        required=True,
        format_func=chart_style.MODEL_NAMES.__getitem__,
        key="model",
        **KEEP,
    )
    same = [sweep for sweep in found if sweep.model.kind == kind]
    names = sweep_picker.distinct_names(same, sweep_picker.curve_name)
    return sweep_picker.pick(
        "Runs",
        same,
        names,
        key="family",
        widget=f"runs-{kind}",
        place=right,
        help="Only runs that differ in ε and seed are compared.",
    )


def choose_epsilon(measured: list[float]) -> float:
    """The ε slider; a click on a marker in the charts moves it, too."""
    options = {epsilon_label(epsilon): epsilon for epsilon in sorted({*map(float, GRID), *measured})}
    default: str | None = "8" if "8" in options else epsilon_label(measured[0])
    clicked = st.session_state.pop("clicked", None)
    if clicked in options:
        st.session_state["at"], default = clicked, None  # Streamlit warns if a default and a value are both set
    chosen = st.select_slider("ε: ← more private · more useful →", list(options), default, key="at", **KEEP)
    return options[chosen]


def move_to_clicked() -> None:
    """Set the slider to the ε of the marker that was clicked."""
    clicked = st.session_state["tradeoff-chart"].selection.points
    labels = [point["customdata"][0] for point in clicked if point.get("customdata")]
    if labels and isinstance(labels[0], str):
        st.session_state["clicked"] = labels[0]


def at_slider(curves: pd.DataFrame, metric: str, arm: str, epsilon: float) -> Estimate | None:
    """A figure at the slider's ε; None if no run has it."""
    from core.evaluation.sweep.tradeoff import interpolate

    rows = curves[(curves["metric"] == metric) & (curves["arm"] == arm)]
    return None if rows.empty else interpolate(rows, epsilon)


def train_this(sweep: Sweep, epsilon: float) -> None:
    """Offer to train the run at this ε, so that its figures are measured and not interpolated."""
    spec = sweep.spec(None if math.isinf(epsilon) else epsilon)
    if owner.workspace().find(spec) is not None:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        label = "Train without privacy" if math.isinf(epsilon) else f"Train ε = {epsilon_label(epsilon)}"
        if st.button(label, icon=":material/model_training:", key="train-this") and monitor.submit(spec):
            st.success("The run is in the queue. This page shows it when it is done.", icon=":material/check:")
        shell.link("train", "Watch the queue", icon=":material/visibility:")


def draw(sweep: Sweep) -> None:
    """Slider, promise and measurement, charts and numbers of one sweep."""
    with st.skeleton(height=700):
        curves = curves_of(str(owner.workspace().root), sweep.run_ids)
    known = risks(set(curves.loc[curves["arm"] == "run", "metric"]))
    risk_name = st.segmented_control(
        "Risk",
        list(known),
        default=next(iter(known)),
        required=True,
        key="risk",
        **KEEP,
        format_func=lambda name: known[name].label,
    )
    measured = sorted(set(curves["epsilon"]))
    epsilon = choose_epsilon(measured)
    here = {
        (metric, arm): at_slider(curves, metric, arm, epsilon)
        for metric in (PERPLEXITY, risk_name)
        for arm in ("run", "heldout", "base")
    }
    plain = at_slider(curves, PERPLEXITY, "run", math.inf)
    count_odds = odds_view.side_by_side(sweep, epsilon)
    sentences.sentences(sweep.model.kind, (risk_name, known[risk_name]), here, plain)
    odds_view.fold(sweep, epsilon)
    if epsilon not in measured:
        train_this(sweep, epsilon)
    chart_style.show(
        linked_pair(
            curves,
            risk_name,
            known[risk_name],
            {name: now for name in (PERPLEXITY, risk_name) if (now := here[name, "run"]) is not None},
            epsilon,
            seeds_of(str(owner.workspace().root), sweep.run_ids),
        ),
        key="tradeoff-chart",
        alt=f"Perplexity above and {known[risk_name].label} below, against ε, each with its control",
        on_select=move_to_clicked,
    )
    st.caption(sentences.caption(curves, risk_name))
    shown = curves[curves["metric"].isin([PERPLEXITY, risk_name])]
    data_table(sentences.wide(shown), name="tradeoff")
    data_table(curves, name="tradeoff-all", label="Every measured figure of these runs")
    count_odds()


def recommend(sweep: Sweep) -> None:
    """The ε for the reader's limits. Imported on demand, because reading scores needs torch."""
    from pages.parts.tradeoff import recommendation_view

    recommendation_view.show(sweep)


VIEWS = {"Measured": draw, "Which ε?": recommend, "What if?": what_if.show}

runs = owner.workspace().runs()
found = sweeps_of(runs)
if found:
    chosen_family = choose_family(found)
    view = st.segmented_control(
        "Look at", list(VIEWS), default="Measured", required=True, key="view", label_visibility="collapsed", **KEEP
    )
    VIEWS[view](chosen_family)
else:
    st.info(
        "There is no trained run to show yet. Train one without privacy and one at some ε; both appear here.",
        icon=":material/balance:",
    )
    shell.link("train", "Train a model", icon=":material/model_training:")
