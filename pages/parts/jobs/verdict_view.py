"""The end of a run: whom the model named, beside its counterparts and their controls, and where to look next."""

from __future__ import annotations

import plotly.graph_objects as go
import streamlit as st

from core.evaluation import comparison, verdict
from core.evaluation.verdict import Count, Found
from core.runs.run import Run, RunBroken, RunNotFound
from core.runs.tables import TableMissing
from core.spec import SHORT_READS, PrivacySpec, RunSpec, recipe_of
from core.spec.model_names import MODEL_NAMES
from pages.parts.access import viewer
from pages.parts.common import chart_style, shell
from pages.parts.jobs import battery, monitor
from pages.parts.pickers import run_picker
from pages.parts.session import owner


def show(run_id: str, family: str | None) -> None:
    """The verdict on a finished run: sentence, picture, links. Nothing if its metrics cannot be read.

    `family` is the sweep that the run is a point of, if any.
    """
    try:
        run = owner.workspace().run(run_id)
    except (RunNotFound, RunBroken):
        return
    own = _found(run)
    if own is None or run.spec.is_base:
        return
    beside = verdict.counterparts(run, owner.workspace().runs())
    others = [(other, found) for other in beside.values() if (found := _found(other)) is not None]
    said = verdict.verdict(own, run, others)
    st.markdown(f"**{said}**")
    if identified := verdict.identifier_sentence(own):
        st.markdown(f"**{identified}**")
    left_out = run_picker.namesakes_caption(run) if own.own_values else ""
    st.markdown(
        f"Tried: {own.texts:,} texts, after 14 prompts without names. {own.run.interval().capitalize()}. "
        f"{verdict.chance_sentence(own)} {left_out}".rstrip()
    )
    _picture([(run, own), *others], alt=said)
    if told := comparison.differences([run, *(other for other, _ in others)]):
        st.caption(told)
    _links(run, family)
    missing = _missing(run.spec, beside)
    if missing is not None:
        _offer(missing, run.spec)
    with st.expander("Run the full audit in the background", key=f"battery-fold-{run.id}"):
        st.markdown("More attacks: membership, canaries, probes. They go on while you try the model.")
        battery.offer({"this run": run})


def _found(run: Run) -> Found | None:
    try:
        return verdict.found(run_picker.metrics(run), run.spec)
    except TableMissing:
        return None


def _picture(rows: list[tuple[Run, Found]], alt: str) -> None:
    """Shares of patients named, with intervals; the control of each in grey below it. The first row is this run."""
    figure = go.Figure()
    named = [(place - 0.12, found.run) for place, (_, found) in enumerate(rows)]
    by_chance = [(place + 0.12, found.control) for place, (_, found) in enumerate(rows) if found.control is not None]
    _points(figure, "training patients", chart_style.RISK, named)
    _points(figure, "held-out patients (control)", chart_style.CONTROL, by_chance)
    labels = [_label(run, mine=place == 0) for place, (run, _) in enumerate(rows)]
    places, ends = list(range(len(rows))), [len(rows) - 0.5, -0.5]
    figure.update_yaxes(tickvals=places, ticktext=labels, range=ends, automargin=True)
    figure.update_xaxes(title="patients named in full, %", rangemode="tozero")
    figure.update_layout(height=100 + 60 * len(rows), margin=chart_style.MARGIN, legend=chart_style.LEGEND)
    chart_style.show(figure, key="verdict", alt=alt)


def _points(figure: go.Figure, name: str, colour: str, places: list[tuple[float, Count]]) -> None:
    shares = [100 * count.named / count.patients for _, count in places]
    figure.add_scatter(
        x=shares,
        y=[y for y, _ in places],
        name=name,
        mode="markers",
        cliponaxis=False,
        marker={"size": 11, "color": colour},
        error_x={
            "array": [max(0.0, 100 * count.high - share) for share, (_, count) in zip(shares, places, strict=True)],
            "arrayminus": [max(0.0, share - 100 * count.low) for share, (_, count) in zip(shares, places, strict=True)],
            "color": colour,
            "thickness": 2,
        },
        text=[f"{count.text()}, {count.interval()}" for _, count in places],
        hovertemplate="%{text}<extra></extra>",
    )


def _label(run: Run, *, mine: bool) -> str:
    words = verdict.treatment(run).removeprefix("with ")
    return chart_style.wrapped(f"{words} (this run)" if mine else words, 18)


def _links(run: Run, family: str | None) -> None:
    with st.container(horizontal=True, width="content"):
        side = run_picker.side_of(run.spec, run.id)
        shell.link("playground", "Open in Playground", icon=":material/forum:", query=side)
        shell.link("membership", "Who was in the data?", icon=":material/person_search:", query={"left": run.id})
        if family is not None:
            curve = {"model": MODEL_NAMES[run.spec.model.kind], "family": family}
            shell.link("tradeoff", "Open in ε trade-off", icon=":material/balance:", query=curve)


# The counterpart that is missing -------------------------------------------------------------------------------------


def _missing(spec: RunSpec, beside: dict[verdict.Role, Run]) -> RunSpec | None:
    """The run to compare with, if there is none: the same without privacy, or with ε = 8.

    That of a run without noise has all its settings, and noise.
    """
    wanted: verdict.Role = "plain" if spec.privacy.private else "private"
    if wanted in beside or spec.vocabulary is not None:
        return None
    if verdict.role(spec) == "noiseless":
        noisy = {"target_epsilon": verdict.USUAL_EPSILON, "max_grad_norm": spec.training.clip_norm}
        training = spec.training.model_copy(update={"clip_norm": None})
        return spec.model_copy(update={"privacy": spec.privacy.model_copy(update=noisy), "training": training})
    privacy = PrivacySpec(target_epsilon=None if spec.privacy.private else verdict.USUAL_EPSILON)
    notes = len(owner.workspace().corpus(spec.corpus).without(spec.without).training_notes())
    short = notes * spec.training.epochs * (spec.training.masks or 1) <= 1.5 * SHORT_READS
    training = recipe_of(spec.model.kind, privacy, spec.corpus, short=short)
    changed: dict[str, int] = {"seed": spec.training.seed}
    if training.batch_size > notes:
        changed["batch_size"] = max(1, notes // 4)
    return spec.model_copy(update={"privacy": privacy, "training": training.model_copy(update=changed)})


def _offer(missing: RunSpec, spec: RunSpec) -> None:
    how = verdict.treatment(missing)
    alike = " with the same settings" if verdict.role(spec) == "noiseless" else ""
    st.markdown(f"Nothing to compare with yet: no run {how}{alike} on this cohort.")
    job = monitor.status(missing.run_id)
    if job is not None and job.active:
        st.caption(f"It is waiting or running: {missing.run_id}.")
    elif st.button(
        f"Train the same {how}",
        icon=":material/compare_arrows:",
        key=f"counterpart-{spec.run_id}",
        **viewer.locked("train"),
    ) and monitor.submit(missing):
        st.rerun()
