"""The chart of ε and usefulness over noise, epochs and batch size."""

from __future__ import annotations

import pandas as pd

from core.evaluation.sweep.noise_grid import PANELS, Setting, budget
from pages.parts.tradeoff.hypothetical import noise_grid


def test_each_way_to_vary_the_training_is_a_column_with_its_line_and_its_measured_points() -> None:
    spent = budget(Setting(1.0, 2, 16), notes=200, delta=1e-4)
    useful = pd.DataFrame(
        [("noise", 0.5, 0.70, 0.65, 0.75), ("noise", 1.0, 0.60, 0.55, 0.65), ("epochs", 2, 0.60, 0.55, 0.65)],
        columns=["panel", "x", "value", "low", "high"],
    )
    figure = noise_grid._chart(spent, useful, "F1 of entities")
    lines, dots = figure.data[::2], figure.data[1::2]
    assert len(lines) == len(dots) == len(PANELS)
    assert [len(line.x) for line in lines] == [9, 9, 9, 9] and list(dots[0].y) == [0.70, 0.60]
    assert [axis.title.text for axis in figure.select_xaxes() if axis.title.text] == [
        panel.title for panel in PANELS.values()
    ]
    said = noise_grid._alt(useful, "F1 of entities")
    assert said == "noise σ from 0.5 to 1: F1 of entities from 0.7 to 0.6", "a single point says nothing"
