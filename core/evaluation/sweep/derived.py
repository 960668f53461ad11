"""Figures that compare models and that the metrics of older runs lack, computed from the run's other tables.

They are texts with a patient's full name, the loss attack's AUC by patient, and bits per character. A figure that the
metrics table already has is not computed again. Runs that keep figures only keep what their metrics table has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from core.attacks.membership.decision import LOSS
from core.corpus.tables import Corpus
from core.evaluation.across_sizes import named_texts
from core.evaluation.membership.strongest_attack import strongest
from core.evaluation.summary import METRIC_COLUMNS, SPLIT_OF_ARM, Row
from core.evaluation.sweep.beside import BITS, NAMES, PATIENT_AUC
from core.runs.run import Run
from core.runs.tables import TableMissing

PERPLEXITY = "perplexity_heldout"
RESAMPLES = 300  # of patients, behind the AUC by patient


def derived(run: Run, base: Run | None, ratio: float | None = None) -> pd.DataFrame:
    """The figures of this module that the run's metrics lack, as rows of a metrics table.

    Args:
        run: the run.
        base: its public base model, for the arm `base`; None leaves that arm out.
        ratio: tokens per character on held-out notes (`tokens_per_character`); None leaves bits per character out.
    """
    there = set(run.metrics["metric"])
    rows = [] if {NAMES, PATIENT_AUC} <= there else [row for row in _rows(run, base) if row.metric not in there]
    # With its types: a table of metrics joined to an empty one without types would have slow columns of objects.
    frame = pd.DataFrame(rows, columns=list(METRIC_COLUMNS)).astype(METRIC_COLUMNS)
    if ratio is None or BITS in there:
        return frame
    return pd.concat([frame, bits_per_character(run.metrics, ratio)], ignore_index=True)


def bits_per_character(metrics: pd.DataFrame, ratio: float) -> pd.DataFrame:
    """`perplexity_heldout` of a metrics table as bits per character: log₂ perplexity · tokens / characters.

    It is the length of a code for held-out notes, and so compares models with different tokenizers. For a masked model
    it is a pseudo code length, which compares with other masked models alone. The logarithm keeps order, so the ends of
    an interval are converted as its value.

    Args:
        metrics: rows with metric and value, low, high.
        ratio: tokens per character.
    """
    rows = metrics[metrics["metric"] == PERPLEXITY].assign(metric=BITS)
    for column in ("value", "low", "high"):
        rows[column] = rows[column].map(_bits) * ratio
    return rows


def _bits(perplexity: float) -> float:
    return math.log2(perplexity) if perplexity > 0 else math.nan


def tokens_per_character(scores: pd.DataFrame, corpus: Corpus) -> float | None:
    """Scored tokens per character of the held-out notes in a `scores` table; None without such notes.

    It depends on the cohort, the audit and the tokenizer alone, so one run gives it for all of a curve.
    """
    notes = scores[(scores["attack"] == LOSS) & (scores["split"] == "heldout")]
    texts = corpus.notes.set_index("note_id")["text"].reindex(notes["note_id"])
    characters = int(texts.str.len().sum())
    return float(notes["tokens"].sum() / characters) if characters and texts.notna().all() else None


def _rows(run: Run, base: Run | None) -> Iterator[Row]:
    metrics = run.metrics.set_index(["metric", "arm"])
    named = [("full_name_patients", arm) for arm in SPLIT_OF_ARM]
    pool = {key[1]: int(metrics.loc[key, "n"]) for key in named if key in metrics.index}
    try:
        scores = run.table("scores")
        yield from named_texts(run.table("generations"), run.table("hits"), pool)
        yield from _patient_auc(scores, "run")
        if base is not None:
            public = base.table("scores")
            yield from _patient_auc(public[public["note_id"].isin(scores["note_id"])], "base")
    except TableMissing:
        return


def _patient_auc(scores: pd.DataFrame, arm: str) -> Iterator[Row]:
    """AUC of the loss attack on patients, a patient's score being the mean of their notes'."""
    scores = scores[scores["attack"] == LOSS]
    found = strongest(scores, "auc", resamples=RESAMPLES)
    if found is not None:
        auc = found.interval
        yield Row(PATIENT_AUC, arm, auc.value, auc.low, auc.high, found.patients, "patients resampled")
