"""Canaries: secrets planted on purpose show how much a model remembers, and what its guarantee is worth."""

from __future__ import annotations

import streamlit as st

from pages.parts import battery, run_picker, shell
from pages.parts.canary_views import VIEWS

shell.page(
    "Canaries",
    "How well does a model remember secrets that were planted on purpose, and does its guarantee hold?",
    icon=":material/key:",
)

runs = run_picker.audited_first([run for run in shell.workspace().runs() if run.spec.corpus.canaries])
if runs:
    picked = run_picker.pick_two(runs)
    view = st.segmented_control(
        "Look at", list(VIEWS), default="Copies", required=True, key="view", bind="query-params",
        label_visibility="collapsed",
    )  # fmt: skip
    VIEWS[view](picked)
    battery.offer(picked)
else:
    st.info(
        "No trained model has canaries in its notes yet. Train one; its secrets appear here.", icon=":material/key:"
    )
    shell.link("train", "Train a model", icon=":material/model_training:")
