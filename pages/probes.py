"""Probes: does a model know names, and which patient has which disease? Rows L2 to L7, as cards."""

from __future__ import annotations

import streamlit as st

from core.evaluation.probe_words import CAUTION, cards
from core.runs.run import Run
from pages.parts import probe_cards, probe_try, run_picker, shell
from pages.parts.probe_how import HOW

shell.page(
    "Probes",
    "Does a model know patients' names, and which patient has which disease? Each card asks once, with its control.",
    icon=":material/fingerprint:",
)


def choices() -> list[Run]:
    """Runs whose probes are there come first, the public base models last."""
    workspace = shell.workspace()
    there = {run.id: not probe_cards.figures(run).empty for run in workspace.runs()}
    return sorted(workspace.runs(), key=lambda run: (not there[run.id], run.spec.is_base, not run.shipped))


def how_to_make(run: Run) -> None:
    """The command that makes the probes of a run, which no page does by itself."""
    attacks = " ".join(f'--attack "{probe}"' for probe in HOW)
    if run.has_model:
        st.info(
            "This model has not been probed yet. It takes about a minute, in a terminal:", icon=":material/terminal:"
        )
        st.code(f"python -m core audit {run.id} --suite full {attacks}", language="bash", wrap_lines=True)
    else:
        st.info("This run keeps no weights, so it cannot be probed: train it again here first.", icon=":material/info:")


def show(run: Run) -> None:
    """All cards of a run that has been probed."""
    figures = probe_cards.figures(run)
    if figures.empty:
        how_to_make(run)
        return
    made = cards(figures)
    reveal = st.toggle("Show all without guessing", key="show", bind="query-params")
    for card in made:
        probe_cards.draw(card, figures, run, reveal=reveal)
    st.caption(CAUTION)


runs = choices()
if runs:
    picked = run_picker.pick("Model", runs, runs[0], key="run")
    show(picked)
    if picked.has_model:
        probe_try.box(picked)
else:
    st.info("There is no trained model to probe yet. Train one first.", icon=":material/fingerprint:")
    shell.link("train", "Train a model", icon=":material/model_training:")
