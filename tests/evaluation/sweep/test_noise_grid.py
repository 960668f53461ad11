"""The grid over noise, epochs and batch size: which runs are in which panel, and ε along them."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from core.demo.plan import GRID, grid_spec
from core.evaluation.sweep.beside import BASE, NOISELESS, PRIVATE
from core.evaluation.sweep.noise_grid import PANELS, Setting, budget, grid_of, measured, notes_of, setting_of
from core.runs.queries import settings
from core.runs.run import Run
from core.runs.store import DEMO
from core.spec import AuditSpec, DefenceSpec, ModelSpec, RunSpec, VocabularySpec
from tests.evaluation.sweep.test_sweeps import run

CENTRE = (1.0, 8, 256)


def grid(*chosen: tuple[float, int, int], seeds=(0,)):
    return [run(sigma=s, epochs=e, batch_size=b, seed=seed) for s, e, b in chosen for seed in seeds]


def with_spec(one: Run, change: dict) -> Run:
    spec = RunSpec.model_validate(one.spec.model_dump() | change)
    return Run(one.folder.with_name(spec.run_id), spec, one.status, shipped=False)


def test_the_planned_grid_varies_one_thing_at_a_time_around_its_first_setting() -> None:
    found = grid_of([*grid(*GRID), run(epsilon=8), run()])
    assert found is not None
    centre, runs = found
    assert (centre.sigma, centre.epochs, centre.batch) == CENTRE == GRID[0] and len(runs) == len(GRID) == len(set(GRID))
    counts = {name: sum(panel.has(Setting(*setting), centre) for setting in GRID) for name, panel in PANELS.items()}
    assert counts == {"noise": 5, "epochs": 4, "batch": 3, "scaled": 5}
    by_noise = sorted(GRID, key=lambda setting: setting[0] / setting[2])
    rates = [grid_spec(*setting, 0).training.learning_rate for setting in by_noise]
    assert rates == sorted(rates, reverse=True) and rates[0] > rates[-1], "the rate falls with the noise of a step"


def test_too_few_runs_are_no_grid() -> None:
    assert grid_of([]) is None and grid_of([run(epsilon=8)]) is None
    assert grid_of(grid((1.0, 8, 256), (2.0, 8, 256), (1.0, 8, 64))) is None
    assert grid_of(grid((1.0, 8, 256), (2.0, 8, 256), seeds=(0, 1, 2))) is None, "seeds are no further settings"


def test_a_run_that_differs_in_anything_else_is_no_seed_of_a_setting() -> None:
    """On scrubbed notes, clipped to another norm, or audited otherwise: a mean with it would be no run's figure."""
    first = grid(*GRID[:5])
    privacy = first[0].spec.privacy.model_dump() | {"max_grad_norm": 0.3}
    changes = (
        {"defence": DefenceSpec(scrub_recall=0.95)},
        {"vocabulary": VocabularySpec(epsilon=1.0)},
        {"audit": AuditSpec(samples_per_prompt=7)},
        {"privacy": privacy},
    )
    model = {"model": ModelSpec(kind="bert")}  # GPT-2 cannot have a vocabulary from its notes
    for change in changes:
        own = [with_spec(one, model) for one in first] if "vocabulary" in change else first
        other = with_spec(own[0], change)
        assert setting_of(other) == setting_of(own[0])
        for runs in ([other, *own], [*own, other]):
            found = grid_of(runs)
            assert found is not None and {one.id for one in found[1]} == {one.id for one in own}, change


def test_of_a_setting_with_two_rates_the_one_with_most_runs_counts_then_the_latest() -> None:
    centre = {"sigma": 1.0, "epochs": 8, "batch_size": 256}
    rest, slow = grid(*GRID[1:5]), [run(**centre, learning_rate=1e-3, seed=seed) for seed in (0, 1)]
    fast = [run(**centre, learning_rate=2e-3, finished=9.0)]
    for kept, runs in ((slow, [*rest, *slow, *fast]), (fast, [*rest, slow[0], *fast])):
        found = grid_of(runs)
        assert found is not None and {one.id for one in found[1]} == {one.id for one in [*rest, *kept]}


