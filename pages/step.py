"""Inside a step: the real gradients of one step of DP-SGD, clipped, added up, and hidden in noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import streamlit as st

from core.evaluation.wording import percent
from core.runs.run import Run
from pages.parts.common import chart_style, layout, shell
from pages.parts.pickers import run_picker
from pages.parts.session import owner
from pages.parts.step import charts, gradients, prove_view, sentences

if TYPE_CHECKING:
    from core.training.step_gradients import StepGradients

RESETS = "step-resets"  # in the session: how often the knobs were set back

shell.page("step", "How does DP-SGD hide one note, or one patient? These are the real gradients of a run's first step.")


def _as_trained() -> None:
    """Set the knobs back to what the run was trained with: widgets of other keys begin with their defaults.

    Taking the values out of the session would not do: the browser keeps what its widgets show.
    """
    st.session_state[RESETS] += 1


def knobs(step: StepGradients, run: Run) -> tuple[float, float, np.ndarray, int, bool, int]:
    """C, σ, the units in the sum (n,), the unit in question, whether it is in the sum, and the seed of the noise."""
    privacy = run.spec.privacy
    unit = privacy.unit
    resets = st.session_state.setdefault(RESETS, 0)
    keys = {knob: f"step-{knob}-{run.id}-{resets}" for knob in ("norm", "sigma", "size", "one", "inside")}
    own_norm = run.spec.training.clip_norm or privacy.max_grad_norm
    own_sigma = run.privacy.noise_multiplier if run.privacy is not None else 0.0
    top = float(np.ceil(step.norms.max() * 10) / 10)
    norm = st.slider(
        "Clipping norm C",
        0.05,
        top,
        min(own_norm, top),
        step=0.05,
        key=keys["norm"],
        help=f"Each {unit}'s gradient is cut to at most this length. This run: {own_norm:g}.",
    )
    start = float(round(own_sigma, 2))
    sigma = st.slider(
        "Noise multiplier σ",
        0.0,
        5.0,
        start,
        step=0.01,
        key=keys["sigma"],
        help=f"The noise has standard deviation σC in every direction. This run: {own_sigma:.3g}.",
    )
    if sigma == start:
        sigma = own_sigma  # as trained, to the last digit: bounds follow from it
    size = len(step)
    if size > 2:
        size = st.slider(f"{unit.capitalize()}s in the step", 2, size, size, key=keys["size"])
    one = st.selectbox(
        f"Chosen {unit}",
        range(size),
        format_func=lambda row: f"patient {step.patients[row]}, length {step.norms[row]:.2f}",
        key=keys["one"],
    )
    inside = st.toggle(f"This {unit} is in the sum", value=True, key=keys["inside"])
    seed = st.session_state.setdefault("step-draws", 0)
    if st.button("Draw new noise", icon=":material/casino:"):
        seed = st.session_state["step-draws"] = seed + 1
    st.button("Reset", icon=":material/undo:", on_click=_as_trained)
    chosen = np.arange(len(step)) < size
    chosen[one] = inside
    return norm, sigma, chosen, one, inside, seed


runs = gradients.offered(owner.workspace().runs())
if not runs:
    st.info("There is no private run yet. Train one with differential privacy first.")
    shell.link_to_train()
    st.stop()
picture, side = layout.picture_and_knobs()
with side:
    run = run_picker.pick("Model", runs, run_picker.own(runs) or runs[0], key="run")
with picture:
    place = layout.fresh("answer", run.id)
with place:
    step = gradients.of(run)
if step is None:
    st.stop()
with side:
    norm, sigma, chosen, one, inside, seed = knobs(step, run)
unit = run.spec.privacy.unit
total = step.clipped(norm, chosen)
moved = min(norm, float(step.norms[one]))
with place:
    st.markdown(sentences.summed(step, total, norm, sigma, int(chosen.sum()), unit))
    figure = charts.lengths(step, norm, chosen, one if inside else -1, unit)
    chart_style.show(
        figure,
        key="step-lengths",
        alt=f"Lengths of {int(chosen.sum())} gradients; {total.clipped} are longer than C = {norm:g}",
    )
    st.html(chart_style.legend_html(figure))
    left, right = st.columns(2)
    with left:
        chart_style.show(
            charts.plane(step, norm, sigma, chosen, seed, unit),
            key="step-plane",
            alt="The clipped gradients added up in a plane, with a cloud of noise at the end",
        )
        st.caption(f"The plane shows {percent(step.explained)} of the gradients' squared lengths.")
    with right:
        seen = (moved if inside else 0.0) + float(np.random.default_rng([seed, 2]).normal()) * sigma * norm
        chart_style.show(
            charts.bells(moved, norm, sigma, seen),
            key="step-bells",
            alt=f"Two bell curves, {moved:.2f} apart, each {sigma * norm:.2f} wide",
        )
    st.markdown(sentences.hidden(moved, norm, sigma, unit))
    st.caption(sentences.whose(step, run))
    if run.spec.privacy.private:
        prove_view.prove(run)
    with st.expander("How is this computed?"):
        st.markdown(sentences.how(unit))
