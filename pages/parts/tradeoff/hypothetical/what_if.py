"""What a run would promise, without training: ε by three accountants and a wrong formula, and the odds."""

from __future__ import annotations

import math
from typing import NamedTuple

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.common.formatting import computed_text, delta_text, promised_text
from core.common.refusals import out_of_range
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.wording import percent
from core.spec import Accountant, Unit
from pages.parts.common import chart_style
from pages.parts.common.data_table import data_table
from pages.parts.common.query_params import KEEP
from pages.parts.session import resources
from pages.parts.tradeoff.hypothetical import noise_grid

ACCOUNTANTS = {  # name → colour, dash, explanation
    "PRV": (chart_style.BUDGET, "solid", "a tight upper bound, by which the runs here are accounted"),
    "RDP": (chart_style.OKABE_ITO["blue"], "dash", "a looser upper bound"),
    "GDP": (chart_style.OKABE_ITO["purple"], "dot", "an approximation, mostly below the true ε: no promise"),
    "PrivAI-Leak": (chart_style.RISK, "dashdot", "a wrong formula, which uses the sample rate q where q² is correct"),
}
BOUNDS = ("PRV", "RDP")  # upper bounds on ε; the others are neither promised nor proved
POINTS = 12  # step counts for which each accountant is evaluated


class Setting(NamedTuple):
    """What a hypothetical run starts from: σ, units in the data and per step, steps, δ, and what a unit is."""

    sigma: float
    units: int
    size: int
    steps: int
    delta: float
    unit: Unit


KEYS = ("wi_sigma", "wi_units", "wi_batch", "wi_steps", "wi_delta", "wi_unit")  # of a Setting's widgets, in its order
MOST_UNITS = 10_000_000
OF = "wi_of"  # session key of the sweep that the settings started from


@resources.cached_data(max_entries=100, show_spinner="Adding up the privacy loss of all steps …")
def curves(sigma: float, rate: float, steps: int, delta: float) -> pd.DataFrame:
    """ε after several numbers of steps by each accountant: columns accountant, steps, epsilon (NaN if it has none)."""
    from core.training.accounting.gaussian import epsilon_curve, epsilon_with_method, old_report_epsilon

    given = {"noise_multiplier": sigma, "sample_rate": rate, "delta": delta}
    rows = []
    tight: tuple[tuple[str, Accountant], ...] = (("PRV", "prv"), ("RDP", "rdp"))
    for name, accountant in tight:
        counts, values = epsilon_curve(steps=steps, points=POINTS, accountant=accountant, **given)
        by = epsilon_with_method(steps=steps, accountant=accountant, **given)[1]  # the whole curve falls back to RDP
        own = values if by == accountant else [math.nan] * len(values)
        rows += [(name, int(at), float(value)) for at, value in zip(counts, own, strict=True)]
    for at in sorted({row[1] for row in rows}):
        value, by = epsilon_with_method(steps=at, accountant="gdp", **given)
        rows.append(("GDP", at, value if by == "gdp" else math.nan))
    for at in sorted({row[1] for row in rows}):
        wrong = old_report_epsilon(noise_multiplier=sigma, sample_rate=rate, steps=at, delta=delta)
        rows.append(("PrivAI-Leak", at, wrong))
    return pd.DataFrame(rows, columns=["accountant", "steps", "epsilon"])


@resources.cached_data(max_entries=100, show_spinner="Computing odds …")
def odds(sigma: float, rate: float, steps: int, delta: float, unit: Unit, notes: int) -> tuple[list[str], pd.DataFrame]:
    """Sentences and a table of what such a run allows an attacker."""
    from core.evaluation.guarantee.odds import group_sentence, mechanism_sentence, odds_table
    from core.evaluation.wording import odds_sentence
    from core.training.accounting.mechanism import Mechanism

    mechanism = Mechanism(
        unit=unit, noise_multiplier=sigma, sample_rate=rate, steps=steps, delta=delta, max_grad_norm=1.0
    )
    epsilon = mechanism.epsilon()
    sentences = [odds_sentence(epsilon, delta, unit), mechanism_sentence([mechanism], unit)]
    if unit == "note":
        sentences.append(group_sentence(mechanism, notes))
    return sentences, odds_table(epsilon, delta)