def test_epsilon_along_the_panels() -> None:
    """It falls with σ, grows with epochs and batch, and does not grow with a batch whose noise grows with its root."""
    table = budget(Setting(*CENTRE), notes=2_925, delta=1e-5)
    lines = {name: rows.set_index("x")["epsilon"] for name, rows in table.groupby("panel", sort=False)}
    assert lines["noise"].is_monotonic_decreasing and lines["epochs"].is_monotonic_increasing
    assert lines["batch"].is_monotonic_increasing and lines["scaled"].is_monotonic_decreasing
    assert lines["scaled"].loc[1_024] > 0.7 * lines["scaled"].loc[256], "nearly flat where σ is at least 1"
    at_centre = [line.loc[x] for line, x in zip(lines.values(), (1.0, 8, 256, 256), strict=True)]
    assert at_centre == pytest.approx([at_centre[0]] * 4), "the lines meet at the centre"


def test_the_line_meets_the_run_at_the_centre() -> None:
    """A hospital of about 3,000 notes has 2,925 after the split, and ε counts a last, partial step of an epoch."""
    made = Run.open(DEMO / "runs" / "gpt2-2be987fac6e6")
    assert made.privacy is not None and notes_of(made) == 2_925 != made.spec.corpus.training_notes
    training = made.spec.training
    centre = Setting(made.privacy.noise_multiplier, training.epochs, training.batch_size)
    table = budget(centre, notes=notes_of(made), delta=made.privacy.delta)
    found = table[(table["panel"] == "noise") & (table["x"] == centre.sigma)]["epsilon"].item()
    assert found == pytest.approx(made.privacy.epsilon(), rel=1e-9)


def test_the_figure_of_a_setting_is_the_mean_over_its_seeds_and_the_centre_is_in_every_panel() -> None:
    runs = grid((1.0, 8, 256), (2.0, 8, 256), (1.0, 4, 256), (1.0, 8, 64), (math.sqrt(2), 8, 512), seeds=(0, 1))
    found = grid_of(runs)
    assert found is not None
    values = {one.id: 0.5 + 0.1 * one.spec.training.seed + 0.01 * one.spec.training.epochs for one in runs}
    metrics = _metrics(runs, values)
    table = measured(found[0], runs, {}, pd.concat([metrics, metrics.assign(arm="base", value=0.25)]), "entity_f1")
    assert set(table["model"]) == {PRIVATE, BASE}, "without controls there is no line for them"
    assert set(table.loc[table["model"] == BASE, "value"]) == {0.25}
    table = table[table["model"] == PRIVATE]
    assert set(table.loc[(table["sigma"] == 1) & (table["batch"] == 256) & (table["epochs"] == 8), "panel"]) == set(
        PANELS
    )
    epochs = table[table["panel"] == "epochs"].set_index("x")
    assert epochs["value"].to_dict() == pytest.approx({4: 0.59, 8: 0.63}) and set(epochs["seeds"]) == {2}
    assert table[table["panel"] == "scaled"]["x"].tolist() == [256, 512]


def test_a_control_is_where_the_run_is_that_it_repeats_without_noise() -> None:
    """It has no σ, so its place on the axis is that of its private run, and only its own value is drawn there."""
    runs = grid((1.0, 8, 256), (2.0, 8, 256), (1.0, 4, 256), (1.0, 16, 256))
    controls = {runs[0].id: "control of the centre", runs[1].id: "control of much noise"}
    private = _metrics(runs, {one.id: 0.5 for one in runs})
    without = pd.concat(
        private[private["run_id"] == of].assign(run_id=control, value=value)
        for (of, control), value in zip(controls.items(), (0.75, 0.8), strict=True)
    )
    table = measured(Setting(*CENTRE), runs, controls, pd.concat([private, without]), "entity_f1")
    drawn = table[table["model"] == NOISELESS]
    noise = drawn[drawn["panel"] == "noise"].set_index("x")["value"]
    assert noise.to_dict() == {1.0: 0.75, 2.0: 0.8}
    assert drawn[drawn["panel"] == "epochs"].set_index("x")["value"].to_dict() == {8: 0.75}
    assert set(table.loc[table["model"] == PRIVATE, "value"]) == {0.5}


def _metrics(runs: list[Run], values: dict[str, float]) -> pd.DataFrame:
    metrics = settings(runs).assign(metric="entity_f1", arm="run", low=math.nan, high=math.nan)
    return metrics.assign(value=metrics["run_id"].map(values))
