"""Choosing among families of runs: names that differ, and a choice by id that stays when further runs finish."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.common.formatting import delta_text, epochs_text
from core.evaluation.sweep.sweeps import Sweep, sweeps_of
from core.runs.run import Run
from core.spec import TrainingSpec
from pages.parts.common import chart_style
from pages.parts.pickers.cohort_picker import hospital_name


def curve_name(sweep: Sweep) -> str:
    """Cohort, unit and δ, recipe: what tells the curves of one model apart, mostly."""
    promise = (
        f"per {sweep.privacy.unit}, δ = {delta_text(sweep.privacy.delta)}" if sweep.training else "without privacy"
    )
    if sweep.privacy.noise_source == "secret":
        promise += ", secret noise"
    return f"{hospital_name(sweep.corpus)} · {promise} · {epochs_text(_recipe(sweep).epochs)}"


def setting_name(sweep: Sweep) -> str:
    """Model and cohort."""
    return f"{chart_style.MODEL_NAMES[sweep.model.kind]} · {hospital_name(sweep.corpus)}"


def told_apart(found: Sequence[Sweep], name: Callable[[Sweep], str]) -> dict[str, str]:
    """A name for each family's id. Equal ones get what differs: batch, the cohort's digest, at last the family's id."""
    names = {sweep.id: name(sweep) for sweep in found}
    for detail in (_batch, lambda one: f"cohort {one.corpus.digest()[:6]}", lambda one: one.id):
        alike: dict[str, list[Sweep]] = defaultdict(list)
        for sweep in found:
            alike[names[sweep.id]].append(sweep)
        for same in alike.values():
            if len({detail(sweep) for sweep in same}) > 1:
                names |= {sweep.id: f"{names[sweep.id]} · {detail(sweep)}" for sweep in same}
    return names


def _recipe(sweep: Sweep) -> TrainingSpec:
    recipe = sweep.training or sweep.plain_training
    assert recipe is not None  # a family has a run, private or not
    return recipe


def _batch(sweep: Sweep) -> str:
    return f"batch {_recipe(sweep).batch_size}"


def pick(
    title: str,
    found: Sequence[Sweep],
    labels: dict[str, str],
    *,
    key: str,
    widget: str,
    place: DeltaGenerator,
    help: str | None = None,  # noqa: A002 - as Streamlit names it
) -> Sweep:
    """A select box over `found` (not empty). The choice is kept in the session and in the link (`?key=<family id>`).

    The choice is by id, as in `run_picker.pick`, since `labels` may change when further families appear; they hold no
    counts of runs, for browsers go on sending the label of before. Of an id that is gone (the first private run made a
    curve out of runs without privacy) the same cohort, model and audit are taken.
    """
    ids, last = [sweep.id for sweep in found], f"picked_{key}"
    start = _known((st.query_params.get(key), st.session_state.get(last)), ids)

    def share() -> None:
        if st.session_state[widget] in ids:  # a browser may still send a label of before
            st.session_state[last] = st.query_params[key] = st.session_state[widget]

    chosen = place.selectbox(
        title, ids, ids.index(start), format_func=labels.__getitem__, key=widget, help=help, on_change=share
    )
    return found[ids.index(chosen if chosen in ids else start)]


def _known(asked: Sequence[str | None], ids: Sequence[str]) -> str:
    """The first id asked for that is there, else one of the same setting, else the first of all."""
    wanted = [one for one in asked if one]
    same = [one for want in wanted for one in ids if one.rsplit("-", 1)[0] == want.rsplit("-", 1)[0]]
    return next((one for one in (*wanted, *same) if one in ids), ids[0])


def family_ids(runs: Sequence[Run]) -> dict[str, str]:
    """The family to open for each run that is in some: of several that share it, the one with most runs."""
    return {run_id: sweep.id for sweep in reversed(sweeps_of(runs)) for run_id in sweep.run_ids}
