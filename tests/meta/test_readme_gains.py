"""The shares of the gain in the README are those of the shipped runs, each from the model that the text names."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pandas as pd
import pytest

from core.evaluation.sweep.best import best_private
from core.evaluation.sweep.sweeps import Sweep, sweeps_of
from core.evaluation.wording import NBSP, percent
from core.runs import queries
from core.runs.store import DEMO, Workspace
from core.spec import ABSTRACTS, CLINICAL

ROOT = Path(__file__).resolve().parents[2]
README, RESULTS = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/methods/sweep-results.md"))
ROW = re.compile(r"^\| ([\d,]+) \| (\d+ %) \| (\d+ %) \| (\d+ %) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory) -> tuple[Workspace, pd.DataFrame]:
    workspace = Workspace(tmp_path_factory.mktemp("data"), shared=(DEMO,))
    return workspace, queries.metrics(workspace)


def as_many(sweep: Sweep, notes: int) -> bool:
    """Whether a text means this hospital: its settings give a rounder number than was written."""
    return abs(sweep.corpus.training_notes / notes - 1) < 0.05


def in_recipe(notes: int) -> float:
    """Bits a character of the public model without clinical text, as the chapter on the recipe has it."""
    (told,) = re.findall(rf"^\| {notes:,} \| base `abstracts` \| [\d.]+ \| ([\d.]+) \(", RESULTS, re.MULTILINE)
    return float(told)


def bits(shipped: tuple[Workspace, pd.DataFrame], notes: int) -> dict[tuple[str, float], float]:
    """Bits a character on held-out notes by base and ε (0: the public model itself), the mean of the seeds."""
    workspace, metrics = shipped
    (sweep,) = [
        one
        for one in sweeps_of(workspace.runs())
        if as_many(one, notes)
        and (one.model.kind, one.model.base, one.privacy.unit) == ("gpt2", CLINICAL, "note")
        and one.training is not None
        and one.plain_training is not None
        and {1.0, 8.0} <= set(metrics[metrics["run_id"].isin(one.run_ids)]["epsilon"])
    ]
    public = [run.id for run in workspace.runs() if run.spec.is_base and run.spec.corpus == sweep.corpus]
    rows = metrics[metrics["run_id"].isin({*sweep.run_ids, *public})]
    rows = rows[(rows["metric"] == "bits_per_character") & (rows["arm"] == "run") & (rows["kind"] == "gpt2")]
    return rows.groupby(["base", "epsilon"])["value"].mean().to_dict()


@pytest.mark.parametrize(("notes", "row"), [(int(row[0].replace(",", "")), row[1:]) for row in ROW.findall(README)])
def test_the_table_counts_from_a_model_without_clinical_text(shipped, notes: int, row: tuple[str, ...]) -> None:
    found = bits(shipped, notes)
    assert ((ABSTRACTS, 0.0) in found) == (notes != 2_925), "the run of that base is older than the figure"
    start, end = found.get((ABSTRACTS, 0.0), in_recipe(notes)), found[CLINICAL, math.inf]
    shares = [(start - found[CLINICAL, epsilon]) / (start - end) for epsilon in (0.0, 1.0, 8.0)]
    assert [percent(one).replace(NBSP, " ") for one in shares] == list(row)


def test_the_sentence_on_home_counts_from_the_model_that_trainings_start_from(shipped) -> None:
    workspace, metrics = shipped
    best = best_private(sweeps_of(workspace.runs()), metrics)
    kept = percent(best.gain.value).replace(NBSP, " ")
    (told,) = re.findall(r"From there, ([\d,]+) notes at ε = (\d+) keep (\d+ %) of the gain", " ".join(README.split()))
    assert best.sweep.model.base == CLINICAL and as_many(best.sweep, int(told[0].replace(",", "")))
    assert told[1:] == (f"{best.epsilon:g}", kept)
    assert len(ROW.findall(README)) == 3, "the table has a row for each size"
