"""Auditing the guarantee: what the attacks on one run prove about its ε, beside the promised ε.

There are two kinds of evidence. *One run* (Steinke, Nasr & Jagielski 2023): every canary was planted or left out by its
own fair coin, and the auditor guesses the coins from how the model ranks the canaries. By theorem this holds for a
single training run. *Counts*: true and false positives with Clopper–Pearson bounds (Jagielski et al. 2020), which
require independent trials; within one run independence is an assumption.

The protected unit decides what a trial proves. All copies of a canary belong to one invented patient, and a whole
canary patient is one patient, too. If a *patient* is protected, a canary is one unit. If a *note* is protected, a
canary planted k times is k units and proves something about k·ε only; the same holds for all notes of a patient.
Patients are split in fixed shares, so a member stands for another patient who is out: twice as many units. See
docs/methods/audits.md.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from core.corpus.canary_forms import PATIENT, RANDOM
from core.corpus.tables import JUDGED_SPLITS
from core.evaluation.guarantee.epsilon_bounds import epsilon_lower_bound, one_run_epsilon
from core.evaluation.stats.roc import roc
from core.spec import Unit

CONFIDENCE = 0.95
GUESS_IN = 0.05  # guess "planted" when the canary ranks among the likeliest 5 % of its reference space
WEAK_GUESS_IN = 0.5  # …or in the likelier half, which is the better guess where a model shows little
SURE = 0.1  # of the canaries of random words: those with the best ranks are guessed "planted", the others not guessed
EXCHANGE = 2  # one patient for another: units that change, in units of one patient added or removed
MANY = 100  # canaries of random words, from which on they are the audit fixed beforehand
ONE_RUN, COUNTS = "one run", "counts"
BY_CURVE = "one run, by its curve"  # the audit fixed beforehand again, under the run's own trade-off curve

BOUND_COLUMNS = {
    "audit": "str",
    "evidence": "str",  # one run (by theorem) | one run, by its curve | counts (assumes independent trials)
    "unit": "str",
    "group": "int32",  # units that one trial changes at once
    "trials": "int32",  # guesses; tp + fn + fp + tn is the number of canaries or units, of which some are not guessed
    "correct": "int32",  # of the guesses
    "tp": "int32",
    "fn": "int32",
    "fp": "int32",
    "tn": "int32",
    "confidence": "float64",
    "looks": "int32",  # number of bounds that share an error of 5 %
    "epsilon": "float64",  # proved: ε of one unit is at least this
    "ceiling": "float64",  # the most that these trials could prove at the same δ: every guess right
    "promised": "float64",
    "alarm": "bool",
}


@dataclass(frozen=True)
class Counts:
    """Guesses against the truth: planted or trained on (tp, fn), left out (fp, tn)."""

    tp: int
    fn: int
    fp: int
    tn: int

    @classmethod
    def of(cls, said_in: np.ndarray, truly_in: np.ndarray) -> Counts:
        """Count guesses (n,) bool against the truth (n,) bool."""
        said, truth = np.asarray(said_in, dtype=bool), np.asarray(truly_in, dtype=bool)
        return cls(*(int(found.sum()) for found in (said & truth, ~said & truth, said & ~truth, ~said & ~truth)))

    @property
    def trials(self) -> int:
        """Number of guesses."""
        return self.tp + self.fn + self.fp + self.tn

    @property
    def correct(self) -> int:
        """Number of right guesses."""
        return self.tp + self.tn


@dataclass(frozen=True)
class _Look:
    audit: str
    evidence: str
    counts: Counts
    group: int
    abstains: bool = False  # only "planted" is guessed; nothing is said about the others

    @property
    def guesses(self) -> int:
        return self.counts.tp + self.counts.fp if self.abstains else self.counts.trials

    @property
    def correct(self) -> int:
        return self.counts.tp if self.abstains else self.counts.correct

    def perfect(self) -> _Look:
        """The same look with every guess right."""
        counts = self.counts
        if self.evidence == COUNTS:
            return replace(self, counts=Counts(counts.tp + counts.fn, 0, 0, counts.fp + counts.tn))
        return replace(self, counts=Counts(self.guesses, 0, 0, counts.trials - self.guesses))


def audit_guarantee(
    canaries: pd.DataFrame, scores: pd.DataFrame, *, unit: Unit, delta: float, promised: float, seed: int = 0
) -> pd.DataFrame:
    """Lower bounds on the ε of one run, with `BOUND_COLUMNS`, from its canaries and its membership scores.

    The first row is the audit fixed beforehand, at 95 %: the canaries of random words if there are at least `MANY`, a
    tenth of them guessed; otherwise all other canaries that are one unit each. All further rows share
    another 5 % among them (Bonferroni), so the highest of them can be read without further correction. An alarm is a
    bound above the promise. The table is empty if no canary was ranked and no patient was scored.

    Args:
        canaries: The run's table canaries (docs/reference/tables.md).
        scores: The run's table of membership scores.
        unit: What the promise protects.
        delta: δ of the promise.
        promised: The accountant's ε for one `unit` at `delta` (∞ without privacy).
        seed: Seed of the split halves.
    """
    first, further = _canary_looks(canaries, unit)
    further += _patient_looks(scores, unit, seed)
    further = [look for look in further if _proved(look.perfect(), 0.0, CONFIDENCE) > 0]  # others cannot prove any
    rows = [_bound(look, unit, delta, promised, 1) for look in first]
    rows += [_bound(look, unit, delta, promised, len(further)) for look in further]
    return pd.DataFrame(rows, columns=list(BOUND_COLUMNS)).astype(BOUND_COLUMNS)


def _bound(look: _Look, unit: Unit, delta: float, promised: float, looks: int) -> tuple:
    counts, confidence = look.counts, 1 - (1 - CONFIDENCE) / looks
    epsilon = _proved(look, delta, confidence)
    return (
        look.audit,
        look.evidence,
        unit,
        look.group,
        look.guesses,
        look.correct,
        *astuple(counts),
        confidence,
        looks,
        epsilon,
        _proved(look.perfect(), delta, confidence),
        promised,
        epsilon > promised,
    )


def _proved(look: _Look, delta: float, confidence: float) -> float:
    counts = look.counts
    if look.evidence == COUNTS:
        four = {"tp": counts.tp, "fn": counts.fn, "fp": counts.fp, "tn": counts.tn}
        return epsilon_lower_bound(**four, delta=delta, confidence=confidence, group=look.group)
    return one_run_epsilon(
        canaries=counts.trials,
        guesses=look.guesses,
        correct=look.correct,
        delta=delta,
        confidence=confidence,
        group=look.group,
    )


def with_ceilings(bounds: pd.DataFrame, delta: float) -> pd.DataFrame:
    """The table of `audit_guarantee` with each `ceiling` at `delta`; earlier versions stored it at δ = 0.

    The ceiling by the run's curve is at its δ already.
    """
    if bounds.empty:
        return bounds
    ceilings = [
        float(row.ceiling) if row.evidence == BY_CURVE else _proved(_look_of(row).perfect(), delta, row.confidence)
        for row in bounds.itertuples()
    ]
    return bounds.assign(ceiling=ceilings)


def _look_of(row: Any) -> _Look:
    counts = Counts(int(row.tp), int(row.fn), int(row.fp), int(row.tn))
    return _Look(row.audit, row.evidence, counts, int(row.group), abstains=int(row.trials) < counts.trials)


def group_sizes(canaries: pd.DataFrame, unit: Unit) -> np.ndarray:
    """Units that a planted canary adds to the training data, (canaries,): its copies if a note is the unit, else 1."""
    copies = canaries["insertions"].to_numpy(dtype=int)
    return copies if unit == "note" else np.ones_like(copies)


def with_patients(canaries: pd.DataFrame, people: pd.DataFrame) -> pd.DataFrame:
    """The table canaries with the ranks of whole canary patients from an audit's table `canary_patients`.

    Their `insertions` become the number of their notes, which is how many units they are if a note is protected.
    Without such a table they stay unranked, so no look includes them.
    """
    if people.empty:
        return canaries
    found = people.set_index("canary_id")
    merged = canaries.copy()
    own = merged["canary_id"].isin(found.index).to_numpy()
    places = merged.loc[own, "canary_id"]
    for column, source in (("rank", "rank"), ("reference_size", "reference_size"), ("insertions", "notes")):
        values = merged[column].astype("Int64")
        values[own] = found.loc[places, source].to_numpy()
        merged[column] = values
    return merged


def guesses(canaries: pd.DataFrame, share: float = GUESS_IN) -> np.ndarray:
    """Guess for each ranked canary, (canaries,) bool, whether it was planted: does it rank in the best `share`?

    The guess depends on the ranks alone, never on the coins, and its rule was fixed without them.
    """
    return canaries["rank"].to_numpy(dtype=float) <= share * canaries["reference_size"].to_numpy(dtype=float)


def _canary_looks(canaries: pd.DataFrame, unit: Unit) -> tuple[list[_Look], list[_Look]]:
    """The audit fixed beforehand, and the further ones."""
    every = canaries[canaries["rank"].notna()]
    lines, ranked = every[every["form"] == RANDOM], every[every["form"] != RANDOM]
    sizes = group_sizes(ranked, unit)
    single, truth = ranked[sizes == 1], ranked["inserted"].to_numpy(dtype=bool)
    people = " and canary patients" if (single["form"] == PATIENT).any() else ""
    what = "canaries planted once" if unit == "note" else f"canaries{people}"
    first: list[_Look] = []
    further: list[_Look] = []
    if len(single):
        truth_single = single["inserted"].to_numpy(dtype=bool)
        said = Counts.of(guesses(single), truth_single)
        first.append(_Look(what, ONE_RUN, said, 1))
        weak = Counts.of(guesses(single, WEAK_GUESS_IN), truth_single)
        further.append(_Look(f"{what}, upper half guessed", ONE_RUN, weak, 1))
        if said.tp + said.fn and said.fp + said.tn:
            further.append(_Look(f"{what}, by counts", COUNTS, said, 1))
    if len(ranked) and sizes.max() > 1:
        name = f"all canaries, up to {sizes.max()} notes each"
        further.append(_Look(name, ONE_RUN, Counts.of(guesses(ranked), truth), int(sizes.max())))
    if len(lines):
        said = Counts.of(surest(lines), lines["inserted"].to_numpy(dtype=bool))
        look = _Look("canaries of random words, a tenth guessed", ONE_RUN, said, 1, abstains=True)
        first, further = ([look], first + further) if len(lines) >= MANY else (first, [*further, look])
    return first, further


def surest(canaries: pd.DataFrame, share: float = SURE) -> np.ndarray:
    """The `share` of the canaries with the best ranks, (canaries,) bool; ties go to the lower id.

    How many are guessed is fixed by their number alone, as the bound needs (Steinke et al. 2023, theorem 5.2).
    """
    order = np.lexsort((canaries["canary_id"].to_numpy(dtype=str), canaries["rank"].to_numpy(dtype=float)))
    found = np.zeros(len(canaries), dtype=bool)
    found[order[: math.ceil(share * len(canaries))]] = True
    return found


def _patient_looks(scores: pd.DataFrame, unit: Unit, seed: int) -> list[_Look]:
    """One look per attack in the scores table: patients by their mean score, threshold from the other half.

    As many patients are members in every split, so with one patient in, another one is out: an exchange, which removes
    one and adds one. This holds among the patients with few notes, too, given where all others are.
    """
    judged = scores[scores["split"].isin(JUDGED_SPLITS)]
    looks = []
    for attack, rows in judged.groupby("attack", sort=True):
        patients = rows.groupby("patient_id").agg(
            score=("score", "mean"), member=("member", "first"), notes=("note_id", "size")
        )
        group = 1
        if unit == "note":  # a patient is all of their notes at once: keep the patients with few notes
            group = max(1, int(patients["notes"].median()))
            patients = patients[patients["notes"] <= group]
        counts = split_half_counts(patients["score"].to_numpy(), patients["member"].to_numpy(dtype=bool), seed)
        if counts is not None:
            at_most = f", up to {group} notes each" if group > 1 else ""
            looks.append(_Look(f"patients by “{attack}”{at_most}", COUNTS, counts, EXCHANGE * group))
    return looks


def split_half_counts(scores: np.ndarray, member: np.ndarray, seed: int) -> Counts | None:
    """Guesses on one half of the units, with the threshold that is best (largest TPR − FPR) on the other half.

    Halves are drawn at random within members and within non-members. Fitting and evaluating on the same scores would
    make the best of many thresholds look like evidence. None if a half would have fewer than two of either group.
    """
    rng = np.random.default_rng([seed, 3905])
    fitting = np.zeros(len(scores), dtype=bool)
    for group in (True, False):
        places = rng.permutation(np.flatnonzero(member == group))
        if len(places) < 4:
            return None
        fitting[places[: len(places) // 2]] = True
    curve = roc(scores[fitting & member], scores[fitting & ~member])
    threshold = float(curve.thresholds[int(np.argmax(curve.tpr - curve.fpr))])
    return Counts.of(scores[~fitting] >= threshold, member[~fitting])


def headline(bounds: pd.DataFrame) -> pd.Series | None:
    """The row of the audit fixed beforehand; None if there is none."""
    rows = bounds[(bounds["looks"] == 1) & (bounds["evidence"] == ONE_RUN)]  # a single further look has 1, too
    return None if rows.empty else rows.iloc[0]


def by_curve(bounds: pd.DataFrame) -> pd.Series | None:
    """The row of the audit fixed beforehand under the run's own curve, a claim of its own at 95 %; None without one.

    `core.evaluation.guarantee.curve_bound.with_curve` adds it.
    """
    rows = bounds[bounds["evidence"] == BY_CURVE]
    return None if rows.empty else rows.iloc[0]


def further(bounds: pd.DataFrame) -> pd.DataFrame:
    """All rows except both of the audit fixed beforehand. They hold together at 95 %, and so does the highest."""
    fixed, rest = headline(bounds), bounds[bounds["evidence"] != BY_CURVE]
    return rest if fixed is None else rest.drop(index=fixed.name)


def headline_bound(bounds: pd.DataFrame) -> pd.Series | None:
    """The row that a single sentence about a run may use; None without rows.

    It is an alarming row if there is one, else the audit fixed beforehand, else the highest of the others. The highest
    of *all* rows would be the better of two claims at 95 % each, and would hold at 90 %. The same applies to alarms: of
    the runs that keep their promise, at most one in ten has a row above it by chance. The row by the run's curve is not
    among them: it is said by itself, with its own alarm.
    """
    bounds = bounds[bounds["evidence"] != BY_CURVE]
    alarms = bounds[bounds["alarm"].astype(bool)]
    fixed = headline(bounds)
    if len(alarms):
        return alarms.loc[alarms["epsilon"].idxmax()]
    return fixed if fixed is not None or bounds.empty else bounds.loc[bounds["epsilon"].idxmax()]
