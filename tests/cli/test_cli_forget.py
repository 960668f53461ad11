"""The table that the command `forget` prints."""

from __future__ import annotations

import pandas as pd

from core.cli.runs import _arms


def test_a_figure_that_a_model_does_not_have_is_a_dash():
    table = pd.DataFrame(
        {
            "arm": ["original", "ascent", "fine-tuning"],
            "run_id": ["gpt2-1", "", ""],
            "seconds": [None, 2.7, 69.9],
            "steps": pd.array([None, 15, 100], dtype="Int64"),
            "reached": pd.array([None, True, False], dtype="boolean"),
        }
    )
    lines = _arms(table).to_string(index=False, na_rep="–", float_format=lambda value: f"{value:.4g}").splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["original", "gpt2-1", "–", "–", "–"],
        ["ascent", "–", "2.7", "15", "yes"],
        ["fine-tuning", "–", "69.9", "100", "no"],
    ]