def show(sweep: Sweep) -> None:
    """The settings of a hypothetical run, its ε by each accountant, and what that means."""
    first = _opening(sweep)
    _follow(sweep, first)
    refusal = st.container()  # above the boxes, which fill a phone's screen
    with st.container(border=True):
        columns = st.columns(6)
        # No ranges here: the browser would keep a number outside them back, beside the ε of the one before.
        sigma = columns[0].number_input("Noise σ", value=first.sigma, step=0.05, format="%g", key="wi_sigma", **KEEP)
        units = columns[1].number_input("Units in the data", value=first.units, step=25, key="wi_units", **KEEP)
        size = columns[2].number_input("Units per step", value=first.size, step=16, key="wi_batch", **KEEP)
        steps = columns[3].number_input("Steps", value=first.steps, step=10, key="wi_steps", **KEEP)
        delta = columns[4].number_input("δ", value=first.delta, format="%g", key="wi_delta", **KEEP)
        protected: list[Unit] = ["note", "patient"]
        unit = columns[5].selectbox("Unit", protected, protected.index(first.unit), key="wi_unit", **KEEP)
        notes = 1
        if unit == "note":
            notes = st.number_input("Notes of one patient (example)", value=10, step=1, key="wi_notes", **KEEP)
    wrong = (
        out_of_range("Noise σ", float(sigma), 0.05, 100.0)
        or out_of_range("Units in the data", units, 1, MOST_UNITS)
        or out_of_range("Units per step", size, 1, MOST_UNITS)
        or out_of_range("Steps", steps, 1, 200_000)
        or out_of_range("δ", float(delta), 1e-12, 0.5)
        or out_of_range("Notes of one patient (example)", notes, 1, 100_000)
    )
    if wrong:
        refusal.error(f"{wrong}.", icon=":material/error:")
        return
    if size > units:
        refusal.error("A step cannot hold more units than there are: lower “units per step”.", icon=":material/error:")
        return
    rate = size / units
    table = curves(float(sigma), rate, int(steps), float(delta))
    last = table[table["steps"] == steps].set_index("accountant")["epsilon"]
    _sentence(last, unit, rate, float(delta))
    sentences, allowed = odds(float(sigma), rate, int(steps), float(delta), unit, int(notes))
    st.markdown("\n".join(f"- {sentence}" for sentence in sentences))
    st.caption("All of this holds for training with secret noise. With a public seed, ε is shown, not promised.")
    chart_style.show(_figure(table), key="whatif-chart", alt=_alt(last))
    st.caption(" ".join(f"{name}: {about}." for name, (_, _, about) in ACCOUNTANTS.items()))
    data_table(allowed, name="what-if-odds", label="The most this ε allows, as odds")
    data_table(table, name="what-if")
    noise_grid.show(sweep)


def _follow(sweep: Sweep, first: Setting) -> None:
    """Start from the run of another sweep once it is chosen. What a link gives stands on the first look."""
    before, st.session_state[OF] = st.session_state.get(OF), sweep.id
    if before not in (None, sweep.id):
        st.session_state.update(zip(KEYS, first, strict=True))


def _opening(sweep: Sweep) -> Setting:
    """The sweep's run nearest to ε = 8 in ratio; without a private run, batches of 256 of 3,000 notes."""
    run = noise_grid.example(sweep)
    if run is None or run.privacy is None:
        return Setting(0.95, 3_000, 256, 140, 1e-5, "note")
    mechanism, size = run.privacy, run.spec.training.batch_size
    units = max(size, round(size / mechanism.sample_rate))
    if mechanism.unit == "patient":  # the batch size counts notes for either unit
        units = int(resources.training_notes(run)["patient_id"].nunique())
        size = max(1, round(mechanism.sample_rate * units))
    return Setting(
        float(f"{mechanism.noise_multiplier:.4g}"), units, size, mechanism.steps, mechanism.delta, mechanism.unit
    )


def _sentence(last: pd.Series, unit: str, rate: float, delta: float) -> None:
    true = last["PRV"] if math.isfinite(last["PRV"]) else last["RDP"]
    by = "PRV" if math.isfinite(last["PRV"]) else "RDP, since PRV has no result here"
    if not math.isfinite(true):
        st.warning("There is almost no noise: no accountant gives a number, and nothing is promised.")
        return
    wrong = last["PrivAI-Leak"]
    times = f", {wrong / true:,.0f} times as much" if true > 0 and wrong / true >= 2 else ""
    st.markdown(
        f"## ε = {promised_text(true)} per {unit}\n\nBy {by}, at δ = {delta_text(delta)}, with {percent(rate)} of the "
        f"{unit}s in a step. The formula of the PrivAI-Leak report would give {computed_text(wrong)}{times}."
    )


def _alt(last: pd.Series) -> str:
    ends = ", ".join(f"{name} {computed_text(value)}" for name, value in last.items() if math.isfinite(value))
    return f"ε against steps by three accountants and the report's formula, ending at {ends}"


def _figure(table: pd.DataFrame) -> go.Figure:
    figure = go.Figure()
    for name, (colour, dash, _) in ACCOUNTANTS.items():
        rows = table[(table["accountant"] == name) & table["epsilon"].notna()]
        if rows.empty:
            continue
        figure.add_scatter(
            x=rows["steps"],
            y=rows["epsilon"],
            name=name,
            mode="lines+markers",
            line={"color": colour, "dash": dash, "width": 3},
            marker={"size": 6},
            customdata=[promised_text(value) if name in BOUNDS else computed_text(value) for value in rows["epsilon"]],
            hovertemplate=f"after step %{{x}}: ε = %{{customdata}}<extra>{name}</extra>",
        )
    finite = table["epsilon"][table["epsilon"] > 0]
    low, high = math.floor(math.log10(finite.min())), math.ceil(math.log10(finite.max()))
    ticks = [digit * 10.0**power for power in range(low, high + 1) for digit in (1, 2, 5)]
    figure.update_layout(
        xaxis={"title": "steps", "rangemode": "tozero"},
        yaxis={"title": "ε", "type": "log", "tickvals": ticks, "ticktext": [f"{tick:,g}" for tick in ticks]},
        legend=chart_style.LEGEND,
        height=430,
        margin=chart_style.MARGIN,
    )
    return figure
