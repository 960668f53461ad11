"""What a promise per note means for a patient with several notes: exact accounting, and the loose group formula.

A step draws each of the patient's k notes with chance q, so it holds Bin(k, q) of them. In the worst case all their
clipped gradients point the same way. Then the step is a mixture of Gaussians N(j, σ²) against N(0, σ²) (Ganesh 2024),
and the steps' privacy losses are composed as those of single notes are (`core.training.accounting.privacy_loss`). The
group formula knows no more than (ε, δ) of one note: it multiplies ε by k and lets δ grow by about e^((k−1)ε).
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

    A certified upper bound, and exact to about 0.02 % without vocabularies. ∞ where nothing is promised: for more than
    `privacy_loss.MOST_UNITS` notes, or where the words alone use `delta` up. Each mechanism must protect notes and
    have noise and samples of its own. Raises ValueError for mechanisms that protect patients, fewer than 1 note, or a δ
    outside (0, 1).
    """
    if notes < 1:
        raise ValueError(f"a patient has at least one note, not {notes}")
    alone = composed_epsilon(mechanisms, delta)[0]
    if notes == 1 or not mechanisms:
        return alone
    if any(mechanism.unit != "note" for mechanism in mechanisms):
        raise ValueError("only promises for notes are carried over to a patient's notes")
    words = [_words(one.vocabulary, notes) for one in mechanisms if one.vocabulary is not None]
    left = delta - sum(share for _, share in words)
    if left <= 0:
        return math.inf
    spent = sum(epsilon for epsilon, _ in words)
    return max(alone, spent + numerical_epsilon(history_of(mechanisms), left, notes))


def _words(noise: WordNoise, notes: int) -> tuple[float, float]:
    """(ε, δ) that a vocabulary adds for several notes; its Gaussian noise is composed with training instead.

    Laplace noise is carried over by the group formula, which is loose.
    """
    return noise.added(notes) if noise.multiplier is not None else group_epsilon(*noise.added(), notes)
