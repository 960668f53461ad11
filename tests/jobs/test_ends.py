"""Jobs at their end: a process that dies, a folder that moves, and a disk that takes no more at that moment."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.jobs.engine import Engine
from core.jobs.task import make_run
from core.runs.events import Status, read_events, write_status
from core.runs.lock import held
from core.runs.store import Workspace
from core.spec import RunSpec


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine that starts no worker: jobs wait."""
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    engine = Engine(Workspace(tmp_path / "data", shared=()))
    yield engine
    engine.close()


def test_a_complete_run_that_was_not_moved_is_interrupted_and_moved_when_it_is_submitted_again(
    engine: Engine, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    """Its process was killed after the status `done`, before the folder had its final place."""
    spec, workspace = smoke_specs["plain"], engine.workspace
    shutil.copytree(smoke_workspace, workspace.root)
    work = workspace.work(spec.run_id)
    work.parent.mkdir(exist_ok=True)
    (workspace.root / "runs" / spec.run_id).rename(work)
    write_status(work, Status(state="done", submitted=1.0))
    with held(workspace.lock_file(spec.run_id), should_stop=lambda: False):
        assert engine.status(spec.run_id).state == "running", "its process moves it"
    assert engine.status(spec.run_id).state == "interrupted"
    steps = [event for event in read_events(work) if event["event"] == "step"]
    job = engine.submit(spec)
    assert job.state == "queued" and job.submitted is not None
    make_run(spec.model_dump_json(), str(workspace.root), (), job.submitted)
    assert engine.status(spec.run_id).state == "done" and not work.exists()
    run = workspace.run(spec.run_id)
    assert [event for event in run.events() if event["event"] == "step"] == steps, "nothing was trained again"
