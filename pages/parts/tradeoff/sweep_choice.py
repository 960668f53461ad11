"""Choosing the curve: the model, the size of the hospital where there are several, and the runs."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.evaluation.sweep.sizes import other_sizes, rounded
from core.evaluation.sweep.sweeps import Sweep
from core.spec.model_names import MODEL_NAMES
from pages.parts.common import layout
from pages.parts.common.query_params import KEEP
from pages.parts.pickers import sweep_picker

OTHER = 0  # the choice “other hospitals”
HOSPITAL = "hospital"  # key of the size, in the link too
PICKED = "picked_hospital"  # in the session: the model and the size that were chosen last


def choose(found: Sequence[Sweep]) -> tuple[Sweep, DeltaGenerator]:
    """Let the reader choose a curve among `found` (not empty).

    Returns:
        The sweep, and the place for the page's own control in the same row.
    """
    kinds = [kind for kind in MODEL_NAMES if any(sweep.model.kind == kind for sweep in found)]
    row = st.container(horizontal=True, vertical_alignment="bottom", key="choice")
    knobs = layout.folded_knobs(row.container(width="content"), "Model and hospital").container(
        horizontal=True, vertical_alignment="bottom"
    )
    kind = knobs.segmented_control(
        "Model", kinds, default=kinds[0], required=True, format_func=MODEL_NAMES.__getitem__, key="model", **KEEP
    )
    same = [sweep for sweep in found if sweep.model.kind == kind]
    size, offered = _size(same, knobs)
    if size is not None and len(offered) == 1:
        return offered[0], row
    names = sweep_picker.distinct_names(offered, sweep_picker.curve_name)
    place = row.container(width="content")  # before the box, which is as wide as what is left
    chosen = sweep_picker.pick(
        "Runs",
        offered,
        names,
        key="family",
        widget=f"runs-{kind}" + (f"-{size}" if size is not None else ""),
        place=row,
        help="Only runs that differ in ε and seed are compared.",
    )
    return chosen, place


def _size(same: Sequence[Sweep], knobs: DeltaGenerator) -> tuple[int | None, Sequence[Sweep]]:
    """The size chosen, and the curves of that size; None and all curves if there are not several sizes."""
    of_size: dict[int, list[Sweep]] = {}
    first = max(same, key=lambda sweep: len(other_sizes(sweep, same)))  # of equals the one the pages open with
    sizes = other_sizes(first, same)
    if len(sizes) < 2:
        return None, same
    for sweep in same:
        alike = set(other_sizes(sweep, same)) == set(sizes)
        of_size.setdefault(sweep.corpus.training_notes if alike else OTHER, []).append(sweep)
    asked = st.query_params.get("family")
    default = next((notes for notes, some in of_size.items() if any(one.id == asked for one in some)), None)
    options = [*(notes for notes in sorted(of_size) if notes != OTHER), *([OTHER] if OTHER in of_size else [])]
    kind = same[0].model.kind
    start = first.corpus.training_notes if default is None else default
    chosen = knobs.segmented_control(
        "Training notes (rounded)",
        options,
        default=None if _carried(kind, options) else start,
        required=True,
        format_func=lambda notes: "other" if notes == OTHER else rounded(notes),
        key=f"{HOSPITAL}-{kind}",
        help="The size of the hospital. These hospitals differ only in how many patients they have.",
        **KEEP,
    )
    size = start if chosen is None else chosen
    st.session_state[PICKED] = (kind, size)
    return size, of_size[size]


def _carried(kind: str, options: Sequence[int]) -> bool:
    """Give the control of this model the size that was chosen for another one; whether there was one to give.

    A link that names a size goes before it.
    """
    widget, before = f"{HOSPITAL}-{kind}", st.session_state.get(PICKED)
    if before is None or before[0] == kind or before[1] not in options or widget in st.query_params:
        return False
    st.session_state[widget] = before[1]
    return True
