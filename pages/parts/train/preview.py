"""What is known about a run before it starts: steps, σ, the expected ε curve, and warnings."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from core.common.formatting import REPRODUCIBLE, delta_text, duration_text, promised_text, setting_text
from core.evaluation.wording import percent
from core.spec import PrivacySpec, RunSpec, TrainingSpec, VocabularySpec
from pages.parts.common import chart_style
from pages.parts.session import resources
from pages.parts.train.risk_settings import show_consequences
from pages.parts.train.vocabulary_settings import words_sentence

PROMISES_NOTHING = 1_000.0  # e^1000-fold odds: no bound at all


@dataclass(frozen=True)
class Preview:
    """What is known about a run before it starts. `sigma` and the fields after it are None without privacy.

    `epsilon` and `delta` are totals of training and of the vocabulary from the notes, if there is one. `curve` is that
    of training alone.
    """

    steps: int
    warnings: tuple[str, ...]
    sigma: float | None = None
    sample_rate: float | None = None
    epsilon: float | None = None
    delta: float | None = None
    mechanism: str | None = None  # the whole mechanism as JSON
    counted_by: str | None = None  # the accountant that gave ε
    answered_by: str | None = None  # the same, if it had to stand in for the one that should have given it
    curve: tuple[tuple[int, ...], tuple[float, ...]] | None = None


@resources.cached_data(max_entries=200, show_spinner=False)
def preview(
    privacy: PrivacySpec, training: TrainingSpec, words: VocabularySpec | None = None, *, notes: int, patients: int
) -> Preview:
    """σ, steps and expected ε of a run.

    Args:
        privacy: The privacy settings.
        training: The training settings.
        words: The vocabulary from the notes, if any.
        notes: The number of training notes.
        patients: The number of their patients.

    Raises:
        ValueError: The settings cannot be trained; the message is a sentence.
    """
    from core.models.word_noise import WordNoise
    from core.training import plan
    from core.training.accounting.gaussian import epsilon_curve

    warnings = plan.check(privacy, training, notes=notes, patients=patients, vocabulary=words)
    if not privacy.private:
        return Preview(steps=training.epochs * math.ceil(notes / training.batch_size), warnings=tuple(warnings))
    planned = plan.plan(privacy, training, notes=notes, patients=patients)
    mechanism = planned.mechanism
    whole = mechanism if words is None else mechanism.with_vocabulary(WordNoise.planned(words))
    spent, answered_by = whole.epsilon_with_method()
    counts, values = epsilon_curve(
        noise_multiplier=mechanism.noise_multiplier,
        sample_rate=mechanism.sample_rate,
        steps=mechanism.steps,
        delta=mechanism.delta,
        accountant=mechanism.counted_by,
    )
    return Preview(
        steps=planned.steps,
        warnings=tuple(warnings),
        sigma=mechanism.noise_multiplier,
        sample_rate=planned.sample_rate,
        epsilon=spent,
        delta=whole.delta,
        mechanism=whole.to_json(),
        counted_by=answered_by,
        answered_by=None if answered_by == mechanism.counted_by else answered_by,
        curve=(tuple(counts.tolist()), tuple(values.tolist())),
    )


def duration_sentence(spec: RunSpec) -> str:
    """How long all stages of a run should take here, and how much of that is training: what limits count, too."""
    from core.jobs.times.costs import of_training, whole
    from core.jobs.times.expected import expected_stages

    stages = expected_stages(spec, resources.every_workspace())
    whole_time, training = duration_text(whole(stages)), duration_text(of_training(stages))
    said = f"Takes about {whole_time} on this machine: about {training} of training, then the audit."
    if whole_time == training:  # rounded: the audit is not what is left
        said = f"Takes about {whole_time} on this machine, nearly all of it for training."
    waits = spec.secret_noise or spec.corpus.imported is not None  # `core.jobs.trained` says why
    return said if waits else f"{said} The model can be tried as soon as training is over."


def show_preview(spec: RunSpec, coming: Preview, *, most_notes: int) -> None:
    """The run's figures, the expected ε curve, and warnings. `most_notes` is the most training notes of a patient."""
    privacy = spec.privacy
    with st.grid(4, min_column_width=120):
        st.metric(
            "steps", f"{coming.steps:,}", help=None if privacy.private else "Approximate: long notes are split in two."
        )
        if privacy.private:
            assert coming.sample_rate is not None and coming.epsilon is not None  # a private run has everything
            st.metric("noise σ", f"{coming.sigma:.3g}")
            st.metric(f"{privacy.unit}s in a step", percent(coming.sample_rate))
            st.metric(f"ε per {privacy.unit}", promised_text(coming.epsilon))
    if privacy.private:
        assert coming.epsilon is not None and coming.delta is not None and coming.counted_by  # a private run has all
        planned = ""
        if privacy.accountant == "gdp" and privacy.target_epsilon is not None:
            planned = f" GDP chose the noise, for ε = {setting_text(privacy.target_epsilon)}."
        st.caption(
            f"ε = {promised_text(coming.epsilon)} per {privacy.unit} at δ = {delta_text(coming.delta)}, "
            f"computed by {coming.counted_by.upper()}.{planned}"
            + ("" if spec.secret_noise else f" {REPRODUCIBLE[0].upper()}{REPRODUCIBLE[1:]}.")
        )
    if spec.vocabulary is not None:
        st.caption(words_sentence(spec, coming.curve[1][-1] if coming.curve else None))
    for warning in coming.warnings:
        first = warning[0].upper() if warning[0].isascii() else warning[0]  # Δ is another quantity than δ
        st.warning(f"{first}{warning[1:].rstrip('.')}.", icon=":material/warning:")
    if not privacy.private:
        return
    if coming.answered_by:
        st.warning(  # only PRV can lack a result: it also counts what GDP planned
            f"The PRV accountant has no result here. ε is from {coming.answered_by.upper()}.", icon=":material/warning:"
        )
    if privacy.risk_limit is not None:
        assert coming.sample_rate is not None  # a private run has everything
        show_consequences(privacy, coming.sample_rate, coming.steps, promised=spec.secret_noise)
    else:
        _curve(coming, privacy)
    _group_line(coming, privacy, most_notes, secret=spec.secret_noise)


