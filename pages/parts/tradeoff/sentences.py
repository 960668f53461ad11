"""Sentences of the ε trade-off: what was measured at the slider's ε, and what is only interpolated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeGuard

import pandas as pd
import streamlit as st

from core.evaluation import registry, wording
from core.evaluation.figures.record import against_control
from pages.parts.pickers.epsilon_slider import epsilon_key
from pages.parts.tradeoff.drawn import Drawn, lacking

if TYPE_CHECKING:
    from core.evaluation.sweep.tradeoff import Estimate

Figures = Mapping[tuple[str, str], "Estimate | None"]  # (metric, arm) → the figure at the slider's ε
NOT_MEASURED = "not measured"


def sentences(useful: tuple[str, Drawn], risk: tuple[str, Drawn], here: Figures, plain: Estimate | None) -> None:
    """Write the usefulness and the risk (metric and how it is drawn) at the slider's ε.

    `plain` is the usefulness of the runs without privacy.
    """
    st.markdown(f"**Usefulness:** {usefulness(*useful, here, plain)}")
    st.markdown(f"**Risk:** {risk_at(*risk, here)}")


def is_measured(estimate: Estimate | None) -> TypeGuard[Estimate]:
    """Whether a figure is there and was measured at this ε, not interpolated."""
    return estimate is not None and not estimate.interpolated and not math.isnan(estimate.value)


def usefulness(metric: str, drawn: Drawn, here: Figures, plain: Estimate | None) -> str:
    """A model's usefulness at the slider's ε beside its controls, or that it was not measured there."""
    number, now = drawn.figure.number.text, here[metric, "run"]
    if not is_measured(now):
        return f"{drawn.label} {NOT_MEASURED} at this ε."
    others = [
        *([f"without privacy {_value(plain, number)}"] if plain != now else []),
        f"public model {_value(here[metric, 'base'], number)}",
        *(
            [f"{drawn.figure.control_label} {_value(best, number)}"]
            if is_measured(best := here[metric, "heldout"])
            else []
        ),
    ]
    limits = wording.interval_text(now.low, now.high, number)
    told = f"{drawn.label} {number(now.value)} ({limits}; {', '.join(others)}), {now.note}."
    chance = here.get((drawn.chart.chance, "run"))
    return f"{told} {drawn.figure.better.capitalize()} is better.{_against_chance(drawn, now, chance)}"


def _value(estimate: Estimate | None, number: Callable[[float], str]) -> str:
    return number(estimate.value) if is_measured(estimate) else NOT_MEASURED


def _against_chance(drawn: Drawn, now: Estimate, chance: Estimate | None) -> str:
    """A sentence on what chance reaches, with a space before it; empty for a figure without such a control."""
    if not drawn.chart.chance:
        return ""
    name = registry.figure(drawn.chart.chance).label
    if not is_measured(chance):
        return f" Control, {name}: {NOT_MEASURED}."
    number = drawn.figure.number.text
    told = f" Control, {name}: {number(chance.value)} ({wording.interval_text(chance.low, chance.high, number)})"
    if any(map(math.isnan, (now.low, now.high, chance.low, chance.high))):
        return f"{told}."
    return f"{told}; the model {wording.BESIDE[wording.verdict(now.low, now.high, chance.low, chance.high)]}."


def risk_at(risk: str, drawn: Drawn, here: Figures) -> str:
    """A risk at the slider's ε with its control and a verdict; between two measured ε the value alone."""
    now, control = here[risk, "run"], here[risk, "heldout"]
    if now is None or math.isnan(now.value):
        return _unknown(now)
    number = drawn.figure.number.text
    if now.interpolated:  # without an interval and a verdict: a straight line bounds no risk
        return (
            f"{drawn.axis}: {NOT_MEASURED} at this ε. **{_opening(now.note)}**: {number(now.value)}. The true value "
            "may be higher."
        )
    if drawn.chart.sentence is not None:
        return f"{drawn.chart.sentence(now, control)}; {now.note}."
    return f"{drawn.axis}: {against_control(now, control, number)} {_opening(now.note)}."


def _opening(note: str) -> str:
    """A note as the beginning of a sentence."""
    return note[0].upper() + note[1:]


def _unknown(estimate: Estimate | None) -> str:
    return f"not known: {estimate.note if estimate is not None else 'no run measured it'}."


def caption(curves: pd.DataFrame, useful: tuple[str, Drawn], risk: str) -> str:
    """What the marks in the charts mean, how many seeds they are based on, and where usefulness was not measured."""
    shown = curves[curves["metric"].isin([useful[0], risk]) & (curves["arm"] == "run")]
    seeds = shown["seeds"]
    counted = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    several = shown["interval"] == "seeds"
    over = "bars: the run's own 95\u00a0% interval (one seed)"
    if several.any():
        over = "bars and bands: 95\u00a0% over seeds, never narrower than the average of the runs' own"
        over += "" if several.all() else "; where there is one seed, that run's own interval"
        over += ". Other pages show one run at a time, so their figures differ a little from these means"
    return (
        f"Markers: measured, {counted} seed{'' if counted == '1' else 's'} each; {over}. Lines between markers are "
        f"interpolated in log ε. Dashed: control. Dotted: public model.{_gaps(curves, *useful)} "
        f"Usefulness: {registry.explain(useful[0])} Risk: {registry.explain(risk)}"
    )


def _gaps(curves: pd.DataFrame, metric: str, drawn: Drawn) -> str:
    """At how many ε usefulness was not measured, with a space before it; empty if it was at all."""
    missing, epsilons = lacking(curves, metric)
    name = f"{drawn.label[0].upper()}{drawn.label[1:]}"
    return f" {name}: {NOT_MEASURED} at {missing} of the {epsilons} ε." if missing else ""


def wide(curves: pd.DataFrame) -> pd.DataFrame:
    """The figures in the charts with their controls: one row per metric and ε."""
    arms = {"run": "", "heldout": "control ", "base": "base "}
    columns = ["value", "low", "high"]
    table = curves.pivot(index=["metric", "epsilon", "seeds"], columns="arm", values=columns)
    table.columns = [f"{arms[arm]}{column}" for column, arm in table.columns]
    order = [f"{prefix}{column}" for prefix in arms.values() for column in columns]
    table = table[[column for column in order if column in table]].reset_index()
    return table.assign(epsilon=table["epsilon"].map(epsilon_key))
