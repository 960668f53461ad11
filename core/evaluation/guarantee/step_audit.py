"""What gradients planted in a private training prove about its ε (`core.training.checks.gradient_canaries`)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from core.evaluation.guarantee.curve_bound import curve_proof
from core.evaluation.guarantee.epsilon_bounds import one_run_epsilon
from core.runs.audits import StoredAudit
from core.training.accounting.mechanism import Mechanism

GUESSED = 0.1  # of the canaries: those with most evidence are said to be in, nothing is said about the others
FEWEST = 50  # canaries: five right of five prove something at 95 %, four of four do not

PLANTED = "planted"  # the table
PLANTED_COLUMNS = {
    "canaries": "int32",
    "seed": "int64",  # of the coins and places
    "steps": "int32",
    "unit": "str",
    "delta": "float64",
    "guesses": "int32",
    "correct": "int32",
    "proved": "float64",
    "proved_by_curve": "float64",  # NaN with a vocabulary from the notes
    "promised": "float64",
    "ceiling": "float64",
    "can_alarm": "bool",
    "alarm": "bool",
}


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


def row_of(audit: StepAudit, mechanism: Mechanism, seed: int) -> pd.DataFrame:
    """One audit as a row with `PLANTED_COLUMNS`, to be stored beside the run's other audits."""
    about = {"seed": seed, "steps": mechanism.steps, "unit": mechanism.unit, "delta": mechanism.delta}
    return pd.DataFrame([{**asdict(audit), **about}])[list(PLANTED_COLUMNS)].astype(PLANTED_COLUMNS)


def stored_proofs(audit: StoredAudit) -> pd.DataFrame:
    """What was stored of a run's planted gradients, in the order in which it was made; `PLANTED_COLUMNS`.

    Raises AuditBroken as `StoredAudit.table`.
    """
    found = audit.proving().table(PLANTED)
    return pd.DataFrame(columns=list(PLANTED_COLUMNS)).astype(PLANTED_COLUMNS) if found.empty else found


def chosen_proof(proofs: pd.DataFrame) -> Mapping[Hashable, Any] | None:
    """The row that a sentence may use: of those with the most canaries the first that was made; None without rows.

    Each row holds at 95 %. The highest of several seeds would not, so the bound plays no part in the choice.
    """
    if proofs.empty:
        return None
    most = proofs[proofs["canaries"] == proofs["canaries"].max()]
    return most.iloc[0].to_dict()


def _proved(
    mechanism: Mechanism, promised: float, canaries: int, guesses: int, correct: int
) -> tuple[float, float, bool]:
    """Both bounds for so many right guesses, and whether they contradict the promise."""
    given = {"canaries": canaries, "guesses": guesses, "correct": correct}
    plain, curve = one_run_epsilon(**given, delta=mechanism.delta), curve_proof(mechanism, **given)
    return plain, curve.epsilon, curve.alarm or plain > promised
