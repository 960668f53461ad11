"""Exposure and loss of planted canaries by their form and number of copies (Hoory 2021, §5.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from core.corpus.canary_forms import FORMS
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.boundary_intervals import bits_interval, mean_within
from core.evaluation.stats.intervals import difference, mean_interval
from core.findings.stored_runs import Missing, StoredRuns
from core.spec import RunSpec

BITS = math.log2(1_000)  # the most that the rank of a three-digit code among all of them can expose


def exposure_difference(
    runs: StoredRuns, one: RunSpec, other: RunSpec, *, form: str | None = None, least: int = 1, most: int | None = None
) -> tuple[Interval, int]:
    """Mean over planted canaries of the exposure under `one` − that under `other`, in bits.

    Both runs have the same cohort and so the same canaries. The interval is Student's t over the canaries' differences,
    or, if they are all the same, what their number allows (`core.evaluation.stats.boundary_intervals.mean_within`).

    Args:
        runs: The stored runs.
        one: A run.
        other: The run that is subtracted.
        form: Canaries of this form alone; of all three forms without it.
        least: The smallest number of copies that counts.
        most: The largest one; without it, any.

    Raises:
        Missing: No such canary was planted.
    """
    return pooled_exposure_difference(runs, [(one, other)], form=form, least=least, most=most)


def pooled_exposure_difference(
    runs: StoredRuns,
    pairs: Sequence[tuple[RunSpec, RunSpec]],
    *,
    form: str | None = None,
    least: int = 1,
    most: int | None = None,
) -> tuple[Interval, int]:
    """`exposure_difference` over the canaries of several pairs of runs together, each pair on canaries of its own.

    Raises:
        Missing: In no pair was such a canary planted.
    """
    apart, top = [], 0.0
    for pair in pairs:
        sides = [_planted(_sentences(runs, spec), form, least, most) for spec in pair]
        apart.append((sides[0]["exposure"] - sides[1]["exposure"]).dropna().to_numpy())
        top = max(top, *(_most(side) for side in sides if len(side)), 0.0)
    paired = np.concatenate(apart)
    if not len(paired):
        often = f"{least} times or more" if most is None else f"{least} to {most} times"
        raise Missing(f"no canary {'' if form is None else f'of the form {form} '}was planted {often}")
    return mean_within(paired.tolist(), -top, top), len(paired)


def mean_exposure_difference(
    runs: StoredRuns, pairs: Sequence[tuple[RunSpec, RunSpec]], *, least: int = 1
) -> tuple[Interval, int]:
    """`exposure_difference` of several trainings with the same canaries: each canary's mean over the pairs is one unit.

    Raises:
        Missing: No such canary was planted, or not every run has the same ones.
    """
    apart, top = [], 0.0
    for pair in pairs:
        sides = [_planted(_sentences(runs, spec), None, least, None) for spec in pair]
        apart.append(sides[0]["exposure"] - sides[1]["exposure"])
        top = max(top, *(_most(side) for side in sides if len(side)), 0.0)
    table = pd.concat(apart, axis="columns")
    if table.empty or table.isna().any(axis=None):
        raise Missing(f"no canary was planted {least} times or more, or not the same ones in every run")
    return mean_within(table.mean(axis="columns").tolist(), -top, top), len(table)


def _planted(rows: pd.DataFrame, form: str | None, least: int, most: int | None) -> pd.DataFrame:
    chosen = rows["inserted"] & (rows["insertions"] >= least)
    if most is not None:
        chosen &= rows["insertions"] <= most
    if form is not None:
        chosen &= rows["form"] == form
    return rows[chosen].set_index("canary_id")


def planted_minus_left_out(runs: StoredRuns, spec: RunSpec, copies: int) -> tuple[Interval, int]:
    """Mean exposure of the canaries planted `copies` times − that of all canaries never planted, in bits.

    The second value is the number of the planted canaries.

    Raises:
        Missing: No canary was planted `copies` times, or all were planted.
    """
    rows = _sentences(runs, spec)
    planted = rows[rows["inserted"] & (rows["insertions"] == copies)]
    left_out = rows[~rows["inserted"]]
    if planted.empty or left_out.empty:
        raise Missing(f"no canary was planted {copies} times, or none was left out")
    return _means_apart(planted, left_out), len(planted)


def copies_apart(runs: StoredRuns, spec: RunSpec, many: int, few: int) -> tuple[Interval, int]:
    """Mean exposure of the canaries planted `many` times − that of those planted `few` times, in bits.

    The second value is the number of canaries in the smaller of the two groups.

    Raises:
        Missing: No canary was planted so often.
    """
    return pooled_copies_apart(runs, [spec], many, few)


def pooled_copies_apart(
    runs: StoredRuns, specs: Sequence[RunSpec], many: int, few: int, *, form: str | None = None
) -> tuple[Interval, int]:
    """`copies_apart` over the canaries of several runs together; each run has other canaries.

    Raises:
        Missing: In no run was such a canary planted so often.
    """
    often, seldom = _by_copies(runs, specs, many, few, form)
    return _means_apart(often, seldom), min(len(often), len(seldom))


def losses_apart(runs: StoredRuns, spec: RunSpec, many: int, few: int) -> tuple[Interval, int]:
    """Mean loss of the canaries planted `many` times − that of those planted `few` times, in nats a canary.

    Ranks end at the first one, losses do not. Each mean has Student's interval, and they are combined as independent
    ones. The second value is the number of canaries in the smaller of the two groups.

    Raises:
        Missing: No canary was planted so often.
    """
    return pooled_losses_apart(runs, [spec], many, few)


def pooled_losses_apart(
    runs: StoredRuns, specs: Sequence[RunSpec], many: int, few: int, *, form: str | None = None
) -> tuple[Interval, int]:
    """`losses_apart` over the canaries of several runs together; each run has other canaries.

    Raises:
        Missing: In no run was such a canary planted so often.
    """
    sides = _by_copies(runs, specs, many, few, form)
    means = (Interval(*mean_interval(side["loss"].to_numpy())) for side in sides)
    return difference(*means), min(map(len, sides))


def _by_copies(
    runs: StoredRuns, specs: Sequence[RunSpec], many: int, few: int, form: str | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    rows = pd.concat([_sentences(runs, spec) for spec in specs])
    often, seldom = (_planted(rows, form, copies, copies) for copies in (many, few))
    if often.empty or seldom.empty:
        of_form = "" if form is None else f" of the form {form}"
        raise Missing(f"no canary{of_form} was planted {many} times, or none {few} times")
    return often, seldom


def _means_apart(one: pd.DataFrame, other: pd.DataFrame) -> Interval:
    """Mean exposure of some canaries − that of others of the same run.

    Each mean has the interval of `core.evaluation.stats.boundary_intervals.bits_interval`, and they are combined as
    independent ones.
    """
    return difference(*(bits_interval(side["exposure"].to_numpy(), _most(side)) for side in (one, other)))


def _most(rows: pd.DataFrame) -> float:
    """The most exposure that these canaries can have, in bits: that of the first rank among all candidates."""
    return math.log2(rows["reference_size"].max())


def _sentences(runs: StoredRuns, spec: RunSpec) -> pd.DataFrame:
    """The canary sentences of a run that have an exposure."""
    rows = runs.run(spec).table("canaries")
    return rows[rows["form"].isin(FORMS) & rows["exposure"].notna()].astype({"inserted": bool})
