"""Noise chosen by what an attacker may achieve: the limit, the noise that holds it, and what follows from it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import plotly.graph_objects as go
import streamlit as st

from core.common.formatting import promised_text
from core.evaluation.wording import percent, percent_up
from core.spec import CorpusSpec, ModelKind, PrivacySpec, RiskLimit, TrainingSpec, recipe_of
from pages.parts.common import chart_style
from pages.parts.common.query_params import KEEP
from pages.parts.session import resources

if TYPE_CHECKING:
    from core.evaluation.guarantee.consequences import Consequences

CAUGHT = ("1.5", "2", "3", "5", "10", "20", "30", "50", "80")  # of 100 members
RIGHT = ("51", "52", "55", "60", "65", "70", "75", "80", "90")  # of 100 guesses


def choose_limit() -> RiskLimit:
    """The limit on the attacker. Raises pydantic.ValidationError for one that nobody can exceed or hold."""
    kind = st.segmented_control(
        "Limit on the attacker",
        ["caught", "right"],
        default="caught",
        required=True,
        key="limit",
        **KEEP,
        format_func={"caught": "members caught", "right": "right guesses"}.__getitem__,
    )
    if kind == "right":
        right = st.select_slider(
            "Right guesses, of 100: ← more private · more useful →", RIGHT, "60", key="right_guesses", **KEEP
        )
        st.caption("Guesses at whether one unit was in the data. A coin toss is right 50 times.")
        return RiskLimit(right=float(right) / 100)
    caught = st.select_slider(
        "Members caught, of 100: ← more private · more useful →", CAUGHT, "5", key="caught", **KEEP
    )
    accused = st.number_input(
        "Accused by mistake, of 100 others", value=1.0, step=1.0, format="%g", key="accused", **KEEP
    )
    st.caption(
        f"An attacker who wrongly accuses {accused:g} of 100 that were not in the data can catch, on average, at most "
        f"{caught} of 100 that were. Random guessing catches {accused:g}."
    )
    return RiskLimit(caught=float(caught) / 100, accused=float(accused) / 100)


@resources.cached_data(max_entries=200, show_spinner="Choosing the noise …")
def suggested(kind: ModelKind, privacy: PrivacySpec, corpus: CorpusSpec, *, notes: int, short: bool) -> PrivacySpec:
    """The privacy with the noise that its limit needs under the recipe's batch size and epochs."""
    from core.training.accounting.risk import privacy_for_risk

    def settings(chosen: PrivacySpec) -> TrainingSpec:
        usual = recipe_of(kind, chosen, corpus, short=short)
        return usual if usual.batch_size <= notes else usual.model_copy(update={"batch_size": max(1, notes // 4)})

    assert privacy.risk_limit is not None  # called for such runs only
    return privacy_for_risk(privacy.risk_limit, privacy, settings, notes)[0]


@resources.cached_data(max_entries=200, show_spinner="Choosing the noise …")
def with_noise(privacy: PrivacySpec, training: TrainingSpec, *, notes: int) -> PrivacySpec:
    """The privacy with the noise that its limit needs in this run. A batch that is too large changes nothing.

    Raises:
        ValueError: No noise holds the limit, in a sentence.
    """
    from core.training.accounting.risk import privacy_for_risk

    assert privacy.risk_limit is not None  # called for such runs only
    if not 1 <= training.batch_size <= notes or training.epochs < 1:
        return privacy  # another check refuses it with its reason
    return privacy_for_risk(privacy.risk_limit, privacy, lambda _: training, notes)[0]


@resources.cached_data(max_entries=200, show_spinner=False)
def _found(limit: RiskLimit, rate: float, steps: int, delta: float) -> Consequences:
    from core.evaluation.guarantee.consequences import consequences

    return consequences(limit, sample_rate=rate, steps=steps, delta=delta)


def show_consequences(privacy: PrivacySpec, rate: float, steps: int, *, promised: bool) -> None:
    """The limit as a sentence, what follows from it, and the trade-off curve with the limit marked.

    Args:
        privacy: The privacy, with its limit.
        rate: The sample rate.
        steps: The number of steps.
        promised: Whether the noise is secret, so that the limit holds.
    """
    limit = privacy.risk_limit
    assert limit is not None  # called for such runs only
    found = _found(limit, rate, steps, privacy.delta)
    held = "" if promised else " As with ε, this holds with secret noise only."
    st.markdown(f"**The limit:** {limit.sentence(privacy.unit)}{held}")
    mu = f"μ = {promised_text(found.mu)} (Gaussian DP)" if math.isfinite(found.mu) else "μ is above 6 (Gaussian DP)"
    right = "" if limit.right is not None else f" Right guesses of 100, at even odds: at most {_up(100 * found.right)}."
    saved = (
        f" Noise cannot be calibrated by (ε, δ) here: {found.unusual}."
        if found.unusual
        else f" Noise calibrated by (ε, δ) would need ε = {found.usual_epsilon:.2g} for this limit, and σ = "
        f"{found.usual_sigma:.3g}: this is {found.saved}."
    )
    st.caption(f"{mu}.{right}{saved}")
    chart_style.show(_figure(found), key="tradeoff-curve", alt=_alt(found))


def _up(value: float) -> str:
    """A bound with one decimal, rounded up."""
    return f"{math.ceil(10 * value - 1e-9) / 10:g}"


def _alt(found: Consequences) -> str:
    if found.limit.caught is None:
        return f"Trade-off curve of this run: of 100 guesses at most {_up(100 * found.right)} are right"
    assert found.limit.accused is not None  # RiskLimit has both
    return (
        f"Trade-off curve of this run: at most {percent_up(found.limit.caught)} caught where "
        f"{percent(found.limit.accused)} are accused by mistake"
    )


def _figure(found: Consequences) -> go.Figure:
    """Largest share caught against the share accused by mistake, on log axes if the limit is at a small share."""
    accused, caught, by_epsilon = zip(*found.drawn, strict=True)
    figure = go.Figure()
    lines = (
        ("what (ε, δ) alone allows", by_epsilon, chart_style.OKABE_ITO["purple"], "dash"),
        ("this run", caught, chart_style.PRIVATE, "solid"),
        ("random guessing", accused, chart_style.CONTROL, "dot"),
    )
    for name, values, colour, dash in lines:
        figure.add_scatter(
            x=[100 * one for one in accused],
            y=[100 * one for one in values],
            customdata=[percent_up(one) for one in values],
            name=name,
            mode="lines",
            line={"color": colour, "dash": dash, "width": 3 if dash == "solid" else 2},
            hovertemplate=f"%{{x:.3g}} % accused by mistake: at most %{{customdata}} caught<extra>{name}</extra>",
        )
    limit, axis = found.limit, {}
    if limit.caught is not None and limit.accused is not None:
        figure.add_scatter(
            x=[100 * limit.accused],
            y=[100 * limit.caught],
            name="the limit",
            mode="markers",
            marker={"color": chart_style.RISK, "size": 13, "symbol": "diamond"},
            hovertemplate="the limit: %{x:g} % accused by mistake, %{y:g} % caught<extra></extra>",
        )
        ticks = [0.1, 1, 10, 100]
        axis = {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g} %" for tick in ticks], "range": [-1, 2.05]}
    else:
        assert limit.right is not None  # RiskLimit has one of the two
        apart = 100 * (2 * limit.right - 1)  # right guesses of 100 at even odds: ½ + (caught − accused)/2
        figure.add_scatter(
            x=[0, 100 - apart],
            y=[apart, 100],
            name="the limit",
            mode="lines",
            line={"color": chart_style.RISK, "width": 2},
            hoverinfo="skip",
        )
        axis = {"range": [0, 101], "ticksuffix": " %"}
    figure.update_layout(
        xaxis={"title": "accused by mistake", **axis},
        yaxis={"title": "caught at most", **axis},
        legend=chart_style.LEGEND,
        height=330,
        margin=chart_style.MARGIN,
    )
    return figure
