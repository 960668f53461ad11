"""Several patients on the page Forget: the audit's figures beside DP, or the command that computes them."""

from __future__ import annotations

import math
import shutil
import time

import pandas as pd
import pytest

from core.evaluation.memorisation.unlearning import UNLEARNED_COLUMNS
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.wording import perplexity_text
from core.runs.audits import Outcome
from core.runs.store import Workspace
from pages.parts.forget import sentences, several, tables
from tests.pages.visit import said, visit

SUMMARY = "summary: unlearned"
FIGURES = {"place": 0.9, "above": 0.75, "below": 0.0, "middle": 0.2, "perplexity": 4.5}


def table(*arms: str, above: float = 0.75) -> pd.DataFrame:
    rows = [
        (arm, figure, value if figure != "above" else above, 0.1, 0.95, 20)
        for arm in arms
        for figure, value in FIGURES.items()
    ]
    return pd.DataFrame(rows, columns=list(UNLEARNED_COLUMNS))


@pytest.fixture
def runs(smoke_workspace, smoke_specs, tmp_path, monkeypatch):
    root = shutil.copytree(smoke_workspace, tmp_path / "data")
    monkeypatch.setenv("PHILAB_DATA", str(root))
    return Workspace(root, shared=()), {name: spec.run_id for name, spec in smoke_specs.items()}


def test_without_the_attack_the_fold_has_the_command(runs):
    _, ids = runs
    page = visit("forget", run=ids["plain"])
    assert f'python -m core audit {ids["plain"]} --suite full --attack "unlearning"' in said(page)


def test_figures_are_shown_with_intervals_beside_the_private_run(runs):
    workspace, ids = runs
    for name, made in (("plain", table("original", "ascent", "difference")), ("dp", table("original", above=0.05))):
        outcome = Outcome(SUMMARY, "done", 1.0, "", ("unlearned",), 1, time.time())
        workspace.audit(ids[name]).record(outcome, {"unlearned": made})
    page = visit("forget", run=ids["plain"])
    told = said(page)
    assert "drew 20 members" in told and "held-out patients: as trained **15**, gradient ascent **15**" in told
    assert "DP, ε = 8 per note **1**. Number placed in" in told and "where 10 are expected" in told
    assert "both at once **4**, DP, ε = 8 per note **4**." in told
    caption = next(one.value for one in page.caption if "does not show that patients are forgotten" in one.value)
    assert "an interval wholly above 50 % is a sign" in caption and "about 5 % above 95 %" in caption
    rows = next(frame.value for frame in page.dataframe if "mean place" in frame.value.columns)
    assert rows["model"].tolist() == ["as trained", "gradient ascent", "both at once", "DP, ε = 8 per note"]
    assert rows["above 95 %"].iloc[0] == "75\u00a0% (10\u00a0% to 95\u00a0%)"


@pytest.mark.parametrize(("kind", "name"), [("gpt2", "perplexity"), ("bert", "pseudo-perplexity")])
def test_the_perplexity_of_masked_models_has_its_name(kind, name, monkeypatch):
    named = {"original": "as trained"}
    assert several.shown(table("original"), named, kind)[name].tolist() == ["4.50 (0.10 to 0.95)"]
    drawn = []
    monkeypatch.setattr(tables.st, "dataframe", lambda frame, **settings: drawn.append(frame))
    monkeypatch.setattr(tables, "csv_button", lambda *args, **settings: None)
    row = {"arm": "original", "percentile": 0.5, "low": 0.2, "high": 0.8, "seconds": None, "steps": None}
    row |= {"perplexity": 52.8, "perplexity_low": 42.2, "perplexity_high": 67.0, "texts": 700, "patient_texts": 0}
    row |= {"never_seen": 7, "never_seen_written": 0, "others": 16, "others_leaked": 0}
    tables.show(pd.DataFrame([row]), named, "P0000", kind)
    assert drawn[0][name].tolist() == ["52.8 (42.2 to 67.0)"]


def test_a_figure_without_an_interval_or_a_patient_has_no_nan():
    assert tables.with_interval(Interval(12.18, math.nan, math.nan), perplexity_text) == "12.2 (no interval)"
    assert tables.with_interval(Interval(math.nan, math.nan, math.nan)) == "–", "no other member"


def test_with_a_single_held_out_patient_nothing_is_drawn():
    row = {"arm": "original", "percentile": 1.0, "compared": 1, "spread": math.nan}
    assert "of **100\u00a0%** of 1 held-out patient." in sentences.headline(pd.DataFrame([row]), "P1", {})
    assert "needs at least two of them" in sentences.no_picture(pd.DataFrame([row]))
    assert not sentences.no_picture(pd.DataFrame([row | {"spread": 0.2}]))
    assert not sentences.no_picture(pd.DataFrame([row | {"arm": "public", "spread": 0.0}])), "no model is measured yet"


def test_the_attack_s_name_is_the_registered_one():
    from core.attacks.battery import REGISTRY

    assert several.ATTACK in REGISTRY
