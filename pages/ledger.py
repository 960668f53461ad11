"""Ledger: the releases of a cohort, their combined guarantee, and how much of the budget is left."""

from __future__ import annotations

import streamlit as st

from pages.parts.common import layout, shell
from pages.parts.ledger import views
from pages.parts.pickers.cohort_picker import hospital_name, presets_first
from pages.parts.session import owner

shell.page("ledger", "What privacy guarantee do these patients still have after all releases so far?")

runs = [run for run in owner.workspace().runs() if not run.spec.is_base]
released = views.released()
if runs or released:
    made_here = dict.fromkeys(run.spec.corpus for run in runs if not run.shipped)  # the newest run's cohort first
    every = presets_first({run.spec.corpus for run in runs} | set(released))
    cohorts = {spec.digest(): spec for spec in [*made_here, *every]}
    chosen = st.selectbox(
        "Cohort",
        list(cohorts),
        key="ledger_cohort",
        bind="query-params",
        format_func=lambda digest: f"{hospital_name(cohorts[digest])} ({digest})",
    )
    with layout.fresh("answer", chosen):
        views.show(cohorts[chosen], [run for run in runs if run.spec.corpus == cohorts[chosen]])
else:
    st.info("There is no trained model yet, so there is nothing to release.", icon=":material/receipt_long:")
    shell.link("train", "Train a model", icon=":material/model_training:")
