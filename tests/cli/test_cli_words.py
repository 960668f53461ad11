"""The command `words`, without a model."""

from __future__ import annotations

import math

import pandas as pd

from core.cli import vocabulary


def test_a_table_of_a_cohort_says_what_was_drawn_once(tmp_path, monkeypatch, capsys):
    table = pd.DataFrame({"epsilon": [1.0, math.inf], "arm": ["run", "run"], "names": [0.25, 0.5]})
    monkeypatch.setattr(vocabulary, "_cohort", lambda *asked: table)
    vocabulary.words(
        None, corpus="classroom", model="bert", unit="patient", count=10, pieces=9, noise="laplace", data=tmp_path
    )
    told = capsys.readouterr().out
    assert told.rstrip().endswith(
        "With noise: means of 5 draws of the noise. Which words of a patient count is drawn once."
    )
    assert "0.25" in told and "∞" in told
