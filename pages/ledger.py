"""Ledger: the releases of a cohort, their combined guarantee, and how much of the budget is left."""

from __future__ import annotations

import streamlit as st

from pages.parts.common import layout, shell
from pages.parts.ledger import views
from pages.parts.pickers import linked_choice
from pages.parts.pickers.cohort_picker import hospital_name, presets_first
from pages.parts.session import owner

MISSING = "ledger_missing"  # in the session: the cohort of a link that is not here, until another choice or address
NOT_HERE = "this server has no model of it, and no release"


def say_missing(labels: dict[str, str], chosen: str) -> None:
    """Warn if the link names a cohort that has no model here any more, and no release.

    Args:
        labels: Every cohort as it stands in the link, by digest.
        chosen: The digest of the cohort that is shown.
    """
    if missing := st.session_state.get(MISSING):
        linked_choice.say_missing(
            "ledger_cohort", labels.values(), labels[chosen], what="cohort", why=NOT_HERE, linked=missing
        )


shell.page("ledger", "What privacy guarantee do these patients still have after all releases so far?")

runs = [run for run in owner.workspace().runs() if not run.spec.is_base]
released = views.released()
if runs or released:
    made_here = dict.fromkeys(run.spec.corpus for run in runs if not run.shipped)  # the newest run's cohort first
    every = presets_first({run.spec.corpus for run in runs} | set(released))
    cohorts = {spec.digest(): spec for spec in [*made_here, *every]}
    labels = {digest: f"{hospital_name(spec)} ({digest})" for digest, spec in cohorts.items()}
    linked = st.query_params.get("ledger_cohort")  # before the box, which takes what it does not offer out of the link
    if linked and linked not in labels.values():
        st.session_state[MISSING] = linked
    elif linked or linked_choice.by_history() or not shell.same_page():  # an address that names another cohort or none
        st.session_state.pop(MISSING, None)
    chosen = st.selectbox(
        "Cohort",
        list(cohorts),
        key="ledger_cohort",
        bind="query-params",
        format_func=labels.__getitem__,
        on_change=lambda: st.session_state.pop(MISSING, None),
    )
    say_missing(labels, chosen)
    with layout.fresh("answer", chosen):
        views.show(cohorts[chosen], [run for run in runs if run.spec.corpus == cohorts[chosen]])
else:
    st.info("There is no trained model yet, so there is nothing to release.", icon=":material/receipt_long:")
    shell.link("train", "Train a model", icon=":material/model_training:")
