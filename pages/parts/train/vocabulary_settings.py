"""Words from the notes in the model's word list: the settings, their cost and their effect (Hoory 2021, §3.2)."""

from __future__ import annotations

import streamlit as st

from core.common.formatting import delta_text, promised_text
from core.spec import ModelKind, PrivacySpec, RunSpec, VocabularySpec
from pages.parts.common.query_params import KEEP

NOISES = {"gaussian": "Gaussian: more words for the same ε", "laplace": "Laplace: as in Hoory et al. 2021"}


def choose_words(kind: ModelKind, privacy: PrivacySpec) -> VocabularySpec | None:
    """The settings of a vocabulary from the notes.

    Returns:
        The vocabulary; None if the model keeps the public word list.

    Raises:
        ValidationError: A setting is invalid.
    """
    if kind == "gpt2":
        return None
    with st.expander("Vocabulary from the notes"):
        st.caption(
            "The public word list splits most clinical words into pieces. You can add words from the notes to it "
            "before training. But everyone who has the model can read its word list: a rare name in it has leaked, "
            "however privately the model was trained."
        )
        if not st.toggle("Add words from the notes", key="own_words", **KEEP):
            return None
        pieces = st.number_input("Maximum new entries", value=512, step=64, key="word_pieces", **KEEP)
        if not privacy.private:
            st.caption("Without privacy, words are counted without noise. Use this to see what a word list reveals.")
            return VocabularySpec(pieces=pieces)
        left, right = st.columns(2)
        epsilon = left.number_input("ε for the words", value=2.0, format="%g", key="word_epsilon", **KEEP)
        unit = privacy.unit
        usual = 10 if unit == "note" else 60  # these keep the most words, measured on the classroom cohort
        words = right.number_input(
            f"Maximum words per {unit}", value=usual, step=1, key=f"words_counted_{unit}", **KEEP
        )
        noise = st.selectbox("Noise", list(NOISES), format_func=NOISES.__getitem__, key="word_noise", **KEEP)
        st.caption(
            f"Each {unit} adds at most this many different words, the counts get noise, and rare words are dropped. "
            "This ε is added to that of training."
        )
        return VocabularySpec(epsilon=epsilon, words=words, pieces=pieces, noise=noise)


def words_sentence(spec: RunSpec, training_epsilon: float | None) -> str:
    """The ε of the words, and how common a word must be to enter the list."""
    words = spec.vocabulary
    assert words is not None  # asked of runs with words of their own
    if words.epsilon is None:
        return "Every word of the notes counts, without noise: the word list may contain patients' names."
    from core.models.word_noise import WordNoise

    assert training_epsilon is not None  # words with an ε are of private runs only
    noise, unit = WordNoise.planned(words), spec.privacy.unit
    return (
        f"Of this, the vocabulary spends ε = {words.epsilon:g} at δ = {delta_text(words.delta)} and training "
        f"{promised_text(training_epsilon)} at δ = {delta_text(spec.privacy.delta)}. A word enters the list if about "
        f"{noise.threshold:,.0f} {unit}s or more contribute it; the noise on that count has a scale of "
        f"{noise.scale:.3g}."
    )
