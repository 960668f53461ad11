"""Probes: does a model know names, and which patient has which disease? One card per probe (Lehman et al. 2021)."""

from __future__ import annotations

import streamlit as st

from core.evaluation.probes.cards import CAUTION, cards
from core.runs.run import Run
from pages.parts.common import layout, shell
from pages.parts.jobs import battery
from pages.parts.pickers import run_picker
from pages.parts.probes import cards as probe_cards
from pages.parts.probes import try_it, variants
from pages.parts.probes.methods import HOW
from pages.parts.session import owner

NOT_RUN = "The probes have not been run on this model yet."
NO_FIGURES = "The probes were run on this model. Their figures come at the end of the full audit."

shell.page(
    "probes",
    "Does a model know patients' names, and which patient has which disease? Each card asks one question, with "
    "its control.",
    guesses=True,
)


def choices() -> list[Run]:
    """All runs: those that were probed first, without privacy before with it, the public base models last."""
    workspace = owner.workspace()
    runs, begun = workspace.runs(), workspace.audited()
    there = {run.id for run in runs if run.id in begun and not probe_cards.figures(run).empty}

    def order(run: Run) -> tuple[bool, ...]:
        return run.id not in there, run.spec.is_base, run.spec.privacy.private, not run.shipped

    return sorted(runs, key=order)


def show(run: Run) -> None:
    """All cards of a run, if it was probed."""
    figures = probe_cards.figures(run)
    if figures.empty:
        done = {name for name, one in owner.workspace().audit(run.id).outcomes().items() if one.state == "done"}
        st.info(NO_FIGURES if done & set(HOW) else NOT_RUN, icon=":material/fingerprint:")
        return
    made = cards(figures)
    for card in made:
        probe_cards.draw(card, figures, run)
    if told := probe_cards.left_out(run):
        st.caption(told)
    st.caption(CAUTION)


runs = choices()
if runs:
    picked = run_picker.pick("Model", runs, run_picker.own(runs) or runs[0], key="run")
    with layout.fresh("answer", picked.id):
        show(picked)
        variants.section(picked, runs)
        battery.offer({run_picker.label(picked): picked})
        if picked.has_model:
            try_it.box(picked)
else:
    st.info("There is no trained model yet. Train one to probe it.", icon=":material/fingerprint:")
    shell.link_to_train()
