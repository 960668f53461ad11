"""What a model wrote after every epoch of its training: a strip of cards that grows, with leaks lit."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from core.runs.progress import EpochSample
from core.spec import RunSpec
from pages.parts.common import phi_text

COVERED = (
    "ε covers these texts: with DP-SGD it covers the weights after every step, and a text is computed from the weights "
    "alone. It does not cover their marks, which were found by comparing the texts with the patients' data."
)

WOULD_BE_COVERED = (
    "ε would cover these texts if the noise were secret: with DP-SGD it covers the weights after every step, and a "
    "text is computed from the weights alone. The noise of this run can be generated again from its seed. ε would not "
    "cover their marks, which were found by comparing the texts with the patients' data."
)
UNJUDGED = "No identifier of the training patients is known, so leaks cannot be marked."


def show(samples: Sequence[EpochSample], *, judged: bool = True, active: bool = False) -> None:
    """The strip, with a sentence on what leaked.

    Args:
        samples: The texts, at least one.
        judged: Whether an identifier of any training patient is known.
        active: Whether texts may follow.
    """
    found = leaks_sentence(samples, active=active) if judged else UNJUDGED
    st.markdown(f"**What the model writes after each epoch.** {found}")
    cards = [(heading(sample), sample.text, sample.spans) for sample in samples]
    st.html(phi_text.strip_html(cards, prompt=samples[-1].prompt, label="Text after each epoch, newest at the right"))


def how(samples: Sequence[EpochSample], spec: RunSpec) -> str:
    """How the texts were made, and whether ε covers them, for a fold."""
    way = "sampled token by token" if spec.model.kind == "gpt2" else "written by filling masks one by one"
    told = (
        f"Each text continues “{samples[-1].prompt}” and is {way}, always with the same seed, so that epochs differ by "
        "what was learned. One text per epoch cannot tell a leak from chance, and even if no card is "
        "lit, the model may leak after other prompts. The audit tries 14 prompts, many times each, with a control."
    )
    if not spec.privacy.private:
        return told
    return f"{told} {COVERED if spec.secret_noise else WOULD_BE_COVERED}"


def heading(sample: EpochSample) -> str:
    """`before training`, `epoch 3`."""
    return "before training" if sample.epoch == 0 else f"epoch {sample.epoch}"


def leaks_sentence(samples: Sequence[EpochSample], *, active: bool = False) -> str:
    """Which of the texts name a training patient, so far if the job is active."""
    lit = [sample for sample in samples if sample.epoch > 0 and any(span.kind == "leak" for span in sample.spans)]
    trained = sum(sample.epoch > 0 for sample in samples)
    if not trained:
        return "The first card is the public model's text."
    texts = "the text" if trained == 1 else f"{trained} texts"
    if not lit:
        return f"{'So far no' if active else 'No'} training patient's identifier in {texts}."
    first = heading(lit[0])
    return (
        f"A training patient's identifier in {len(lit)} of {texts}, first at {first}."
        if trained > 1
        else (f"A training patient's identifier in {texts}.")
    )
