"""Choosing among sweeps: distinct names, and a choice by id that stays valid when further runs finish."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.common.formatting import delta_text, epochs_text
from core.evaluation.sweep.sweeps import Sweep, sweeps_of
from core.runs.run import Run
from core.spec import SHIPPED_BASES, TrainingSpec
from core.spec.model_names import MODEL_NAMES
from pages.parts.common import shell
from pages.parts.pickers import linked_choice
from pages.parts.pickers.cohort_picker import hospital_name

_INSTEAD = "unknown_sweep-"  # in the session, before the link's parameter: what it names, and the sweep shown instead
NO_RUNS = "this server has no runs of it that this page can show"


def curve_name(sweep: Sweep) -> str:
    """Cohort, unit and δ, epochs: what usually distinguishes the curves of one model."""
    privacy = (
        f"per {sweep.privacy.unit}, δ = {delta_text(sweep.privacy.delta)}" if sweep.training else "without privacy"
    )
    if sweep.privacy.noise_source == "secret":
        privacy += ", secret noise"
    return f"{hospital_name(sweep.corpus)} · {privacy} · {epochs_text(_recipe(sweep).epochs)}"


def setting_name(sweep: Sweep) -> str:
    """Model and cohort."""
    return f"{MODEL_NAMES[sweep.model.kind]} · {hospital_name(sweep.corpus)}"


def distinct_names(found: Sequence[Sweep], name: Callable[[Sweep], str]) -> dict[str, str]:
    """A distinct name for each sweep's id. Equal names get what differs: public base, batch size, cohort, or id."""
    names = {sweep.id: name(sweep) for sweep in found}
    for detail in (_base, _batch, lambda one: f"cohort {one.corpus.digest()[:6]}", lambda one: one.id):
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


def _base(sweep: Sweep) -> str:
    return f"base: {SHIPPED_BASES.get(sweep.model.base, sweep.model.base)}"


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
    help: str | None = None,  # as Streamlit names it
) -> Sweep:
    """A select box over `found` (not empty). The choice is kept in the session and in the link (`?key=<sweep id>`).

    The choice is by id, as in `run_picker.pick`, since `labels` may change when further sweeps appear. Labels contain
    no counts of runs, because browsers keep sending an old label. If an id is gone (the first private run turned runs
    without privacy into a curve), the sweep with the same cohort, model and audit is taken.

    Args:
        title: The label of the box.
        found: The sweeps to choose from.
        labels: The name of each sweep by id.
        key: The link's parameter.
        widget: The widget's key.
        place: The container to draw in.
        help: The tooltip.
    """
    ids, last = [sweep.id for sweep in found], f"picked_{key}"
    start = _known((st.query_params.get(key), st.session_state.get(last)), ids)
    box = place.container()  # the whole name is as wide as its box, also where boxes share a row
    chosen = box.selectbox(
        title,
        ids,
        0 if linked_choice.adopt(key, widget, ids) else ids.index(start),
        format_func=labels.__getitem__,
        key=widget,
        help=help,
        on_change=linked_choice.share,
        args=(key, widget, ids),
    )
    sweep = found[ids.index(chosen if chosen in ids else start)]
    if name := linked_choice.whole_name(labels[sweep.id]):
        box.html(name)
    linked_choice.shown(key, sweep.id)
    return sweep


def _known(asked: Sequence[str | None], ids: Sequence[str]) -> str:
    """The first requested id that exists, else one with the same setting, else the first of all."""
    wanted = [one for one in asked if one]
    same = [one for want in wanted for one in ids if _setting(one) == _setting(want)]
    return next((one for one in (*wanted, *same) if one in ids), ids[0])


def _setting(sweep_id: str) -> str:
    """The part of a sweep's id that says its model, cohort and audit."""
    return sweep_id.rsplit("-", 1)[0]


def say_unknown(key: str, found: Sequence[Sweep], shown: Sweep, name: str) -> None:
    """Warn that the link names a hospital that is not offered, until another sweep is chosen.

    Args:
        key: The link's parameter.
        found: All that the page offers, also for other models and sizes.
        shown: The sweep that is shown instead.
        name: Its name.
    """
    linked, before = st.query_params.get(key), st.session_state.get(f"{_INSTEAD}{key}")
    if not linked or any(_setting(sweep.id) == _setting(linked) for sweep in found):
        return
    if before != (linked, shown.id) and before is not None and before[0] == linked and shell.same_page():
        del st.query_params[key]  # chosen by the model or the size, which the box of sweeps does not see
        return
    st.session_state[f"{_INSTEAD}{key}"] = (linked, shown.id)
    linked_choice.say_missing(key, (), name, what="hospital", why=NO_RUNS)


def family_ids(runs: Sequence[Run]) -> dict[str, str]:
    """The sweep to open for each run that is in one; if several contain it, the one with most runs."""
    return {run_id: sweep.id for sweep in reversed(sweeps_of(runs)) for run_id in sweep.run_ids}
