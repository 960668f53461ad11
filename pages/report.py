"""Report: a verdict on some models for a privacy board, on screen and as a file."""

from __future__ import annotations

import streamlit as st

from pages.parts.common import layout, shell
from pages.parts.pickers import run_picker
from pages.parts.report import views
from pages.parts.session import owner

shell.page("report", "Can these models be released? A verdict, the evidence for it, and a file for those who sign off.")

runs = run_picker.audited_first(owner.workspace().runs())
if runs:
    picture, knobs = layout.picture_and_knobs("Models and files")
    with knobs:
        chosen = views.choose(runs)
    with picture, layout.fresh("answer", tuple(run.id for run in chosen)):
        if chosen:
            views.show(chosen, knobs)
        else:
            st.info("Choose at least one model.", icon=":material/description:")
else:
    st.info("There is no trained model yet. Train one to get its report.", icon=":material/description:")
    shell.link_to_train()
