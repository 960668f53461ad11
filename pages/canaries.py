"""Canaries: planted secrets show how well a model remembers single notes, and whether its guarantee holds."""

from __future__ import annotations

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.runs.run import Run
from core.runs.tables import TableMissing
from pages.parts.canaries.views import VIEWS
from pages.parts.common import layout, shell
from pages.parts.common.query_params import drop_unless_offered
from pages.parts.jobs import battery
from pages.parts.pickers import run_picker
from pages.parts.session import owner

shell.page(
    "canaries", "How well does a model remember planted secrets, and does its privacy guarantee hold?", guesses=True
)

# What each view needs in the cohort; the other views need no planted secret.
PLANTED = {"Copies": "canaries", "Epochs": "canaries", "Whole patients": "canary_patients"}
NONE_PLANTED = (
    "The notes of {names} contain no canaries of this kind. Uploaded notes get canary sentences if the cohort is large "
    "enough (their copies are at most 5\u00a0% of the training notes), or if you set “Canary sentences” on the "
    "Cohort page or `--canaries` on the command line. Whole canary patients exist only in the synthetic hospitals. The "
    "views Questions, Word for word, Guarantee and Risk score need no canaries."
)


def show(view: str, picked: dict[str, Run], knobs: DeltaGenerator) -> None:
    """A view of the runs whose cohort has what it needs, and a sentence about the others."""
    there = {name: run for name, run in picked.items() if getattr(run.spec.corpus, PLANTED.get(view, "patients"))}
    if len(there) < len(picked):
        names = " and ".join(f"“{name}”" for name in picked if name not in there)
        st.info(NONE_PLANTED.format(names=names), icon=":material/key_off:")
    if there:
        try:
            VIEWS[view](there, knobs)
        except TableMissing as error:
            if not any(run.figures_only for run in there.values()):
                raise
            st.info(str(error), icon=":material/table_rows:")


runs = sorted(run_picker.audited_first(owner.workspace().runs()), key=lambda run: not run.spec.corpus.canaries)
if runs:
    drop_unless_offered("view", VIEWS)
    view = st.segmented_control(
        "View",
        list(VIEWS),
        default="Copies",
        required=True,
        key="view",
        bind="query-params",
        label_visibility="collapsed",
    )
    picture, knobs = layout.picture_and_knobs()
    with knobs:
        picked = run_picker.pick_two(runs)
    with picture, layout.fresh("answer", (view, *(run.id for run in picked.values()))):
        show(view, picked, knobs)
        battery.offer(picked)
else:
    st.info(
        "There is no trained model yet. Train one to see whether it remembers planted secrets.", icon=":material/key:"
    )
    shell.link_to_train()
