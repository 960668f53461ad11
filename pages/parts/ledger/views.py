"""The Ledger page's parts: totals by unit, the releases, what is left of the budget, and the release form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.common.formatting import promised_text, proved_text, setting_text
from core.common.refusals import out_of_range
from core.evaluation.wording import guaranteed_text
from core.runs.run import Run
from core.spec import CorpusSpec, Unit
from pages.parts.common import chart_style
from pages.parts.common.data_table import csv_button, data_table
from pages.parts.common.phi_text import literal
from pages.parts.common.query_params import KEEP
from pages.parts.ledger import choosing_view, release_view
from pages.parts.session import owner, resources

UNITS: tuple[Unit, ...] = ("note", "patient")
DELTA, BUDGET = 1e-5, 10.0


@resources.cached_data(max_entries=200, show_spinner="Computing the totals …")
def totals(entries: tuple[str, ...], delta: float) -> dict:
    """The total of each unit over releases, which are given as JSON because they are the cache's key."""
    from core.runs.ledger.entries import Release
    from core.runs.ledger.totals import promised

    releases = [Release.model_validate_json(entry) for entry in entries]
    return {unit: promised(releases, unit, delta) for unit in UNITS}


def released() -> list[CorpusSpec]:
    """The cohorts with a ledger; those with a damaged one are left out, with its sentence."""
    workspace = owner.workspace()
    if not (workspace.root / "ledger").is_dir():
        return []
    with st.spinner("Opening the ledgers …"):  # the accountants take seconds to load the first time
        from core.runs.ledger.entries import LedgerBroken
        from core.runs.ledger.every import ledgers
    try:
        return [ledger.corpus for ledger in ledgers(workspace)]
    except LedgerBroken as error:
        st.error(literal(str(error), 600), icon=":material/error:")
        return []


def show(corpus: CorpusSpec, runs: Sequence[Run]) -> None:
    """One cohort's ledger; `runs` are those that can be released."""
    with st.spinner("Opening the ledger …"):  # the accountants take seconds to load the first time
        from core.runs.ledger.entries import Ledger, LedgerBroken, is_entered
    ledger = Ledger.of(owner.workspace(), corpus)
    try:
        releases = ledger.releases()
    except LedgerBroken as error:
        st.error(f"{literal(str(error), 600)} Until then no total can be computed.", icon=":material/error:")
        return
    limits = _limits()
    if limits is None:
        return
    delta, budget = limits
    if releases:
        _released(corpus, releases, delta, budget)
    else:
        st.info("No release recorded yet.", icon=":material/receipt_long:")
    release_view.show(ledger, runs, {run.id for run in runs if is_entered(run, releases)}, delta=delta, budget=budget)
    choosing_view.show(runs)
    with st.expander("How is this computed?"):
        st.markdown(HOW)


def _limits() -> tuple[float, float] | None:
    """The chosen δ and budget: also before the first release, since its preview is compared with them.

    None after a sentence if one is out of its range. The boxes have none themselves: the browser would keep such a
    number back, beside totals for the one before.
    """
    left, right = st.columns(2)
    delta = left.number_input(
        "δ: allowance for outcomes beyond ε", value=DELTA, format="%g", key="ledger_delta", **KEEP
    )
    compared = "Compared with the total of the releases per note, and with that of the releases per patient."
    budget = right.number_input("Budget: maximum total ε", value=BUDGET, key="budget", help=compared, **KEEP)
    wrong = out_of_range("δ", float(delta), 1e-12, 0.5) or out_of_range("Budget", float(budget), 0.1, 1e4)
    if wrong:
        st.error(f"{wrong}.", icon=":material/error:")
        return None
    return float(delta), float(budget)


def _released(corpus: CorpusSpec, releases: Sequence, delta: float, budget: float) -> None:
    """Everything about the recorded releases."""
    entries = tuple(release.model_dump_json() for release in releases)
    found = totals(entries, delta)
    for unit, column in zip(UNITS, st.columns(2), strict=True):
        with column.container(border=True, height="stretch"):
            _total(found, unit, budget)
    for reason in dict.fromkeys(reason for unit in UNITS for reason in found[unit].reasons):
        st.warning(reason, icon=":material/warning:")
    _together(entries, corpus, delta)
    _table(releases)
    _chart(entries, delta, budget)
    _room(entries, releases, found, budget, delta)


