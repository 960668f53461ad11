"""Two jobs whose workers make the same run, or attack it: cancelling one removes nothing of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from core.common.errors import Cancelled
from core.jobs import task
from core.jobs.work import Work
from core.pipeline import full_audit as auditing
from core.pipeline import training_run
from core.pipeline.training_run import RunBuilder, execute
from core.runs.events import Status
from core.runs.lock import held
from core.runs.store import Workspace
from core.spec import RunSpec


@pytest.mark.parametrize("cancelled_too", [False, True], ids=["it waits", "cancelled too"])
def test_a_control_that_was_submitted_by_itself_waits_on_when_a_run_that_makes_it_is_cancelled(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch, cancelled_too: bool
) -> None:
    spec, workspace = smoke_spec(), Workspace(tmp_path, shared=())
    control = Work(workspace, spec.base_spec().run_id)
    submitted, stopped = control.queue(spec.base_spec()), []

    def stages(builder: RunBuilder, _: Path, log: object) -> None:
        if not builder.spec.is_base:
            builder._base_control(log)
        if cancelled_too:
            control.withdraw()
        stopped.append(builder.spec.run_id)
        builder._check_stop()

    monkeypatch.setattr(RunBuilder, "_stages", stages)
    with pytest.raises(Cancelled):
        execute(spec, workspace, should_stop=lambda: bool(stopped))
    assert stopped == [control.run_id] and not workspace.work(spec.run_id).exists()
    assert control.status() == (None if cancelled_too else Status(state="queued", submitted=submitted))
    assert control.folder.exists() != cancelled_too


@pytest.mark.parametrize("is_audit", [False, True], ids=["run", "audit"])
def test_a_job_that_another_server_takes_as_its_worker_begins_waits_there(
    tmp_path: Path, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch, is_audit: bool
) -> None:
    """Cancelled and submitted again there: the worker of the first submission must not end the second."""
    spec, workspace = smoke_spec(), Workspace(tmp_path, shared=())
    work, module = Work(workspace, spec.run_id, is_audit), auditing if is_audit else training_run
    monkeypatch.setattr("core.runs.events.LOOK_SECONDS", 0.0)
    if is_audit:
        run = SimpleNamespace(id=spec.run_id, spec=spec, has_model=True)
        monkeypatch.setattr(Workspace, "run", lambda workspace, run_id: run)
    monkeypatch.setattr(auditing, "chosen_attacks", lambda run, names: [])
    monkeypatch.setattr(RunBuilder, "_stages", lambda builder, *_: builder._check_stop())
    monkeypatch.setattr(auditing._Battery, "go", lambda battery, *_: battery._check_stop())
    again: list[float] = []

    @contextmanager
    def late(path: Path, *, should_stop: Callable[[], bool]) -> Iterator[bool]:
        work.withdraw()
        again.append(work.queue(spec))
        with held(path, should_stop=should_stop) as holding:
            yield holding

    monkeypatch.setattr(module, "held", late)
    name, *arguments = ("attack_run", spec.run_id) if is_audit else ("make_run", spec.model_dump_json())
    first = work.queue(spec)
    assert getattr(task, name)(*arguments, str(tmp_path), (), first) == ("cancelled", "")
    assert work.status() == Status(state="queued", submitted=again[0])
