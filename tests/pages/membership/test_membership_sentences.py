"""Sentences of the Membership page from tables, without a page."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd

from core.evaluation.membership.curve import Caught
from core.evaluation.membership.units import units
from core.runs.run import Run
from core.runs.store import Workspace
from pages.parts.membership import sentences, views
from tests.pages.visit import said, visit


def test_stored_notes_on_rates_have_separators(monkeypatch):
    note = "too few: 0.1 % needs 1000 non-members; there are 612"  # as tables of stored audits have it
    keys = {"attack": "loss", "level": "sample", "length": "all", "rule": "ROC 0.1 %", "metric": "true_positive_rate"}
    stored = pd.DataFrame([keys | {"value": math.nan, "low": math.nan, "high": math.nan, "note": note}])
    monkeypatch.setattr(views.data, "figures", lambda run, attacks: stored)
    run = cast(Run, SimpleNamespace())
    rates = views.at_rates(views.Choice({"a": run}, ["loss"], "sample", "all", cast(Any, None)))
    told = sentences.fewer_accused(rates, "a", "loss", "sample")
    assert told == (
        "There are too few held-out notes to measure what “loss” catches, with “a”, if only 0.1\u00a0% of them may be "
        "accused by mistake: it takes 1,000."
    )


def test_rates_that_are_too_small_come_after_those_that_are_not():
    """They stood among the others as “at 1 %: too few: 1 % needs 100 non-members; there are 46”."""
    ends = {"catches": [0.12, math.nan], "low": [0.1, math.nan], "high": [0.2, math.nan]}
    rates = pd.DataFrame({"run": "a", "attack": "loss", "may accuse": [0.01, 0.001], **ends})
    told = sentences.fewer_accused(rates, "a", "loss", "sample")
    assert told.endswith(
        "with “a”: at 1\u00a0%, 12\u00a0% (95\u00a0% interval 10\u00a0% to 20\u00a0%). There are too few to measure it "
        "at 0.1\u00a0%: it takes 1,000."
    )
    told = sentences.fewer_accused(rates.assign(catches=math.nan), "a", "loss", "patient")
    assert told.startswith("There are too few held-out patients to measure") and told.endswith(
        "if only 1\u00a0% or 0.1\u00a0% of them may be accused by mistake: it takes 100 or 1,000."
    )


def test_sentences_name_short_notes_where_only_those_are_evaluated(data):
    told = sentences.caught_sentence(Caught(members=3, of_members=4, others=1, of_others=4), "short sample")
    assert told == "Catches 3 of 4 members' short notes, accuses 1 of 4 held-out short notes."
    for view, sentence in (
        ("ROC", "10\u00a0% of held-out short notes may be accused by mistake"),
        ("Threshold", "members' short notes, accuses"),
    ):
        assert sentence in said(visit("membership", view=view, length="short"))
        by_patient = said(visit("membership", view=view, length="short", level="patient"))
        assert "The score of a patient is the mean over their short notes alone." in by_patient


def test_the_fold_says_how_many_notes_were_evaluated_and_why_models_differ(data, smoke_specs):
    """The plain training read at most 50 notes of a patient, the one with a guarantee per note all of them."""
    judged = {}
    for name in ("plain", "dp"):
        run = Workspace(data, shared=()).run(smoke_specs[name].run_id)
        scores = run.table("scores")
        judged[name] = units(scores[scores["attack"] == "loss"]), run.note_cap
    assert [cap for _, cap in judged.values()] == [50, None]
    told = sentences.evaluated_sentence(judged, "loss", "all")
    count = judged["plain"][0].members
    assert told.startswith(f"“loss” was evaluated on {count:,} members' notes (at most 50 of a patient) and ")
    assert f", and on {judged['dp'][0].members:,} members' notes (all of a patient's) and " in told
    plain, dp = (smoke_specs[name].run_id for name in ("plain", "dp"))
    folds = [
        one.value
        for fold in visit("membership", left=plain, right=dp).expander
        if fold.label == "How is this computed?"
        for one in fold.markdown
    ]
    assert any("members' notes (at most 50 of a patient)" in one and "(all of a patient's)" in one for one in folds)
