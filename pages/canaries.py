"""Canaries: secrets planted on purpose show how much a model remembers, and what its guarantee is worth."""

from __future__ import annotations

import streamlit as st

from core.runs.run import Run
from pages.parts import charts, run_picker, shell
from pages.parts.canary_views import VIEWS

shell.page(
    "Canaries",
    "How well does a model remember secrets that were planted on purpose, and does its guarantee hold?",
    icon=":material/key:",
)


def runs_with_canaries() -> list[Run]:
    """Runs whose cohort has canaries, the shipped ones first; the public base models last."""
    found = [run for run in shell.workspace().runs() if run.spec.corpus.canaries]
    return sorted(found, key=lambda run: (run.spec.is_base, not run.shipped))


def choose(runs: list[Run]) -> dict[str, Run]:
    """The two runs to compare, by a short name that tells them apart."""
    first, second = run_picker.default_pair(runs)
    left, right = st.columns(2)
    with left:
        one = run_picker.pick("First model", runs, first, key="left")
    with right:
        two = run_picker.pick("Second model", runs, second or runs[-1], key="right")
    chosen = [one] if one.id == two.id else [one, two]
    short = [run_picker.privacy_label(run) for run in chosen]
    kinds = {run.spec.model.kind for run in chosen}
    names = [
        f"{charts.MODEL_NAMES[run.spec.model.kind]}, {name}" if len(kinds) > 1 else name
        for run, name in zip(chosen, short, strict=True)
    ]
    if len(set(names)) < len(names):
        names = [f"{name} ({run.id[-4:]})" for run, name in zip(chosen, names, strict=True)]
    return dict(zip(names, chosen, strict=True))


runs = runs_with_canaries()
if runs:
    picked = choose(runs)
    view = st.segmented_control(
        "Look at", list(VIEWS), default="Copies", required=True, key="view", bind="query-params",
        label_visibility="collapsed",
    )  # fmt: skip
    VIEWS[view](picked)
else:
    st.info(
        "No trained model has canaries in its notes yet. Train one; its secrets appear here.", icon=":material/key:"
    )
    shell.link("train", "Train a model", icon=":material/model_training:")
