"""Figures that compare hospitals of any size and models with any tokenizer: rows of a run's metrics table.

Perplexity counts tokens, which differ between tokenizers; bits per character do not. The share of patients whose name
was written falls with the number of patients at the same number of texts; the share of texts with a name does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from core.attacks.membership.decision import LOSS
from core.evaluation.membership.strongest_attack import interval_of
from core.evaluation.membership.units import units
from core.evaluation.stats.bootstrap import weighted_share
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import SPLIT_OF_ARM, Row, RunTables, scale_to_pool

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
    """Share of generated texts with a member's full name; arm `heldout`: with a held-out patient's, scaled.

    The control is scaled to as many patients as there are members (`core.evaluation.summary.scale_to_pool`).
    """
    texts = len(run.generations)
    names = run.hits[(run.hits["rule"] == "value") & (run.hits["field"] == "full_name")]
    splits = run.corpus.patients["split"].value_counts()
    pool = {arm: int(splits.get(split, 0)) for arm, split in SPLIT_OF_ARM.items()}
    if not texts or not all(pool.values()):
        return
    ratio = pool["run"] / pool["heldout"]
    for arm, split in SPLIT_OF_ARM.items():
        count = names.loc[names["split"] == split, "generation_id"].nunique()
        ends = (count / texts, *proportion_interval(count, texts))
        if arm == "heldout":
            ends = tuple(scale_to_pool(end, ratio) for end in ends)
        scaled = f"; scaled from {pool[arm]} held-out patients to {pool['run']}" if arm == "heldout" else ""
        yield Row(NAMED_TEXTS, arm, *ends, texts, f"generated texts{scaled}")
