"""What the stored shadow models say about runs that are stored, without weights: input of LiRA's stability."""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.membership.decision import LOSS
from core.evaluation.membership.lira_stability import Stability, stability
from core.pipeline import shadows
from core.runs.run import Run
from core.runs.store import Workspace
from core.runs.tables import TableMissing


def lira_stability(run: Run, workspace: Workspace) -> Stability | None:
    """How much LiRA depends on the shadow models and the seed, from stored files; None if there are not two models.

    Besides the run it attacks every run of the same shadow models that has stored the loss of all these notes: they
    differ from it in the training's seed alone.

    Raises:
        ValueError: a shadow model's file cannot be read, or is about other notes.
        AuditBroken: a stored audit is damaged.
    """
    files = shadows.made(run.spec, workspace)
    losses = _losses(run, workspace)
    if len(files) < 2 or losses is None:
        return None
    texts = run.as_read(workspace.corpus(run.spec.corpus, store=False)).notes.set_index("note_id")["text"]
    scores = shadows.stored_scores(losses.assign(text=losses["note_id"].map(texts)), files)
    judged = scores.inside.any(axis=0)  # no model reads the population, or a patient's notes beyond the cap
    notes = losses[judged].reset_index(drop=True)
    own = {run.id: (run.spec.training.seed, notes["score"].to_numpy(dtype=float))}
    name = shadows.folder_name(run.spec)
    for other in sorted(workspace.runs(), key=lambda one: (one.spec.training.seed, one.id)):
        if other.id != run.id and not other.spec.is_base and shadows.folder_name(other.spec) == name:
            found = _aligned(other, workspace, notes)
            if found is not None:
                own[other.id] = (other.spec.training.seed, found)
    audit = run.spec.audit
    return stability(notes, own, scores.of(judged), resamples=audit.bootstrap, seed=audit.seed)


def _losses(run: Run, workspace: Workspace) -> pd.DataFrame | None:
    """The loss attack's rows of the run's full audit, which has the shadow models' notes in their order."""
    found = workspace.audit(run.id).table_of(LOSS, "scores")
    return None if found is None or found.empty else found


def _aligned(run: Run, workspace: Workspace, notes: pd.DataFrame) -> np.ndarray | None:
    """The mean log-likelihoods of these notes under another run, by its audit or own table; None if one is missing."""
    found = _losses(run, workspace)
    if found is None:
        try:
            quick = run.table("scores")
        except TableMissing:
            return None
        found = quick[quick["attack"] == LOSS]
    by_note = found.drop_duplicates("note_id").set_index("note_id")["score"]
    values = by_note.reindex(notes["note_id"]).to_numpy(dtype=float)
    return values if np.isfinite(values).all() else None
