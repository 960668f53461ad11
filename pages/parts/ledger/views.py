"""The Ledger page's parts: totals by unit, the releases, what is left of a budget, and the step that releases."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.common.formatting import promised_text
from core.evaluation.wording import epsilon_text
from core.runs.run import Run
from core.spec import CorpusSpec, Unit
from pages.parts.common import chart_style
from pages.parts.common.data_table import data_table
from pages.parts.common.query_params import KEEP
from pages.parts.ledger import release_view
from pages.parts.session import owner, resources

UNITS: tuple[Unit, ...] = ("note", "patient")
DELTA, BUDGET = 1e-5, 10.0


@resources.cached_data(max_entries=200, show_spinner="Adding up what was promised …")
def totals(entries: tuple[str, ...], delta: float) -> dict:
    """Both units' totals of releases given as JSON (so that they are the cache's key)."""
    from core.runs.ledger.entries import Release
    from core.runs.ledger.totals import promised

    releases = [Release.model_validate_json(entry) for entry in entries]
    return {unit: promised(releases, unit, delta) for unit in UNITS}


def show(corpus: CorpusSpec, runs: Sequence[Run]) -> None:
    """Everything about one cohort's ledger; `runs` are those that can be released."""
    with st.spinner("Opening the ledger …"):  # the accountants take seconds to load the first time
        from core.runs.ledger.entries import Ledger, LedgerBroken
    ledger = Ledger.of(owner.workspace(), corpus)
    try:
        releases = ledger.releases()
    except LedgerBroken as error:
        st.error(f"{error} Until then no total can be told.", icon=":material/error:")
        return
    if not releases:
        st.info("No release recorded yet.", icon=":material/receipt_long:")
        delta, budget = DELTA, BUDGET
    else:
        delta, budget = _released(corpus, releases)
    release_view.show(ledger, runs, {release.name for release in releases}, delta=delta, budget=budget)
    with st.expander("How is this computed?"):
        st.markdown(HOW)


def _released(corpus: CorpusSpec, releases: Sequence) -> tuple[float, float]:
    """Everything about what is entered. Returns the δ and the budget that were chosen."""
    left, right = st.columns(2)
    delta = left.number_input(
        "δ, chance that all of it fails", 1e-12, 0.5, DELTA, format="%g", key="ledger_delta", **KEEP
    )
    budget = right.number_input("Budget: ε that must not be exceeded", 0.1, 1e4, BUDGET, key="budget", **KEEP)
    entries = tuple(release.model_dump_json() for release in releases)
    found = totals(entries, float(delta))
    for unit, column in zip(UNITS, st.columns(2), strict=True):
        with column.container(border=True, height="stretch"):
            _total(found, unit, float(budget))
    for reason in dict.fromkeys(reason for unit in UNITS for reason in found[unit].reasons):
        st.warning(reason, icon=":material/warning:")
    _together(entries, corpus, float(delta))
    _table(releases)
    _chart(entries, float(delta), float(budget))
    _room(entries, releases, found, float(budget), float(delta))
    return float(delta), float(budget)


def _total(found: dict, unit: str, budget: float) -> None:
    total = found[unit]
    silent = not total.releases and not total.reasons
    spent = "∞" if math.isinf(total.epsilon) else promised_text(total.epsilon)
    partly = total.releases and not total.reasons and all(found[each].releases for each in UNITS)
    what = f"what was released per {unit}" if partly else "all releases together"
    st.metric(f"For one {unit}, {what}", "no promise" if silent else f"ε = {spent}")
    if silent:
        st.caption(f"Nothing that was released speaks of one {unit}; what follows from the rest stands below.")
        return
    if math.isinf(total.epsilon):
        told = f"Nothing is left of ε = {budget:g}."
        if total.releases:
            told += f" The private releases alone, with secret noise, would come to {total.if_independent:.3g}."
        st.caption(told)
        return
    over, others = total.epsilon > budget, next(other for other in UNITS if other != unit)
    within = f"{'Over' if over else 'Within'} the budget"
    if partly:
        within = f"Without the releases per {others}, which count below: {within[0].lower()}{within[1:]}"
    st.caption(
        f"{within} of {budget:g} by {abs(budget - total.epsilon):.3g}. "
        f"{total.releases} release{'s' if total.releases != 1 else ''}, composed by "
        f"{total.accountant.upper()}; the single ε would add up to {total.added:.3g}."
    )


@resources.cached_data(max_entries=50, show_spinner=False)
def _sentences(root: str, entries: tuple[str, ...], corpus: CorpusSpec, delta: float) -> list[str]:
    """What both units' releases come to for one patient and one note, from the data folder `root`."""
    from core.runs.ledger.entries import Release
    from core.runs.ledger.totals import together

    releases = [Release.model_validate_json(entry) for entry in entries]
    found = totals(entries, delta)
    cohort = owner.workspace().corpus(corpus, store=False)
    return [one.sentence() for one in together(releases, found["note"], found["patient"], cohort)]


def _together(entries: tuple[str, ...], corpus: CorpusSpec, delta: float) -> None:
    """Row J7: the promises of both units, as far as they say anything about one patient and one note."""
    lines = _sentences(str(owner.workspace().root), entries, corpus, delta)
    if lines:
        st.markdown(
            "  \n".join(["Promises for notes and for patients do not add up. What they come to together:", *lines])
        )