def _curve(coming: Preview, privacy: PrivacySpec) -> None:
    assert coming.curve is not None and coming.epsilon is not None  # a private run has everything
    data = pd.DataFrame({"step": coming.curve[0], "epsilon": coming.curve[1]})
    if not data["epsilon"].map(math.isfinite).all() or data["epsilon"].max() > PROMISES_NOTHING:
        st.warning(
            f"With σ = {coming.sigma:g} there is almost no noise: ε = {promised_text(coming.epsilon)} guarantees "
            "nothing.",
            icon=":material/warning:",
        )
        return
    figure = go.Figure(
        go.Scatter(
            x=data["step"],
            y=data["epsilon"],
            mode="lines",
            fill="tozeroy",
            line={"color": chart_style.BUDGET, "width": 3},
            customdata=[promised_text(value) for value in data["epsilon"]],
            hovertemplate="after step %{x}: ε = %{customdata}<extra></extra>",
        )
    )
    figure.update_layout(
        xaxis={"title": "step", "range": [0, coming.steps]},
        yaxis={"title": "expected ε" if coming.delta == privacy.delta else "ε of training", "rangemode": "tozero"},
        height=230,
        margin=chart_style.MARGIN,
    )
    chart_style.show(
        figure, key="expected-epsilon", alt=f"Expected ε against steps, ending at {promised_text(coming.curve[1][-1])}"
    )


def _group_line(coming: Preview, privacy: PrivacySpec, most_notes: int, *, secret: bool) -> None:
    """What the guarantee per note means for the patient with the most notes (group privacy; Jagannatha 2021)."""
    epsilon = coming.epsilon
    if privacy.unit == "patient" or most_notes < 2 or epsilon is None or coming.mechanism is None:
        return
    if not math.isfinite(epsilon):
        return
    whole = _patient_epsilon(coming.mechanism, most_notes)
    guarantees = "guarantees" if secret else "would guarantee"
    supposed = "" if secret else ", if its noise were secret"
    limit = f"only ε = {promised_text(whole)}" if math.isfinite(whole) else "nothing"
    empty = ", which is no protection" if PROMISES_NOTHING < whole < math.inf else ""
    st.caption(
        f"The patient with the most training notes has {most_notes}. For all of these together, this run with these "
        f"settings {guarantees} {limit} at the same δ{empty}{supposed}. To protect whole patients, choose “all of a "
        "patient's notes”."
    )


@resources.cached_data(max_entries=200, show_spinner="Computing ε for a whole patient …")
def _patient_epsilon(mechanism: str, notes: int) -> float:
    """ε of a mechanism (as JSON) for a patient with `notes` notes."""
    from core.training.accounting.mechanism import Mechanism

    return Mechanism.from_json(mechanism).patient_epsilon(notes)
