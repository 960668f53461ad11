"""The caption about private runs whose noise has a public seed, for every page that states what their ε allows."""

from __future__ import annotations

from collections.abc import Iterable

import streamlit as st

from core.common.formatting import REPRODUCIBLE
from core.runs.run import Run

SENTENCE = f"{REPRODUCIBLE[0].upper()}{REPRODUCIBLE[1:]}."
WHY = (
    "Their noise is derived from the training seed, so that a lesson can be repeated. Anyone can generate that noise "
    "again and subtract it. Train with secret noise to make ε a guarantee."
)


def public_noise(runs: Iterable[Run]) -> bool:
    """Whether any of these runs is private and took its noise from a public seed."""
    return any(run.noise_source == "public seed" for run in runs)


def caption_public_noise(runs: dict[str, Run]) -> None:
    """A caption that names the runs whose ε is not a guarantee; nothing if every private run has secret noise."""
    names = [f"“{name}”" for name, run in runs.items() if public_noise([run])]
    if names:
        st.caption(f"{', '.join(names)}: {REPRODUCIBLE}.", help=WHY)
