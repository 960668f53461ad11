"""The models that stand side by side at an ε, and their figures, those included that stored metrics lack."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from core.evaluation.sweep import beside
from core.evaluation.sweep.sweeps import Sweep
from core.runs.run import Run
from pages.parts.session import owner, resources


class Models(NamedTuple):
    """The runs of each model at one ε: several seeds of the first three, and one public base model."""

    private: list[Run]
    noiseless: list[Run]
    plain: list[Run]
    base: Run | None

    def named(self) -> dict[str, tuple[str, ...]]:
        """The ids of each model's runs by its name in `core.evaluation.sweep.beside`; models without a run left out."""
        runs = ([] if self.base is None else [self.base], self.private, self.noiseless, self.plain)
        every = dict(zip(beside.MODELS, runs, strict=True))
        return {name: tuple(run.id for run in some) for name, some in every.items() if some}

    def of_common_seeds(self) -> Models:
        """The same with only those seeds that each of the three was trained with, so that they can be subtracted."""
        groups = (self.private, self.noiseless, self.plain)
        common = set.intersection(*({run.spec.training.seed for run in runs} for runs in groups))
        private, noiseless, plain = ([run for run in runs if run.spec.training.seed in common] for runs in groups)
        return Models(private, noiseless, plain, self.base)


def trained_at(sweep: Sweep, epsilon: float) -> list[Run]:
    """The sweep's runs at exactly this ε (∞: the unconstrained ones)."""
    target = None if math.isinf(epsilon) else epsilon
    runs = owner.workspace().runs_of(sweep.run_ids)
    return [run for run in runs if run.spec.privacy.target_epsilon == target and not beside.is_noiseless(run)]


def models_at(sweep: Sweep, epsilon: float) -> Models:
    """The models to compare at ε: private runs, their controls without noise, unconstrained runs, the public base."""
    every, plain = owner.workspace().runs(), trained_at(sweep, math.inf)
    private = [] if math.isinf(epsilon) else trained_at(sweep, epsilon)
    base = base_of([*private, *plain], every)
    return Models(private, beside.noiseless(private, every), plain, base)


def base_of(runs: Sequence[Run], every: Sequence[Run]) -> Run | None:
    """The public base model with which these runs are compared."""
    wanted = {run.spec.base_spec() for run in runs}
    return next((run for run in every if run.spec.is_base and run.spec in wanted), None)


def curve_runs(sweep: Sweep) -> tuple[str, ...]:
    """The runs that are points of the sweep's curve: its controls without noise have no ε, so they are left out."""
    return tuple(run.id for run in owner.workspace().runs_of(sweep.run_ids) if not beside.is_noiseless(run))


def curve_points(run_ids: Sequence[str]) -> pd.DataFrame:
    """The points of the curve of these runs (`core.evaluation.sweep.tradeoff.points`)."""
    return _points(str(owner.workspace().root), tuple(sorted(run_ids)))


@resources.cached_data(max_entries=50, show_spinner=False)
def _points(root: str, run_ids: tuple[str, ...]) -> pd.DataFrame:
    from core.evaluation.sweep.tradeoff import points
    from core.runs import queries

    return points(queries.metrics(owner.workspace(), frozenset(run_ids)))


COMPARED = ("perplexity_heldout", "full_name_patients", "auc_loss", beside.NAMES, beside.PATIENT_AUC, beside.BITS)


def metrics_of(run_ids: Sequence[str]) -> pd.DataFrame:
    """The figures by which models are compared, with the settings of each run: COMPARED, and exposure of canaries.

    Those of `core.evaluation.sweep.derived` are computed for runs that lack them.
    """
    workspace = owner.workspace()
    every = workspace.runs()
    frames = []
    for run_id in run_ids:
        run = workspace.run(run_id)
        base = None if run.spec.is_base else base_of([run], every)
        frames.append(_metrics(str(workspace.root), run_id, None if base is None else base.id, run, base))
    return pd.concat(frames, ignore_index=True)


@resources.cached_data(max_entries=1_000, show_spinner=False)
def _metrics(root: str, run_id: str, base_id: str | None, _run: Run, _base: Run | None) -> pd.DataFrame:
    from core.evaluation.sweep.derived import derived
    from core.runs import queries

    more = derived(_run, _base, _ratio(root, _run))
    rows = pd.concat([_run.metrics, more], ignore_index=True)
    rows = rows[rows["metric"].isin(COMPARED) | rows["metric"].str.startswith("exposure:")]
    return queries.settings([_run]).merge(rows, how="cross")


def _ratio(root: str, run: Run) -> float | None:
    """Tokens per character; None for a run that has its bits per character or keeps no scores."""
    if beside.BITS in set(run.metrics["metric"]) or not run.has_table("scores"):
        return None
    spec = run.spec
    learned = "" if spec.vocabulary is None else spec.vocabulary.digest()
    return _ratio_of((root, spec.corpus.digest(), spec.audit.digest(), spec.model.digest(), learned), run)


@resources.cached_data(max_entries=50, show_spinner=False)
def _ratio_of(setting: tuple[str, ...], _run: Run) -> float | None:
    """Tokens per character: the same for all runs of one cohort, audit and tokenizer that keep their scores."""
    from core.evaluation.sweep.derived import tokens_per_character

    return tokens_per_character(_run.table("scores"), owner.workspace().corpus(_run.spec.corpus, store=False))