def _table(releases: Sequence) -> None:
    rows = []
    for one in releases:
        rows.append(
            {
                "entry": one.number,
                "released": f"{datetime.fromtimestamp(one.time, UTC):%Y-%m-%d %H:%M} UTC",
                "what": f"{one.kind} {one.name}",
                "ε by itself": epsilon_text(one.epsilon()) + (f" per {one.unit}" if one.unit else ""),
                "seed": one.seed,
                "reason": one.reason,
            }
        )
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch", alt="What was released")


def _chart(entries: tuple[str, ...], delta: float, budget: float) -> None:
    """ε of each unit's own releases so far: composed, and the plain sum, against the budget; only where finite."""
    frames, ended = [], []
    for unit in UNITS:
        steps = [totals(entries[:count], delta)[unit] for count in range(1, len(entries) + 1)]
        at = [entry for entry, one in enumerate(steps, 1) if one.releases and math.isfinite(one.epsilon)]
        if at:  # from the unit's first release on: before it nothing was promised, which is no ε of 0
            if at[-1] < len(steps):
                ended.append(f"for what was released per {unit} from entry {at[-1] + 1} on")
            finite = [steps[entry - 1] for entry in at]
            frames.append(
                pd.DataFrame(
                    {
                        "unit": unit,
                        "entry": at,
                        "together": [one.epsilon for one in finite],
                        "added up": [one.added for one in finite],
                    }
                )
            )
    if not frames:
        return
    frame, figure = pd.concat(frames, ignore_index=True), go.Figure()
    for unit, colour in zip(UNITS, (chart_style.BUDGET, chart_style.OKABE_ITO["purple"]), strict=True):
        rows = frame[frame["unit"] == unit]
        for column, dash in (("added up", "dot"), ("together", "solid")):  # what counts lies on top
            if len(rows):
                figure.add_scatter(
                    x=rows["entry"],
                    y=rows[column],
                    name=f"per {unit}: {column}",
                    mode="lines+markers",
                    line={"color": colour if column == "together" else chart_style.CONTROL, "dash": dash, "width": 3},
                    hovertemplate="after entry %{x}: ε = %{y:.3g}<extra></extra>",
                )
    figure.add_hline(
        y=budget,
        line={"color": chart_style.RISK, "dash": "dash"},
        annotation_text="budget",
        annotation_position="top left",
    )
    figure.update_layout(
        xaxis={"title": "entry", "dtick": 1, "range": [0.5, len(entries) + 0.5]},
        yaxis={"title": "ε so far", "rangemode": "tozero"},
        height=320,
        margin={"t": 10, "b": 10, "l": 10, "r": 10},
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )
    last = frame.groupby("unit")["together"].last()
    told = ", ".join(f"{value:.3g} per {unit}" for unit, value in last.items())
    chart_style.show(
        figure, key="ledger-chart", alt=f"ε after each release against the budget of {budget:g}; now {told}"
    )
    if ended:
        st.caption(f"The total is infinite, and has no place on this axis, {' and '.join(ended)}.")
    data_table(frame, name="ledger")


@resources.cached_data(max_entries=50, show_spinner="Looking for the noise that still fits …")
def _room_left(entries: tuple[str, ...], unit: Unit, budget: float, delta: float) -> tuple[float, float] | None:
    """(ε, σ) of one more run like the last; None where there is no room."""
    from core.runs.ledger.entries import Release
    from core.runs.ledger.totals import room_left

    found = room_left([Release.model_validate_json(entry) for entry in entries], unit, budget, delta)
    return None if found is None else (found.epsilon(), found.noise_multiplier)


def _room(entries: tuple[str, ...], releases: Sequence, found: dict, budget: float, delta: float) -> None:
    from core.runs.ledger.totals import mechanisms_of

    units = [unit for unit in UNITS if mechanisms_of(releases, unit) and not found[unit].reasons]
    if not units or not st.button("What may one more run spend?", key="room", icon=":material/calculate:"):
        return
    both = all(found[unit].releases for unit in UNITS)
    for unit in units:
        kept = f"what is released per {unit}" if both else "everything"
        left = _room_left(entries, unit, budget, delta)
        if left is None:
            st.markdown(f"For one {unit}: nothing fits into the budget any more.")
        else:
            st.markdown(
                f"For one {unit}: one more run like the last, with σ = {left[1]:.3g} and so ε = **{left[0]:.3g}** by "
                f"itself, keeps {kept} within {budget:g}."
            )


HOW = """
- Runs **compose**: their privacy losses are convolved numerically (PRV), which is tighter than adding their ε.
  The accountant that a run was planned with is not asked: GDP under-reports, and a total must not.
- A noisy **vocabulary** adds its ε and δ (basic composition). `python -m core ledger --vocabulary` makes one.
- A run **without privacy** makes every total infinite: no ε covers what it may tell.
- A private run whose noise came from a **public seed** is not entered: anyone can draw that noise again, so its ε is
  shown, not promised. Entries of this kind that an older version wrote count as no promise at all.
- A promise for one **note** and one for a **patient** speak of different neighbours: each has its own total. For
  a patient with k notes all runs that protect notes are composed for k notes at once; by group privacy a note has
  twice the patients' ε.
- Entries stand in the data folder under `ledger/`, each with a digest of the one before, and a file `head` with that of
  the newest. A gap, a missing or an edited entry is an error and never a smaller total. Whoever may write there could
  still make all of it anew: keep a copy elsewhere.
- The ledger counts per cohort. Patients who are in two cohorts are promised both totals.
"""
