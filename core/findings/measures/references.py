"""The ratio attack with shadow models as reference: models of the same hospital that did not read the note."""

from __future__ import annotations

import numpy as np
import pandas as pd

from core.attacks.evaluation_set import evaluation_notes
from core.attacks.registry import Target
from core.findings.stored_runs import Missing, StoredRuns
from core.pipeline.full_audit import target_of
from core.pipeline.shadows import made, scores
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import RunSpec


def shadow_target(run: Run, workspace: Workspace) -> Target:
    """The run as its shadow models see it, also without its weights.

    Which notes are judged depends on the model's tokenizer alone, and that is the public model's.
    """
    target = target_of(run, workspace)
    target.models["target"] = target.models["base"]
    return target


def shadow_reference(runs: StoredRuns, spec: RunSpec) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of the ratio and of the loss for members' and others' notes that some shadow model did not read.

    The reference is the mean of the log-likelihoods under all shadow models that did not read the note. The loss is the
    quick audit's, which runs that were never attacked have as well.

    Raises:
        Missing: There are no shadow models, or they are about other notes.
    """
    files = made(spec, runs.workspace)
    if not files:
        raise Missing(f"there are no shadow models of {spec.run_id}")
    target = shadow_target(runs.run(spec), runs.workspace)
    try:
        shadows = scores(target, files)
    except ValueError as error:
        raise Missing(str(error)) from error
    outside = ~shadows.inside
    count = outside.sum(axis=0)
    mean = np.where(outside, shadows.likelihoods, 0.0).sum(axis=0) / np.maximum(count, 1)
    reference = pd.Series(np.where(count > 0, mean, np.nan), index=evaluation_notes(target)["note_id"])
    loss = runs.quick_scores(spec)
    ratio = loss.assign(score=loss["score"].to_numpy() - reference.reindex(loss["note_id"]).to_numpy())
    kept = ratio["score"].notna()
    return ratio[kept], loss[kept]
