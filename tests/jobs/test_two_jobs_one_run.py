"""Two jobs whose workers make the same run, or attack it: cancelling one removes nothing of the other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from core.common.errors import Cancelled
from core.jobs.work import Work
from core.pipeline.training_run import RunBuilder, execute
from core.runs.events import Status
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
