"""The guarantee for a patient with several notes, given a guarantee per note: exact accounting and the group formula.

A step samples each of the patient's k notes with probability q, so it contains Bin(k, q) of them. In the worst case all
their clipped gradients point in the same direction. The step is then a mixture of Gaussians N(j, σ²) against N(0, σ²)
(Ganesh 2024), and the steps' privacy losses are composed like those of single notes
(`core.training.accounting.privacy_loss`). The group formula uses only the (ε, δ) of one note: it multiplies ε by k and
lets δ grow by about e^((k−1)ε).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.models.word_noise import WordNoise
from core.training.accounting.composition import NoisyMechanism, composed_epsilon, history_of
from core.training.accounting.gaussian import group_epsilon
from core.training.accounting.privacy_loss import numerical_epsilon


def patient_epsilon(mechanisms: Sequence[NoisyMechanism], notes: int, delta: float) -> float:
    """ε at `delta` of all mechanisms together for a patient with `notes` notes, who is in the data or is not.

    A certified upper bound, and exact to about 0.02 % without vocabularies. It is ∞ (no guarantee) for more than
    `privacy_loss.MOST_UNITS` notes, or if the vocabularies alone use up `delta`. Each mechanism must protect notes and
    have its own noise and samples.

    Raises:
        ValueError: for mechanisms that protect patients, fewer than 1 note, or a δ outside (0, 1).
    """
    if notes < 1:
        raise ValueError(f"a patient has at least one note, not {notes}")
    alone = composed_epsilon(mechanisms, delta)[0]
    if notes == 1 or not mechanisms:
        return alone
    if any(mechanism.unit != "note" for mechanism in mechanisms):
        raise ValueError("only guarantees for notes can be converted to a patient's notes")
    words = [words_for_notes(one.vocabulary, notes) for one in mechanisms if one.vocabulary is not None]
    left = delta - sum(share for _, share in words)
    if left <= 0:
        return math.inf
    spent = sum(epsilon for epsilon, _ in words)
    return max(alone, spent + numerical_epsilon(history_of(mechanisms), left, notes))


def words_for_notes(noise: WordNoise, notes: int) -> tuple[float, float]:
    """(ε, δ) that a vocabulary adds for several notes; its Gaussian noise is composed with training instead.

    Laplace noise uses the group formula, which is loose.
    """
    return noise.added(notes) if noise.multiplier is not None else group_epsilon(*noise.added(), notes)
