"""Patients: who leaks, do patients with rare diseases leak more, and what exactly leaks about one patient?"""

from __future__ import annotations

import streamlit as st

from pages.parts.common import layout, scroll, shell
from pages.parts.patients import controls
from pages.parts.patients.card import card
from pages.parts.patients.views import buckets_view, patients_view
from pages.parts.pickers import run_picker
from pages.parts.session import owner

shell.page("patients", "Do patients with rare diseases leak more than others, and what exactly leaks about each one?")

runs = run_picker.with_tables(run_picker.audited_first(owner.workspace().runs()))
if runs:
    picture, knobs = layout.picture_and_knobs()
    with knobs:
        choice, beside = controls.choose(runs)
        bucket = controls.choose_bucket(choice)
    picked = (choice.run.id, choice.attack, choice.level, choice.filters, beside)
    with picture, layout.fresh("answer", picked):
        buckets_view(choice, beside, runs, bucket)
    with layout.fresh("patients", (*picked, bucket)):
        patients_view(choice, bucket)
    place = st.container()
    card(choice, runs)
    scroll.here(place)
    run_picker.say_left_out()
else:
    st.info(
        "There is no trained model yet. Train one to see which of its patients leak.", icon=":material/clinical_notes:"
    )
    shell.link_to_train()
