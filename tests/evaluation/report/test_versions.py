"""Which version trained a model, and which one reports it: two facts that a report keeps apart."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path

import pytest
import torch

from core.common import versions as module
from core.evaluation.report import label
from core.evaluation.report.facts import build
from core.evaluation.report.html import render
from core.runs.run import TRAINED_BY_FILE, Run, RunBroken, file_problems
from core.runs.store import Workspace
from tests.evaluation.report.test_report_json import problems


@pytest.fixture
def copied(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    """A copy of the smallest runs to write in."""
    shutil.copytree(smoke_workspace, tmp_path / "data")
    return Workspace(tmp_path / "data", shared=())


def implementation(run: Run, workspace: Workspace) -> str:
    """How the label, its HTML and the record of the registry give the implementation; the same in each."""
    made = build(workspace, [run], now=0.0)
    text = made.facts["label"]["implementation"]
    assert str(text) in made.facts["deployment_record"]["deployment"]["implementation"]["mechanisms"]
    assert f"<td>{text}</td>" in render(made)
    assert dict((key, row) for key, _, row in label.rows(made.facts["label"]))["implementation"] == text
    told = json.loads(made.to_json())
    assert problems(told) == [] and told["trained_by"] == {run.id: run.trained_by}
    return str(text)


def test_a_run_records_the_versions_that_trained_it_and_its_id_does_not_depend_on_them(copied, smoke_specs):
    for name in ("plain", "dp"):
        run = copied.run(smoke_specs[name].run_id)
        (found,) = run.trained_by
        assert found["torch"] == torch.__version__ and found["Python"] == platform.python_version()
        assert found["PHI Leak Lab"] == module.program_version()
        assert {"opacus", "transformers"} <= set(found)
        assert module.program_version() not in run.spec.model_dump_json() and run.id == run.spec.run_id
    assert copied.run(smoke_specs["base"].run_id).trained_by is None, "it was not trained here"
    base = build(copied, [copied.run(smoke_specs["base"].run_id)], now=0.0)
    assert base.facts["trained_by"] == {}


def test_an_older_run_says_that_its_version_was_not_recorded(copied, smoke_specs):
    run = copied.run(smoke_specs["dp"].run_id)
    before = implementation(run, copied)
    assert "not recorded" not in before
    (run.folder / TRAINED_BY_FILE).unlink()
    run = copied.run(run.id)
    assert run.trained_by is None
    text = implementation(run, copied)
    assert "the version that trained it was not recorded" in text and torch.__version__ not in text
    assert text.endswith(f"this report was made with PHI Leak Lab {module.program_version()}")


def test_the_version_that_trained_and_the_one_that_reports_are_both_given(copied, smoke_specs):
    run = copied.run(smoke_specs["dp"].run_id)
    (run.folder / TRAINED_BY_FILE).write_text('[{"PHI Leak Lab": "0.0.9", "torch": "2.0.1"}]', encoding="utf-8")
    text = implementation(copied.run(run.id), copied)
    assert "trained with PHI Leak Lab 0.0.9, torch 2.0.1;" in text
    assert text.endswith(f"this report was made with PHI Leak Lab {module.program_version()}")


def test_a_training_that_several_versions_made_names_them_in_turn():
    one, other = {"PHI Leak Lab": "0.1.0", "platform": "linux"}, {"PHI Leak Lab": "0.2.0"}
    assert label.trained_text([one, other]) == "trained with PHI Leak Lab 0.1.0, linux, then with PHI Leak Lab 0.2.0"
    assert (
        label.trained_text([{}, other]) == "trained with a version that was not recorded, then with PHI Leak Lab 0.2.0"
    )


@pytest.mark.parametrize("content", ["[", "{}", "[]", '[{"torch": 2}]'])
def test_a_damaged_record_is_refused_with_its_name(copied, smoke_specs, content):
    run = copied.run(smoke_specs["dp"].run_id)
    (run.folder / TRAINED_BY_FILE).write_text(content, encoding="utf-8")
    with pytest.raises(RunBroken, match="trained-by.json"):
        _ = copied.run(run.id).trained_by
    assert (TRAINED_BY_FILE, "is damaged") in file_problems(run.folder, run.spec), "verify finds it"
