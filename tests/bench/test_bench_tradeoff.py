"""`bench tradeoff` on shipped runs: the base model that every gain is counted from, and the bars that are missed."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import pytest

from bench._tradeoff_table import reached, tradeoff_table
from bench.tradeoff import _measured, _of_the_recipe, _reference_bits
from core.demo.plan import KINDS, SEEDS, SIZES, parts, reference_spec, spec_of
from core.findings.stored_runs import with_shipped
from core.runs.store import DEMO, Workspace
from core.spec import CORPUS_PRESETS
from core.spec.model_names import MODEL_NAMES

RESULTS = Path("docs/methods/sweep-bars.md")


def test_the_reference_of_an_older_run_is_computed_from_its_tables(tmp_path) -> None:
    """Its metrics have no bits per character: Σ nats / (ln 2 · Σ characters) over held-out notes, added up naively."""
    workspace = Workspace(tmp_path, shared=(DEMO,))
    run = workspace.find(reference_spec("3k", "gpt2"))
    assert run is not None and not (run.metrics["metric"] == "bits_per_character").any()
    texts = dict(workspace.corpus(run.spec.corpus).notes[["note_id", "text"]].itertuples(index=False))
    nats = characters = 0.0
    for row in run.table("scores").query("attack == 'loss' and split == 'heldout'").itertuples():
        nats -= row.score * row.tokens
        characters += len(texts[row.note_id])
    found = _reference_bits(workspace, "3k", "gpt2")
    assert found == pytest.approx(nats / math.log(2) / characters)
    assert found == pytest.approx(2.826, abs=5e-4)


def test_every_point_of_the_curve_is_one_training_a_seed() -> None:
    """Scrubbed notes, ε per patient, a σ of the grid and controls share an ε, or the lack of one, with the curve."""
    planned = [spec for part in parts() for spec in part.specs if spec.training.epochs]
    for size, kind, epsilon in itertools.product(SIZES, KINDS, (None, 1.0, 8.0)):
        corpus = CORPUS_PRESETS[SIZES[size]]
        here = [one for one in planned if one.corpus == corpus and one.model.kind == kind]
        kept = [one for one in here if one.privacy.target_epsilon == epsilon and _of_the_recipe(one)]
        assert {one.run_id for one in kept} == {spec_of(size, kind, epsilon, seed).run_id for seed in SEEDS}
    assert any(one.defence is not None for one in planned)  # what the curve leaves out is planned


def test_the_recipes_chapter_lists_every_bar_that_is_missed_and_no_other(tmp_path) -> None:
    table, _ = tradeoff_table(*_measured(with_shipped(Workspace(tmp_path, shared=(DEMO,)))), KINDS)
    missed = {
        f"{MODEL_NAMES[kind]} `{key}`": figure
        for kind, figures in table.items()
        for key, figure in figures.items()
        if reached(key, figure) is False
    }
    text = RESULTS.read_text(encoding="utf-8").partition("## Bars that are missed")[2].partition("\n**")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if "`" in line]
    listed = {row[0]: row[1:] for row in rows if len(row) == 4}
    assert listed.keys() == missed.keys()
    for name, (value, bar, by) in listed.items():
        stated, limit = (float(re.findall(r"[−\d.]+", cell)[0].replace("−", "-")) for cell in (value, bar))
        assert stated == pytest.approx(missed[name]["value"], abs=0.005)
        assert limit == pytest.approx(missed[name]["bar"], abs=5e-4)
        if "first_leaking" not in name:
            assert float(by) == pytest.approx(missed[name]["bar"] - missed[name]["value"], abs=0.0051)
