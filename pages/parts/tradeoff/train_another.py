"""Train a run at an ε that was not measured, so that it becomes a point of the curve."""

from __future__ import annotations

import streamlit as st

from core.common.formatting import setting_text
from core.common.refusals import out_of_range
from core.evaluation.sweep.sweeps import Sweep
from pages.parts.access import viewer
from pages.parts.common import shell
from pages.parts.jobs import monitor
from pages.parts.session import owner

LEAST, MOST = 0.01, 1e6  # of the ε that can be typed


def show(sweep: Sweep) -> None:
    """A fold with an ε to type, or without privacy, and a button that queues the run."""
    with st.expander("Measure another ε", key="train-fold", on_change="rerun") as box:
        if not box.open:
            return
        st.markdown("The slider stops at measured ε only. Train a run at another ε to add a point to the curve.")
        with st.container(horizontal=True, vertical_alignment="bottom"):
            plain = st.checkbox("without privacy", key="train-plain")
            # No range here: the browser would keep a number outside it back, and train with the one before.
            epsilon = st.number_input("ε", value=2.0, format="%g", key="train-epsilon", disabled=plain, width=160)
            wrong = "" if plain else out_of_range("ε", float(epsilon), LEAST, MOST)
            spec = sweep.spec(None if plain or wrong else float(epsilon))
            label = "Train without privacy" if plain else f"Train ε = {setting_text(float(epsilon))}"
            there = not wrong and owner.workspace().find(spec) is not None
            options = {"disabled": there or bool(wrong)} | viewer.locked("train")
            pressed = st.button(label, icon=":material/model_training:", key="train-this", **options)
            shell.link("train", "Watch the queue", icon=":material/visibility:")
        if wrong:
            st.error(f"{wrong}.", icon=":material/error:")
        elif there:
            st.caption("This run exists already: move the slider to it.")
        elif pressed and monitor.submit(spec):
            st.success("The run is in the queue. This page shows it when it is done.", icon=":material/check:")