def _total(found: dict, unit: str, budget: float) -> None:
    total = found[unit]
    silent = not total.releases and not total.reasons
    spent = "∞" if math.isinf(total.epsilon) else promised_text(total.epsilon)
    partly = total.releases and not total.reasons and all(found[each].releases for each in UNITS)
    what = f"releases with ε per {unit}" if partly else "all releases together"
    st.metric(f"For one {unit}, {what}", "see below" if silent else f"ε = {spent}")
    if silent:
        st.caption(f"No release has an ε per {unit}. What the other releases imply is shown below.")
        return
    if math.isinf(total.epsilon):
        sentence = f"Nothing is left of the budget ε = {setting_text(budget)}."
        if total.releases and math.isfinite(total.if_independent):
            sentence += (
                f" The private releases alone, with secret noise, would total {promised_text(total.if_independent)}."
            )
        st.caption(sentence)
        return
    over, others = total.epsilon > budget, next(other for other in UNITS if other != unit)
    apart = f"Without the releases with ε per {others}, which are added further down: " if partly else ""
    by = promised_text(total.epsilon - budget) if over else proved_text(budget - total.epsilon)
    st.caption(
        f"{apart}{by} {'above' if over else 'below'} the budget of {setting_text(budget)}. "
        f"{total.releases} release{'s' if total.releases != 1 else ''}, {total.accounting()}; "
        f"the plain sum of their ε is {promised_text(total.added)}."
    )


@resources.cached_data(max_entries=50, show_spinner=False)
def _sentences(root: str, entries: tuple[str, ...], corpus: CorpusSpec, delta: float) -> list[str]:
    """What the releases of both units mean together for one patient and one note; `root` is the data folder."""
    from core.runs.ledger.entries import Release
    from core.runs.ledger.totals import together

    releases = [Release.model_validate_json(entry) for entry in entries]
    found = totals(entries, delta)
    cohort = owner.workspace().corpus(corpus, store=False)
    return [one.sentence() for one in together(releases, found["note"], found["patient"], cohort)]


def _together(entries: tuple[str, ...], corpus: CorpusSpec, delta: float) -> None:
    """What guarantees of both units mean for one patient and one note (group privacy; Jagannatha 2021)."""
    lines = _sentences(str(owner.workspace().root), entries, corpus, delta)
    if lines:
        st.markdown(
            "  \n".join(["Guarantees per note and per patient cannot simply be added. Together they come to:", *lines])
        )
        st.caption("The budget is compared with the totals of each unit's own releases, not with these.")


def _table(releases: Sequence) -> None:
    rows = []
    for one in releases:
        rows.append(
            {
                "entry": one.number,
                "released": f"{datetime.fromtimestamp(one.time, UTC):%Y-%m-%d %H:%M} UTC",
                "what": f"{one.kind} {one.name}",
                "ε on its own": guaranteed_text(one.epsilon()) + (f" per {one.unit}" if one.unit else ""),
                "seed": "–" if one.seed is None else str(one.seed),
                "reason": one.reason,
                "chosen": "" if one.choice is None else one.choice.text(),
            }
        )
    frame = pd.DataFrame(rows)
    if not frame["chosen"].any():
        frame = frame.drop(columns="chosen")
    st.dataframe(frame, hide_index=True, width="stretch", alt="All releases")
    csv_button(frame, name="releases")


