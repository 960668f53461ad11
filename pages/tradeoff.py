"""ε trade-off: how useful and how risky is a model, and what does moving ε change?"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.evaluation.sweep.sweeps import Sweep, sweeps_of
from core.evaluation.sweep.waking import waking
from pages.parts.common import chart_style, layout, phi_text, shell
from pages.parts.common.data_table import data_table
from pages.parts.common.query_params import KEEP, drop_unless_offered
from pages.parts.pickers import run_picker, sweep_picker
from pages.parts.session import owner, resources
from pages.parts.tradeoff import (
    hospital_size,
    odds_view,
    real_or_written,
    same_prompt,
    sentences,
    slider,
    sweep_choice,
    three_models,
    train_another,
    where_leaks_begin,
)
from pages.parts.tradeoff.charts import linked_pair
from pages.parts.tradeoff.drawn import Drawn, risks, useful
from pages.parts.tradeoff.hypothetical import what_if
from pages.parts.tradeoff.models import curve_points, curve_runs, models_at

if TYPE_CHECKING:
    from core.evaluation.sweep.tradeoff import Estimate

shell.page("tradeoff", "How useful and how risky is a model, and what does moving ε change?")


@resources.cached_data(max_entries=50, show_spinner=False)
def seeds_of(root: str, run_ids: tuple[str, ...]) -> pd.DataFrame:
    """The figures of each run: epsilon, seed, metric, value."""
    from core.evaluation.sweep.tradeoff import of_one_detector
    from core.runs import queries

    metrics = of_one_detector(queries.metrics(owner.workspace(), frozenset(run_ids)))
    rows = metrics[(metrics["arm"] == "run") & (metrics["epsilon"] > 0)]
    return rows[["epsilon", "seed", "metric", "value"]]


def move_to_clicked() -> None:
    """Set the slider to the ε of the marker that was clicked."""
    clicked = st.session_state["tradeoff-chart"].selection.points
    labels = [point["customdata"][0] for point in clicked if point.get("customdata")]
    if labels and isinstance(labels[0], str):
        st.session_state[slider.CLICKED] = labels[0]


def at_slider(curves: pd.DataFrame, metric: str, arm: str, epsilon: float) -> Estimate | None:
    """A figure at the slider's ε; None if no run has it."""
    from core.evaluation.sweep.tradeoff import interpolate

    rows = curves[(curves["metric"] == metric) & (curves["arm"] == arm)]
    return None if rows.empty else interpolate(rows, epsilon)


def choose(label: str, key: str, known: dict[str, Drawn]) -> tuple[str, Drawn]:
    """The metric that is drawn for `label`, among `known`, and how it is drawn."""
    name = st.selectbox(label, list(known), key=key, format_func=lambda name: known[name].label, **KEEP)
    return name, known[name]


def draw(sweep: Sweep, every: Sequence[Sweep]) -> None:
    """Slider and chart, the same prompt at every ε, promise and measurement, comparisons, and numbers of one sweep.

    `every`: all sweeps, for the comparison with other sizes of the hospital.
    """
    root, run_ids = str(owner.workspace().root), curve_runs(sweep)
    with st.skeleton(height=700):
        curves = curve_points(run_ids)
    left, right = st.columns([4, 5], gap="medium")
    with left, st.container(gap="xsmall", key="at-epsilon"):
        epsilon = slider.choose(curves["epsilon"])
    with left, st.container(horizontal=True, key="at-epsilon-drawn"):
        usefulness = choose("Usefulness", "usefulness", useful(curves))
        risk = choose("Risk", "risk", risks(set(curves.loc[curves["arm"] == "run", "metric"])))
    shown = [usefulness[0], risk[0], *([usefulness[1].chart.chance] if usefulness[1].chart.chance else [])]
    here = {
        (metric, arm): at_slider(curves, metric, arm, epsilon) for metric in shown for arm in ("run", "heldout", "base")
    }
    plain = at_slider(curves, usefulness[0], "run", math.inf)
    with left, st.container(gap="xsmall", key="at-epsilon-said"):  # on a phone below the chart (assets/style.css)
        sentences.sentences(usefulness, risk, here, plain)
    with right, st.container(gap="xxsmall"):
        best = here[usefulness[0], "run"]
        now = {risk[0]: here[risk[0], "run"], usefulness[0]: best if sentences.is_measured(best) else None}
        figure = chart_style.kept(
            "tradeoff",
            (root, run_ids, usefulness[0], risk[0], epsilon),
            lambda: linked_pair(
                curves, usefulness, risk, now, epsilon, seeds_of(root, run_ids), waking(curves, risk[0])
            ),
        )
        chart_style.show(
            figure,
            key="tradeoff-chart",
            alt=f"{usefulness[1].label} above and {risk[1].label} below, against ε, each with its control",
            on_select=move_to_clicked,
        )
        st.html(chart_style.legend_html(figure))
    models = models_at(sweep, epsilon)
    same_prompt.show(same_prompt.shown_at(epsilon, models))
    st.html(phi_text.legend_html())
    st.caption(sentences.caption(curves, usefulness, risk[0]))
    if run_ids and (told := run_picker.shared_values_caption(owner.workspace().run(run_ids[0]))):
        st.caption(told)
    count_odds = odds_view.side_by_side(sweep, epsilon)
    odds_view.fold(sweep, epsilon)
    three_models.show(epsilon, models)
    where_leaks_begin.show(sweep)
    hospital_size.show(sweep, every, epsilon)
    train_another.show(sweep)
    data_table(
        sentences.wide(curves[curves["metric"].isin(shown)]),
        name="tradeoff",
        label="The numbers behind the first chart",
    )
    data_table(curves, name="tradeoff-all", label="Every measured figure of these runs")
    count_odds()


def recommend(sweep: Sweep) -> None:
    """The ε for the reader's limits. Imported on demand, because reading scores needs torch."""
    from pages.parts.tradeoff import recommendation_view

    recommendation_view.show(sweep)


runs = owner.workspace().runs()
found = sweeps_of(runs)
views: dict[str, Callable[[Sweep], None]] = {
    "Measured": partial(draw, every=found),
    "Real or written?": real_or_written.show,
    "Which ε?": recommend,
    "What if?": what_if.show,
}
if found:
    chosen_sweep, place = sweep_choice.choose(found)
    sweep_picker.say_unknown("family", found, chosen_sweep, sweep_picker.setting_name(chosen_sweep))
    drop_unless_offered("view", views)
    view = place.segmented_control("View", list(views), default="Measured", required=True, key="view", **KEEP)
    with layout.fresh("answer", (view, chosen_sweep)):
        views[view](chosen_sweep)
else:
    st.info(
        "There is no run to show yet. Train one without privacy and one with it; both appear here.",
        icon=":material/balance:",
    )
    shell.link_to_train()
