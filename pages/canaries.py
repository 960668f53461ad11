"""Canaries: secrets planted on purpose show how much a model remembers, and what its guarantee is worth."""

from __future__ import annotations

import streamlit as st

from core.runs.run import Run
from pages.parts.canaries.views import VIEWS
from pages.parts.common import shell
from pages.parts.jobs import battery
from pages.parts.pickers import run_picker
from pages.parts.session import owner

shell.page(
    "Canaries",
    "How well does a model remember secrets that were planted on purpose, and does its guarantee hold?",
    icon=":material/key:",
)

# What a view is about, where a cohort may have none of it; the other views need no planted secret.
PLANTED = {"Copies": "canaries", "Epochs": "canaries", "Whole patients": "canary_patients"}
NONE_PLANTED = (
    "Nothing of this kind was planted into the notes of {names}. Notes that are brought get canary sentences where "
    "they bear them (their copies are at most 5\u00a0% of the training notes), or with “Canary sentences” on the page "
    "Cohort and `--canaries` of the command; whole canary patients belong to the synthetic hospital. The views "
    "Questions, Word for word, Guarantee and Risk score need none."
)


def show(view: str, picked: dict[str, Run]) -> None:
    """A view of those of the two runs whose cohort has what it is about; a sentence about the others."""
    there = {name: run for name, run in picked.items() if getattr(run.spec.corpus, PLANTED.get(view, "patients"))}
    if len(there) < len(picked):
        names = " and ".join(f"“{name}”" for name in picked if name not in there)
        st.info(NONE_PLANTED.format(names=names), icon=":material/key_off:")
    if there:
        VIEWS[view](there)


runs = sorted(run_picker.audited_first(owner.workspace().runs()), key=lambda run: not run.spec.corpus.canaries)
if runs:
    picked = run_picker.pick_two(runs)
    view = st.segmented_control(
        "Look at",
        list(VIEWS),
        default="Copies",
        required=True,
        key="view",
        bind="query-params",
        label_visibility="collapsed",
    )
    show(view, picked)
    battery.offer(picked)
else:
    st.info(
        "There is no trained model yet. Train one; the secrets planted in its notes appear here.", icon=":material/key:"
    )
    shell.link("train", "Train a model", icon=":material/model_training:")
