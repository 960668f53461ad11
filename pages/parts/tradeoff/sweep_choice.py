"""Choosing the curve: the model, the size of the hospital where there are several, and the runs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.evaluation.sweep.sizes import other_sizes, rounded
from core.evaluation.sweep.sweeps import Sweep
from core.spec.model_names import MODEL_NAMES
from pages.parts.common import layout, query_params
from pages.parts.pickers import linked_choice, sweep_picker

OTHER = 0  # the choice “other hospitals”
MODEL, HOSPITAL = "model", "hospital"  # keys of the model and of the size in the link
_ASKED = "asked_family"  # in the session: the runs that the link named last
_CLICKED = "model_clicked"  # in the session: a model was chosen, or got the size of another; not in the link yet
_UNUSUAL = "size_unusual"  # in the session: the size is not the one that the model opens with
PICKED = "size_picked"  # in the session: the model and the size that were chosen last


def choose(found: Sequence[Sweep]) -> tuple[Sweep, DeltaGenerator]:
    """Let the reader choose a curve among `found` (not empty).

    Returns:
        The sweep, and the place for the page's own control in the same row.
    """
    kinds = {name: kind for kind, name in MODEL_NAMES.items() if any(sweep.model.kind == kind for sweep in found)}
    row = st.container(horizontal=True, vertical_alignment="bottom", key="choice")
    knobs = layout.folded_knobs(row.container(width="content"), "Model and hospital").container(
        horizontal=True, vertical_alignment="bottom"
    )
    linked = next((sweep.model.kind for sweep in found if sweep.id == st.query_params.get("family")), None)
    kind = kinds[_model(list(kinds), knobs, None if linked is None else MODEL_NAMES[linked])]
    same = [sweep for sweep in found if sweep.model.kind == kind]
    size, offered = _size(same, knobs)
    _note_clicked(kind)
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


def _model(names: Sequence[str], knobs: DeltaGenerator, of_runs: str | None = None) -> str:
    """The model chosen, by its name; at first the link's, or that of the runs that the link names (`of_runs`).

    It is not bound to the link: Streamlit would replace the address, and Back would not bring the model before.
    """
    linked_choice.adopt(MODEL, MODEL, names)
    if st.session_state.get(MODEL) not in names:
        before = (st.query_params.get(MODEL), of_runs, st.session_state.get(f"picked_{MODEL}"))
        st.session_state[MODEL] = next((one for one in before if one in names), names[0])
    chosen = knobs.segmented_control(
        "Model", names, required=True, key=MODEL, on_change=_clicked, persist_state="session"
    )
    return chosen or names[0]


def _clicked() -> None:
    """Have `_note_clicked` put the model into the link, once its size is known."""
    st.session_state[_CLICKED] = True


def _note_clicked(kind: str) -> None:
    """Put a model that was chosen just now into the link, with the size: both are one entry in the history."""
    if st.session_state.pop(_CLICKED, False):
        _write(kind)
    linked_choice.shown(MODEL, MODEL_NAMES[kind])  # when the link holds it: else Back would bring it


def _write(kind: str) -> None:
    new = {MODEL: MODEL_NAMES[kind]}
    size = st.session_state.get(f"{HOSPITAL}-{kind}")
    if size is not None and (HOSPITAL in st.query_params or st.session_state.get(_UNUSUAL)):
        new[HOSPITAL] = size
    for key, value in new.items():
        st.session_state[f"picked_{key}"] = st.session_state[f"linked_{key}"] = value
    query_params.write(new)


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
    new = default is not None and st.session_state.get(_ASKED) != asked  # a link to runs of another size
    st.session_state[_ASKED] = asked
    size = _chosen_size(kind, _labels(options), start, knobs, new=new)
    st.session_state[PICKED] = (kind, size)
    return size, of_size[size]


def _chosen_size(kind: str, sizes: dict[str, int], start: int, knobs: DeltaGenerator, *, new: bool) -> int:
    """The control over `sizes` (notes by label). It starts at `start`; if that is `new`, it moves there.

    It is not bound to the link: Streamlit would leave out a size that was chosen for another model, and clear the
    control when the reader goes back.
    """
    widget = f"{HOSPITAL}-{kind}"
    back, linked = linked_choice.by_history(), st.query_params.get(HOSPITAL)
    moved = linked in sizes and linked != st.session_state.get(f"linked_{HOSPITAL}")  # the link, not a click
    linked_choice.adopt(HOSPITAL, widget, sizes)
    usual = next(label for label, notes in sizes.items() if notes == start)
    carried = None if back or moved else _carried(kind, sizes)
    before = (linked, st.session_state.get(f"picked_{HOSPITAL}"))
    if linked not in sizes and (new or back):
        st.session_state[widget] = usual
    elif back:
        st.session_state[widget] = linked
    elif carried is not None:
        st.session_state[widget], st.session_state[_CLICKED] = carried, True
    elif st.session_state.get(widget) not in sizes:
        st.session_state[widget] = next((one for one in before if one in sizes), usual)
    st.session_state[_UNUSUAL] = st.session_state[widget] != usual
    chosen = knobs.segmented_control(
        "Training notes (rounded)",
        list(sizes),
        required=True,
        key=widget,
        help="The size of the hospital. These hospitals differ only in how many patients they have.",
        on_change=linked_choice.share,
        args=(HOSPITAL, widget, sizes),
        persist_state="session",  # else a browser that gets two reruns before it draws has nothing chosen
    )
    return sizes.get(chosen or "", start)


def _labels(options: Collection[int]) -> dict[str, int]:
    """The sizes by how they are written: rounded, where that distinguishes them."""
    short = [rounded(notes) for notes in options if notes != OTHER]
    return {
        "other" if notes == OTHER else rounded(notes) if short.count(rounded(notes)) == 1 else f"{notes:,}": notes
        for notes in options
    }


def _carried(kind: str, sizes: dict[str, int]) -> str | None:
    """The size that was chosen last, for another model; None if this model has no such hospital."""
    before = st.session_state.get(PICKED)
    if before is None or before[0] == kind:
        return None
    return next((label for label, notes in sizes.items() if notes == before[1]), None)
