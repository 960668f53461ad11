"""The table that the command `forget` prints."""

from __future__ import annotations

import pandas as pd

from core.cli.runs import _arms
from core.common.formatting import figure_text


def test_a_figure_that_a_model_does_not_have_is_a_dash():
    table = pd.DataFrame(
        {
            "arm": ["original", "ascent", "fine-tuning"],
            "run_id": ["gpt2-1", "", ""],
            "seconds": [None, 2.7, 69.9],
            "steps": pd.array([None, 15, 100], dtype="Int64"),
            "reached": pd.array([None, True, False], dtype="boolean"),
            "patient_texts": pd.array([None, 66, 0], dtype="Int64"),
        }
    )
    lines = _arms(table).to_string(index=False, na_rep="–", float_format=figure_text).splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["original", "gpt2-1", "–", "–", "–", "–"],
        ["ascent", "–", "2.7", "15", "yes", "66"],
        ["fine-tuning", "–", "69.9", "100", "no", "0"],
    ]
