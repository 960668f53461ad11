"""The effect of an entry on a ledger's totals, to be shown and confirmed before the entry is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from core.common.formatting import delta_text, promised_text
from core.corpus.tables import Corpus
from core.runs.ledger.entries import Release
from core.runs.ledger.totals import DELTA, EMPTY, NOTHING, Promised, Together, promised, together
from core.spec import Unit

UNITS: tuple[Unit, ...] = ("note", "patient")
NO_RELEASE = "nothing released"


@dataclass(frozen=True)
class Change:
    """One total before and after an entry, each (ε, δ); None if nothing is released that concerns it.

    `combined` marks what the releases of both units amount to together, for one patient or one note
    (`core.runs.ledger.totals`).
    """

    unit: Unit
    whom: str
    before: tuple[float, float] | None
    after: tuple[float, float] | None
    combined: bool = False

    def sentence(self) -> str:
        """`For one note: ε = 2 at δ = 10⁻⁵ → ε = 3.1 at δ = 10⁻⁵.`"""
        return f"For {self.whom}: {total_text(self.before)} → {total_text(self.after)}."


@dataclass(frozen=True)
class Effect:
    """Every total after an entry, changed or not, and why totals are infinite (sentences)."""

    changes: tuple[Change, ...]
    reasons: tuple[str, ...]

    def over(self, budget: float) -> list[Unit]:
        """Units whose own total exceeds `budget` after the entry."""
        return [
            one.unit for one in self.changes if not one.combined and one.after is not None and one.after[0] > budget
        ]

    def sentences(self) -> list[str]:
        """All changes, then the reasons."""
        return [*(one.sentence() for one in self.changes), *self.reasons]


def effect(releases: Sequence[Release], draft: Release, corpus: Corpus, delta: float = DELTA) -> Effect:
    """How `draft` changes the totals of `releases` at `delta`; `corpus` is their cohort."""
    before, after = _standing(releases, corpus, delta), _standing([*releases, draft], corpus, delta)
    changes = [
        Change(unit, f"one {unit}, by what is released per {unit}", _own(before[0][unit]), _own(after[0][unit]))
        for unit in UNITS
        if _own(after[0][unit]) is not None
    ]
    for unit in ("patient", "note"):
        old, new = (_group(standing, unit) for standing in (before, after))
        if new is not None:
            notes = new.notes and f" ({new.notes:,})"
            whom = f"the patient with the most notes{notes}" if notes else f"one {unit}"
            earlier = None if old is None else (old.epsilon, old.delta)
            changes.append(Change(unit, f"{whom}, by everything", earlier, (new.epsilon, new.delta), combined=True))
    reasons = dict.fromkeys(reason for unit in UNITS for reason in after[0][unit].reasons)
    return Effect(tuple(changes), tuple(reasons))


_Standing = tuple[dict[Unit, Promised], list[Together]]


def _standing(releases: Sequence[Release], corpus: Corpus, delta: float) -> _Standing:
    totals = {unit: promised(releases, unit, delta) for unit in UNITS}
    return totals, together(releases, totals["note"], totals["patient"], corpus)


def _own(total: Promised) -> tuple[float, float] | None:
    return (total.epsilon, total.delta) if total.releases or total.reasons else None


def _group(standing: _Standing, unit: Unit) -> Together | None:
    return next((one for one in standing[1] if one.unit == unit), None)


def total_text(total: tuple[float, float] | None) -> str:
    """`ε = 2 at δ = 10⁻⁵`, `ε = ∞ (nothing is promised)`, or that nothing is released; marks a huge ε as empty."""
    if total is None:
        return NO_RELEASE
    epsilon, delta = total
    if math.isinf(epsilon) or delta >= NOTHING:
        return "ε = ∞ (nothing is promised)" if math.isinf(epsilon) else "nothing is promised"
    empty = ", in practice nothing" if epsilon > EMPTY else ""
    return f"ε = {promised_text(epsilon)} at δ = {delta_text(delta)}{empty}"
