"""Runs that are trained and not yet audited: which of them can be prompted, by whom, and until when."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from core.jobs.trained import Promptable, TrainedRun, trained_runs
from core.pipeline.training_run import execute
from core.runs.run import RunNotFound
from core.runs.store import Workspace
from core.spec import RunSpec


@pytest.fixture
def workspace(smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path) -> Workspace:
    """The run without privacy as it is when its training has just ended."""
    shutil.copytree(smoke_workspace, tmp_path, dirs_exist_ok=True)
    run_id = smoke_specs["plain"].run_id
    (tmp_path / "work").mkdir(exist_ok=True)
    work = (tmp_path / "runs" / run_id).rename(tmp_path / "work" / run_id)
    for table in (work / "tables").iterdir():
        if table.stem != "history":
            table.unlink()
    (work / "checksums.json").unlink()
    return Workspace(tmp_path, shared=())


def test_a_run_can_be_prompted_from_the_end_of_its_training_on(workspace: Workspace, smoke_specs) -> None:
    run_id = smoke_specs["plain"].run_id
    assert [run.id for run in trained_runs(workspace)] == [run_id]
    assert isinstance(Promptable(workspace).run(run_id), TrainedRun)
    assert Promptable(workspace).run(run_id).model().kind == "gpt2"
    with pytest.raises(RunNotFound):
        workspace.run(run_id)  # for every page that needs figures it is not there yet
    (workspace.work(run_id) / "tables" / "history.parquet").unlink()  # the mark that training is over
    assert trained_runs(workspace) == []
    with pytest.raises(RunNotFound):
        Promptable(workspace).run(run_id)


@pytest.mark.usefixtures("asks_few_claims")
def test_the_model_is_found_also_after_its_folder_has_moved(workspace: Workspace, smoke_specs) -> None:
    (before,) = trained_runs(workspace)
    made = execute(smoke_specs["plain"], workspace)
    assert before.model().kind == "gpt2" and not before.folder.exists()
    assert Promptable(workspace).run(made.id).folder == made.folder and trained_runs(workspace) == []


def test_secret_noise_and_imported_notes_are_left_out(workspace: Workspace, smoke_specs) -> None:
    (run,) = trained_runs(workspace)
    private = run.spec.privacy.model_copy(update={"target_epsilon": 8.0, "noise_source": "secret"})
    imported = run.spec.corpus.model_copy(update={"imported": "0" * 12})
    for changed in ({"privacy": private}, {"corpus": imported}):
        spec = run.spec.model_copy(update=changed)
        folder = run.folder.with_name(spec.run_id)
        shutil.copytree(run.folder, folder)
        (folder / "spec.json").write_text(spec.model_dump_json())
    assert len(workspace.works()) == 3 and [one.id for one in trained_runs(workspace)] == [run.id]


def test_a_cancelled_job_takes_its_model_with_it(workspace: Workspace, smoke_specs) -> None:
    (run,) = trained_runs(workspace)
    workspace.discard(run.folder)
    assert trained_runs(workspace) == []
    with pytest.raises(RunNotFound):
        run_of: Callable[[str], object] = Promptable(workspace).run
        run_of(run.id)
