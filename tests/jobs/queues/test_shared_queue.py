"""The queues of two servers on one data folder: each shows the other's jobs, and limits count them all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.jobs.engine import Engine
from core.jobs.limits import Limits, Refused, User
from core.jobs.queues import shared as shared_queue
from core.jobs.queues.shared import FILE, FOLDER, Elsewhere, SharedQueue
from core.jobs.times.expected import request_of
from core.runs.store import Workspace
from core.spec import RunSpec

ROOT = Path(__file__).resolve().parents[3]
KEY = "3f2a-91bc-77de-0a45-c3d8"
ANNA, BEN, TEACHER = User("session-anna"), User("session-ben"), User("session-teacher", KEY)
# A server with a job in its queue and the queue closed, until it is killed.
KILLED = """
import sys, time
from pathlib import Path
from core.jobs.engine import Engine
from core.jobs.limits import User
from core.runs.store import Workspace
from core.spec import RunSpec
Engine.warm = lambda self: None
engine = Engine(Workspace(Path(sys.argv[1]), shared=()))
engine.submit(RunSpec.model_validate_json(sys.argv[2]), User("session-anna"))
engine.close_queue(True)
print("submitted", flush=True)
time.sleep(600)
"""


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Engine, Engine]]:
    """The engines of two servers of a class, which start no worker: jobs wait."""
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    pair = (Engine(Workspace(tmp_path, shared=())), Engine(Workspace(tmp_path, shared=())))
    for engine in pair:
        engine.limits = Limits(jobs=2, minutes=None, day_minutes=None, queue=4, key=KEY)
    yield pair
    for engine in pair:
        engine.close()


def test_a_job_that_waits_at_one_server_is_shown_at_the_other_with_its_place(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec]
) -> None:
    first, second = servers
    ids = [first.submit(smoke_spec(seed=seed), user).id for seed, user in ((1, ANNA), (2, BEN), (3, None))]
    for engine in servers:
        assert [(job.id, job.state, job.position) for job in engine.jobs()] == [
            (job_id, "queued", place) for place, job_id in enumerate(ids)
        ]
    assert second.submit(smoke_spec(seed=2), ANNA).position == 1 and second._queue.live() == [], "it is not asked twice"
    first.move(ids[2], 0, TEACHER)
    assert [job.id for job in second.jobs()] == [ids[2], ids[0], ids[1]]
    with pytest.raises(Refused, match="waits at another server"):
        second.move(ids[1], 0, TEACHER)


def test_an_owner_cancels_at_either_server(servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec]) -> None:
    first, second = servers
    job_id = first.submit(smoke_spec(), ANNA).id
    assert first.may_cancel(job_id, ANNA) and second.may_cancel(job_id, ANNA) and not second.may_cancel(job_id, BEN)
    with pytest.raises(Refused, match="Only the user who submitted"):
        second.cancel(job_id, BEN)
    assert first.status(job_id).state == "queued"
    assert second.cancel(job_id, ANNA).state == "cancelled"
    assert first.jobs() == [] and not first.workspace.work(job_id).exists()
    first._drop_what_is_gone()
    assert first._queue.live() == [], "no worker gets it"
    assert second.submit(smoke_spec(), BEN).state == first.status(job_id).state == "queued"
    assert first.owns(job_id, BEN) and not first.owns(job_id, ANNA)


def test_a_job_that_was_cancelled_and_submitted_at_the_other_server_is_only_there(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec]
) -> None:
    first, second = servers
    job_id, other = first.submit(smoke_spec(), ANNA).id, smoke_spec(seed=1)
    second.cancel(job_id, ANNA)
    second.submit(smoke_spec(), ANNA)
    first.submit(other, BEN)
    assert set(first._shared.elsewhere()) == {job_id} and set(second._shared.elsewhere()) == {other.run_id}
    first._drop_what_is_gone()
    assert [ticket.job_id for ticket in first._queue.live()] == [other.run_id]


def test_a_server_without_workers_fails_its_own_jobs_alone(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec]
) -> None:
    first, second = servers
    job_id, own = first.submit(smoke_spec(), ANNA).id, first.submit(smoke_spec(seed=1), ANNA).id
    second.cancel(job_id, ANNA)
    second.submit(smoke_spec(), BEN)
    first._give_up("The worker process could not be started.")
    assert first.status(own).state == second.status(own).state == "failed"
    assert first.status(job_id).state == second.status(job_id).state == "queued", "it waits at the other server"
    assert first._queue.live() == []


def test_a_job_that_is_submitted_again_where_another_server_cancelled_it_is_told_again(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec]
) -> None:
    first, second = servers
    job_id = first.submit(smoke_spec(), ANNA).id
    second.cancel(job_id, ANNA)
    first._drop_what_is_gone()
    first.submit(smoke_spec(), ANNA)
    assert second.status(job_id).state == "queued" and set(second._shared.elsewhere()) == {job_id}


def test_limits_count_the_jobs_of_all_servers(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec]
) -> None:
    first, second = servers
    first.submit(smoke_spec(seed=1), ANNA)
    second.submit(smoke_spec(seed=2), ANNA)
    for engine in servers:
        with pytest.raises(Refused, match="You have 2 jobs waiting or running"):
            engine.submit(smoke_spec(seed=3), ANNA)
    second.cancel(smoke_spec(seed=1).run_id, ANNA)
    assert first.submit(smoke_spec(seed=3), ANNA).active, "one was cancelled, also if it was at the other server"
    first.submit(smoke_spec(seed=4), BEN)
    second.submit(smoke_spec(seed=5), BEN)
    with pytest.raises(Refused, match="4 jobs are already waiting or running"):
        first.submit(smoke_spec(seed=6), User("session-cleo"))


def test_minutes_of_a_day_are_those_at_all_servers(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = servers
    minutes = request_of(smoke_spec(), first.workspace).minutes
    for engine in servers:
        engine.limits = Limits(jobs=None, minutes=None, day_minutes=2.5 * minutes, queue=None, key=KEY)
    first.submit(smoke_spec(seed=1), ANNA)
    second.submit(smoke_spec(seed=2), ANNA)
    assert first._shared.minutes(ANNA.name) == pytest.approx(2 * minutes)
    with pytest.raises(Refused, match="in the last 24 hours"):
        first.submit(smoke_spec(seed=3), ANNA)
    second.cancel(smoke_spec(seed=1).run_id, ANNA)
    assert first._shared.minutes(ANNA.name) == pytest.approx(minutes), "given back: it had not begun"
    now = shared_queue.time.time()
    monkeypatch.setattr(shared_queue.time, "time", lambda: now + shared_queue.DAY_SECONDS + 1)
    assert second._shared.minutes(ANNA.name) == 0


@pytest.mark.parametrize("alone", [False, True], ids=["file", "no file"])
def test_minutes_of_a_run_that_was_cancelled_and_submitted_again_are_added(tmp_path: Path, alone: bool) -> None:
    """It begins anew; what was interrupted or failed resumes, and counts once."""
    if alone:
        (tmp_path / FOLDER).write_text("a file where the folder should be")
    queue = SharedQueue(tmp_path)
    queue.submitted("gpt2-1", "anna", 7.0)
    queue.submitted("gpt2-1", "anna", 7.0)
    assert queue.minutes("anna") == 7.0, "it was interrupted"
    queue.submitted("gpt2-2", "anna", 5.0)
    assert queue.minutes("anna", but="gpt2-1") == 5.0, "what a job that resumes is added to"
    queue.cancelled("gpt2-2", give_back="anna")
    for total in (7.0, 14.0, 21.0):
        queue.cancelled("gpt2-1", give_back=None)
        assert queue.minutes("anna") == total and queue.owner("gpt2-1") == "anna"
        queue.submitted("gpt2-1", "anna", 7.0)
    queue.cancelled("gpt2-1", give_back="anna")
    assert queue.minutes("anna") == 21.0, "the last one had not begun"
    queue.close()


def test_a_closed_queue_is_closed_at_all_servers_as_long_as_who_closed_it_lives(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec]
) -> None:
    first, second = servers
    first.close_queue(True, TEACHER)
    assert second.queue_closed
    with pytest.raises(Refused, match="The queue is closed"):
        second.submit(smoke_spec(), ANNA)
    second.close_queue(False, TEACHER)
    assert not first.queue_closed
    first.close_queue(True, TEACHER)
    first.close()
    assert not second.queue_closed and second.submit(smoke_spec(), ANNA).active


def test_what_a_killed_server_left_is_interrupted_and_still_its_owners(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec]
) -> None:
    first, spec = servers[0], smoke_spec()
    command = [sys.executable, "-c", KILLED, str(first.workspace.root), spec.model_dump_json()]
    killed = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert killed.stdout is not None and killed.stdout.readline() == "submitted\n"
    assert first.status(spec.run_id).state == "queued" and first.queue_closed
    killed.kill()
    killed.wait()
    killed.stdout.close()
    assert first.status(spec.run_id).state == "interrupted" and not first.queue_closed
    assert first.may_cancel(spec.run_id, ANNA) and not first.may_cancel(spec.run_id, BEN)
    assert first.submit(spec, ANNA).state == "queued"
    assert len(list((first.workspace.root / FOLDER).glob("*.lock"))) == 1, "its lock file was cleared away"


def test_a_look_makes_no_file_and_a_server_that_ends_leaves_no_job(tmp_path: Path) -> None:
    first, second = SharedQueue(tmp_path), SharedQueue(tmp_path)
    assert (first.elsewhere(), first.owner("a"), first.minutes("anna"), first.is_closed()) == ({}, None, 0, False)
    first.publish([])
    first.close()
    assert list(tmp_path.iterdir()) == []
    first.publish([("a", "anna"), ("b", None)])
    assert second.elsewhere() == {"a": Elsewhere("anna", 0), "b": Elsewhere(None, 1)} and first.elsewhere() == {}
    first.close()
    assert second.elsewhere() == {} and list((tmp_path / FOLDER).glob("*.lock")) == []


def test_a_server_goes_on_alone_when_the_file_cannot_be_used(
    servers: tuple[Engine, Engine], smoke_spec: Callable[..., RunSpec], caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = servers
    (first.workspace.root / FOLDER).mkdir()
    (first.workspace.root / FOLDER / FILE).write_bytes(b"no database" * 1_000)
    assert first.submit(smoke_spec(), ANNA).state == "queued" and len(first.jobs()) == 1
    assert caplog.text.count("other servers of this data folder do not see") == 1, "said once"
    with pytest.raises(Refused, match="cannot be used"):
        first.close_queue(True, TEACHER)
    shutil.rmtree(first.workspace.root / FOLDER)
    assert first.submit(smoke_spec(seed=1), ANNA).state == "queued", "the folder is made again"
    assert first.owns(smoke_spec(seed=1).run_id, ANNA)
    assert set(servers[1]._shared.elsewhere()) == {smoke_spec().run_id, smoke_spec(seed=1).run_id}


def test_owners_and_minutes_are_those_of_this_server_when_the_file_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file where the folder should be")
    queue = SharedQueue(tmp_path)
    queue.submitted("gpt2-1", "anna", 7.0)
    queue.submitted("gpt2-2", "anna", 5.0)
    queue.publish([("gpt2-1", "anna")])
    assert queue.owner("gpt2-1") == "anna" and queue.owner("gpt2-3") is None
    assert queue.minutes("anna") == 12.0 and queue.minutes("ben") == 0.0
    queue.cancelled("gpt2-2", give_back="anna")
    assert queue.minutes("anna") == 7.0 and queue.elsewhere() == {} and not queue.is_closed()
    with pytest.raises(OSError, match="cannot be used"):
        queue.close_queue(True)
    queue.close()


@pytest.mark.parametrize("alone", [False, True], ids=["file", "no file"])
def test_who_submitted_a_job_is_forgotten_after_a_week(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    if alone:
        (tmp_path / FOLDER).write_text("a file where the folder should be")
    queue = SharedQueue(tmp_path)
    queue.submitted("gpt2-1", "anna", 7.0)
    queue.cancelled("gpt2-1", give_back=None)
    now = shared_queue.time.time()
    monkeypatch.setattr(shared_queue.time, "time", lambda: now + shared_queue.DAY_SECONDS)
    queue.submitted("gpt2-2", "anna", 5.0)
    assert queue.owner("gpt2-1") == "anna", "an interrupted job is its owner's for a week"
    monkeypatch.setattr(shared_queue.time, "time", lambda: now + shared_queue.OWNED_SECONDS + 1)
    queue.submitted("gpt2-3", "ben", 5.0)
    assert (queue.owner("gpt2-1"), queue.owner("gpt2-2")) == (None, "anna")
    assert set(queue._here) == {"gpt2-2", "gpt2-3"}, "nothing grows for as long as the server lives"
    queue.close()


def test_lock_files_of_dead_servers_go(tmp_path: Path) -> None:
    first, second = SharedQueue(tmp_path), SharedQueue(tmp_path)
    second.submitted("gpt2-1", None, 1.0)  # makes its lock file, and no row
    left = tmp_path / FOLDER / "dead.lock"
    left.touch()
    first.publish([("gpt2-2", None)])
    assert left.exists(), "it may be a server that just begins"
    os.utime(left, (0, 0))
    os.utime(second._lock_file(second.server), (0, 0))
    first.publish([])
    assert not left.exists() and second._lock_file(second.server).exists()
    for queue in (first, second):
        queue.close()


def test_a_lock_file_that_its_server_removes_at_this_moment_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = SharedQueue(tmp_path), SharedQueue(tmp_path)
    first.submitted("gpt2-1", None, 1.0)
    (tmp_path / FOLDER / "ending.lock").touch()
    glob = Path.glob

    def and_gone(folder: Path, pattern: str) -> list[Path]:
        found = list(glob(folder, pattern))
        (tmp_path / FOLDER / "ending.lock").unlink(missing_ok=True)
        return found

    monkeypatch.setattr(Path, "glob", and_gone)
    first.publish([("gpt2-1", None)])
    assert set(second.elsewhere()) == {"gpt2-1"} and caplog.text == ""
    for queue in (first, second):
        queue.close()
