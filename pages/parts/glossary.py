"""The words of this field, each in one plain sentence."""

from __future__ import annotations

import streamlit as st

TERMS: dict[str, str] = {
    "PHI": "protected health information: health data together with something that says whose it is.",
    "Leak": "the model wrote a direct identifier (name, date of birth, number …) of a patient it was trained on.",
    "Linked leak": "it wrote such a patient's diagnosis, medication or procedure beside that patient's identity.",
    "Coincidence": "what it wrote fits only patients it never saw, or a diagnosis tied to nobody.",
    "Invented": "it has the shape of an identifier, and belongs to nobody in the cohort.",
    "Member": "a patient whose notes were used for training. The others are held out.",
    "Control": "the same figure for held-out patients, or for the public model before it read any note. "
    "Only what exceeds its control is evidence of memorising.",
    "Differential privacy (DP)": "training with clipped, noisy steps, so that "
    "no single note (or patient) can change the model much.",
    "ε (epsilon)": "the privacy budget: how much one protected unit can change what the model does. "
    "Small is private, ∞ is no privacy. It always has a unit: per note, or per patient.",
    "δ (delta)": "the small probability with which the promise of ε may fail.",
    "σ (noise multiplier)": "how much noise is added, in units of the clipping norm. More noise means a smaller ε.",
    "Canary": "an invented secret planted in the notes on purpose, to measure how well the model remembers it.",
    "Exposure": "how far up a canary moved in the ranking of all possible secrets, in bits; "
    "a canary never seen averages about 1.4 bits.",
    "Perplexity": "how surprised the model is by notes of patients it has not seen. Lower is better.",
    "AUC": "how well an attacker tells members from others: 0.5 is a coin, 1.0 is always right.",
    "95 % interval": "the range of rates that fit what was counted; few tries give a wide range.",
}


def show() -> None:
    """Draw the list, inside whatever container is open."""
    st.markdown("\n".join(f"- **{term}**: {meaning}" for term, meaning in TERMS.items()))


def browse() -> None:
    """Every word, with a search."""
    show()
