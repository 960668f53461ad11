"""What a command makes is cancelled from a page, too: by the file that its Cancel button leaves in the job's folder."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.common.errors import Cancelled
from core.jobs.work import Work
from core.pipeline.full_audit import audit
from core.pipeline.training_run import RunBuilder, execute
from core.runs.events import CANCEL_FILE, LOOK_SECONDS
from core.runs.integrity.checksums import take
from core.runs.integrity.verify import run_problems
from core.runs.store import Workspace
from core.spec import CorpusSpec, RunSpec


@pytest.fixture
def workspace(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    """A data folder of one's own; the smoke runs are shipped to it."""
    return Workspace(tmp_path / "data", shared=(smoke_workspace,))


def test_a_run_is_cancelled_and_nothing_is_left(
    workspace: Workspace, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = smoke_spec(seed=7)

    def stages(builder: RunBuilder, *_: object) -> None:
        assert not builder.stop()
        Work(workspace, spec.run_id).withdraw()
        time.sleep(2 * LOOK_SECONDS)
        builder._check_stop()

    monkeypatch.setattr(RunBuilder, "_stages", stages)
    with pytest.raises(Cancelled):
        execute(spec, workspace)
    assert not workspace.work(spec.run_id).exists()


def test_a_request_to_an_earlier_process_does_not_stop_the_next(
    workspace: Workspace, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = smoke_spec(seed=7)
    (workspace.begin(spec) / CANCEL_FILE).touch()

    def stages(builder: RunBuilder, *_: object) -> None:
        raise ArithmeticError("stopped" if builder.stop() else "began")

    monkeypatch.setattr(RunBuilder, "_stages", stages)
    with pytest.raises(ArithmeticError, match="began"):
        execute(spec, workspace)


def test_a_request_that_comes_too_late_is_not_kept_with_the_run(
    workspace: Workspace, smoke_specs: dict[str, RunSpec], tmp_path: Path
) -> None:
    made = workspace.run(smoke_specs["plain"].run_id)
    alone = Workspace(tmp_path / "alone", shared=())
    work = shutil.copytree(made.folder, alone.work(made.id))
    (Path(work) / CANCEL_FILE).touch()
    assert not (alone.complete(Path(work)).folder / CANCEL_FILE).exists()


@pytest.mark.parametrize("late", ["before the checksums", "after the checksums"])
def test_a_request_while_a_run_is_moved_to_its_place_is_not_kept_with_it(
    workspace: Workspace, smoke_specs: dict[str, RunSpec], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: str
) -> None:
    """It lasts seconds for a large model. A request among the checksums would make an archive of the run damaged."""
    made = workspace.run(smoke_specs["plain"].run_id)
    alone = Workspace(tmp_path / "alone", shared=())
    work = Path(shutil.copytree(made.folder, alone.work(made.id)))

    def taken(folder: Path, spec: CorpusSpec) -> None:
        if late.startswith("before"):
            (work / CANCEL_FILE).touch()
        take(folder, spec)
        (work / CANCEL_FILE).touch()

    monkeypatch.setattr("core.runs.store.take_checksums", taken)
    run = alone.complete(work)
    assert not (run.folder / CANCEL_FILE).exists() and run_problems(run.folder) == {}


def test_an_audit_is_cancelled_and_keeps_what_is_done(workspace: Workspace, smoke_specs: dict[str, RunSpec]) -> None:
    run = workspace.run(smoke_specs["plain"].run_id)
    folder = workspace.begin_audit(run.id, run.spec.corpus)
    (folder / CANCEL_FILE).touch()  # for an earlier process

    def cancel(event: dict) -> None:
        if event["event"] == "outcome":
            Work(workspace, run.id, is_audit=True).withdraw()
            time.sleep(2 * LOOK_SECONDS)

    with pytest.raises(Cancelled, match="finished attacks are kept"):
        audit(run, workspace, attacks=["loss", "zlib"], on_event=cancel)
    assert list(workspace.audit(run.id).outcomes()) == ["loss"] and not (folder / CANCEL_FILE).exists()
