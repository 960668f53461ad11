"""The ratio attack with shadow models as reference: models of the same hospital that did not read the note."""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.membership.decision import LOSS
from core.findings.stored_runs import Missing, StoredRuns
from core.pipeline.shadows import made, stored_scores
from core.spec import RunSpec


def shadow_reference(runs: StoredRuns, spec: RunSpec) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of the ratio and of the loss for members' and others' notes that some shadow model did not read.

    The reference is the mean of the log-likelihoods under all shadow models that did not read the note.

    Raises:
        Missing: There are no shadow models, or they are about other notes.
    """
    loss = runs.scores(spec, LOSS).reset_index(drop=True)
    texts = runs.workspace.corpus(spec.corpus).notes.set_index("note_id")["text"]
    notes = loss[["note_id"]].assign(text=texts.reindex(loss["note_id"]).to_numpy())
    files = made(spec, runs.workspace)
    if not files:
        raise Missing(f"run {spec.run_id} has no shadow models")
    shadows = stored_scores(notes, files)
    outside = ~shadows.inside
    count = outside.sum(axis=0)
    reference = np.where(outside, shadows.likelihoods, 0.0).sum(axis=0) / np.maximum(count, 1)
    kept = (count > 0) & loss["split"].isin(["member", "heldout"]).to_numpy()
    ratio = loss.assign(score=loss["score"].to_numpy() - reference)
    return ratio[kept], loss[kept]
