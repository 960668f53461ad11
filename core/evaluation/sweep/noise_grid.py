"""ε and usefulness as functions of noise, epochs and batch size, each varied alone (after Hoory et al. 2021, figure 1).

Around one training, its centre, four settings vary: σ; the epochs; the batch B with σ fixed; and B with σ in proportion
to √B (§3.3; in figure 1 in proportion to B), by which a larger batch costs no more ε. ε follows from the settings;
usefulness is measured by runs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from core.evaluation.sweep.beside import BASE, NOISELESS, PRIVATE
from core.evaluation.sweep.tradeoff import points
from core.runs.run import Run
from core.spec import RunSpec

FEWEST = 3  # settings other than the centre that make a grid
OCTAVES = 2  # the lines go from a quarter to four times the centre
_COLUMNS = ["panel", "x", "sigma", "epochs", "batch"]
_FIGURES = ["value", "low", "high", "seeds"]


@dataclass(frozen=True)
class Setting:
    """What varies: noise multiplier σ, epochs, and expected batch size B."""

    sigma: float
    epochs: float
    batch: float


def _like(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=0.02)


def _scaled(one: Setting, centre: Setting) -> bool:
    return _like(one.sigma / centre.sigma, math.sqrt(one.batch / centre.batch))


@dataclass(frozen=True)
class Panel:
    """One way to vary a training: the title, what is on the x axis, a setting at `factor` times it, and membership."""

    title: str
    x: Callable[[Setting], float]
    at: Callable[[Setting, float], Setting]
    has: Callable[[Setting, Setting], bool]  # (setting, centre)


PANELS: dict[str, Panel] = {
    "noise": Panel(
        "noise σ",
        lambda one: one.sigma,
        lambda centre, factor: replace(centre, sigma=factor * centre.sigma),
        lambda one, centre: (one.epochs, one.batch) == (centre.epochs, centre.batch),
    ),
    "epochs": Panel(
        "epochs",
        lambda one: one.epochs,
        lambda centre, factor: replace(centre, epochs=factor * centre.epochs),
        lambda one, centre: _like(one.sigma, centre.sigma) and one.batch == centre.batch,
    ),
    "batch": Panel(
        "batch, σ fixed",
        lambda one: one.batch,
        lambda centre, factor: replace(centre, batch=factor * centre.batch),
        lambda one, centre: _like(one.sigma, centre.sigma) and one.epochs == centre.epochs,
    ),
    "scaled": Panel(
        "batch, σ ∝ √batch",
        lambda one: one.batch,
        lambda centre, factor: replace(centre, batch=factor * centre.batch, sigma=math.sqrt(factor) * centre.sigma),
        lambda one, centre: _scaled(one, centre) and one.epochs == centre.epochs,
    ),
}


def setting_of(run: Run) -> Setting | None:
    """The setting of a run that was given its σ; None for any other."""
    sigma = run.spec.privacy.noise_multiplier
    training = run.spec.training
    return None if sigma is None else Setting(sigma, training.epochs, training.batch_size)


def notes_of(run: Run) -> int:
    """Units that a private run was trained on, B/q: its cohort's setting names a number before the split and the cap.

    Raises:
        ValueError: The run is not private.
    """
    if run.privacy is None:
        raise ValueError(f"run {run.id} is not private, so it has no sample rate")
    return round(run.spec.training.batch_size / run.privacy.sample_rate)


def grid_of(runs: Iterable[Run]) -> tuple[Setting, list[Run]] | None:
    """The largest grid among runs of one cohort and model: its centre and its runs. None if there is none.

    The centre is the setting from which most runs differ in one of the ways of `PANELS`. A grid has a run at its centre
    and at least FEWEST others. Its runs differ in nothing but their setting, the learning rate that goes with it, and
    the seed. Of one setting trained at several rates, the rate with most runs counts (then the latest).
    """
    alike: dict[tuple, list[tuple[Setting, Run]]] = defaultdict(list)
    for run in runs:
        setting = setting_of(run)
        if setting is not None:
            alike[_beside_setting(run.spec)].append((setting, run))
    best: tuple[Setting, list[Run]] | None = None
    for placed in map(_of_one_rate, alike.values()):
        for centre in dict.fromkeys(setting for setting, _ in placed):
            members = [run for one, run in placed if any(panel.has(one, centre) for panel in PANELS.values())]
            if best is None or len(members) > len(best[1]):
                best = centre, members
    settings = set() if best is None else {setting_of(run) for run in best[1]}
    return best if best is not None and len(settings) > FEWEST else None


def _beside_setting(spec: RunSpec) -> tuple:
    """All that a figure of a run depends on apart from its setting, its learning rate and its seed."""
    varied = {"epochs": 1, "batch_size": 1, "learning_rate": 1.0, "seed": 0}
    training = spec.training.model_copy(update=varied)
    read = (spec.corpus, spec.model, spec.audit, spec.defence, spec.without, spec.vocabulary)
    return (*read, spec.privacy.unit, spec.privacy.max_grad_norm, training)


def _of_one_rate(placed: Sequence[tuple[Setting, Run]]) -> list[tuple[Setting, Run]]:
    """The runs without those of a setting that have another learning rate than most: they are no seeds of one point."""
    by_rate: dict[Setting, dict[float, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for setting, run in placed:
        by_rate[setting][run.spec.training.learning_rate].append(run)
    kept = []
    for setting, rates in by_rate.items():
        most = max(rates.values(), key=lambda same: (len(same), max(run.status.finished or 0.0 for run in same)))
        kept += [(setting, run) for run in most]
    return kept


def budget(centre: Setting, *, notes: int, delta: float) -> pd.DataFrame:
    """ε along every panel: columns panel, x, sigma, epochs, batch, epsilon.

    Args:
        centre: the setting around which one thing varies, from a quarter to four times its value.
        notes: units in the data; a batch larger than them is left out.
        delta: δ.
    """
    from core.training.accounting.gaussian import epsilon_with_method

    rows = []
    for name, panel in PANELS.items():
        for factor in np.exp2(np.arange(-OCTAVES, OCTAVES + 0.25, 0.5)):
            one = panel.at(centre, float(factor))
            if one.batch > notes:
                continue
            steps = max(1, math.ceil(one.epochs * notes / one.batch - 1e-9))
            epsilon, _ = epsilon_with_method(
                noise_multiplier=one.sigma, sample_rate=one.batch / notes, steps=steps, delta=delta, accountant="prv"
            )
            rows.append((name, panel.x(one), one.sigma, one.epochs, one.batch, epsilon))
    return pd.DataFrame(rows, columns=[*_COLUMNS, "epsilon"])


def measured(
    centre: Setting, runs: Sequence[Run], controls: Mapping[str, str], metrics: pd.DataFrame, metric: str
) -> pd.DataFrame:
    """A figure of the grid's runs, of their controls and of the public model along every panel, means over seeds.

    Args:
        centre: the grid's centre.
        runs: the grid's runs; the one at the centre is in every panel.
        controls: the ids of the same trainings without noise, by the ids of the runs that they repeat. Their σ is that
            of these runs, because the learning rate follows from it.
        metrics: metrics of all of them with their settings (`core.runs.queries.metrics`).
        metric: the figure.

    Returns:
        Columns model (PRIVATE, NOISELESS or BASE of `core.evaluation.sweep.beside`), panel, x, sigma, epochs, batch,
        value, low, high, seeds. The public model has the same value everywhere, if it was measured.
    """
    private = {run.id: setting for run in runs if (setting := setting_of(run))}
    noiseless = {controls[run_id]: setting for run_id, setting in private.items() if run_id in controls}
    found = metrics[metrics["metric"] == metric]
    rows = []
    for model, settings, arm in ((PRIVATE, private, "run"), (NOISELESS, noiseless, "run"), (BASE, private, "base")):
        for name, panel in PANELS.items():
            for one in sorted({setting for setting in settings.values() if panel.has(setting, centre)}, key=panel.x):
                same = [run_id for run_id, setting in settings.items() if setting == one]
                for mean in _means(found[(found["arm"] == arm) & found["run_id"].isin(same)]):
                    rows.append((model, name, panel.x(one), one.sigma, one.epochs, one.batch, *mean))
    return pd.DataFrame(rows, columns=["model", *_COLUMNS, *_FIGURES])


def _means(rows: pd.DataFrame) -> Iterable[tuple]:
    """One point of all seeds: value, low, high, seeds. None of them without a row."""
    return points(rows.assign(epsilon=1.0))[_FIGURES].itertuples(index=False)
