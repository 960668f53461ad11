"""Two app servers on one data folder: what their queues see of each other, and that no run is made twice."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.jobs.engine import Engine
from core.runs.events import read_events
from core.runs.store import Workspace
from core.spec import RunSpec
from tests.held_work import Held
from tests.jobs.test_engine import wait_for

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("asks_few_claims")]


@pytest.fixture(scope="module")
def servers(
    smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path_factory: pytest.TempPathFactory, held_work: Held
) -> Iterator[tuple[Engine, Engine]]:
    """Two engines as two servers have them: nothing in common but the folder, each with workers of its own."""
    root, base = tmp_path_factory.mktemp("servers"), smoke_specs["base"].run_id
    shutil.copytree(smoke_workspace / "corpora", root / "corpora")
    shutil.copytree(smoke_workspace / "runs" / base, root / "runs" / base)
    pair = (Engine(Workspace(root, shared=())), Engine(Workspace(root, shared=())))
    yield pair
    for engine in pair:
        engine.close()


def trainings(engine: Engine, spec: RunSpec) -> int:
    """How often training was begun in the log of a finished run."""
    events = read_events(engine.workspace.run(spec.run_id).folder)
    return sum(event["event"] == "stage" and event["stage"] == "training" for event in events)


def test_a_run_that_both_are_asked_for_is_trained_once(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec], held_work: Held
) -> None:
    first, second = servers
    running, waiting = smoke_spec(seed=1, epochs=4), smoke_spec(seed=2, epochs=1)
    with held_work.at(running.run_id):
        first.submit(running)
        wait_for(first, running.run_id, lambda job: job.state == "running" and first.progress(job.id).epoch > 0)
        first.submit(waiting)
        assert second.status(running.run_id).state == "running", "its files and its lock say so"
        assert second.submit(running).state == "running" and running.run_id not in second._queue, (
            "it is not asked for twice"
        )
        assert first.status(waiting.run_id).state == "queued"
        seen = second.status(waiting.run_id)
        assert (seen.state, seen.position) == ("queued", 1), "it waits at the first one, behind the other"
        assert second.submit(waiting).active and waiting.run_id not in second._queue
    for engine in servers:
        for spec in (running, waiting):
            assert (
                wait_for(engine, spec.run_id, lambda job: not job.active and job.state != "interrupted").state == "done"
            )
    assert [trainings(first, spec) for spec in (running, waiting)] == [1, 1]
    assert first.jobs() == second.jobs() == [] and first.workspace.works() == []


def test_a_run_asked_for_at_the_same_moment_is_trained_once(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec]
) -> None:
    spec, start = smoke_spec(seed=3, epochs=1), threading.Barrier(2)

    def submit(engine: Engine) -> None:
        start.wait(60)
        engine.submit(spec)

    threads = [threading.Thread(target=submit, args=(engine,)) for engine in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for engine in servers:
        assert wait_for(engine, spec.run_id, lambda job: job.state == "done")
    assert trainings(servers[0], spec) == 1 and servers[0].workspace.works() == []
