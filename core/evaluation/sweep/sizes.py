"""Size of the hospital as an axis: sweeps whose cohorts differ only in how many patients they have."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.evaluation.stats.bootstrap import Interval
from core.evaluation.sweep.beside import BITS
from core.evaluation.sweep.sweeps import Sweep
from core.evaluation.sweep.tradeoff import recovered
from core.spec import Spec

GAINED_IN = "perplexity_heldout"  # the metric from which the share of the gain is computed
PEOPLE = ("patients", "population", "canaries", "canary_patients")  # settings that may differ between sizes


def notes_text(notes: int) -> str:
    """`about 3,000 notes`."""
    return f"about {rounded(notes)} notes"


def rounded(notes: int) -> str:
    """`3,000`, `48,000`: to thousands from 1,500 on, below that to two digits."""
    step = 1_000 if notes >= 1_500 else 10 ** max(0, math.floor(math.log10(max(notes, 1))) - 1)
    return f"{round(notes / step) * step:,}"


def other_sizes(sweep: Sweep, found: Sequence[Sweep]) -> dict[int, Sweep]:
    """For each number of training notes a sweep like this one, from the smallest hospital; this one included.

    They share the kind, size and base of the model, the unit of privacy, and every setting of the cohort that does not
    count people. Recipes and δ may differ, since both depend on the number of notes. Of several sweeps of one size the
    one with most runs is taken, but of this size always `sweep` itself.
    """
    alike: dict[int, list[Sweep]] = defaultdict(list)
    for one in found:
        if _setting(one) == _setting(sweep):
            alike[one.corpus.training_notes].append(one)
    chosen = {notes: max(same, key=lambda one: len(one.run_ids)) for notes, same in alike.items()}
    chosen[sweep.corpus.training_notes] = sweep
    return dict(sorted(chosen.items()))


def _setting(sweep: Sweep) -> tuple:
    corpus = sweep.corpus.model_dump()
    kept = tuple((name, value) for name, value in corpus.items() if name not in PEOPLE)
    own: tuple[Spec | str, ...] = (sweep.model, sweep.privacy.unit if sweep.training is not None else "")
    return (*own, kept)


@dataclass(frozen=True)
class Bought:
    """What a model of one size of hospital reaches at one ε: bits per character, and the share of the gain kept.

    `gain` is `core.evaluation.sweep.tradeoff.recovered` over the hospital's own base model and run without privacy;
    None without them. `seeds` counts the private runs.
    """

    notes: int
    epsilon: float
    bits: Interval
    gain: Interval | None
    seeds: int


def bought(metrics: Mapping[int, pd.DataFrame], points: Mapping[int, pd.DataFrame]) -> list[Bought]:
    """What each size reaches at each of its measured ε, from the smallest size and ε.

    Args:
        metrics: by number of training notes, the metrics of the sweep's runs with their settings.
        points: the same as points over seeds.
    """
    found = []
    for notes, curve in points.items():
        rows = curve[(curve["metric"] == BITS) & (curve["arm"] == "run")].sort_values("epsilon")
        for row in rows.itertuples():
            bits = Interval(float(row.value), float(row.low), float(row.high))
            gain = gain_kept(metrics[notes], float(row.epsilon))
            found.append(Bought(notes, float(row.epsilon), bits, gain, int(row.seeds)))
    return found


def gain_kept(metrics: pd.DataFrame, epsilon: float) -> Interval | None:
    """The share of the gain over the private run's seeds; where a seed has no plain run, the plain runs' mean counts.

    Seeds that share one plain run leave its own variation out of their interval.
    """

    def by_seed(at: float, arm: str) -> pd.Series:
        wanted = (metrics["metric"] == GAINED_IN) & (metrics["arm"] == arm) & (metrics["epsilon"] == at)
        return metrics.loc[wanted, ["seed", "value"]].groupby("seed")["value"].mean()

    own, base, plain = by_seed(epsilon, "run"), by_seed(epsilon, "base"), by_seed(math.inf, "run")
    if own.empty or base.empty or plain.empty:
        return None
    plain = plain.reindex(own.index).fillna(plain.mean())  # a large hospital may have one plain run alone
    try:
        return recovered(np.asarray(base.reindex(own.index)), own.to_numpy(), plain.to_numpy())
    except ValueError:
        return None
