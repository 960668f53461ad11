"""Recommended ε and run for a reader's limits on risk and usefulness, from these runs alone.

The PrivAI-Leak report, §9.3, recommends an ε for each use case. The effect of an ε, however, depends on the cohort, the
model and the training. Here the reader sets limits for risk and usefulness, and every run is compared with them. A
limit is met if the *worse end* of the 95 % interval meets it, so a figure that was not measured well enough does not
pass. An ε that protects patients is recommended before one that protects notes, which promises less to a patient with
several.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from core.attacks.membership.decision import in_words
from core.common.formatting import setting_text
from core.evaluation import registry
from core.evaluation.figures.limited import UTILITY
from core.evaluation.registry import measure_name, measure_text
from core.evaluation.sweep.limits import Limits
from core.evaluation.sweep.tradeoff import points
from core.evaluation.wording import epsilon_text

UNITS = ("patient", "note", "")  # in order of preference; "" is training without privacy
COLUMNS = ["unit", "epsilon", "measure", "limit", "value", "low", "high", "seeds", "met", "attack", "attacks", "few"]
ACCEPTED_COLUMNS = ["measure", "limit", "value", "low", "high", "met", "attack", "attacks", "few"]
MET, NOT_MET, NOT_MEASURED = "met", "not met", "not measured"
RUN_COLUMNS = ["run_id", "unit", "epsilon", "seed", *COLUMNS[2:7], "met", "attack", "attacks", "few"]


@dataclass(frozen=True)
class Recommendation:
    """The smallest ε whose runs meet every limit, for one `unit`, and the run to take (`run_id`).

    Each is None if there is none. `unit` is empty without an ε, and for training without privacy. `table` has one row
    per ε and measure (COLUMNS). Of these, attack, attacks (how many it was chosen from) and few (attacks that judged
    too few patients to be bounded) belong to the strongest attack. `runs` has the same per run (RUN_COLUMNS).
    """

    limits: Limits
    epsilon: float | None
    run_id: str | None
    table: pd.DataFrame
    runs: pd.DataFrame
    sentences: tuple[str, ...]
    unit: str = ""


def recommend(found: pd.DataFrame, limits: Limits) -> Recommendation:
    """Find the smallest ε that meets every limit, per patient before per note, and its most useful run.

    Args:
        found: as returned by `core.evaluation.sweep.limit_measures.measures`.
        limits: the reader's limits.

    Returns:
        The recommendation. If no ε meets the limits, `epsilon` is None and the sentences say what fails.
    """
    wanted = {**limits.risks, UTILITY: limits.utility}
    kept = _most_attacked(found[found["metric"].isin(wanted) & (found["epsilon"] > 0)])
    kept = kept.assign(unit=np.where(np.isinf(kept["epsilon"]), "", kept["unit"])).rename(columns={"metric": "measure"})
    runs, table = _judged(kept, wanted)[RUN_COLUMNS], _over_seeds(kept, wanted)
    passing = [key for key, rows in table.groupby(["unit", "epsilon"]) if _all_met(rows, wanted)]
    if not passing:
        return Recommendation(limits, None, None, table, runs, tuple(_none_sentences(table, limits)))
    unit, epsilon = min(passing, key=lambda key: (UNITS.index(key[0]), key[1]))
    chosen = table[(table["unit"] == unit) & (table["epsilon"] == epsilon)]
    run_id = _best_run(runs[(runs["unit"] == unit) & (runs["epsilon"] == epsilon)], wanted)
    smaller = sorted(one for whom, one in passing if (unit, whom) == ("patient", "note") and one <= epsilon)
    alone = table.loc[table["unit"] == unit, "epsilon"].nunique() == 1
    sentences = _sentences(chosen, run_id, smaller, alone=alone)
    return Recommendation(limits, epsilon, run_id, table, runs, tuple(sentences), unit)


def against_limits(found: Mapping[str, Mapping[str, Any]], risks: Mapping[str, float]) -> pd.DataFrame:
    """One run's risks beside limits on them, a row a limit in their order, with ACCEPTED_COLUMNS.

    `met` is MET, NOT_MET, by the worse end of the interval as in `recommend`, or NOT_MEASURED.

    Args:
        found: as returned by `core.evaluation.sweep.limit_measures.risks_of`.
        risks: the highest accepted value of each risk, by key.
    """
    missing = {"value": math.nan, "low": math.nan, "high": math.nan, "attack": "", "attacks": 0, "few": ""}
    rows = [{"unit": "", "epsilon": math.inf, "measure": name} | missing | dict(found.get(name, {})) for name in risks]
    if not rows:
        return pd.DataFrame(columns=ACCEPTED_COLUMNS)
    judged = _judged(pd.DataFrame(rows), risks)
    told = np.where(judged["value"].isna(), NOT_MEASURED, np.where(judged["met"], MET, NOT_MET))
    return judged.assign(met=told)[ACCEPTED_COLUMNS]


def _most_attacked(found: pd.DataFrame) -> pd.DataFrame:
    """Of the strongest attack's figures at one ε, keep only those of full audits if there are any.

    A mean over some runs attacked by ten attacks and others by one would make the model look safer than it is.
    """
    most = found.groupby(["unit", "epsilon", "metric"])["attacks"].transform("max")
    return found[(found["attacks"] > 1) | (most <= 1)]


def _over_seeds(kept: pd.DataFrame, wanted: Mapping[str, float]) -> pd.DataFrame:
    """One row per unit, ε and measure: the mean over seeds, and whether it meets its limit."""
    frames = []
    for unit, rows in kept.groupby("unit"):
        found = points(rows.rename(columns={"measure": "metric"})).rename(columns={"metric": "measure"})
        by = rows.groupby(["epsilon", "measure"]).agg(
            attack=("attack", _joined), attacks=("attacks", "max"), few=("few", _joined)
        )
        frames.append(found.join(by, on=["epsilon", "measure"]).assign(unit=unit))
    if not frames:
        return pd.DataFrame(columns=COLUMNS)
    return _carried_up(_judged(pd.concat(frames, ignore_index=True), wanted))[COLUMNS]


def _joined(names: pd.Series) -> str:
    return ", ".join(sorted(set(names) - {""}))


def _carried_up(table: pd.DataFrame) -> pd.DataFrame:
    """Mark rows as not met whose ε passes only because it was attacked less than a smaller ε that fails.

    If a full audit at some ε breaks a limit on membership, the loss attack alone cannot show that a larger ε of that
    unit (or training without privacy) meets the same limit: more privacy was not enough.
    """
    by_strongest = table["measure"].isin(registry.limits("strongest"))
    failed = table[by_strongest & (table["attacks"] > 1) & ~table["met"]]
    unsure = by_strongest & (table["attacks"] <= 1) & table["met"]
    for row in table[unsure].itertuples():
        same = failed[(failed["measure"] == row.measure) & (failed["epsilon"] < row.epsilon)]
        if (same["unit"] == row.unit).any() or (not row.unit and len(same)):
            table.loc[row.Index, "met"] = False
    return table


def _judged(rows: pd.DataFrame, wanted: Mapping[str, float]) -> pd.DataFrame:
    """Add the limits and whether the worse end of the interval meets them; without an interval it does not."""
    rows = rows.astype({"value": float, "low": float, "high": float})
    limit = rows["measure"].map(wanted).astype(float)
    met = np.where(rows["measure"] == UTILITY, rows["low"] >= limit, rows["high"] <= limit)
    order = {name: place for place, name in enumerate(wanted)}
    by_unit = rows["unit"].map(UNITS.index)
    judged = rows.assign(limit=limit, met=met.astype(bool), by_unit=by_unit, order=rows["measure"].map(order))
    return judged.sort_values(["by_unit", "epsilon", "order"], kind="stable").reset_index(drop=True)


def _all_met(rows: pd.DataFrame, wanted: Mapping[str, float]) -> bool:
    return set(rows["measure"]) == set(wanted) and bool(rows["met"].all())


def _best_run(runs: pd.DataFrame, wanted: Mapping[str, float]) -> str | None:
    fit = [run_id for run_id, rows in runs.groupby("run_id") if _all_met(rows, wanted)]
    usefulness = runs[(runs["measure"] == UTILITY) & runs["run_id"].isin(fit)]
    return None if usefulness.empty else str(usefulness.loc[usefulness["low"].idxmax(), "run_id"])


def _told(row: Any) -> str:
    text = [measure_text(row.measure, end) for end in (row.value, row.low, row.high)]
    sign = "at least" if row.measure == UTILITY else "at most"
    return (
        f"{measure_name(row.measure)} {text[0]} ({text[1]} to {text[2]}; {sign} {measure_text(row.measure, row.limit)})"
    )


def epsilon_name(unit: str, epsilon: float) -> str:
    """`8 per patient`; `∞ (no privacy)`."""
    return f"{epsilon_text(epsilon)} per {unit}" if unit else epsilon_text(epsilon)


def attack_text(row: Mapping[str, Any]) -> str:
    """The attack behind a row of `table`: `strongest of 10 membership attacks: …`; `the loss attack, the only …`.

    For a row that is not met although its interval meets the limit, the text gives the reason (`_carried_up`).
    """
    if row["attacks"] > 1:
        few = f"; not bounded: {row['few']}" if row.get("few") else ""
        return f"strongest of {row['attacks']} membership attacks: {in_words(row['attack'])}{few}"
    if fails_by_smaller(row):
        return f"{in_words(row['attack'])} alone; a smaller ε fails under a full audit"
    return f"{in_words(row['attack'])}, the only membership attack run"


def fails_by_smaller(row: Mapping[Any, Any]) -> bool:
    """Whether a row of `table` is not met although its interval meets the limit: a smaller ε fails (`_carried_up`)."""
    carried = row.get("measure") in registry.limits(
        "strongest"
    )  # of usefulness, a high end below the limit is a failure
    return carried and "met" in row and not row["met"] and row["high"] <= row["limit"]


def _sentences(chosen: pd.DataFrame, run_id: str | None, by_note: Sequence[float], *, alone: bool) -> list[str]:
    """What meets the limits, which attack measured it, and the run to take.

    Args:
        chosen: the rows of one ε.
        run_id: the run to take, if there is one.
        by_note: every smaller or equal ε per note that also meets every limit, where the chosen one is per patient. A
            table of every ε shows them, so the reader must learn why no smaller number was chosen.
        alone: whether no other ε of this unit was measured, so that it is not the smallest of several.
    """
    told = "; ".join(_told(row) for row in chosen.itertuples())
    unit, epsilon = chosen[["unit", "epsilon"]].iloc[0]
    if math.isinf(epsilon):
        sentences = [
            f"Only training without privacy meets your limits: {told}. It promises nothing: the limits hold "
            "only against the attacks that were tried."
        ]
    elif alone:
        sentences = [f"The only ε per {unit} measured here, {setting_text(epsilon)}, meets your limits: {told}."]
    else:
        among = f" per {unit}" if by_note else ""
        named = setting_text(epsilon) if among else epsilon_name(unit, epsilon)
        sentences = [f"The smallest ε{among} that meets your limits here is {named}: {told}."]
    if by_note:  # named again, because `advise` puts sentences about the noise before this one
        meets, protects = ("meets", "protects") if len(by_note) == 1 else ("meet", "protect")
        sentences.append(
            f"ε = {epsilon_name(unit, epsilon)} protects all notes of a patient together, so it is preferred to "
            f"ε = {_list({('note', one) for one in by_note})}, which also {meets} your limits but {protects} only one "
            "note at a time."
        )
    sentences += attack_sentences(chosen)
    if run_id is None:
        return [*sentences, "No single run at this ε meets all limits by its own interval. Train more seeds."]
    return [*sentences, f"Take the run {run_id}, the most useful of those that meet every limit by their own interval."]


def attack_sentences(rows: pd.DataFrame) -> list[str]:
    """Which attack the limits on membership at one ε were checked with, and whether more could have been tried."""
    judged = rows[rows["measure"].isin(registry.limits("strongest"))]
    if judged.empty:
        told = "Your limits on membership are about the loss attack on single notes: other attacks, and all notes of a "
        by_note = rows["measure"].isin(registry.limits("loss")).any()
        return [f"{told}patient together, may recognise members better."] if by_note else []
    if judged["attacks"].max() <= 1:
        return [
            "Only the loss attack of the quick audit was run at this ε, evaluated by patient. A full audit may "
            "find a stronger attack, and the limits may then fail."
        ]
    best = ", ".join(
        dict.fromkeys(f"{in_words(row.attack)} ({measure_name(row.measure)})" for row in judged.itertuples())
    )
    few = _joined(judged["few"])
    return [
        f"Membership is measured by the strongest of {judged['attacks'].max()} membership attacks of a full audit, "
        f"evaluated by patient: {best}. The strongest of several looks a little stronger than it is, "
        "so intervals are widened, and a limit holds for the highest upper end of all attacks.",
        *(
            [
                f"Too few patients were scored by {few} to bound these attacks from above: they break a limit only "
                "where they certainly exceed it."
            ]
            if few
            else []
        ),
    ]


def _none_sentences(table: pd.DataFrame, limits: Limits) -> list[str]:
    if table.empty:
        return ["None of these runs has the figures that you limited."]
    sentences = ["None of these runs meets both your limits for risk and for usefulness."]
    if UTILITY not in set(table["measure"]):
        return [*sentences, "Usefulness needs a run without privacy and the public model for comparison."]
    safe = {
        key
        for key, rows in table[table["measure"] != UTILITY].groupby(["unit", "epsilon"])
        if set(rows["measure"]) == set(limits.risks) and rows["met"].all()
    }
    gains = table[table["measure"] == UTILITY].set_index(["unit", "epsilon"])
    useful = set(gains.index[gains["met"]])
    if safe & set(gains.index):
        best = gains.loc[sorted(safe & set(gains.index))].sort_values("low").iloc[-1]
        sentences.append(
            f"Safe enough: ε = {_list(safe)}; the most useful of them, {epsilon_name(*best.name)}, keeps "
            f"{measure_text(UTILITY, best['low'])} of the gain by the worse end of its interval."
        )
    else:
        sentences.append("No ε here meets the limits for risk.")
    sentences.append(f"Useful enough: ε = {_list(useful)}." if useful else "No ε here is useful enough.")
    return sentences


def _list(keys: set[tuple[str, float]]) -> str:
    ordered = sorted(keys, key=lambda key: (UNITS.index(key[0]), key[1]))
    return ", ".join(epsilon_name(*key) for key in ordered)
