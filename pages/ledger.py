"""Ledger: the releases of a cohort, their combined guarantee, and how much of the budget is left."""

from __future__ import annotations

import streamlit as st

from pages.parts.common import layout, shell
from pages.parts.ledger import views
from pages.parts.pickers import linked_choice
from pages.parts.pickers.cohort_picker import hospital_name, presets_first
from pages.parts.session import owner

KEY = "ledger_cohort"  # of the box, and in the link, which holds the cohort's digest
NOT_HERE = "this server has no model of it, and no release"


def choose(labels: dict[str, str]) -> str:
    """The cohort of the list or of the link.

    The box is not bound to the link: a bound box makes no entry in the browser's history, so Back would leave the
    page.

    Args:
        labels: How each cohort is written, by its digest.
    """
    known = {**{label: digest for digest, label in labels.items()}, **{digest: digest for digest in labels}}
    linked_choice.adopt(KEY, KEY, known)  # links of earlier versions hold the label
    if (now := st.session_state.get(KEY)) not in labels:
        before = (now, st.query_params.get(KEY), st.session_state.get(f"picked_{KEY}"))
        st.session_state[KEY] = next((known[one] for one in before if one in known), next(iter(labels)))
    chosen = st.selectbox(
        "Cohort",
        list(labels),
        key=KEY,
        format_func=labels.__getitem__,
        on_change=linked_choice.share,
        args=(KEY, KEY, labels),
        persist_state="session",
    )
    linked_choice.say_missing(KEY, known, labels[chosen], what="cohort", why=NOT_HERE)
    linked_choice.shown(KEY, chosen)
    return chosen


shell.page("ledger", "What privacy guarantee do these patients still have after all releases so far?")

runs = [run for run in owner.workspace().runs() if not run.spec.is_base]
released = views.released()
if runs or released:
    made_here = dict.fromkeys(run.spec.corpus for run in runs if not run.shipped)  # the newest run's cohort first
    every = presets_first({run.spec.corpus for run in runs} | set(released))
    cohorts = {spec.digest(): spec for spec in [*made_here, *every]}
    labels = {digest: f"{hospital_name(spec)} ({digest})" for digest, spec in cohorts.items()}
    chosen = choose(labels)
    with layout.fresh("answer", chosen):
        views.show(cohorts[chosen], [run for run in runs if run.spec.corpus == cohorts[chosen]])
else:
    st.info("There is no trained model yet, so there is nothing to release.", icon=":material/receipt_long:")
    shell.link_to_train()
