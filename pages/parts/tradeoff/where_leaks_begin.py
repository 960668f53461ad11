"""Where leaks begin: for each attack the measured ε between which its figure rises off its control."""

from __future__ import annotations

import math

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.common.formatting import setting_text
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.sweep.tradeoff import points
from core.evaluation.sweep.waking import Waking, wakings
from pages.parts.common import chart_style
from pages.parts.common.data_table import data_table
from pages.parts.session import owner, resources
from pages.parts.tradeoff.charts import EpsilonAxis
from pages.parts.tradeoff.models import curve_runs, metrics_of

LABELLED = (1, 8, 100, 1_000, math.inf)  # ticks with a number: all of them would overlap on a telephone
ROW = 62  # pixels: a name may have three lines


def show(sweep: Sweep) -> None:
    """A sentence and a bar for each attack; nothing without a measured finite ε."""
    root, run_ids = str(owner.workspace().root), curve_runs(sweep)
    found, epsilons = _found(root, run_ids)
    if not found:
        return
    st.header("Where do leaks begin?", anchor=False)
    st.markdown(
        "\n".join(f"- **{one.attack.name[0].upper()}{one.attack.name[1:]}**: {one.sentence()}." for one in found)
    )
    figure = chart_style.kept("begins", (root, run_ids), lambda: _chart(found, epsilons))
    chart_style.show(figure, key="begins", alt=_alt(found))
    st.caption(
        "A leak begins at the smallest measured ε from which the figure's 95\u00a0% "
        "interval stays above its control's. Each bar runs from the last ε without the leak to the first with it: "
        "nothing was measured in between. Only these attacks were run at every ε. Stronger ones, which a full audit "
        "runs, may find members at a smaller ε. By chance alone, a leak of each attack begins at some ε with a "
        "probability of at most 2.5\u00a0%. A filled marker to the left of an open one is more often chance: no leak "
        "begins there."
    )
    data_table(_table(found), name="where-leaks-begin")


@resources.cached_data(max_entries=50, show_spinner="Finding where leaks begin …")
def _found(root: str, run_ids: tuple[str, ...]) -> tuple[list[Waking], list[float]]:
    curves = points(metrics_of(run_ids))
    return wakings(curves), sorted(set(curves["epsilon"]))


def _chart(found: list[Waking], epsilons: list[float]) -> go.Figure:
    """One row an attack: dots at the measured ε, filled where it leaks; the bar is where the leak begins."""
    axis, figure = EpsilonAxis(epsilons), go.Figure()
    for one in found:
        name = _wrapped(one)
        low, high = one.interval
        leaks = list(one.above)
        quiet = [epsilon for epsilon in one.judged if epsilon not in leaks]
        if one.epsilon is not None or one.plain:
            left = axis.low / 2 if low == 0.0 else low
            right = high if math.isfinite(high) else math.inf
            figure.add_scatter(
                x=[math.log10(left) if low == 0.0 else axis.place(left), axis.place(right)],
                y=[name] * 2,
                mode="lines",
                line={"color": chart_style.OKABE_ITO["yellow"], "width": 16},
                showlegend=False,
                hovertemplate=f"{one.sentence()}<extra>begins</extra>",
            )
        for some, colour, symbol, about in (
            (quiet, chart_style.CONTROL, "circle-open", "like its control"),
            (leaks, chart_style.RISK, "circle", "above its control"),
        ):
            figure.add_scatter(
                x=[axis.place(epsilon) for epsilon in some],
                y=[name] * len(some),
                mode="markers",
                name=about,
                legendgroup=about,
                showlegend=False,
                cliponaxis=False,
                marker={"color": colour, "symbol": symbol, "size": 13, "line": {"width": 2}},
                customdata=[setting_text(epsilon) for epsilon in some],
                hovertemplate=f"ε = %{{customdata}}: {about}<extra></extra>",
            )
    for name, colour, symbol in (
        ("like its control", chart_style.CONTROL, "circle-open"),
        ("above its control", chart_style.RISK, "circle"),
        ("the leak begins", chart_style.OKABE_ITO["yellow"], "square"),
    ):
        marker = {"color": colour, "symbol": symbol, "size": 13, "line": {"width": 2}}
        figure.add_scatter(x=[None], y=[None], mode="markers", name=name, marker=marker)
    figure.update_xaxes(**axis.layout, title="ε", tickangle=0)
    figure.update_xaxes(ticktext=_labels(epsilons))
    figure.update_yaxes(categoryorder="array", categoryarray=[_wrapped(one) for one in found][::-1], automargin=True)
    figure.update_layout(
        height=120 + ROW * len(found), margin={"l": 0, "r": 10, "t": 10, "b": 0}, legend=chart_style.LEGEND
    )
    return figure


def _wrapped(one: Waking) -> str:
    return chart_style.wrapped(one.attack.name, 14)


def _labels(epsilons: list[float]) -> list[str]:
    """The numbers at the ticks of the axis, in order; only those of `LABELLED` if there are many."""
    ticks = [*sorted(one for one in epsilons if math.isfinite(one)), math.inf]
    return [setting_text(one) if one in LABELLED or len(ticks) <= len(LABELLED) else "" for one in ticks]


def _alt(found: list[Waking]) -> str:
    return ". ".join(f"{one.attack.name}: {one.sentence()}" for one in found)


def _table(found: list[Waking]) -> pd.DataFrame:
    rows = [(one.attack.name, one.metric, one.sentence(), *one.interval, one.largest, one.plain) for one in found]
    columns = ["attack", "figure", "begins", "after ε", "at ε", "largest measured ε", "leaks without privacy"]
    return pd.DataFrame(rows, columns=columns)
