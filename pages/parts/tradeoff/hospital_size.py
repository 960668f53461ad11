"""What more patients buy: bits per character and the gain kept at each ε, for hospitals that differ only in size."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.common.formatting import setting_text
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep.sizes import Bought, bought, notes_text, other_sizes
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.sweep.tradeoff import points
from core.evaluation.wording import percent
from pages.parts.common import chart_style
from pages.parts.common.data_table import data_table
from pages.parts.pickers.epsilon_slider import epsilon_key
from pages.parts.session import owner, resources
from pages.parts.tradeoff.charts import EpsilonAxis
from pages.parts.tradeoff.models import curve_runs, metrics_of

SIZES = ("sky", "blue", "purple", "green")  # colours, from the smallest hospital
SYMBOLS = ("circle", "square", "diamond", "cross")


def show(sweep: Sweep, found: Sequence[Sweep], epsilon: float) -> None:
    """What more patients buy at the slider's ε, a chart, and in a fold every ε; nothing if there is one size only."""
    sizes = other_sizes(sweep, found)
    if len(sizes) < 2:
        return
    st.header("How much do more patients help?", anchor=False)
    runs = tuple((notes, curve_runs(one)) for notes, one in sizes.items())
    root = str(owner.workspace().root)
    reached = _reached(root, runs)
    said = sentences(reached)
    st.markdown(said.get(epsilon, f"ε = {setting_text(epsilon)} was measured for only one of these sizes."))
    figure = chart_style.kept("sizes", (root, runs), lambda: _chart(reached))
    chart_style.show(figure, key="sizes", alt=" ".join(said.values()))
    st.caption(
        "The gain is that of training without privacy on the same hospital, in bits per character over the public base "
        "model; that run is overfitted, so 100\u00a0% is a reference and not a goal. Intervals of bits are never "
        "narrower than those of one run, which resample held-out patients. Intervals of the gain are over "
        "training seeds alone: the same patients are held out in all. Settings vary with ε and with the size."
    )
    if said:
        with st.expander("Effect of hospital size at every ε"):
            st.markdown("\n".join(f"- {one}" for one in said.values()))
    data_table(_table(reached), name="sizes")


@resources.cached_data(max_entries=20, show_spinner="Comparing the sizes …")
def _reached(root: str, runs: tuple[tuple[int, tuple[str, ...]], ...]) -> list[Bought]:
    metrics = {notes: metrics_of(run_ids) for notes, run_ids in runs}
    return bought(metrics, {notes: points(frame) for notes, frame in metrics.items()})


def sentences(reached: Sequence[Bought]) -> dict[float, str]:
    """For each ε that two sizes share: bits per character and gain, from the smallest to the largest of them."""
    said = {}
    for epsilon in sorted({one.epsilon for one in reached}):
        same = sorted((one for one in reached if one.epsilon == epsilon), key=lambda one: one.notes)
        if len(same) < 2:
            continue
        first, last = same[0], same[-1]
        at = "without privacy" if math.isinf(epsilon) else f"at ε = {setting_text(epsilon)}"
        gain = ""
        if first.gain is not None and last.gain is not None and math.isfinite(epsilon):
            gain = f", and from {_gain(first.gain)} to {_gain(last.gain)} of the gain"
        said[epsilon] = (
            f"From {notes_text(first.notes).removesuffix(' notes')} to {notes_text(last.notes)} {at}: from "
            f"{_bits(first.bits)} to {_bits(last.bits)} bits per character{gain}."
        )
    return said


def _bits(bits: Interval) -> str:
    return f"**{bits.value:.2f}** ({bits.low:.2f} to {bits.high:.2f})"


def _gain(gain: Interval) -> str:
    if math.isnan(gain.low):
        return f"**{percent(gain.value)}** (one seed)"
    close = percent(gain.low) == percent(gain.high)  # then one digit more: the interval has a width
    number = (lambda share: f"{100 * share:.1f}\u00a0%") if close else percent
    return f"**{number(gain.value)}** ({number(gain.low)} to {number(gain.high)})"


def _chart(reached: Sequence[Bought]) -> go.Figure:
    axis, figure = EpsilonAxis([one.epsilon for one in reached]), go.Figure()
    for number, notes in enumerate(sorted({one.notes for one in reached})):
        rows = [one for one in reached if one.notes == notes]
        colour = chart_style.OKABE_ITO[SIZES[number % len(SIZES)]]
        finite = [one for one in rows if math.isfinite(one.epsilon)]
        for part, shown in ((finite, True), ([one for one in rows if one not in finite], not finite)):
            if not part:
                continue
            figure.add_scatter(
                x=[axis.place(one.epsilon) for one in part],
                y=[one.bits.value for one in part],
                mode="lines+markers",
                name=notes_text(notes),
                legendgroup=str(notes),
                showlegend=shown,
                line={"color": colour, "width": 3},
                marker={"size": 11, "symbol": SYMBOLS[number % len(SYMBOLS)]},
                error_y={
                    "array": [one.bits.high - one.bits.value for one in part],
                    "arrayminus": [one.bits.value - one.bits.low for one in part],
                    "color": colour,
                },
                customdata=[[setting_text(one.epsilon), one.seeds] for one in part],
                hovertemplate="ε = %{customdata[0]}: %{y:.2f} bits per character, seeds: %{customdata[1]}"
                f"<extra>{notes_text(notes)}</extra>",
            )
    figure.update_xaxes(**axis.layout, title="ε  (← more private · more useful →)")
    figure.update_yaxes(title="bits per character<br>(lower: more useful)")
    figure.update_layout(height=330, margin={"l": 0, "r": 10, "t": 10, "b": 0}, legend=chart_style.LEGEND)
    return figure


def _table(reached: Sequence[Bought]) -> pd.DataFrame:
    none = Interval(math.nan, math.nan, math.nan)
    rows = [
        (one.notes, epsilon_key(one.epsilon), *vars(one.bits).values(), *vars(one.gain or none).values(), one.seeds)
        for one in reached
    ]
    ends = [f"{name}{end}" for name in ("bits per character", "gain kept") for end in ("", " low", " high")]
    return pd.DataFrame(rows, columns=["training notes", "epsilon", *ends, "seeds"])
