"""The settings of a training run, each with its effect in plain words, and their cost before training starts."""

from __future__ import annotations

import math

import streamlit as st
from pydantic import ValidationError
from streamlit.delta_generator import DeltaGenerator

from core.common.formatting import REPRODUCIBLE, promised_text
from core.common.refusals import out_of_range
from core.evaluation.wording import ALL_RIGHT, most_right_guesses, right_of_100
from core.models.shipped_bases import shipped_folder
from core.spec import (
    SHORT_READS,
    CorpusSpec,
    ModelKind,
    ModelSpec,
    PrivacySpec,
    RunSpec,
    TrainingSpec,
    audit_of,
    recipe_of,
)
from core.spec.model_names import MODEL_NAMES
from pages.parts.common.query_params import KEEP
from pages.parts.pickers.cohort_picker import sentence
from pages.parts.pickers.epsilon_slider import epsilon_key, pick
from pages.parts.train.risk_settings import choose_limit, suggested, with_noise
from pages.parts.train.vocabulary_settings import choose_words

EPSILONS = (0.5, 1, 2, 3, 5, 8, 10, 30, 100, 1_000, 10_000, math.inf)
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
SYMBOLS = {"delta": "δ", "noise_multiplier": "σ", "target_epsilon": "ε"}  # labels of these settings
MOST_EPOCHS = 1_000  # that `TrainingSpec` allows
UNITS = {"note": "each note", "patient": "all of a patient's notes"}
TIMES = {"short": "short, for a class", "full": "full recipe"}
ACCOUNTANTS = {
    "prv": "PRV: tight upper bound (recommended)",
    "rdp": "RDP: looser upper bound",
    "gdp": "GDP: approximation, mostly under-reports ε",
}


def choose_run(corpus: CorpusSpec, *, notes: int, capped: int) -> RunSpec | str:
    """The settings of a run; a sentence if one of them is invalid.

    Args:
        corpus: The cohort.
        notes: Its training notes.
        capped: Those that are used if patients are protected, of whom each has at most so many (`RunSpec.note_cap`).
    """
    kind = st.segmented_control(
        "Model", list(KINDS), default="gpt2", required=True, format_func=MODEL_NAMES.__getitem__, key="kind", **KEEP
    )
    st.caption(f"{MODEL_NAMES[kind]} {KINDS[kind]}.")
    try:
        privacy, meaning = _privacy(corpus)
        if privacy.unit == "patient":
            notes = capped
        privacy, training = _training(kind, privacy, corpus, notes=notes)
        words = choose_words(kind, privacy)
        spec = RunSpec(
            corpus=corpus,
            model=ModelSpec(kind=kind),
            privacy=privacy,
            training=training,
            audit=audit_of(corpus),
            vocabulary=words,
        )
        if meaning is not None:
            meaning.caption(_meaning(spec))
        return spec
    except ValidationError as error:
        return sentence(error, SYMBOLS)
    except ValueError as error:
        said = str(error)
        return f"{said[0].upper() if said[0].isascii() else said[0]}{said[1:]}."  # Δ is another quantity than δ


