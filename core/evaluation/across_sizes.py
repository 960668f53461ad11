"""Figures that compare hospitals of any size and models with any tokenizer: rows of a run's metrics table.

Perplexity counts tokens, which differ between tokenizers; bits per character do not. The share of patients whose name
was written falls with the number of patients at the same number of texts; the share of texts with a name does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from core.attacks.membership.decision import LOSS
from core.attacks.memorisation.own_values import own_hits
from core.evaluation.membership.strongest_attack import interval_of
from core.evaluation.membership.units import units
from core.evaluation.stats.bootstrap import Interval, weighted_share
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import SPLIT_OF_ARM, Row, RunTables, pools, scale_to_pool

BITS, PATIENT_AUC, NAMED_TEXTS = "bits_per_character", "auc_loss_patients", "texts_with_name"


def bits_per_character(run: RunTables) -> Iterator[Row]:
    """Bits per character of held-out patients' notes: Σ nats / (ln 2 · Σ characters), patients resampled.

    It equals log₂(perplexity) · tokens / characters over the same notes. For a masked model it is the length of a
    pseudo code and compares with other masked models alone. No row if a scored note is not in the cohort.
    """
    notes = run.scores[(run.scores["attack"] == LOSS) & (run.scores["split"] == "heldout")]
    texts = run.corpus.notes.set_index("note_id")["text"].reindex(notes["note_id"])
    if notes.empty or texts.isna().any():
        return
    bits = -(notes["score"] * notes["tokens"]).to_numpy() / np.log(2)
    found = run.interval(weighted_share(bits, texts.str.len().to_numpy()), notes["patient_id"].to_numpy())
    patients = int(notes["patient_id"].nunique())
    yield Row(BITS, "run", found.value, found.low, found.high, patients, "patients resampled")


def patient_auc(run: RunTables) -> Iterator[Row]:
    """AUC of the loss attack by patient: a patient's score is the mean of their notes'."""
    try:
        judged = units(run.scores[run.scores["attack"] == LOSS], "patient")
    except ValueError:  # members or others without a note
        return
    found = interval_of(judged, "auc", resamples=run.audit.bootstrap, seed=run.audit.seed)
    note = "patients resampled; a blind guess gets 0.5"
    yield Row(PATIENT_AUC, "run", found.value, found.low, found.high, sum(judged.patients), note)


def texts_with_name(run: RunTables) -> Iterator[Row]:
    """`named_texts` of a run."""
    hits = own_hits(run.hits, run.corpus.shared_values)
    yield from named_texts(run.generations, hits, pools(run.corpus, ("full_name",)))


def named_texts(generations: pd.DataFrame, hits: pd.DataFrame, pool: Mapping[str, int]) -> Iterator[Row]:
    """Share of generated texts with a member's full name; arm `heldout`: with a held-out patient's, scaled.

    The control is scaled to as many patients as there are members (`core.evaluation.summary.scale_to_pool`).

    Args:
        generations: the texts.
        hits: what was found in them.
        pool: number of patients of the arms `run` and `heldout` with a known name; without one of them no row.
    """
    texts = len(generations)
    names = hits[(hits["rule"] == "value") & (hits["field"] == "full_name")]
    if not texts or not all(pool.get(arm) for arm in SPLIT_OF_ARM):
        return
    for arm, split in SPLIT_OF_ARM.items():
        count = names.loc[names["split"] == split, "generation_id"].nunique()
        found, note = Interval(count / texts, *proportion_interval(count, texts)), "generated texts"
        if arm == "heldout":
            ratio = pool["run"] / pool["heldout"]
            found = Interval(*(scale_to_pool(end, ratio) for end in (found.value, found.low, found.high)))
            note += f"; scaled from {pool[arm]} held-out patients to {pool['run']}"
        yield Row(NAMED_TEXTS, arm, found.value, found.low, found.high, texts, note)
