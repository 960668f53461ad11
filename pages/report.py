"""Report: what a privacy board needs to read about some models, to take away."""

from __future__ import annotations

import streamlit as st

from pages.parts.common import shell
from pages.parts.pickers import run_picker
from pages.parts.report import views
from pages.parts.session import owner

shell.page(
    "Report",
    "Can these models be given away? A verdict, what it rests on, and a file for those who must sign.",
    icon=":material/description:",
)

runs = run_picker.audited_first(owner.workspace().runs())
if runs:
    chosen = views.choose(runs)
    if chosen:
        views.show(chosen)
    else:
        st.info("Choose at least one model.", icon=":material/description:")
else:
    st.info("There is no trained model yet. Train one; its report is made here.", icon=":material/description:")
    shell.link("train", "Train a model", icon=":material/model_training:")
