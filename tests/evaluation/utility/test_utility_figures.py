"""Figures of the table `utility`: known answers, and runs that lack the table."""

from __future__ import annotations

import itertools
import math
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from core.corpus.synthetic.hospital import build
from core.evaluation import registry
from core.evaluation.stats.intervals import proportion_interval
from core.evaluation.summary import RunTables
from core.evaluation.utility.sentences import fit_together, fitting
from core.evaluation.utility.summary import entity_figures, inference_figures, sentence_figures, text_figures
from core.pipeline.refresh import refresh
from core.runs.integrity.checksums import take
from core.runs.integrity.verify import run_problems
from core.runs.store import Workspace
from core.runs.tables import ADDED, UTILITY
from core.spec import CORPUS_PRESETS, AuditSpec
from core.tasks.coherence import facts_in

ROWS = [
    ("entities", "problem", "P1", None, 10, 8, 6),
    ("entities", "problem", "P2", None, 10, 12, 8),
    ("entities", "test", "P2", None, 5, 0, 0),
    ("inference", "dose", "P1", None, 6, 6, 3),
    ("inference", "sex", "P2", None, 6, 6, 6),
    ("inference, claim alone", "sex", "P2", None, 6, 6, 2),
]


def run(rows, texts=("",)) -> RunTables:
    utility = pd.DataFrame(rows, columns=ADDED[UTILITY].names)
    generations = pd.DataFrame({"generation_id": range(len(texts)), "text": texts})
    corpus = build(CORPUS_PRESETS["smoke"])
    return RunTables(*[pd.DataFrame()], generations, *[pd.DataFrame()] * 2, corpus, AuditSpec(bootstrap=50), utility)


def test_entities_and_claims_are_counted_over_all_patients():
    found = {row.metric: row for part in (entity_figures, inference_figures) for row in part(run(ROWS))}
    values = {metric: row.value for metric, row in found.items()}
    assert values == pytest.approx(
        {
            "entity_f1": 28 / 45,
            "entity_precision": 14 / 20,
            "entity_recall": 14 / 25,
            "entity_type_f1:problem": 28 / 40,
            "entity_type_f1:test": 0.0,
            "nli_accuracy": 9 / 12,
            "nli_claim_only": 1 / 3,
        }
    )
    assert all(row.arm == "run" and registry.figure(metric) for metric, row in found.items())
    f1 = found["entity_f1"]
    assert (f1.low, f1.high) == pytest.approx((16 / 27, 12 / 18)), "a quarter of the resamples has P2 or P1 twice"
    assert f1.n == 2


def test_a_head_that_tags_nothing_has_no_precision():
    found = {row.metric: row.value for row in entity_figures(run([("entities", "test", "P1", None, 5, 0, 0)]))}
    assert found["entity_f1"] == found["entity_recall"] == 0 and math.isnan(found["entity_precision"])


def test_a_precision_of_1_is_as_sure_as_the_few_patients_with_a_tagged_entity():
    """Thirty patients have entities, a head tags one of two of them: the other 28 say nothing about its precision."""
    rows = [("entities", "problem", f"P{patient}", None, 5, patient < 2, patient < 2) for patient in range(30)]
    found = {row.metric: row for row in entity_figures(run(rows))}
    precision, recall = found["entity_precision"], found["entity_recall"]
    assert (precision.value, precision.low, precision.high) == pytest.approx((1, *proportion_interval(2, 2)))
    assert precision.n == recall.n == 30
    silent = [(*row[:5], 0, 0) for row in rows]
    nothing = next(row for row in entity_figures(run(silent)) if row.metric == "entity_recall")
    assert (nothing.low, nothing.high) == pytest.approx(proportion_interval(0, 30)), "all have entities to be found"


def test_notes_of_a_held_out_patient_that_all_fit_are_one_trial():
    made = run([], ["Nothing."])
    notes = made.corpus.notes.assign(text="Type 2 diabetes mellitus, treated with metformin 500 mg.")
    same = replace(made, corpus=replace(made.corpus, notes=notes))
    real = next(row for row in sentence_figures(same) if row.arm == "heldout")
    patients = notes.loc[notes["split"] == "heldout", "patient_id"].nunique()
    assert real.value == 1 and real.n > patients > 1
    assert (real.low, real.high) == pytest.approx(proportion_interval(patients, patients))


def test_a_run_without_the_table_has_no_such_figures():
    bare = run([])
    assert [*entity_figures(bare), *inference_figures(bare), *text_figures(bare)] == []


