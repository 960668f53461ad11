"""Words of the notes in the model's word list: the knobs, and what they will cost and let through (row H1)."""

from __future__ import annotations

import streamlit as st

from core.common.formatting import delta_text
from core.spec import ModelKind, PrivacySpec, RunSpec, VocabularySpec
from pages.parts.common.query_params import KEEP

NOISES = {"gaussian": "Gaussian: more words for the same ε", "laplace": "Laplace: as Hoory et al. 2021 have it"}


def choose_words(kind: ModelKind, privacy: PrivacySpec) -> VocabularySpec | None:
    """The knobs of a model's own words; None where it keeps the public word list. Raises what VocabularySpec raises."""
    if kind == "gpt2":
        return None
    with st.expander("Words of its own"):
        st.caption(
            "The public word list cuts most clinical words into pieces. Words of the notes can be added to it before "
            "training. But a word list is read by everybody who has the model: a rare name that stands in it "
            "has leaked, however privately the model was trained."
        )
        if not st.toggle("Add words of the notes", key="own_words", **KEEP):
            return None
        pieces = st.number_input("At most so many new entries", value=512, step=64, key="word_pieces", **KEEP)
        if not privacy.private:
            st.caption("Without privacy the words are counted as they are. Use it to see what a word list gives away.")
            return VocabularySpec(pieces=pieces)
        left, right = st.columns(2)
        epsilon = left.number_input("ε for the words", value=2.0, format="%g", key="word_epsilon", **KEEP)
        unit = privacy.unit
        usual = 10 if unit == "note" else 60  # measured on the classroom cohort: what leaves most words
        words = right.number_input(
            f"Words counted of a {unit}", value=usual, step=1, key=f"words_counted_{unit}", **KEEP
        )
        noise = st.selectbox("Noise", list(NOISES), format_func=NOISES.__getitem__, key="word_noise", **KEEP)
        st.caption(
            f"Each {unit} adds at most so many different words, the counts get noise, and rare words fall out. This ε "
            "comes on top of training's."
        )
        return VocabularySpec(epsilon=epsilon, words=words, pieces=pieces, noise=noise)


def words_sentence(spec: RunSpec, training_epsilon: float | None) -> str:
    """What the words cost, and how common a word must be to come through."""
    words = spec.vocabulary
    assert words is not None  # asked of runs with words of their own
    if words.epsilon is None:
        return "Every word of the notes counts, without noise: its word list may name patients."
    from core.models.word_noise import WordNoise

    noise, unit = WordNoise.planned(words), spec.privacy.unit
    return (
        f"Of this, its own words spend ε = {words.epsilon:g} at δ = {delta_text(words.delta)} and training "
        f"{training_epsilon:.3g} at δ = {delta_text(spec.privacy.delta)}. A word comes through if about "
        f"{noise.threshold:,.0f} {unit}s or more are drawn to say it; the noise on that count has a spread of "
        f"{noise.scale:.3g}."
    )
