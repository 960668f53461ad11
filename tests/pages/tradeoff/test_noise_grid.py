"""The chart of ε and usefulness over noise, epochs and batch size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from core.common.formatting import epochs_text
from core.evaluation.sweep.beside import NOISELESS, PRIVATE
from core.evaluation.sweep.noise_grid import PANELS, Setting, budget
from core.evaluation.sweep.sweeps import Sweep
from core.runs.store import Workspace
from core.spec import CorpusSpec
from pages.parts.common import chart_style
from pages.parts.tradeoff.hypothetical import noise_grid
from tests.pages.visit import WAIT, visit


def test_each_way_to_vary_the_training_is_a_column_with_its_line_and_its_measured_points() -> None:
    spent = budget(Setting(1.0, 2, 16), notes=200, delta=1e-4)
    useful = pd.DataFrame(
        [
            (PRIVATE, "noise", 0.5, 0.70, 0.65, 0.75),
            (PRIVATE, "noise", 1.0, 0.60, 0.55, 0.65),
            (PRIVATE, "epochs", 2, 0.60, 0.55, 0.65),
            (NOISELESS, "noise", 0.5, 0.80, 0.75, 0.85),
            (NOISELESS, "noise", 1.0, 0.81, 0.76, 0.86),
        ],
        columns=["model", "panel", "x", "value", "low", "high"],
    )
    figure = noise_grid._chart(Setting(1.0, 2, 16), spent, useful, "F1 of entities")
    lines = [trace for trace in figure.data if trace.name is None]
    assert [len(line.x) for line in lines] == [9, 9, 9, 9] and len(PANELS) == 4
    drawn = [(trace.name, list(trace.y)) for trace in figure.data if trace.name]
    assert drawn == [(PRIVATE, [0.70, 0.60]), (NOISELESS, [0.80, 0.81]), (PRIVATE, [0.60])]
    titles = [axis.title.text.replace("<br>", " ") for axis in figure.select_xaxes() if axis.title.text]
    assert titles == [panel.title for panel in PANELS.values()]
    said = noise_grid._alt(useful, "F1 of entities").split(". ")
    assert said == [
        "noise σ from 0.5 to 1, private run: F1 of entities from 0.7 to 0.6",
        "noise σ from 0.5 to 1, same training without noise: F1 of entities from 0.8 to 0.81",
    ], "a single point says nothing"
    legend = chart_style.legend_html(figure)
    assert legend.count(PRIVATE) == 1 and legend.count(NOISELESS) == 1, "each once, although it is in every panel"


def test_without_a_measured_grid_the_lines_of_epsilon_are_drawn_alone() -> None:
    spent = budget(Setting(1.0, 2, 16), notes=200, delta=1e-4)
    figure = noise_grid._chart(Setting(1.0, 2, 16), spent, None, "F1 of entities")
    assert [len(line.x) for line in figure.data] == [9, 9, 9, 9]
    titles = [axis.title.text.replace("<br>", " ") for axis in figure.select_xaxes()]
    assert titles == [panel.title for panel in PANELS.values()]
    assert [list(axis.ticktext) for axis in figure.select_xaxes()] == [
        ["0.25", "1", "4"],
        ["0.5", "2", "8"],
        ["4", "16", "64"],
        ["4", "16", "64"],
    ]
    assert [axis.title.text for axis in figure.select_yaxes() if axis.title.text] == ["ε"]


def test_the_lines_go_through_the_epsilon_of_the_sweeps_own_training(data, smoke_specs) -> None:
    """Without a grid the page draws ε around the private run, and says that nothing was measured there."""
    app = visit("tradeoff", view="What if?")
    run = Workspace(data, shared=()).run(smoke_specs["dp"].run_id)
    said = next(one.value for one in app.markdown if one.value.startswith("Starting from one run"))
    assert f"σ = {run.privacy.noise_multiplier:.4g}, {epochs_text(run.spec.training.epochs)}, batches of" in said
    assert "Not measured for the other settings: bits per character." in said
    lines = next(frame.value for frame in app.dataframe if "panel" in frame.value)
    assert set(lines["panel"]) == set(PANELS) and "value" not in lines.columns
    at_centre = lines[lines["sigma"].sub(run.privacy.noise_multiplier).abs() < 1e-9]
    at_centre = at_centre[(at_centre["epochs"] == run.spec.training.epochs) & (at_centre["panel"] == "noise")]
    assert at_centre["epsilon"].tolist() == [pytest.approx(run.privacy.epsilon(), rel=0.02)]


def test_a_single_epoch_is_no_plural() -> None:
    def head() -> None:
        from core.evaluation.sweep.noise_grid import Setting
        from pages.parts.tradeoff.hypothetical import noise_grid

        noise_grid._head(Setting(1.0, 1, 64), "")

    (said,) = [one.value for one in AppTest.from_function(head, default_timeout=WAIT).run().markdown]
    assert said.startswith("Starting from one run (σ = 1, 1 epoch, batches of 64 notes), one setting varies at a time.")


@pytest.mark.parametrize(
    ("kind", "imported", "metric"),
    [
        ("gpt2", None, "bits_per_character"),
        ("distilbert", None, "entity_f1"),
        ("distilbert", "0" * 16, "bits_per_character"),
    ],
)
def test_no_entities_are_measured_on_imported_notes(kind, imported, metric) -> None:
    """They have no labels, so a masked model's F1 is not known for any setting, its own included."""
    sweep = SimpleNamespace(model=SimpleNamespace(kind=kind), corpus=CorpusSpec(imported=imported))
    assert noise_grid.useful_metric(cast(Sweep, sweep)) == metric
