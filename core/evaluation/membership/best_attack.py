"""What the best attack on some training runs achieved, in the same game as the odds that a promise allows.

The promise (`core.evaluation.guarantee.odds`) limits how often anyone can correctly guess "in or out" at even odds. A
membership attack that accuses TPR of the members and FPR of the others is right with probability (1 + TPR − FPR)/2 in
that game. This is ½ plus half its privacy leakage (Jagannatha 2021, eq. 2; the advantage of Yeom et al. 2018), and the
interval is transformed in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass

import pandas as pd

from core.attacks.membership.decision import LOSS, in_words
from core.evaluation.membership.summary import Figure, figures
from core.evaluation.membership.units import units
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import most_certain
from core.evaluation.wording import interval_text, pairs_of
from core.spec import Unit

LEVEL = {"note": "sample", "patient": "patient"}  # level of the attack that matches each protected unit
RESAMPLES = 300  # for an interval that the full audit has not computed


@dataclass(frozen=True)
class BestAttack:
    """Chance that a guess is right, its 95 % interval corrected for the choice, and what was chosen from."""

    attack: str
    right: float
    low: float
    high: float
    judged: int  # notes or patients
    attacks: int  # number of different attacks
    trainings: int
    attempts: int  # pairs of an attack and a training run, in total


def decisions(membership: pd.DataFrame, scores: pd.DataFrame, unit: Unit, *, seed: int) -> pd.DataFrame:
    """Privacy leakage of every attack on one run at the attack's own threshold: attack, value, low, high, n.

    Taken from the full audit's table `membership`; the loss attack, if that lacks it, from the quick audit's `scores`
    (empty: left out). Thresholds read off a ROC curve use the true labels and are left out.
    """
    found = membership
    if len(membership):
        found = membership[(membership["level"] == LEVEL[unit]) & (membership["length"] == "all")]
    if len(scores) and not (len(found) and LOSS in set(found["attack"])):
        judged = units(scores[scores["attack"] == LOSS], LEVEL[unit])
        rows = [astuple(one) for one in figures(judged, own=None, resamples=RESAMPLES, seed=seed)]
        alone = pd.DataFrame(rows, columns=list(Figure.__dataclass_fields__)).assign(attack=LOSS)
        found = pd.concat([alone, found], ignore_index=True) if len(found) else alone
    kept = (found["rule"] == "own") & (found["metric"] == "privacy_leakage") & found["value"].notna()
    return found.loc[kept, ["attack", "value", "low", "high", "n"]].reset_index(drop=True)


def best_attack(trainings: Sequence[pd.DataFrame]) -> BestAttack | None:
    """The attack with the most right guesses over the `decisions` on some training runs; None if there are none.

    The same figures choose the attack and describe it, so its interval is corrected for the choice
    (`core.evaluation.stats.intervals.most_certain`), as in `core.evaluation.membership.strongest_attack`.
    """
    made = [found for found in trainings if len(found)]
    if not made:
        return None
    every = pd.concat(made, ignore_index=True)
    rights = [Interval(*((1 + float(end)) / 2 for end in row)) for row in every[["value", "low", "high"]].to_numpy()]
    place, right = most_certain(rights, least=0.0)
    top = every.iloc[place]
    attacks = every["attack"].nunique()
    return BestAttack(
        str(top["attack"]), right.value, right.low, right.high, int(top["n"]), attacks, len(made), len(every)
    )


def best_attack_sentence(best: BestAttack, unit: Unit) -> str:
    """`best_attack` as right guesses out of 100, with what was evaluated and how the attack was chosen."""
    right, of = pairs_of(best.right, low=best.low)
    limits = interval_text(best.low, best.high, lambda share: f"{of * share:,.0f}")
    trainings = "1 training run" if best.trainings == 1 else f"{best.trainings} training runs"
    attacks = f"{best.attacks} membership attack{'' if best.attacks == 1 else 's'}"
    each = ", not all on each" if best.attempts < best.attacks * best.trainings else ""
    chosen = f"It is the best of {best.attempts} attempts ({attacks}, {trainings}{each}); the interval is corrected."
    return (
        f"Out of {of:,} guesses whether a {unit} was in the data, with “in” and “out” equally likely, "
        f"{in_words(best.attack)} got {right:,} right ({limits}; {of // 2:,} by tossing a coin; evaluated on "
        f"{best.judged:,} {unit}s). Each guess is about one {unit}, by the attack's own threshold; "
        "pairs, which the AUC counts, are another measure. "
        f"{chosen if best.attempts > 1 else 'It is the only membership attack that was run.'}"
    )
