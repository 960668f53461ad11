"""How well entities in labelled sentences of abstracts are found, from the counts of `core.tasks.abstracts`."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from core.evaluation.stats.bootstrap import Interval, patient_bootstrap, weighted_share
from core.evaluation.stats.boundary_intervals import share_interval, units_tried
from core.tasks.iob import abstract_of


@dataclass(frozen=True)
class Scored:
    """Entities found in labelled sentences. Intervals are over abstracts (`core.tasks.iob.abstract_of`)."""

    f1: Interval
    precision: float
    recall: float
    learned: int  # sentences that the head was fitted on
    judged: int
    entities: int


def entity_score(counts: pd.DataFrame, *, learned: int, judged: int) -> Scored:
    """Precision, recall and F1 over all types of entity.

    Args:
        counts: what a head found in each judged sentence (`core.tasks.abstracts.sentence_counts`).
        learned: number of sentences that the head was fitted on.
        judged: number of sentences that it was judged on.
    """
    trials, predicted, correct = (counts[name].to_numpy() for name in ("trials", "predicted", "correct"))
    abstracts = abstract_of(counts["patient_id"])
    f1 = patient_bootstrap(weighted_share(2 * correct, trials + predicted), abstracts)
    f1 = share_interval(f1, units_tried(abstracts, trials + predicted))
    precision = float(correct.sum() / predicted.sum()) if predicted.sum() else float("nan")
    recall = float(correct.sum() / trials.sum()) if trials.sum() else float("nan")
    return Scored(f1, precision, recall, learned, judged, int(trials.sum()))
