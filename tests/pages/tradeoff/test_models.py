"""Figures of the models side by side that stored metrics lack."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest

from core.evaluation.sweep.beside import BITS
from core.evaluation.sweep.derived import tokens_per_character
from core.runs.store import DEMO, Workspace
from pages.parts.session import owner, resources
from pages.parts.tradeoff import models


def test_the_ratio_of_an_older_run_does_not_depend_on_which_run_of_its_setting_was_asked_first(monkeypatch, tmp_path):
    """Metrics of older runs lack bits per character; newer runs have them, and some runs keep no scores."""
    workspace = Workspace(tmp_path, shared=(DEMO,))
    monkeypatch.setattr(owner, "workspace", lambda: workspace)
    shipped = next(run for run in workspace.runs() if run.has_table("scores") and not run.spec.is_base)
    lacking = shipped.metrics[shipped.metrics["metric"] != BITS]
    older = SimpleNamespace(spec=shipped.spec, metrics=lacking, has_table=shipped.has_table, table=shipped.table)
    newer = SimpleNamespace(spec=shipped.spec, metrics=pd.DataFrame({"metric": [BITS]}), has_table=shipped.has_table)
    small = SimpleNamespace(spec=shipped.spec, metrics=lacking, has_table=lambda name: False)
    ratio = tokens_per_character(shipped.table("scores"), workspace.corpus(shipped.spec.corpus, store=False))
    assert ratio is not None
    for first in (older, newer, small):
        resources.forget_process()
        models._ratio("root", first)
        assert models._ratio("root", older) == pytest.approx(ratio)
        assert models._ratio("root", newer) is models._ratio("root", small) is None
