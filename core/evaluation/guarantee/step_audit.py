"""What gradients planted in a private training prove about its ε (`core.training.checks.gradient_canaries`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.evaluation.guarantee.curve_bound import curve_epsilon
from core.evaluation.guarantee.epsilon_bounds import one_run_epsilon
from core.training.accounting.mechanism import Mechanism

GUESSED = 0.1  # of the canaries: those with most evidence are said to be in, nothing is said about the others


@dataclass(frozen=True)
class StepAudit:
    """How many guesses were right, and the ε that they prove at 95 %, beside the promised one."""

    canaries: int
    guesses: int
    correct: int
    proved: float  # for any mechanism with an (ε, δ) (Steinke et al. 2023)
    proved_by_curve: float  # for Poisson-sampled Gaussian steps like the run's (Mahloujifar et al. 2025)
    promised: float

    @property
    def alarm(self) -> bool:
        """Whether more is proved than was promised."""
        return max(self.proved, self.proved_by_curve) > self.promised


def step_audit(inside: np.ndarray, evidence: np.ndarray, mechanism: Mechanism) -> StepAudit:
    """Guess the canaries with most evidence to be in, a tenth of all, and bound ε by the right guesses.

    Args:
        inside: the coins, (canaries,) bool.
        evidence: that each canary is in; higher is likelier, (canaries,).
        mechanism: of the training.

    Raises:
        ValueError: fewer than 10 canaries.
    """
    count = len(inside)
    if count < 1 / GUESSED:
        raise ValueError(f"an audit by planted gradients needs at least {1 / GUESSED:.0f} canaries, not {count}")
    guesses = round(GUESSED * count)
    said = np.argsort(evidence, kind="stable")[count - guesses :]
    correct = int(np.asarray(inside, dtype=bool)[said].sum())
    given = {"canaries": count, "guesses": guesses, "correct": correct}
    return StepAudit(
        **given,
        proved=one_run_epsilon(**given, delta=mechanism.delta),
        proved_by_curve=curve_epsilon(mechanism, **given),
        promised=mechanism.epsilon(),
    )
