"""The joint guarantee of mechanisms of which some were chosen as the best of several runs, by Rényi divergences.

A choice has a bound on Rényi divergences only (`core.training.accounting.choosing`), so it cannot join a convolution of
privacy losses. Where anything was chosen, the divergences of all mechanisms are added at common orders and converted
once (Mironov 2017, proposition 1; Balle et al. 2020, theorem 21). Where nothing was, `composition` and `group_privacy`
answer as ever.

The theorem about a choice holds for any two data sets, with the divergences that one training has between them. For a
patient with several notes these are `core.training.accounting.group_divergences`: no group formula is needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from core.spec import Accountant
from core.training.accounting.choosing import check_covered, chosen_divergences, chosen_epsilon
from core.training.accounting.composition import added_by_vocabularies, composed_epsilon, history_of, of_two
from core.training.accounting.group_divergences import GROUP_ORDERS, group_divergences
from core.training.accounting.group_privacy import patient_epsilon, words_for_notes
from core.training.accounting.mechanism import Mechanism
from core.training.accounting.privacy_loss import RDP_ORDERS, epsilon_of_divergences, renyi_divergences


@dataclass(frozen=True)
class Chosen:
    """The best of a random number of trainings, each of them `mechanism`: E[K] = `trainings`, η = `shape`."""

    mechanism: Mechanism
    trainings: float
    shape: float

    @property
    def delta(self) -> float:
        """δ of the release: that of one training."""
        return self.mechanism.delta

    def epsilon(self) -> float:
        """ε of the release alone, at `delta`."""
        return chosen_epsilon(self.mechanism, self.trainings, shape=self.shape)

    def patient_epsilon(self, notes: int) -> float:
        """ε of the release alone for a patient with `notes` notes, at `delta`, as `Mechanism.patient_epsilon`."""
        return total_patient_epsilon([], [self], 1 if self.mechanism.unit == "patient" else notes, self.delta)


def total_epsilon(mechanisms: Sequence[Mechanism], chosen: Sequence[Chosen], delta: float) -> tuple[float, Accountant]:
    """ε at `delta` of all mechanisms and all choices together, and the accountant that computed it.

    Without a choice this is `composed_epsilon`. With one it is RDP. Every mechanism has its own noise and samples.

    Raises:
        ValueError: as `composed_epsilon` and `core.training.accounting.choosing.chosen_epsilon` do.
    """
    if not chosen:
        return composed_epsilon(mechanisms, delta)
    if not 0 < delta < 1:
        raise ValueError(f"δ must lie between 0 and 1, not {delta}")

    def of_one(share: float) -> tuple[float, Accountant]:
        spent, spent_delta = added_by_vocabularies(mechanisms)
        left = share - spent_delta
        if left <= 0:
            return math.inf, "rdp"
        return spent + epsilon_of_divergences(_divergences(mechanisms, chosen, 1), left), "rdp"

    return of_two(of_one, delta) if any(one.replaces for one in mechanisms) else of_one(delta)


def total_patient_epsilon(mechanisms: Sequence[Mechanism], chosen: Sequence[Chosen], notes: int, delta: float) -> float:
    """ε at `delta` of all mechanisms and choices, which protect notes, for a patient with `notes` notes.

    Without a choice this is `patient_epsilon`. ∞ (no guarantee) for more than `privacy_loss.MOST_UNITS` notes, or if
    the vocabularies alone use up `delta`.

    Raises:
        ValueError: as `total_epsilon` does, for mechanisms that protect patients, or for fewer than 1 note.
    """
    if not chosen:
        return patient_epsilon(mechanisms, notes, delta)
    if notes < 1:
        raise ValueError(f"a patient has at least one note, not {notes}")
    alone = total_epsilon(mechanisms, chosen, delta)[0]
    if notes == 1:
        return alone
    if any(one.unit != "note" for one in (*mechanisms, *(each.mechanism for each in chosen))):
        raise ValueError("only guarantees for notes can be converted to a patient's notes")
    words = [words_for_notes(one.vocabulary, notes) for one in mechanisms if one.vocabulary is not None]
    left = delta - sum(share for _, share in words)
    if left <= 0:
        return math.inf
    together = epsilon_of_divergences(_divergences(mechanisms, chosen, notes), left, GROUP_ORDERS)
    return max(alone, sum(epsilon for epsilon, _ in words) + together)


def _divergences(mechanisms: Sequence[Mechanism], chosen: Sequence[Chosen], units: int) -> np.ndarray:
    """The sum of all Rényi divergences for a person with `units` units, at RDP_ORDERS or, for several, GROUP_ORDERS."""
    orders = RDP_ORDERS if units == 1 else GROUP_ORDERS
    history_of([*mechanisms, *(one.mechanism for one in chosen)])  # refuses mixed units

    def of(some: Sequence[Mechanism]) -> np.ndarray:
        history = history_of(some)
        return renyi_divergences(history, orders) if units == 1 else group_divergences(history, units, orders)

    total = of(mechanisms) if mechanisms else np.zeros(len(orders))
    for one in chosen:
        check_covered(one.mechanism)
        total = total + chosen_divergences(np.array(orders), of([one.mechanism]), one.trainings, one.shape)
    return total
