"""The settings of a training run, each with its effect in plain words, and their cost before training starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from pydantic import ValidationError

from core.common.formatting import REPRODUCIBLE, delta_text, promised_text
from core.evaluation.wording import NBSP
from core.models.shipped_bases import shipped_folder
from core.spec import (
    SHORT_READS,
    CorpusSpec,
    ModelKind,
    ModelSpec,
    PrivacySpec,
    RunSpec,
    TrainingSpec,
    VocabularySpec,
    audit_of,
    recipe_of,
)
from pages.parts.common import chart_style
from pages.parts.common.query_params import KEEP
from pages.parts.pickers.cohort_picker import sentence
from pages.parts.session import resources
from pages.parts.train.risk_settings import choose_limit, show_consequences, suggested, with_noise
from pages.parts.train.vocabulary_settings import choose_words, words_sentence

EPSILONS = ("0.5", "1", "2", "3", "5", "8", "10", "30", "100", "1000", "10000", "∞")
_ABOUT: dict[ModelKind, str] = {
    "gpt2": "continues the text you type, word by word",
    "distilbert": "fills blanks in a text",
    "bert": "fills blanks in a text; at this size nearly the same model as DistilBERT",
}
KINDS = {
    kind: what
    for kind, what in _ABOUT.items()
    if (
        shipped_folder(ModelSpec(kind=kind)) / "model.safetensors"
    ).exists()  # offer only models that can be trained here
}
ACCOUNTANTS = {
    "prv": "PRV: tight upper bound (recommended)",
    "rdp": "RDP: looser upper bound",
    "gdp": "GDP: approximation, mostly under-reports ε",
}
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
    answered_by: str | None = None  # the accountant that gave ε, if it is not the chosen one
    curve: tuple[tuple[int, ...], tuple[float, ...]] | None = None


def choose_run(corpus: CorpusSpec, *, notes: int, capped: int) -> RunSpec | None:
    """The settings of a run. None if a setting is invalid (a sentence says which).

    Args:
        corpus: The cohort.
        notes: Its training notes.
        capped: Those that are used if patients are protected, of whom each has at most so many (`RunSpec.note_cap`).
    """
    kind = st.segmented_control(
        "Model",
        list(KINDS),
        default="gpt2",
        required=True,
        format_func=chart_style.MODEL_NAMES.__getitem__,
        key="kind",
        **KEEP,
    )
    st.caption(f"{chart_style.MODEL_NAMES[kind]} {KINDS[kind]}.")
    try:
        privacy = _privacy(corpus)
        if privacy.unit == "patient":
            notes = capped
        privacy, training = _training(kind, privacy, corpus, notes=notes)
        words = choose_words(kind, privacy)
        return RunSpec(
            corpus=corpus,
            model=ModelSpec(kind=kind),
            privacy=privacy,
            training=training,
            audit=audit_of(corpus),
            vocabulary=words,
        )
    except ValidationError as error:
        st.error(sentence(error), icon=":material/error:")
    except ValueError as error:
        st.error(f"{str(error)[0].upper()}{str(error)[1:]}.", icon=":material/error:")
    return None


def _privacy(corpus: CorpusSpec) -> PrivacySpec:
    mode = st.segmented_control(
        "Privacy",
        ["budget", "risk", "noise"],
        default="budget",
        required=True,
        key="privacy",
        **KEEP,
        format_func={"budget": "choose ε", "risk": "choose the risk", "noise": "choose σ (expert)"}.__getitem__,
        help="Choose the privacy budget (ε), what an attacker may achieve, or the amount of noise (σ). Each determines "
        "the others.",
    )
    target = sigma = limit = None
    if mode == "risk":
        limit, sigma = choose_limit(), 1.0  # σ follows from the limit once batch size and epochs are known
    elif mode == "noise":
        sigma = st.number_input("σ, noise multiplier", value=1.0, format="%g", key="sigma", **KEEP)
        st.caption("The noise added to each clipped step, in units of the clipping norm. More noise gives a smaller ε.")
    else:
        chosen = st.select_slider(
            "Privacy budget ε: ← more private · more useful →", EPSILONS, "8", key="epsilon", **KEEP
        )
        target = None if chosen == "∞" else float(chosen)
        st.caption(_meaning(target))
    private = target is not None or sigma is not None
    unit, delta, accountant, secret = "note", 1e-5, "prv", False
    if private:
        unit = st.radio(
            "Protected unit",
            ["note", "patient"],
            key="unit",
            horizontal=True,
            **KEEP,
            format_func={"note": "each note", "patient": "all of a patient's notes"}.__getitem__,
        )
        st.caption(
            "A patient with many notes is protected less than a single note."
            if unit == "note"
            else "The stronger guarantee: it covers all notes of one patient, but not what other people's notes, such "
            "as relatives' notes, reveal about them."
        )
        secret = _secret_noise(corpus)
        with st.expander("δ and accountant"):
            delta = st.number_input(
                "δ: probability that the guarantee fails", value=1e-5, format="%g", key="delta", **KEEP
            )
            if limit is None:
                accountant = st.selectbox(
                    "Accountant", list(ACCOUNTANTS), format_func=ACCOUNTANTS.__getitem__, key="accountant", **KEEP
                )
    return PrivacySpec(
        target_epsilon=target,
        noise_multiplier=sigma,
        delta=delta,
        unit=unit,
        accountant=accountant,
        noise_source="secret" if secret else None,
        risk_limit=limit,
    )


def _secret_noise(corpus: CorpusSpec) -> bool:
    """Whether the run's settings ask for secret noise; runs on uploaded notes always have it without asking."""
    if corpus.imported is not None:
        st.caption("The noise comes from a secret key that is destroyed after training, as always for uploaded notes.")
        return False
    secret = st.toggle(
        "Secret noise",
        key="secret_noise",
        **KEEP,
        help="Off: the noise is derived from the training seed, so that anyone can repeat a lesson exactly. "
        "On: noise and samples come from a key of 128 random bits that is destroyed after training. ε then holds, and "
        "the run cannot be repeated exactly.",
    )
    st.caption(
        "The noise comes from a secret key that is destroyed after training: ε is promised."
        if secret
        else f"{REPRODUCIBLE[0].upper()}{REPRODUCIBLE[1:]}. Anyone can generate the noise again from the training seed."
    )
    return secret