def _chart(entries: tuple[str, ...], delta: float, budget: float) -> None:
    """ε of each unit's own releases so far, composed and as a plain sum, against the budget; only finite values."""
    frames, ended = [], []
    for unit in UNITS:
        steps = [totals(entries[:count], delta)[unit] for count in range(1, len(entries) + 1)]
        at = [entry for entry, one in enumerate(steps, 1) if one.releases and math.isfinite(one.epsilon)]
        if at:  # from the unit's first release on: no guarantee before it is not the same as ε = 0
            if at[-1] < len(steps):
                ended.append(f"for releases with ε per {unit} from entry {at[-1] + 1} on")
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
        for column, dash in (("added up", "dot"), ("together", "solid")):  # the composed total is drawn on top
            if len(rows):
                figure.add_scatter(
                    x=rows["entry"],
                    y=rows[column],
                    name=f"per {unit}: {column}",
                    mode="lines+markers",
                    line={"color": colour if column == "together" else chart_style.CONTROL, "dash": dash, "width": 3},
                    customdata=[promised_text(value) for value in rows[column]],
                    hovertemplate="after entry %{x}: ε = %{customdata}<extra></extra>",
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
        margin=chart_style.MARGIN,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
    )
    last = frame.groupby("unit")["together"].last()
    current = ", ".join(f"{promised_text(value)} per {unit}" for unit, value in last.items())
    chart_style.show(
        figure,
        key="ledger-chart",
        alt=f"ε after each release against the budget of {setting_text(budget)}; now {current}",
    )
    if ended:
        st.caption(f"The total is infinite, and so not in this chart, {' and '.join(ended)}.")
    data_table(frame, name="ledger")


@resources.cached_data(max_entries=50, show_spinner="Searching for the noise that fits the budget …")
def _room_left(entries: tuple[str, ...], unit: Unit, budget: float, delta: float) -> tuple[float, float] | None:
    """(ε, σ) of one more run like the last one that fits the budget; None if there is none."""
    from core.runs.ledger.entries import Release
    from core.runs.ledger.totals import room_left

    found = room_left([Release.model_validate_json(entry) for entry in entries], unit, budget, delta)
    return None if found is None else (found.epsilon(), found.noise_multiplier)


def _room(entries: tuple[str, ...], releases: Sequence, found: dict, budget: float, delta: float) -> None:
    from core.runs.ledger.totals import mechanisms_of

    units = [unit for unit in UNITS if mechanisms_of(releases, unit) and not found[unit].reasons]
    if not units or not st.button("How much ε can one more run spend?", key="room", icon=":material/calculate:"):
        return
    both = all(found[unit].releases for unit in UNITS)
    for unit in units:
        kept = f"the releases with ε per {unit}" if both else "the total"
        like = "one more run like the last"
        if found[unit].choices:
            like += ", not chosen among several"
        left = _room_left(entries, unit, budget, delta)
        if left is None:
            st.markdown(f"For one {unit}: no further run fits the budget.")
        else:
            st.markdown(
                f"For one {unit}: {like}, with σ = {left[1]:.5g} and therefore ε = "
                f"**{proved_text(left[0])}** on its own, keeps {kept} within {setting_text(budget)}."
            )


HOW = """
- Runs **compose**: their privacy losses are convolved numerically (PRV), which is tighter than adding their ε.
  The accountant that a run was planned with is not used: GDP under-reports, and a total must not.
- A run that was the **best of several runs** costs more than one. The ledger then adds the Rényi divergences of
  all runs and of the choice, and converts them once (RDP), for one note and for all notes of a patient.
- A noisy **vocabulary** adds its ε and δ (basic composition). `python -m core ledger --vocabulary` makes one.
- A run **without privacy** makes every total infinite: no ε covers what it may reveal.
- A private run with noise from a **public seed** cannot be recorded: anyone can generate that noise again, so its ε is
  shown, not promised. Entries of this kind from an older version count as no guarantee at all.
- A guarantee per **note** and one per **patient** refer to different neighbours, so each unit has its own total. For
  a patient with k notes, all runs that protect notes are composed for k notes at once; by group privacy, a note has
  twice the patients' ε.
- Entries are files in the data folder under `ledger/`, each with a digest of the one before; the file `head` has the
  digest of the newest. A gap, or a missing or edited entry, is an error and never a smaller total. A user with write
  access could still rewrite the whole ledger: keep a copy elsewhere.
- The ledger counts per cohort. For a patient in two cohorts, the ε and δ of both totals add up.
"""
