"""Rows of the metrics table about utility, from the table `utility` and the generated texts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd

from core.evaluation.stats.bootstrap import Interval, WeightedStatistic, weighted_share
from core.evaluation.stats.boundary_intervals import share_interval, units_tried
from core.evaluation.summary import Row, RunTables
from core.evaluation.utility.distance import area_interval
from core.evaluation.utility.sentences import Fitting, fitting
from core.tasks.entities import TASK as ENTITIES
from core.tasks.inference import CLAIM_ONLY
from core.tasks.inference import TASK as INFERENCE
from core.tasks.texts import CEILING, GENERATED

MOST_NOTES = 600  # held-out notes whose sentences are compared with


def entity_figures(run: RunTables) -> Iterator[Row]:
    """Precision, recall and F1 of entities in held-out notes, over all types (micro) and F1 of each type."""
    rows = run.utility[run.utility["task"] == ENTITIES]
    if rows.empty:
        return
    for metric, above, below in (
        ("entity_f1", 2 * rows["correct"], rows["trials"] + rows["predicted"]),
        ("entity_precision", rows["correct"], rows["predicted"]),
        ("entity_recall", rows["correct"], rows["trials"]),
    ):
        yield _by_patient(run, metric, rows, above, below)
    for name, of_type in rows.groupby("kind", sort=True):
        f1 = 2 * of_type["correct"], of_type["trials"] + of_type["predicted"]
        yield _by_patient(run, f"entity_type_f1:{name}", of_type, *f1)


def inference_figures(run: RunTables) -> Iterator[Row]:
    """Share of claims about held-out notes that are judged right, and the control that saw no note."""
    for metric, task in (("nli_accuracy", INFERENCE), ("nli_claim_only", CLAIM_ONLY)):
        rows = run.utility[run.utility["task"] == task]
        if len(rows):
            yield _by_patient(run, metric, rows, rows["correct"], rows["trials"])


def text_figures(run: RunTables) -> Iterator[Row]:
    """How close the model's texts are to held-out notes; arm `heldout`: notes of other held-out patients."""
    for arm, task, what in (("run", GENERATED, "texts"), ("heldout", CEILING, "notes")):
        rows = run.utility[run.utility["task"] == task]
        if len(rows):
            found = area_interval(rows, resamples=run.audit.bootstrap, seed=run.audit.seed)
            count = int(rows["trials"].sum()) // 2
            note = f"{count} {what} against as many notes of held-out patients; both resampled"
            yield Row("text_similarity", arm, found.value, found.low, found.high, count, note)


def sentence_figures(run: RunTables) -> Iterator[Row]:
    """Share of sentences whose facts fit one disease group; arm `heldout`: those of held-out notes."""
    if run.corpus.spec is None or run.corpus.spec.imported is not None:
        return
    written = fitting(run.generations["text"].tolist(), unfinished=True, seed=run.audit.seed)
    yield _sentences(run, "facts_fit", "run", written, written.fits, np.arange(len(written.sentences)), "texts")
    notes = run.corpus.notes_of("heldout")
    notes = notes.iloc[np.sort(np.random.default_rng(run.audit.seed).permutation(len(notes))[:MOST_NOTES])]
    real = fitting(notes["text"].tolist(), unfinished=False, seed=run.audit.seed)
    yield _sentences(run, "facts_fit", "heldout", real, real.fits, notes["patient_id"].to_numpy(), "patients")
    yield _sentences(
        run, "facts_fit_shuffled", "run", written, written.shuffled, np.arange(len(written.sentences)), "texts"
    )


def _sentences(
    run: RunTables, metric: str, arm: str, found: Fitting, hits: np.ndarray, units: np.ndarray, what: str
) -> Row:
    count = int(found.sentences.sum())
    if not count:
        return Row(metric, arm, math.nan, math.nan, math.nan, 0, "no sentence states two facts")
    value = run.interval(weighted_share(hits, found.sentences), units)
    value = share_interval(value, units_tried(units, found.sentences))
    return Row(
        metric, arm, value.value, value.low, value.high, count, f"sentences with two facts or more; {what} resampled"
    )


def _by_patient(run: RunTables, metric: str, rows: pd.DataFrame, above: pd.Series, below: pd.Series) -> Row:
    """Σ above / Σ below with an interval over patients; NaN where nothing was said and nothing is there."""
    patients = rows["patient_id"].to_numpy()
    count = int(rows["patient_id"].nunique())
    if not below.sum():
        return Row(metric, "run", math.nan, math.nan, math.nan, count, "no entity was tagged")
    statistic: WeightedStatistic = weighted_share(above.to_numpy(), below.to_numpy())
    found: Interval = share_interval(run.interval(statistic, patients), units_tried(patients, below))
    return Row(metric, "run", found.value, found.low, found.high, count, "held-out patients resampled")
