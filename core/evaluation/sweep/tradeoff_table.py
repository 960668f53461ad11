"""The figures that show whether differential privacy limits leaks and keeps usefulness, each with its target."""

from __future__ import annotations

import math
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd

from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import mean_interval
from core.evaluation.sweep.tradeoff import points, recovered


class Figure(TypedDict):
    """A value with its interval (None where there is none), and the target (`bar`) that it is compared with."""

    value: float | None
    low: float | None
    high: float | None
    bar: Any  # a number, [low, high] or None, depending on the figure's key


EPSILONS = (1.0, 8.0, math.inf)  # the table needs runs at these ε, of every kind and seed
# How a figure is compared with its bar: at least or at most the bar, above it, or within [low, high].
Bar = Literal["at least", "at most", "above", "within"]
BARS: dict[str, Bar] = {
    "recovered_eps8": "at least",
    "recovered_eps1": "at least",
    "public_perplexity_ratio_eps8": "at most",
    "auc_plain": "at least",
    "auc_eps8": "within",
    "name_leaks_plain": "above",
    "name_leaks_eps8": "at most",
    "known_words_eps8": "at least",
}
_AUC_BAR = {"gpt2": 0.80, "distilbert": 0.65}
_WORDS_BAR = {"gpt2": 0.90}  # masked models fill gaps, which does not test whether text reads as language


def tradeoff_table(metrics: pd.DataFrame) -> dict[str, dict[str, Figure]]:
    """`{kind: {key: {value, low, high, bar}}}` from the runs at ε = 1, 8 and ∞ of several seeds, one cohort and size.

    Values are means over seeds with 95 % intervals; null where one seed gives none. `bar` is what the value is compared
    with, as BARS says (that of name leaks is the control's upper end); null where there is none.

    Args:
        metrics: as in `core.evaluation.sweep.tradeoff`.

    Raises:
        ValueError: runs are missing; the text names them.
    """
    if metrics.empty:
        raise ValueError("there are no runs for the table: train them first")
    return {str(kind): _figures(str(kind), rows) for kind, rows in metrics.groupby("kind", sort=False)}


def reached(key: str, figure: Figure) -> bool | None:
    """Whether a figure of the table reaches its bar (see `tradeoff_table`); None without a bar or a value."""
    value, bar = figure["value"], figure["bar"]
    if bar is None or value is None:
        return None
    match BARS[key]:
        case "within":
            return bar[0] <= value <= bar[1]
        case "above":
            return value > bar
        case "at most":
            return value <= bar
    return value >= bar


def _figures(kind: str, rows: pd.DataFrame) -> dict[str, Figure]:
    _check_runs(kind, rows)
    at = points(rows).set_index(["epsilon", "metric", "arm"])

    def point(epsilon: float, metric: str, arm: str = "run") -> Interval:
        if (epsilon, metric, arm) not in at.index:
            raise ValueError(f"the {kind} runs at ε = {epsilon:g} have no figure “{metric}” for the arm “{arm}”")
        found = at.loc[(epsilon, metric, arm)]
        return Interval(float(found["value"]), float(found["low"]), float(found["high"]))

    plain, plain_control = (point(math.inf, "full_name_patients", arm) for arm in ("run", "heldout"))
    private, private_control = (point(8.0, "full_name_patients", arm) for arm in ("run", "heldout"))
    return {
        "recovered_eps8": _figure(_recovered(rows, 8.0), 0.70),
        "recovered_eps1": _figure(_recovered(rows, 1.0), 0.50),
        "public_perplexity_ratio_eps8": _figure(_public_ratio(rows), 2.0),
        "auc_plain": _figure(point(math.inf, "auc_loss"), _AUC_BAR.get(kind)),
        "auc_eps8": _figure(point(8.0, "auc_loss"), [0.45, 0.55]),
        "name_leaks_plain": _figure(plain, plain_control.high),
        "name_leaks_plain_control": _figure(plain_control, None),
        "name_leaks_eps8": _figure(private, private_control.high),
        "name_leaks_eps8_control": _figure(private_control, None),
        "known_words_eps8": _figure(point(8.0, "known_words"), _WORDS_BAR.get(kind)),
    }


def _check_runs(kind: str, rows: pd.DataFrame) -> None:
    missing = [epsilon for epsilon in EPSILONS if not (rows["epsilon"] == epsilon).any()]
    if missing:
        needed = ", ".join("∞ (no privacy)" if math.isinf(epsilon) else f"{epsilon:g}" for epsilon in missing)
        raise ValueError(f"the table needs {kind} runs at ε = {needed}, and there are none: train them first")
    mixed = [name for name in ("size", "base", "corpus") if rows.loc[rows["epsilon"] > 0, name].nunique() > 1]
    if mixed:
        raise ValueError(f"the {kind} runs differ in {', '.join(mixed)}: a table compares runs that share them")


def _by_seed(rows: pd.DataFrame, epsilon: float, metric: str, arm: str) -> pd.Series:
    chosen = rows[(rows["epsilon"] == epsilon) & (rows["metric"] == metric) & (rows["arm"] == arm)]
    return chosen.groupby("seed")["value"].mean()


def _recovered(rows: pd.DataFrame, epsilon: float) -> Interval:
    """`recovered` over the seeds that have a run at ε and one without privacy."""
    seeds = pd.DataFrame(
        {
            "base": _by_seed(rows, epsilon, "perplexity_heldout", "base"),
            "private": _by_seed(rows, epsilon, "perplexity_heldout", "run"),
            "plain": _by_seed(rows, math.inf, "perplexity_heldout", "run"),
        }
    ).dropna()
    if seeds.empty:
        raise ValueError(
            f"no seed has both a run at ε = {epsilon:g} and one without privacy, so they cannot be compared"
        )
    return recovered(seeds["base"].to_numpy(), seeds["private"].to_numpy(), seeds["plain"].to_numpy())


def _public_ratio(rows: pd.DataFrame) -> Interval:
    ratios = _by_seed(rows, 8.0, "perplexity_public", "run") / _by_seed(rows, 8.0, "perplexity_public", "base")
    return Interval(*mean_interval(ratios.dropna().to_numpy()))


def _figure(interval: Interval, bar: float | list[float] | None) -> Figure:
    value, low, high = (
        float(number) if np.isfinite(number) else None for number in (interval.value, interval.low, interval.high)
    )
    return {"value": value, "low": low, "high": high, "bar": bar}
