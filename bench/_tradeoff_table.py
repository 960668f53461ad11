"""The figures that show what privacy costs and where leaks begin, by size of the hospital, each with its bar.

Input: the metrics of the sweep's runs by number of training notes, and the bits per character of a base model that all
of them are compared with. What cannot be computed, because runs are missing, is null, and a sentence says which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd

from core.evaluation.across_sizes import BITS
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.intervals import mean_interval
from core.evaluation.sweep.tradeoff import points
from core.evaluation.sweep.waking import first_leaking
from core.evaluation.wording import epsilon_text


class Figure(TypedDict):
    """A value with its interval (None where there is none), and the target (`bar`) that it is compared with."""

    value: float | None
    low: float | None
    high: float | None
    bar: Any  # a number or None


class Lacking(LookupError):
    """A figure cannot be computed. The message is the end of a sentence: what is missing."""


# How a figure is compared with its bar: at least the bar, or above it.
Bar = Literal["at least", "above"]
SMALL, MIDDLE, LARGE = 3_000, 12_000, 48_000  # training notes, about
PLAIN = math.inf


@dataclass(frozen=True)
class Runs:
    """The runs of one kind of model at one size: their metrics, and the bits per character of the reference base."""

    kind: str
    notes: int
    metrics: pd.DataFrame
    reference: float | None

    def by_seed(self, epsilon: float, metric: str, arm: str = "run") -> pd.Series:
        """A figure of each seed at ε (∞: without privacy). Raises Lacking if there is none."""
        rows = self.metrics
        if not (rows["epsilon"] == epsilon).any():
            name = "without privacy" if math.isinf(epsilon) else f"at ε = {epsilon_text(epsilon)}"
            raise Lacking(f"there is no {self.kind} run {name} of about {self.notes:,} notes")
        rows = rows[(rows["epsilon"] == epsilon) & (rows["metric"] == metric) & (rows["arm"] == arm)]
        found = rows.groupby("seed")["value"].mean().dropna()
        if found.empty:
            raise Lacking(f"the {self.kind} runs of about {self.notes:,} notes have no figure “{metric}” ({arm})")
        return found

    def point(self, epsilon: float, metric: str, arm: str = "run") -> Interval:
        """The mean over seeds with its interval (`core.evaluation.sweep.tradeoff.points`). Raises Lacking."""
        self.by_seed(epsilon, metric, arm)
        rows = self.metrics
        chosen = rows[(rows["epsilon"] == epsilon) & (rows["metric"] == metric) & (rows["arm"] == arm)]
        return Interval.of(points(chosen).iloc[0])


Compute = Callable[[Runs], Interval]


@dataclass(frozen=True)
class Row:
    """One key of the table: the size whose runs it needs, how it is computed, and its bar (of a kind, or of all)."""

    notes: int
    compute: Compute
    bar: float | Mapping[str, float] | Compute | None = None
    compared: Bar = "at least"

    def bar_of(self, runs: Runs) -> float | None:
        """The bar for this kind of model; that of a leak is the upper end of its control. Raises Lacking."""
        if callable(self.bar):
            return self.bar(runs).high
        return self.bar.get(runs.kind) if isinstance(self.bar, Mapping) else self.bar


def gain_kept(epsilon: float) -> Compute:
    """(bits of the reference − bits at ε) / (bits of the reference − bits without privacy), a value for each seed.

    Bits are per character of held-out notes (`bits_per_character`). The reference is one base model for all hospitals
    and versions, so that a better base model counts as a gain, too.
    """

    def compute(runs: Runs) -> Interval:
        if runs.reference is None:
            raise Lacking(f"the {runs.kind} base model to compare with was not measured on about {runs.notes:,} notes")
        return _share(runs, epsilon, BITS, lambda seeds: pd.Series(runs.reference, index=seeds))

    return compute


def score_kept(epsilon: float, metric: str) -> Compute:
    """(score at ε − score of the public base) / (score without privacy − score of the public base), for each seed."""

    def compute(runs: Runs) -> Interval:
        base = runs.by_seed(epsilon, metric, "base")
        return _share(runs, epsilon, metric, lambda seeds: base.reindex(seeds))

    return compute


def _share(runs: Runs, epsilon: float, metric: str, start: Callable[[pd.Index], pd.Series]) -> Interval:
    own, plain = runs.by_seed(epsilon, metric), runs.by_seed(PLAIN, metric)
    seeds = own.index.intersection(plain.index)
    if seeds.empty:
        raise Lacking(
            f"no seed of about {runs.notes:,} notes has both a {runs.kind} run at ε = {epsilon_text(epsilon)} and one "
            "without privacy"
        )
    begin = start(seeds)
    gained, whole = own[seeds] - begin, plain[seeds] - begin
    if ((whole == 0) | whole.isna()).any():
        raise Lacking(f"training without privacy changed nothing ({runs.kind}, about {runs.notes:,} notes)")
    if not np.isfinite(gained / whole).all():
        raise Lacking(f"a {runs.kind} run on about {runs.notes:,} notes has a perplexity above every number")
    return Interval(*mean_interval((gained / whole).to_numpy()))


def at(epsilon: float, metric: str, arm: str = "run") -> Compute:
    """A figure as it is, at ε."""
    return lambda runs: runs.point(epsilon, metric, arm)


def first_leak(runs: Runs) -> Interval:
    """The smallest measured ε from which on an attack exceeds its control (`core.evaluation.sweep.waking`).

    The interval is that of the measured ε between which it begins.
    """
    found = first_leaking(points(runs.metrics))
    if found is None:
        raise Lacking(f"there is no private {runs.kind} run of about {runs.notes:,} notes")
    if found.epsilon is None:
        raise Lacking(f"no attack exceeds its control at any measured ε ({runs.kind}, about {runs.notes:,} notes)")
    return Interval(found.epsilon, *found.interval)


ROWS: dict[str, Row] = {
    **{
        f"recovered_eps{epsilon:g}_n{notes}": Row(notes, gain_kept(epsilon), bar)
        for notes, bars in ((LARGE, (0.80, 0.66)), (MIDDLE, (0.65, 0.45)), (SMALL, (0.46, 0.28)))
        for epsilon, bar in zip((8.0, 1.0), bars, strict=True)
    },
    "entity_f1_kept_eps3_n48000": Row(LARGE, score_kept(3.0, "entity_f1"), {"distilbert": 0.78}),
    "entity_f1_kept_eps1_n48000": Row(LARGE, score_kept(1.0, "entity_f1"), {"distilbert": 0.70}),
    "nli_accuracy_eps8_n48000": Row(LARGE, at(8.0, "nli_accuracy")),
    "known_words_eps8_n48000": Row(LARGE, at(8.0, "known_words"), {"gpt2": 0.90}),
    "auc_plain_n3000": Row(SMALL, at(PLAIN, "auc_loss"), {"gpt2": 0.80}),
    "name_leaks_plain_n3000": Row(
        SMALL, at(PLAIN, "full_name_patients"), at(PLAIN, "full_name_patients", "heldout"), "above"
    ),
    "name_leaks_plain_n3000_control": Row(SMALL, at(PLAIN, "full_name_patients", "heldout")),
    "first_leaking_epsilon_n3000": Row(SMALL, first_leak, 8.0, "above"),
}
BARS: dict[str, Bar] = {key: row.compared for key, row in ROWS.items() if row.bar is not None}


def tradeoff_table(
    metrics: Mapping[int, pd.DataFrame], reference: Mapping[tuple[str, int], float], kinds: Sequence[str]
) -> tuple[dict[str, dict[str, Figure]], list[str]]:
    """`{kind: {key: {value, low, high, bar}}}` with every key of ROWS, and a sentence for every value that is null.

    Values are means over seeds with 95 % intervals; the ends are null where one seed gives none. `bar` is what the
    value is compared with; null where there is none.

    Args:
        metrics: by number of training notes, metrics of the sweep's runs as in `core.evaluation.sweep.tradeoff`,
            without those of trainings without noise.
        reference: bits per character of the base model that gains are counted from, by kind and number of notes.
        kinds: kinds of models to have in the table.
    """
    table: dict[str, dict[str, Figure]] = {}
    lacking: list[str] = []
    for kind in kinds:
        table[kind] = {}
        for key, row in ROWS.items():
            frame = metrics.get(row.notes, pd.DataFrame(columns=["kind", "epsilon", "seed", "metric", "arm", "value"]))
            runs = Runs(kind, row.notes, frame[frame["kind"] == kind], reference.get((kind, row.notes)))
            try:
                table[kind][key] = _figure(row.compute(runs), row.bar_of(runs))
            except Lacking as error:
                bar = None if callable(row.bar) else row.bar_of(runs)
                table[kind][key] = {"value": None, "low": None, "high": None, "bar": bar}
                lacking.append(f"{kind} {key}: {error}.")
    return table, lacking


def reached(key: str, figure: Figure) -> bool | None:
    """Whether a figure of the table reaches its bar (see `tradeoff_table`); None without a bar or a value."""
    value, bar = figure["value"], figure["bar"]
    if bar is None or value is None:
        return None
    return value > bar if BARS[key] == "above" else value >= bar


def _figure(interval: Interval, bar: float | None) -> Figure:
    value, low, high = (
        float(number) if np.isfinite(number) else None for number in (interval.value, interval.low, interval.high)
    )
    return {"value": value, "low": low, "high": high, "bar": bar}
