"""Sentences of the Membership page from tables, without a page."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd

from core.runs.run import Run
from pages.parts.membership import sentences, views


def test_stored_notes_on_rates_have_separators(monkeypatch):
    note = "too few: 0.1 % needs 1000 non-members; there are 612"  # as tables of stored audits have it
    keys = {"attack": "loss", "level": "sample", "length": "all", "rule": "ROC 0.1 %", "metric": "true_positive_rate"}
    stored = pd.DataFrame([keys | {"value": math.nan, "low": math.nan, "high": math.nan, "note": note}])
    monkeypatch.setattr(views.data, "figures", lambda run, attacks: stored)
    run = cast(Run, SimpleNamespace())
    rates = views.at_rates(views.Choice({"a": run}, ["loss"], "sample", "all", cast(Any, None)))
    told = sentences.fewer_accused(rates, "a", "loss", "sample")
    assert "at 0.1\u00a0%: too few: 0.1 % needs 1,000 non-members; there are 612." in told