def _meaning(target: float | None) -> str:
    """What an ε guarantees: how far it limits the change of anyone's odds about one unit."""
    if target is None:
        return "No privacy: the influence of a note is not limited. Use this to see what leaks."
    factor = math.exp(target)
    size = f"{factor:,.1f}" if factor < 100 else f"{factor:,.0f}"
    weak = " This is a weak guarantee on paper; the audit shows what happens in practice." if target >= 8 else ""
    return (
        f"Whatever someone suspects about one protected unit, the model changes their odds at most {size}-fold (except "
        f"with probability δ).{weak}"
    )


def _training(
    kind: ModelKind, privacy: PrivacySpec, corpus: CorpusSpec, *, notes: int
) -> tuple[PrivacySpec, TrainingSpec]:
    """The privacy, with the noise that a limit on the attacker needs, and the training settings.

    Epochs and batch size come first, because that noise depends on them. Their defaults are the measured recipe's,
    which depends on the privacy, the model and the size of the cohort. Each default has a widget of its own: under one
    key, Streamlit would keep the old default. In a cohort too small for the recipe's batch size, the default is a
    quarter of its notes.
    """
    private = privacy.private
    short = _short(kind, privacy, corpus)
    asked = privacy if privacy.risk_limit is None else suggested(kind, privacy, corpus, notes=notes, short=short)
    default = recipe_of(kind, asked, corpus, short=short)
    mode = "private" if private else "plain"
    if default.batch_size > notes:
        default = default.model_copy(update={"batch_size": max(1, notes // 4)})
        mode += "_small"
    left, right = st.columns(2)
    often, size = default.epochs, default.batch_size
    epochs = left.number_input("Epochs", value=often, step=1, key=f"epochs_{mode}_{often}", **KEEP)
    batch = right.number_input("Batch size", value=size, step=32, key=f"batch_{mode}_{size}", **KEEP)
    st.caption(
        "With more epochs, the model learns more but needs more noise for the same ε. With larger batches, the noise "
        "averages out but steps take longer."
        if private
        else "Epochs: how often training uses every note. With each epoch, the model memorises more of the notes."
    )
    if privacy.risk_limit is not None:
        privacy = with_noise(privacy, default.model_copy(update={"epochs": epochs, "batch_size": batch}), notes=notes)
    with st.expander("Learning rate and seed"):
        usual = recipe_of(kind, privacy, corpus, short=short).learning_rate  # falls with ε
        rate = st.number_input("Learning rate", value=usual, format="%g", key=f"rate_{mode}_{usual:g}", **KEEP)
        seed = st.number_input(
            "Training seed",
            value=0,
            step=1,
            key="training_seed",
            **KEEP,
            help="Determines shuffling, samples and noise. With secret noise, it only distinguishes runs.",
        )
    settings = default.model_dump() | {"epochs": epochs, "batch_size": batch, "learning_rate": rate, "seed": seed}
    return privacy, TrainingSpec(**settings)


def _short(kind: ModelKind, privacy: PrivacySpec, corpus: CorpusSpec) -> bool:
    """Whether the reader wants the short recipe; not asked where the recipe is as short."""
    if recipe_of(kind, privacy, corpus) == recipe_of(kind, privacy, corpus, short=True):
        return False
    chosen = st.segmented_control(
        "Training",
        ["short", "full"],
        default="short",
        required=True,
        format_func={"short": "short, for a class", "full": "full recipe"}.__getitem__,
        key="training_time",
        **KEEP,
        help=f"Short: reads about {SHORT_READS:,} notes in all, in some two minutes on two cores. Full: the recipe of "
        "the shipped runs, which reads more and learns more.",
    )
    return chosen == "short"


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

    warnings = plan.check(privacy, training, notes=notes, patients=patients)
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
        accountant=mechanism.accountant,
    )
    return Preview(
        steps=planned.steps,
        warnings=tuple(warnings),
        sigma=mechanism.noise_multiplier,
        sample_rate=planned.sample_rate,
        epsilon=spent,
        delta=whole.delta,
        mechanism=whole.to_json(),
        answered_by=None if answered_by == privacy.accountant else answered_by,
        curve=(tuple(counts.tolist()), tuple(values.tolist())),
    )


def show_preview(spec: RunSpec, coming: Preview, *, most_notes: int) -> None:
    """The run's figures, the expected ε curve, and warnings. `most_notes` is the most training notes of a patient."""
    privacy = spec.privacy
    with st.grid(4, min_column_width=120):
        st.metric(
            "steps", f"{coming.steps:,}", help=None if privacy.private else "Approximate: long notes are split in two."
        )
        if privacy.private:
            assert coming.sample_rate is not None  # a private run has everything
            st.metric("noise σ", f"{coming.sigma:.3g}")
            st.metric(f"{privacy.unit}s per step", f"{100 * coming.sample_rate:.1f}{NBSP}%")
            st.metric(f"ε per {privacy.unit}", f"{coming.epsilon:.3g}")
    if privacy.private:
        counted = coming.answered_by or privacy.accountant
        assert coming.delta is not None  # a private run has everything
        st.caption(
            f"ε = {coming.epsilon:.3g} per {privacy.unit} at δ = {delta_text(coming.delta)}, "
            f"computed by {counted.upper()}."
            + ("" if spec.secret_noise else f" {REPRODUCIBLE[0].upper()}{REPRODUCIBLE[1:]}.")
        )
    if spec.vocabulary is not None:
        st.caption(words_sentence(spec, coming.curve[1][-1] if coming.curve else None))
    for warning in coming.warnings:
        st.warning(f"{warning[0].upper()}{warning[1:].rstrip('.')}.", icon=":material/warning:")
    if not privacy.private:
        return
    if coming.answered_by:
        st.warning(
            f"The {privacy.accountant.upper()} accountant has no result here. ε is from {coming.answered_by.upper()}.",
            icon=":material/warning:",
        )
    if privacy.risk_limit is not None:
        assert coming.sample_rate is not None  # a private run has everything
        show_consequences(privacy, coming.sample_rate, coming.steps, promised=spec.secret_noise)
    else:
        _curve(coming, privacy)
    _group_line(coming, privacy, most_notes)


def _curve(coming: Preview, privacy: PrivacySpec) -> None:
    assert coming.curve is not None  # a private run has everything
    data = pd.DataFrame({"step": coming.curve[0], "epsilon": coming.curve[1]})
    if not data["epsilon"].map(math.isfinite).all() or data["epsilon"].max() > PROMISES_NOTHING:
        st.warning(
            f"With σ = {coming.sigma:g} there is almost no noise: ε = {coming.epsilon:.3g} guarantees nothing.",
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
            hovertemplate="after step %{x}: ε = %{y:.3f}<extra></extra>",
        )
    )
    figure.update_layout(
        xaxis={"title": "step", "range": [0, coming.steps]},
        yaxis={"title": "expected ε" if coming.delta == privacy.delta else "ε of training", "rangemode": "tozero"},
        height=230,
        margin={"t": 10, "b": 10, "l": 10, "r": 10},
    )
    chart_style.show(
        figure, key="expected-epsilon", alt=f"Expected ε against steps, ending at {coming.curve[1][-1]:.3g}"
    )


def _group_line(coming: Preview, privacy: PrivacySpec, most_notes: int) -> None:
    """What the guarantee per note means for the patient with the most notes (group privacy; Jagannatha 2021)."""
    epsilon = coming.epsilon
    if privacy.unit == "patient" or most_notes < 2 or epsilon is None or coming.mechanism is None:
        return
    if not math.isfinite(epsilon):
        return
    whole = _patient_epsilon(coming.mechanism, most_notes)
    limit = f"only ε = {promised_text(whole)}" if math.isfinite(whole) else "nothing"
    empty = ", which protects nobody" if PROMISES_NOTHING < whole < math.inf else ""
    st.caption(
        f"The patient with the most training notes has {most_notes}. For all of these together, this run guarantees "
        f"{limit} at the same δ{empty}. To protect whole patients, choose “all of a patient's notes”."
    )


@resources.cached_data(max_entries=200, show_spinner="Computing ε for a whole patient …")
def _patient_epsilon(mechanism: str, notes: int) -> float:
    """ε of a mechanism (as JSON) for a patient with `notes` notes."""
    from core.training.accounting.mechanism import Mechanism

    return Mechanism.from_json(mechanism).patient_epsilon(notes)
