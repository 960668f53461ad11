"""A whole run that clips as DP-SGD does and adds no noise: it is nowhere taken for a private one."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from core.cli.training import described
from core.evaluation.report.facts import short_names
from core.pipeline.training_run import execute
from core.runs.integrity.verify import run_problems
from core.runs.queries import settings
from core.runs.run import PRIVACY_FILE
from core.runs.store import Workspace
from core.spec import RunSpec
from pages.parts.jobs.sentences import title
from pages.parts.patients.data import other_epsilons, other_models
from pages.parts.pickers.run_picker import default_pair, label


@pytest.fixture(scope="module")
def workspace(smoke_workspace: Path, smoke_spec: Callable, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    root = shutil.copytree(smoke_workspace, tmp_path_factory.mktemp("clipped") / "data")
    found = Workspace(root, shared=())
    execute(control(smoke_spec), found)
    return found


def control(smoke_spec: Callable) -> RunSpec:
    return smoke_spec(epsilon=8.0).clipped_spec()


def test_the_run_has_no_promise_and_says_so(workspace: Workspace, smoke_spec: Callable) -> None:
    run = workspace.run(control(smoke_spec).run_id)
    private = workspace.run(smoke_spec(epsilon=8.0).run_id)
    assert run.privacy is None and run.noise_source is None and not (run.folder / PRIVACY_FILE).exists()
    history, noisy = run.table("history"), private.table("history")
    assert history["epsilon"].isna().all() and history["step"].tolist() == noisy["step"].tolist()
    assert history["tokens"].tolist() == noisy["tokens"].tolist()  # the same notes in every step
    card = (run.folder / "README.md").read_text(encoding="utf-8")
    assert "None: the model was trained without differential privacy." in card
    assert "without noise that guarantees nothing" in card and "clipped to 1 as in DP-SGD, without noise" in card
    assert math.isinf(described(run)["epsilon"]) and math.isinf(settings([run])["epsilon"].item())
    assert not run_problems(run.folder)


def test_its_names_tell_it_from_the_other_runs(workspace: Workspace, smoke_spec: Callable) -> None:
    run, plain = workspace.run(control(smoke_spec).run_id), workspace.run(smoke_spec().run_id)
    for name in (label(run), title(run.spec)):
        assert "same training without noise (no privacy)" in name and "ε" not in name
    assert "clipped" in short_names([run])[run.id] and "clipped" not in short_names([plain])[plain.id]
    base = workspace.run(plain.spec.base_spec().run_id)
    assert short_names([base]) == {base.id: "A: public model"}, "as every page calls it"
    pair = default_pair([run, plain, workspace.run(smoke_spec(epsilon=8.0).run_id)])
    assert pair[0] is not None and pair[0].id == plain.id  # never the run that stands for “no privacy”
    assert other_epsilons(plain, [run, plain]) == other_models(plain, [run, plain]) == [plain]
    assert other_models(run, [run, plain]) == [run]
