"""The JSON of a report follows its schema, and names the files it is about by their checksums."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from pathlib import Path

import jsonschema
import pytest

from core.evaluation.report import facts
from core.evaluation.report.decision import Decision
from core.evaluation.report.facts import build
from core.evaluation.report.html import render
from core.evaluation.sweep.limit_measures import measures
from core.evaluation.sweep.limits import Limits
from core.evaluation.sweep.recommendation import recommend
from core.runs.integrity.checksums import take
from core.runs.ledger.entries import Ledger
from core.runs.store import Workspace

SCHEMA = json.loads((Path(facts.__file__).parent / "report.schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def told(workspace, smoke_specs):
    """The JSON of reports: two runs with a release, limits and a decision; the base model alone."""
    runs = {name: workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp", "base")}
    ledger = Ledger.of(workspace, runs["dp"].spec.corpus)
    ledger.enter(ledger.draft_run(runs["dp"], "a test"))
    both = [runs["plain"], runs["dp"]]
    decision = Decision.model_validate({"owner": "CISO", "review": "2027-01-31", "approvers": [{"name": "N"}]})
    found = recommend(measures(both, runs["base"], {}), Limits({"auc_loss": 1.0}, 0.0, use_case="teaching"))
    whole = build(workspace, both, recommendation=found, decision=decision, now=0.0)
    return {
        "both": json.loads(whole.to_json()),
        "plain": json.loads(build(workspace, [runs["plain"]], now=0.0).to_json()),
        "base": json.loads(build(workspace, [runs["base"]], now=0.0).to_json()),
    }


def problems(document: object) -> list[str]:
    checker = jsonschema.Draft202012Validator(SCHEMA)
    return [f"{error.json_path}: {error.message}" for error in checker.iter_errors(document)]


@pytest.mark.parametrize("name", ["both", "plain", "base"])
def test_every_report_follows_the_schema(told, name):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert problems(told[name]) == []
    assert set(told[name]) == set(SCHEMA["properties"]) and told[name]["schema"] == SCHEMA["$id"] == facts.SCHEMA
    assert set(told[name]["tables"]) == set(SCHEMA["properties"]["tables"]["properties"])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), "phi-leak-lab/report/1"),
        (("glance", 0, "key"), "other"),
        (("subject", "verdict"), "fine"),
        (("label", "epsilon"), "8"),
        (("crosswalk", 0, "cells", 0, "link"), ""),
        (("identity", "weights_sha256"), "abc"),
        (("decision", "review"), "31.1.2027"),
        (("tables", "models", 0), {}),
        (("surprise",), 1),
    ],
)
def test_the_schema_refuses_what_is_wrong(told, path, value):
    document = copy.deepcopy(told["both"])
    at = document
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    assert len(problems(document)) >= 1


def test_checksums_are_those_of_the_files(told, workspace, smoke_specs):
    run = workspace.run(smoke_specs["dp"].run_id)
    weights = hashlib.sha256((run.folder / "model" / "model.safetensors").read_bytes()).hexdigest()
    identity = told["both"]["identity"]
    assert identity["weights_sha256"] == weights and identity["cohort_digest"] == run.spec.corpus.digest()
    notes = workspace.corpus_folder(run.spec.corpus) / "notes.parquet"
    assert identity["cohort_sha256"]["notes.parquet"] == hashlib.sha256(notes.read_bytes()).hexdigest()
    assert told["base"]["identity"]["weights_sha256"] is None


def test_a_changed_file_is_said(workspace, smoke_specs, tmp_path):
    shutil.copytree(workspace.root, tmp_path / "data")
    copied = Workspace(tmp_path / "data", shared=())
    run = copied.run(smoke_specs["dp"].run_id)
    take(run.folder, run.spec.corpus)
    assert "Changed since" not in " ".join(build(copied, [run], now=0.0).facts["identity"]["sentences"])
    with (run.folder / "privacy.json").open("a") as file:
        file.write("\n")
    made = build(copied, [run], now=0.0)
    assert "Changed since it was written: privacy.json." in " ".join(made.facts["identity"]["sentences"])
    assert "Changed since it was written: privacy.json." in render(made)


def test_weights_and_cohort_that_are_not_kept_are_said(workspace, smoke_specs, tmp_path):
    shutil.copytree(workspace.root, tmp_path / "data")
    copied = Workspace(tmp_path / "data", shared=())
    run = copied.run(smoke_specs["dp"].run_id)
    shutil.rmtree(run.folder / "model")
    shutil.rmtree(copied.corpus_folder(run.spec.corpus))
    identity = build(copied, [run], now=0.0).facts["identity"]
    assert identity["weights_sha256"] is None and identity["cohort_sha256"] == {}
    no_weights, no_cohort = identity["sentences"][:2]  # the third: the fixture changed privacy.json
    assert "No weights are kept here" in no_weights and "built from its settings" in no_cohort


def test_the_commands_say_how_to_give_the_decision_again(told):
    assert told["both"]["commands"][-1].endswith("--utility 0.0 --use-case 'teaching'")
    assert "--decision decision.json" in told["both"]["commands"][-1]
    assert "--decision" not in told["plain"]["commands"][-1]