def test_facts_of_a_sentence_fit_if_one_disease_has_them_all():
    good = "Type 2 diabetes mellitus, treated with metformin 500 mg."
    bad = "Stomach cancer, treated with metformin 500 mg."
    assert fit_together(facts_in(good)) and not fit_together(facts_in(bad))
    found = fitting(
        [good, f"{bad} {good} Metformin.", "The lift works.", "Stomach cancer and metformin"], unfinished=True, seed=0
    )
    assert found.sentences.tolist() == [1, 2, 0, 0], "one fact is too few, and the last text is cut off"
    assert found.fits.tolist() == [1, 1, 0, 0]
    assert fitting([bad.rstrip(".")], unfinished=False, seed=0).sentences.tolist() == [1]


def test_shuffled_facts_fit_less_often_than_real_ones_and_not_at_all_differently_if_all_are_alike():
    notes = build(CORPUS_PRESETS["smoke"]).notes["text"].tolist()
    found = fitting(notes, unfinished=False, seed=0)
    assert found.shuffled.sum() < 0.6 * found.fits.sum() and 0.3 < found.fits.sum() / found.sentences.sum() < 1
    alike = fitting(["Type 2 diabetes mellitus and metformin."] * 5, unfinished=False, seed=0)
    assert alike.fits.sum() == alike.shuffled.sum() == 5


def test_no_sentence_gets_a_fact_twice_when_facts_are_shuffled():
    """A repeated fact would fit itself. Here every deal without repeats gives both facts to every sentence."""
    apart = fitting(["Type 2 diabetes mellitus and stomach cancer."] * 8, unfinished=False, seed=0)
    assert apart.sentences.sum() == 8 and apart.fits.sum() == apart.shuffled.sum() == 0


def test_shuffled_facts_fit_as_often_as_in_all_deals_without_repeats():
    """The oracle goes through every order of the facts and leaves out those with a repeat in a sentence."""
    texts = [
        "Type 2 diabetes mellitus and metformin.",
        "Stomach cancer and metformin.",
        "Type 2 diabetes mellitus, metformin and stomach cancer.",
    ]
    stated = [facts_in(text) for text in texts]
    assert [len(one) for one in stated] == [2, 2, 3]
    deals = [(one[:2], one[2:4], one[4:]) for one in itertools.permutations(sum(stated, []))]
    valid = [deal for deal in deals if all(len(set(part)) == len(part) for part in deal)]
    expected = np.mean([[fit_together(part) for part in deal] for deal in valid], axis=0)
    found = np.mean([fitting(texts, unfinished=False, seed=seed).shuffled for seed in range(100)], axis=0)
    assert 0 < len(valid) < len(deals) and found == pytest.approx(expected, abs=0.05)


def test_sentences_have_real_notes_and_shuffled_facts_as_controls():
    texts = ["Type 2 diabetes mellitus and metformin.", "Stomach cancer and metformin.", "Nothing."]
    found = {(row.metric, row.arm): row for row in sentence_figures(run([], texts))}
    assert set(found) == {("facts_fit", "run"), ("facts_fit", "heldout"), ("facts_fit_shuffled", "run")}
    assert found["facts_fit", "run"].value == 0.5 and found["facts_fit", "run"].n == 2
    none = {(row.metric, row.arm): row for row in sentence_figures(run([], ["Nothing."]))}
    assert math.isnan(none["facts_fit", "run"].value) and none["facts_fit", "heldout"].value > 0.3


def test_a_stored_run_of_an_earlier_version_goes_on_working(smoke_workspace, smoke_specs, tmp_path):
    """Without the table `utility`, in the run and in its control: it opens, is whole, and its figures can be made."""
    shutil.copytree(smoke_workspace, tmp_path / "data")
    workspace = Workspace(tmp_path / "data", shared=())
    for spec in smoke_specs.values():
        stored = workspace.run(spec.run_id)
        (stored.folder / "tables" / f"{UTILITY}.parquet").unlink()
        take(stored.folder, spec.corpus)
    run = Workspace(tmp_path / "data", shared=()).run(smoke_specs["plain"].run_id)
    assert run_problems(run.folder) == {} and not run.has_table(UTILITY)
    metrics = run.folder / "tables" / "metrics.parquet"
    metrics.write_bytes((workspace.run(smoke_specs["base"].run_id).folder / "tables/metrics.parquet").read_bytes())
    assert refresh(run, workspace).state == "made again"
    made = set(run.metrics["metric"])
    assert "facts_fit" in made and not made & {"nli_accuracy", "entity_f1", "text_similarity"}


def test_a_run_of_this_version_has_the_figures_and_their_controls(smoke_workspace, smoke_specs):
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    keys = set(map(tuple, run.metrics[["metric", "arm"]].to_numpy()))
    wanted = {("nli_accuracy", "run"), ("nli_accuracy", "base"), ("text_similarity", "heldout"), ("facts_fit", "base")}
    assert wanted <= keys and not any(metric.startswith("entity") for metric, _ in keys), "GPT-2 tags no entities"
    rows = run.metrics.set_index(["metric", "arm"])
    assert rows.loc[("nli_claim_only", "run"), "value"] == pytest.approx(1 / 3)
