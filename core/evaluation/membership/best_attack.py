"""What the best attack on some trainings really did, in the same game as the odds of a promise.

The promise (`core.evaluation.guarantee.odds`) limits how often anybody rightly guesses "in or out" at even odds. A
membership attack that accuses TPR of the members and FPR of the others is right with probability (1 + TPR − FPR)/2 in
that game: its privacy leakage (row J3; the advantage of Yeom et al. 2018) halved around ½, and so is the interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import pandas as pd

from core.attacks.membership.decision import LOSS
from core.evaluation.membership.summary import Figure, figures
from core.evaluation.membership.units import units
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import best_of
from core.evaluation.wording import interval_text, pairs_of
from core.spec import Unit

LEVEL = {"note": "sample", "patient": "patient"}  # what must be told apart where this unit is protected
RESAMPLES = 300  # behind an interval that no full audit has made


@dataclass(frozen=True)
class BestAttack:
    """Chance that a guess is right, its 95 % interval corrected for choosing, and what it was chosen from."""

    attack: str
    right: float
    low: float
    high: float
    judged: int  # notes or patients
    attacks: int  # different ones
    trainings: int
    attempts: int  # attacks on trainings, in all


def decisions(membership: pd.DataFrame, scores: pd.DataFrame, unit: Unit, *, seed: int) -> pd.DataFrame:
    """Privacy leakage of every attack on one training at the attack's own threshold: attack, value, low, high, n.

    From the full audit's table `membership`; where that is empty, of the loss attack in the quick audit's `scores`.
    Thresholds that are read off a ROC curve know the answers and are left out.
    """
    if len(membership):
        found = membership[(membership["level"] == LEVEL[unit]) & (membership["length"] == "all")]
    else:
        judged = units(scores[scores["attack"] == LOSS], LEVEL[unit])
        rows = [astuple(one) for one in figures(judged, own=None, resamples=RESAMPLES, seed=seed)]
        found = pd.DataFrame(rows, columns=list(Figure.__dataclass_fields__)).assign(attack=LOSS)
    kept = (found["rule"] == "own") & (found["metric"] == "privacy_leakage") & found["value"].notna()
    return found.loc[kept, ["attack", "value", "low", "high", "n"]].reset_index(drop=True)


def best_attack(trainings: Sequence[pd.DataFrame]) -> BestAttack | None:
    """The attack with most right guesses over the `decisions` on some trainings; None where there are none.

    It is chosen by the figures that it is then described by, so its interval is corrected for choosing
    (`statistics.best_of`).
    """
    made = [found for found in trainings if len(found)]
    if not made:
        return None
    every = pd.concat(made, ignore_index=True)
    top = every.loc[every["value"].idxmax()]
    right = Interval(*((1 + float(top[end])) / 2 for end in ("value", "low", "high")))
    right = best_of(right, len(every), least=0.0, most=1.0)
    attacks = every["attack"].nunique()
    return BestAttack(
        str(top["attack"]), right.value, right.low, right.high, int(top["n"]), attacks, len(made), len(every)
    )


def best_attack_sentence(best: BestAttack, unit: Unit) -> str:
    """`best_attack` as right guesses of 100, with what was judged and how it was chosen."""
    right, of = pairs_of(best.right)
    limits = interval_text(best.low, best.high, lambda share: f"{of * share:,.0f}")
    trainings = "1 training" if best.trainings == 1 else f"{best.trainings} trainings"
    attacks = "1 attack" if best.attacks == 1 else f"{best.attacks} attacks"
    chosen = f"It is the best of {best.attempts} attempts ({attacks}, {trainings}); the interval is corrected for that."
    return (
        f"Of {of:,} guesses whether a {unit} was in the data, as often true as not, the attack “{best.attack}” got "
        f"{right:,} right ({limits}; {of // 2:,} by tossing a coin; {best.judged:,} {unit}s judged). "
        f"{chosen if best.attempts > 1 else 'It is the only attack that was made.'}"
    )
