"""The models beside a private run: the same training without noise, the unconstrained one, and the public base model.

The difference between the private run and the same training without noise is what noise costs and saves. The difference
between that and the unconstrained run is what clipping, larger batches and fewer steps cost and save together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from core.evaluation.sweep.tradeoff import points
from core.runs.run import Run
from core.spec import Unit

NAMES, PATIENT_AUC, BITS = "texts_with_name", "auc_loss_patients", "bits_per_character"  # of `derived`
PRIVATE, NOISELESS, PLAIN, BASE = "private run", "same training without noise", "without privacy", "public model"
MODELS = (BASE, PRIVATE, NOISELESS, PLAIN)  # from the least to the most that a model can have learned from one note
_ABOUT = {
    BASE: "has read none of these notes",
    PRIVATE: "each {unit}'s gradient clipped, and noise added to every step",
    NOISELESS: "the same steps, batches and clipping as the private run, without noise",
    PLAIN: "its own number of epochs and batch size, neither clipping nor noise",
}


def about(name: str, unit: Unit) -> str:
    """What one of MODELS is, where the private run protects this unit."""
    return _ABOUT[name].format(unit=unit)


def is_noiseless(run: Run) -> bool:
    """Whether a run is the control of a private one: clipped as DP-SGD clips, without noise, and so without privacy."""
    return run.spec.training.clip_norm is not None and not run.spec.privacy.private


def noiseless(private: Sequence[Run], every: Sequence[Run]) -> list[Run]:
    """The controls without noise among `every` of these private runs (`RunSpec.clipped_spec`), each once."""
    wanted = {run.spec.clipped_id for run in private} - {None}
    return [run for run in every if is_noiseless(run) and run.spec.run_id in wanted]


def beside(metrics: pd.DataFrame, models: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """The figures of several models, each the mean over its runs with an interval (`core.evaluation.sweep.tradeoff`).

    Args:
        metrics: metrics of runs with their settings (`core.runs.queries.metrics`), of one kind of model and one cohort.
        models: the ids of each model's runs, by its name.

    Returns:
        Columns model, metric, arm, value, low, high, seeds, interval, in the order of `models`.
    """
    frames = []
    for name, run_ids in models.items():
        rows = metrics[metrics["run_id"].isin(run_ids)]
        # `points` makes one point of all runs of an ε; here one of all runs of a model, whatever their ε.
        frames.append(points(rows.assign(epsilon=1.0)).assign(model=name))
    columns = ["model", "metric", "arm", "value", "low", "high", "seeds", "interval"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)