def _privacy(corpus: CorpusSpec) -> tuple[PrivacySpec, DeltaGenerator | None]:
    """The privacy settings, and the place below the slider over ε for what that ε guarantees: more settings decide."""
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
    target = sigma = limit = meaning = None
    if mode == "risk":
        limit, sigma = choose_limit(), 1.0  # σ follows from the limit once batch size and epochs are known
    elif mode == "noise":
        sigma = st.number_input("σ, noise multiplier", value=1.0, format="%g", key="sigma", **KEEP)
        st.caption("The noise added to each clipped step, in units of the clipping norm. More noise gives a smaller ε.")
    else:
        options = {epsilon_key(epsilon): float(epsilon) for epsilon in EPSILONS}
        chosen = options[pick("Privacy budget ε: ← more private · more useful →", "epsilon", options, "8")]
        target = None if math.isinf(chosen) else chosen
        meaning = st.empty()
    private = target is not None or sigma is not None
    unit, delta, accountant, secret = "note", 1e-5, "prv", False
    if private:
        unit = st.radio(
            "Protected unit", ["note", "patient"], key="unit", horizontal=True, **KEEP, format_func=UNITS.__getitem__
        )
        st.caption(
            "A patient with many notes is protected less than a single note."
            if unit == "note"
            else "The stronger guarantee: it covers all notes of one patient, but not what other people's notes, such "
            "as relatives' notes, reveal about them."
        )
        secret = _secret_noise(corpus)
        with st.expander("δ and accountant"):
            delta = st.number_input("δ: allowance for outcomes beyond ε", value=1e-5, format="%g", key="delta", **KEEP)
            if limit is None:
                accountant = st.selectbox(
                    "Accountant", list(ACCOUNTANTS), format_func=ACCOUNTANTS.__getitem__, key="accountant", **KEEP
                )
    chosen_privacy = PrivacySpec(
        target_epsilon=target,
        noise_multiplier=sigma,
        delta=delta,
        unit=unit,
        accountant=accountant,
        noise_source="secret" if secret else None,
        risk_limit=limit,
    )
    return chosen_privacy, meaning


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


def _meaning(spec: RunSpec) -> str:
    """What the chosen ε guarantees: how far it limits the change of anyone's odds that one unit was in the data."""
    target = spec.privacy.target_epsilon
    if target is None:
        return "No privacy: the influence of a note is not limited. Use this to see what leaks."
    if not spec.target_is_guaranteed:
        why = "the words add to it" if spec.vocabulary is not None else "GDP mostly under-reports it"
        return f"The run guarantees a larger ε than this one, because {why}: see its figures before training."
    if right_of_100(most_right_guesses(target)) == ALL_RIGHT:  # e^ε is astronomical, or no number of the machine's
        return (
            "This ε promises nothing: it hardly limits how far the model changes anyone's odds that one protected "
            "unit was in the data. An audit shows only what the attacks tried here achieve."
        )
    size = promised_text(math.exp(target))  # a limit too, so rounded up
    weak = ""
    if target >= 8:
        weak = " This is a weak guarantee, and an audit shows only what the attacks tried here achieve."
    return (
        f"The model changes anyone's odds that one protected unit was in the data at most {size}-fold "
        f"(except in rare outcomes, which δ allows).{weak}"
    )


def _training(
    kind: ModelKind, privacy: PrivacySpec, corpus: CorpusSpec, *, notes: int
) -> tuple[PrivacySpec, TrainingSpec]:
    """The privacy, with the noise that a limit on the attacker needs, and the training settings.

    Epochs and batch size come first, because that noise depends on them. Their defaults are the measured recipe's,
    which depends on the privacy, the model and the size of the cohort. Each default has a widget of its own: under one
    key, Streamlit would keep the old default. In a cohort too small for the recipe's batch size, the default is a
    quarter of its notes.

    Raises:
        ValueError: A setting is out of its range, in a sentence without its full stop.
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
    # No ranges here: the browser would keep a number outside them back, and train with the one before.
    epochs = left.number_input("Epochs", value=often, step=1, key=f"epochs_{mode}_{often}", **KEEP)
    batch = right.number_input("Batch size", value=size, step=32, key=f"batch_{mode}_{size}", **KEEP)
    most = max(notes, size)  # a larger batch than all notes cannot be drawn
    wrong = out_of_range("Epochs", epochs, 1, MOST_EPOCHS) or out_of_range("Batch size", batch, 1, most)
    st.caption(
        "With more epochs, the model learns more but needs more noise for the same ε. With larger batches, the noise "
        "averages out but steps take longer."
        if private
        else "Epochs: how often training uses every note. With each epoch, the model memorises more of the notes."
    )
    if privacy.risk_limit is not None and not wrong:
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
    if wrong:  # after all boxes, so that none of them disappears
        raise ValueError(wrong)
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
        format_func=TIMES.__getitem__,
        key="training_time",
        **KEEP,
        help=f"Short: reads about {SHORT_READS:,} notes in all, in two to three minutes on two cores. Full: recipe of "
        "the shipped runs, which reads more and learns more.",
    )
    return chosen == "short"
