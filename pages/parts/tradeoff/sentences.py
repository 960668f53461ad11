"""Sentences of the ε trade-off: what was measured at the slider's ε, and what is only interpolated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd
import streamlit as st

from core.evaluation import registry, wording
from core.evaluation.figures.record import against_control
from pages.parts.pickers.epsilon_slider import epsilon_key
from pages.parts.tradeoff.charts import PERPLEXITY, Risk

if TYPE_CHECKING:
    from core.evaluation.sweep.tradeoff import Estimate

Figures = Mapping[tuple[str, str], "Estimate | None"]  # (metric, arm) → the figure at the slider's ε


def sentences(kind: str, risk: tuple[str, Risk], here: Figures, plain: Estimate | None) -> None:
    """Write the usefulness of a kind of model and the risk (metric and how it is drawn) at the slider's ε."""
    st.markdown(f"**Usefulness:** {_usefulness(here, plain, wording.perplexity_name(kind))}")
    st.markdown(f"**Risk:** {_risk(*risk, here)}")


def _usefulness(here: Figures, plain: Estimate | None, name: str) -> str:
    now, base = here[PERPLEXITY, "run"], here[PERPLEXITY, "base"]
    if now is None or math.isnan(now.value):
        return _unknown(now)
    limits = wording.interval_text(now.low, now.high, wording.perplexity_text)
    others = []
    if plain is not None and not math.isnan(plain.value):
        others.append(f"no privacy {wording.perplexity_text(plain.value)}")
    if base is not None and not math.isnan(base.value):
        others.append(f"public base model {wording.perplexity_text(base.value)}")
    compared = f"; {', '.join(others)}" if others else ""
    return f"{name} {wording.perplexity_text(now.value)} ({limits}{compared}), {_source(now)}."


def _risk(risk: str, drawn: Risk, here: Figures) -> str:
    now, control = here[risk, "run"], here[risk, "heldout"]
    if now is None or math.isnan(now.value):
        return _unknown(now)
    if drawn.chart.sentence is not None:
        return f"{drawn.chart.sentence(now, control)}; {_source(now)}."
    told = against_control(now, control, drawn.figure.number.text)
    return f"{drawn.axis}: {told} {_source(now, opening=True)}."


def _source(estimate: Estimate, *, opening: bool = False) -> str:
    """`measured (3 seeds)`, or in bold the ε between which it is interpolated; capitalised if `opening` a sentence."""
    note = estimate.note[0].upper() + estimate.note[1:] if opening else estimate.note
    return f"**{note}**" if estimate.interpolated else note


def _unknown(estimate: Estimate | None) -> str:
    return f"not known: {estimate.note if estimate is not None else 'no run measured it'}."


def caption(curves: pd.DataFrame, risk: str) -> str:
    """What the marks in the charts mean, and how many seeds they are based on."""
    seeds = curves["seeds"]
    counted = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    several = curves["interval"] == "seeds"
    over = "bars: the run's own 95\u00a0% interval (one seed)"
    if several.any():
        over = "bars and bands: 95\u00a0% over seeds, never narrower than one run's own interval"
        over += "" if several.all() else ", which stands alone where there is one seed"
    return (
        f"Markers: measured, {counted} seed{'' if counted == '1' else 's'} each; {over}. Lines between markers are "
        f"interpolated in log ε. Dashed: control. Dotted: public base model. {registry.explain(risk)}"
    )


def wide(curves: pd.DataFrame) -> pd.DataFrame:
    """The figures in the charts with their controls: one row per metric and ε."""
    arms = {"run": "", "heldout": "control ", "base": "base "}
    columns = ["value", "low", "high"]
    table = curves.pivot(index=["metric", "epsilon", "seeds"], columns="arm", values=columns)
    table.columns = [f"{arms[arm]}{column}" for column, arm in table.columns]
    order = [f"{prefix}{column}" for prefix in arms.values() for column in columns]
    table = table[[column for column in order if column in table]].reset_index()
    return table.assign(epsilon=table["epsilon"].map(epsilon_key))
