"""Where leaks begin: the smallest measured ε from which on an attack's figure exceeds its controls.

The measured ε are tested one after another from the largest down, and the search ends at the first ε whose figure
cannot be told from its control. Testing in an order that is fixed beforehand, up to the first failure, keeps the
chance of any false alarm along the curve at the level of one test, so the number of ε needs no correction (Maurer,
Hothorn & Lehmacher 1995; Westfall & Krishen 2001). docs/methods/sweep.md has the formula and the level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from core.evaluation import registry
from core.evaluation.sweep.tradeoff import SERIES
from core.evaluation.wording import epsilon_text

CONTROLS = ("heldout", "base")  # arms that a figure must exceed; the first one measured at an ε counts


@dataclass(frozen=True)
class Attack:
    """An attack whose beginning is looked for: its name, and the figures that show it; the first measured one counts.

    The share of generated texts with a name does not shrink with the number of patients, as the share of patients does.
    """

    name: str
    metrics: tuple[str, ...]


ATTACKS = (
    Attack("full names", ("texts_with_name", "full_name_patients")),
    Attack("membership by note, loss attack", ("auc_loss",)),
    Attack("membership by patient, loss attack", ("auc_loss_patients",)),
    Attack("canaries", ("exposure",)),
)


@dataclass(frozen=True)
class Waking:
    """Where one attack begins to succeed.

    `epsilon` is the smallest measured ε from which on the figure exceeds its controls; None if it does not at the
    largest. `below` is the measured ε before it; None if there is none. `largest` is the largest measured finite ε.
    `plain` says whether the figure exceeds its controls without privacy; None if that was not measured. `judged` are
    the ε, perhaps with ∞, at which the figure can be compared; without a finite one nothing is known. `above` are those
    of them at which it exceeds its controls: below `epsilon`, one may by chance.
    """

    attack: Attack
    metric: str
    epsilon: float | None
    below: float | None
    largest: float
    plain: bool | None
    judged: tuple[float, ...] = ()
    above: tuple[float, ...] = ()

    @property
    def interval(self) -> tuple[float, float]:
        """The measured ε between which the leak begins; (largest, ∞) if it does not begin, (0, ε) at the smallest."""
        if self.epsilon is None:
            return self.largest, math.inf
        return self.below or 0.0, self.epsilon

    def sentence(self) -> str:
        """`between ε = 100 and 1,000`, or that it begins before the first, or that no leak is found up to the last."""
        if not any(map(math.isfinite, self.judged)):
            return "cannot be judged, for lack of an interval or of a control"
        if self.epsilon is None:
            after = {True: ", but one found without privacy", False: ", nor without privacy", None: ""}[self.plain]
            return f"no leak found up to the largest measured ε = {epsilon_text(self.largest)}{after}"
        if self.below is None:
            return f"at or below the smallest measured ε = {epsilon_text(self.epsilon)}"
        return f"between ε = {epsilon_text(self.below)} and {epsilon_text(self.epsilon)}"


def wakings(points: pd.DataFrame, attacks: Sequence[Attack] = ATTACKS) -> list[Waking]:
    """Where each measured attack begins, in the order of `attacks`.

    Args:
        points: the points of one curve (`core.evaluation.sweep.tradeoff.points`), with finite ε and perhaps ∞.
        attacks: the attacks to look for; those without a figure at a finite ε are left out.

    Raises:
        ValueError: the points are of several curves.
    """
    own = points[(points["arm"] == "run") & (points["epsilon"] < math.inf)]
    found = []
    for attack in attacks:
        metric = _measured(attack, set(own["metric"]))
        one = None if metric is None else waking(points, metric, attack)
        if one is not None:
            found.append(one)
    return found


def waking(points: pd.DataFrame, metric: str, attack: Attack | None = None) -> Waking | None:
    """Where the figure `metric` begins to exceed its controls; None without a measured finite ε.

    Every ε at which it cannot be compared is left out. If these are all, nothing is `judged`.

    Raises:
        ValueError: the points are of several curves.
    """
    if any(points[name].nunique(dropna=False) > 1 for name in SERIES if name in points):
        raise ValueError("where leaks begin is asked of one curve: one kind, size and base of model, and one cohort")
    compared = _compared(points, metric)
    measured = sorted(compared)
    if not any(map(math.isfinite, measured)):
        return None
    chosen = attack or Attack(registry.figure(metric).label, (metric,))
    leaks = {epsilon: compared[epsilon].leaks for epsilon in measured if compared[epsilon].possible}
    finite = [epsilon for epsilon in leaks if math.isfinite(epsilon)]
    told = leaks.get(math.inf), tuple(leaks), tuple(epsilon for epsilon, above in leaks.items() if above)
    if not finite:
        return Waking(chosen, metric, None, None, max(filter(math.isfinite, measured)), *told)
    begins, before = None, finite[-1]
    for epsilon in reversed(finite):
        before = epsilon
        if not leaks[epsilon]:
            break
        begins = epsilon
    below = None if begins is None or before == begins else before
    return Waking(chosen, metric, begins, below, finite[-1], *told)


def first_leaking(points: pd.DataFrame) -> Waking | None:
    """The attack that begins at the smallest ε; without one that begins, the first measured attack; None without any.

    Several attacks are looked at, so the chance of a false alarm is at most their number times that of one.
    """
    found = wakings(points)
    return min(found, key=lambda one: (one.epsilon is None, one.epsilon or 0.0), default=None)


@dataclass(frozen=True)
class _Comparison:
    """The lower end of a figure's 95 % interval at one ε, and what it must exceed.

    That is the upper end of its control, the same figure on held-out patients (or canaries never planted), else of the
    public base model; and what a blind guess reaches.
    """

    low: float
    limits: tuple[float, ...]

    @property
    def possible(self) -> bool:
        """Whether there is an interval and something to compare it with: a single canary has no interval."""
        return math.isfinite(self.low) and bool(self.limits) and all(map(math.isfinite, self.limits))

    @property
    def leaks(self) -> bool:
        """Whether the interval lies above all of it."""
        return all(self.low > limit for limit in self.limits)


def _compared(points: pd.DataFrame, metric: str) -> dict[float, _Comparison]:
    """The comparison at each measured ε."""
    own = points.loc[points["metric"] == metric, ["epsilon", "arm", "low", "high"]]
    ends: dict[tuple[float, str], tuple[float, float]] = {}
    for epsilon, arm, low, high in own.itertuples(index=False):
        ends.setdefault((float(epsilon), arm), (float(low), float(high)))
    known = registry.find(metric)
    blind = () if known is None or known.blind is None else (known.blind,)
    found = {}
    for epsilon, arm in ends:
        if arm == "run":
            controls = (ends[epsilon, one][1:] for one in CONTROLS if (epsilon, one) in ends)
            found[epsilon] = _Comparison(ends[epsilon, arm][0], (*next(controls, ()), *blind))
    return found


def _measured(attack: Attack, metrics: set[str]) -> str | None:
    """The first figure of the attack that was measured; of a family the member with most insertions."""
    for name in attack.metrics:
        if name in metrics:
            return name
        members = [one for one in metrics if one.partition(":")[0] == name and one != name]
        if members:
            return max(members, key=lambda one: int(one.partition(":")[2]))
    return None
