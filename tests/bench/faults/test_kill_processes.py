"""Real processes that get SIGKILL: a command and the engine's worker once each, and that the counts can be wrong."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.faults import _kill_processes
from bench.faults._kill_processes import Found, Known, Watch, disturbed
from bench.faults._processes import COURSES, Process, Task, job, leave_attacks
from bench.faults._stages import ATTACKS
from core.pipeline.full_audit import audit
from core.runs.store import Workspace
from core.spec import RunSpec

pytestmark = pytest.mark.slow


# A process changes the store only after it was looked at twice, so that no change is missed by one who looks seldom.
WAITING = """
import os, sys, time
def looks():
    return os.stat(os.environ["LOOKS"]).st_size
def hook(event, arguments):
    changes = event in ("os.mkdir", "os.rename") or event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    if changes and str(arguments[0]).startswith(os.environ["STORES"]):
        end = looks() + 2
        while looks() < end:
            time.sleep(0.005)
sys.addaudithook(hook)
"""


@contextlib.contextmanager
def every_change_is_seen(tmp_path: Path) -> Iterator[None]:
    """Processes that are started within the block wait for the looks of `Watch`, however slow this one is."""
    hooks, looks, state = tmp_path / "hooks", tmp_path / "looks", _kill_processes._state
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(WAITING, encoding="utf-8")
    looks.touch()

    def counted(root: Path) -> list[tuple[str, int, int]]:
        found = state(root)
        with looks.open("a") as file:
            file.write(".")
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_kill_processes, "_state", counted)
        for name, value in (("PYTHONPATH", hooks), ("LOOKS", looks), ("STORES", tmp_path)):
            patch.setenv(name, str(value))
        yield


def told_nothing() -> None:
    """No progress is printed."""


def test_a_killed_command_is_given_again_and_refused_once_it_is_done(tmp_path: Path) -> None:
    cohort, found = COURSES["command"][0], Found()
    with every_change_is_seen(tmp_path):
        known = _kill_processes.uninterrupted(cohort, tmp_path / "known")
        assert known.changes > 2 and "imported/notes.parquet" in known.contents
        disturbed(cohort, known, tmp_path / "store", [("change", 0.4)], found, told_nothing)
    assert (found.kills, found.endings, found.stages) == (1, 1, {"cohort": 1})
    assert (found.half_written, found.failed, found.differs) == ([], [], [])
    with cohort.begin(tmp_path / "known" / "done") as again, pytest.raises(RuntimeError, match="exit code 2: Error"):
        while not again.ended():  # the first time, a refusal is a failure
            os.waitid(os.P_PID, again.pid, os.WEXITED | os.WNOWAIT)


def test_the_engine_starts_another_worker_for_the_job_of_a_killed_one(
    tmp_path: Path, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    """The job is three attacks of an audit; the worker is killed as soon as it has changed something."""
    run_id, found = smoke_specs["plain"].run_id, Found()
    before, done = tmp_path / "before", tmp_path / "done"
    for folder in (before / "runs" / run_id, before / "runs" / smoke_specs["base"].run_id, before / "corpora"):
        shutil.copytree(smoke_workspace / folder.relative_to(before), folder)
    leave_attacks(before, run_id)
    shutil.copytree(before, done)
    whole = audit(Workspace(done, shared=()).run(run_id), Workspace(done, shared=()))
    assert {whole.outcomes()[name].state for name in ATTACKS} == {"done"}
    known = Known(before, _kill_processes.contents(done), 1, 1.0)
    task = Task("audit", job(lambda engine: engine.submit_audit(run_id)))
    disturbed(task, known, tmp_path / "store", [("change", 1.0)], found, told_nothing)
    assert (found.half_written, found.failed, found.differs) == ([], [], [])
    assert (found.kills, found.endings) == (1, 1)


# It goes on changing the folder, as a busy machine may have made it before the store is looked at for the first time.
CHANGING = """
import os, time
os.mkdir({folder!r})
while True:
    time.sleep(0.02)
    os.utime({folder!r})
"""


class Busy(Process):
    """A process that makes a folder and changes it; the next one writes a file and ends, or says that it failed."""

    def __init__(self, root: Path, last: str) -> None:
        self.root, self.last = root, last
        self.start(CHANGING.format(folder=str(root / "imported")))

    def start(self, code: str) -> None:
        self.process = subprocess.Popen([sys.executable, "-c", code])  # noqa: S603

    @property
    def pid(self) -> int:
        return self.process.pid

    def ended(self) -> bool:
        if self.process.poll():
            raise RuntimeError("it failed")
        return self.process.returncode == 0

    def again(self) -> None:
        assert self.process.wait() == -9
        self.start(self.last)


def busy(last: str) -> Callable[[Path], contextlib.AbstractContextManager[Process]]:
    @contextlib.contextmanager
    def begin(root: Path) -> Iterator[Process]:
        work = Busy(root, last.format(root=root))
        try:
            yield work
        finally:
            work.process.kill()
            work.process.wait()

    return begin


def test_what_is_half_written_differs_or_fails_is_found(tmp_path: Path) -> None:
    (tmp_path / "before").mkdir()
    known = Known(tmp_path / "before", {"imported/gone": "x"}, 1, 1.0)
    found, kills = Found(), []
    last = "open('{root}/imported/more', 'w').close()"
    disturbed(Task("t", busy(last)), known, tmp_path / "a", [("time", 0.01)], found, lambda: kills.append(found.kills))
    assert kills == [1] and found.endings == 1 and not found.failed
    assert ["half-written" in one for one in found.half_written] == [True, True]  # after the kill, and at the end
    assert [one.rpartition(": ")[2] for one in found.differs] == ["imported/gone", "imported/more"]
    found = Found()
    disturbed(Task("t", busy("exit(1)")), known, tmp_path / "b", [("change", 1.0)], found, told_nothing)
    assert found.kills == 1 and not found.endings and "it failed" in found.failed[0]


def test_changes_are_counted_from_the_beginning_of_the_work(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("x")
    watch, asked = Watch(tmp_path), []

    def change() -> bool:
        (tmp_path / f"new-{len(asked)}").write_text("x")
        asked.append(watch.changes)
        return len(asked) == 3

    assert not watch.until(lambda _: False, change)
    assert asked == [0, 1, 2] and watch.seconds > 0
    (tmp_path / "there").write_text("changed while nothing ran")
    watch.begin()
    assert watch.until(lambda now: now.changes > 2, lambda: True) is False
    assert watch.changes == 2


def test_counts_are_kept_and_gone_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares: list[list[tuple[str, float]]] = []

    def counted(task: Task, known: Known, root: Path, moments: list, found: Found, told: Callable[[], None]) -> None:
        shares.append(moments)
        for _ in moments:
            found.kills += 1
            told()
        found.endings += 1

    monkeypatch.setattr(_kill_processes, "disturbed", counted)
    monkeypatch.setattr(_kill_processes, "uninterrupted", lambda task, folder: None)
    every = _kill_processes.measure(("worker",), 9, 3)
    whole, shares[:] = shares.copy(), []
    file = tmp_path / "kills.json"
    _kill_processes.measure(("worker",), 1, 3, write=file)
    assert json.loads(file.read_text())["stores"] == 1
    assert _kill_processes.measure(("worker",), 9, 3, write=file) == every and shares == whole
    assert sum(one["kills"] for one in every.values()) == sum(map(len, whole)) >= 9
    with pytest.raises(ValueError, match="another seed"):
        _kill_processes.measure(("worker",), 9, 4, write=file)
