"""What gradients planted in a private training prove about its ε (`core.training.checks.gradient_canaries`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.evaluation.guarantee.curve_bound import curve_proof
from core.evaluation.guarantee.epsilon_bounds import one_run_epsilon
from core.training.accounting.mechanism import Mechanism

GUESSED = 0.1  # of the canaries: those with most evidence are said to be in, nothing is said about the others
FEWEST = 50  # canaries: five right of five prove something at 95 %, four of four do not


@dataclass(frozen=True)
class StepAudit:
    """How many guesses were right, and the ε that they prove at 95 %, beside the promised one.

    `ceiling` is the most that this audit could have proved, all guesses being right, by the better of the two bounds.
    """

    canaries: int
    guesses: int
    correct: int
    proved: float  # for any mechanism with an (ε, δ) (Steinke et al. 2023)
    proved_by_curve: float  # for Poisson-sampled Gaussian steps like the run's (Mahloujifar et al. 2025)
    promised: float
    ceiling: float
    can_alarm: bool  # whether all guesses being right would raise the alarm
    alarm: bool  # more is proved than was promised, or by the curve the run's own σ is ruled out


def check_canaries(canaries: int) -> None:
    """Refuse an audit that can prove nothing, before a whole training. Raises ValueError with the fewest canaries."""
    if canaries < FEWEST:
        raise ValueError(f"an audit by planted gradients needs at least {FEWEST} canaries, not {canaries}")


def step_audit(
    inside: np.ndarray, evidence: np.ndarray, mechanism: Mechanism, *, promised: float | None = None
) -> StepAudit:
    """Guess the canaries with most evidence to be in, a tenth of all, and bound ε by the right guesses.

    Args:
        inside: the coins, (canaries,) bool.
        evidence: that each canary is in; higher is likelier, (canaries,).
        mechanism: of the training.
        promised: the ε that the run states; by default the mechanism's.

    Raises:
        ValueError: fewer than `FEWEST` canaries.
    """
    count = len(inside)
    check_canaries(count)
    guesses = round(GUESSED * count)
    said = np.argsort(evidence, kind="stable")[count - guesses :]
    correct = int(np.asarray(inside, dtype=bool)[said].sum())
    promise = mechanism.epsilon() if promised is None else promised
    proved, by_curve, alarm = _proved(mechanism, promise, count, guesses, correct)
    *most, can_alarm = _proved(mechanism, promise, count, guesses, guesses)
    return StepAudit(count, guesses, correct, proved, by_curve, promise, max(most), can_alarm, alarm)


def _proved(
    mechanism: Mechanism, promised: float, canaries: int, guesses: int, correct: int
) -> tuple[float, float, bool]:
    """Both bounds for so many right guesses, and whether they contradict the promise."""
    given = {"canaries": canaries, "guesses": guesses, "correct": correct}
    plain, curve = one_run_epsilon(**given, delta=mechanism.delta), curve_proof(mechanism, **given)
    return plain, curve.epsilon, curve.alarm or plain > promised


def sentence(audit: StepAudit) -> str:
    """What the audit found and what it could have found, in words; a promise it cannot contradict is said to be one."""
    told = (
        f"Planted gradients: {audit.correct} of {audit.guesses} guesses right ({audit.canaries:,} canaries); "
        f"proved at 95 % confidence: ε ≥ {audit.proved:.3g}, by the run's curve {audit.proved_by_curve:.3g} "
        f"(at most {audit.ceiling:.3g} can be proved so); promised {audit.promised:.3g}."
    )
    if not audit.can_alarm:
        return (
            f"{told} This audit cannot contradict ε = {audit.promised:.3g}, whatever the program does: "
            "plant more canaries."
        )
    chance = "Each of the two bounds raises an alarm for at most one in 20 correct programs."
    if audit.alarm:
        return f"{told} This contradicts the promise: an alarm. {chance} Repeat it with another --seed."
    return f"{told} This does not contradict the promise. {chance}"
