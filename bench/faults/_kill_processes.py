"""Kills of real processes: `python -m core bench kills --course command` (worker, server, or processes: all three).

A moment is a share of the uninterrupted work: of the changes seen in the store from outside, or of the seconds since
the first one. Then the process gets SIGKILL from outside, the store is looked at, and the work goes on
(`_processes`). The end is compared with that of uninterrupted work.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from bench.faults._processes import COURSES, ROOT, Task
from bench.faults._stages import Found, Work, contents, copy_store, visible

PATIENCE = 900.0  # seconds that uninterrupted work may take; then it counts as stuck
LOOK, ASK = 0.01, 0.5  # seconds between two looks into the store, and between two questions whether the work has ended
IN_A_ROW = {"command": 4, "worker": 4, "server": 3}  # the engine lets a job survive five workers
MAKE = (
    "import sys; from importlib import import_module; from pathlib import Path\n"
    "getattr(import_module(sys.argv[1]), sys.argv[2])(Path(sys.argv[3]))"
)


@dataclass(frozen=True)
class Known:
    """Uninterrupted work: the store before and its contents after, changes that were seen, and seconds they took."""

    before: Path
    contents: dict[str, str]
    changes: int
    seconds: float


class Watch:
    """Counts changes in a store as they are seen from outside, over all beginnings of a piece of work."""

    def __init__(self, root: Path) -> None:
        self.root, self.changes, self.seconds = root, 0, 0.0
        self._last, self._since = _state(root), 0.0

    def begin(self) -> None:
        """The work begins, or begins again: what is there now is no change of its own."""
        self._last, self._since = _state(self.root), 0.0

    def until(self, moment: Callable[[Watch], bool], ended: Callable[[], bool]) -> bool:
        """Look until the moment has come (True) or the work has ended (False). Raises RuntimeError if it is stuck."""
        begun = asked = time.monotonic()
        while True:
            now, state = time.monotonic(), _state(self.root)
            if state != self._last:
                self._last, self.changes = state, self.changes + 1
                self._since = self._since or now
            if self._since:
                self.seconds, self._since = self.seconds + now - self._since, now
            if moment(self):
                return True
            if now - asked > ASK:
                asked = now
                if ended():
                    return False
            if now - begun > PATIENCE:
                raise RuntimeError(f"the work has not ended after {PATIENCE:g} s")
            time.sleep(LOOK)


def _state(root: Path) -> list[tuple[str, int, int]]:
    """Every file and folder of a store, with its size and time; what goes while it is looked at is left out."""
    found, folders = [], [str(root)]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for one in entries:
                with contextlib.suppress(OSError):
                    about = one.stat(follow_symlinks=False)
                    found.append((one.path, about.st_size, about.st_mtime_ns))
                    if one.is_dir(follow_symlinks=False):
                        folders.append(one.path)
    return found


def stage_of(root: Path, otherwise: str) -> str:
    """The stage that was under way last, by the newest event log."""
    logs = [path for path in root.rglob("events.jsonl") if path.parent.parent.name in ("work", "audits")]
    for path in sorted(logs, key=lambda path: path.stat().st_mtime, reverse=True)[:1]:
        for line in reversed(path.read_text(errors="replace").splitlines()):
            with contextlib.suppress(ValueError):
                if stage := json.loads(line).get("stage"):
                    return str(stage)
    return otherwise


def uninterrupted(task: Task, folder: Path) -> Known:
    """Do a task without interruption, in a new folder. What several tasks begin with is made once, beside it."""
    done = folder / "done"
    before = folder.parent / f"before-{task.before.__name__ if task.before is not None else 'nothing'}"
    if task.before is not None and not before.exists():
        _apart(task.before, before)
    before.mkdir(parents=True, exist_ok=True)
    copy_store(before, done)
    with task.begin(done) as work:
        watch = Watch(done)
        watch.until(lambda watch: False, work.ended)
    return Known(before, contents(done), watch.changes, watch.seconds)


def _apart(work: Work, root: Path) -> None:
    """Do `work` in a process of its own."""
    made = [sys.executable, "-c", MAKE, work.__module__, work.__name__, str(root)]
    done = subprocess.run(made, cwd=ROOT, capture_output=True, text=True)  # noqa: S603 — this program
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])


def disturbed(
    task: Task, known: Known, root: Path, moments: list[tuple[str, float]], found: Found, told: Callable[[], None]
) -> None:
    """Begin a task in a new store, kill its process at each moment, look at the store, and let it go on to its end.

    Args:
        task: The task.
        known: The same without interruption.
        root: The new store.
        moments: ("change", share of the changes) or ("time", share of the seconds), of the work so far.
        found: Where it is counted.
        told: Called after each kill.
    """
    copy_store(known.before, root)
    try:
        with task.begin(root) as work:
            watch = Watch(root)
            for how, share in moments:
                if not watch.until(_moment(known, how, share), work.ended) or (pid := work.pid) is None:
                    break
                os.kill(pid, signal.SIGKILL)
                _gone(pid)
                stage = stage_of(root, task.name)
                where = f"{task.name}, {how} {share:.3f}, in {stage}"
                found.kills += 1
                found.stages[stage] = found.stages.get(stage, 0) + 1
                found.half_written += [f"{where}: {one}" for one in _seen(root)]
                told()
                work.again()
                watch.begin()
            watch.until(lambda watch: False, work.ended)
    except Exception:  # a stuck, failed or lost job is what is looked for
        found.failed.append(f"{task.name} after {moments}: {traceback.format_exc()[-800:]}")
        return
    same = found.end(f"{task.name} after {moments}", contents(root), known.contents)
    found.half_written += [f"{task.name}, at the end: {one}" for one in _seen(root)]
    if same:
        shutil.rmtree(root)


def _moment(known: Known, how: str, share: float) -> Callable[[Watch], bool]:
    if how == "change":
        return lambda watch: watch.changes >= max(1, round(share * known.changes))
    return lambda watch: watch.changes > 0 and watch.seconds >= share * known.seconds


def _gone(pid: int) -> None:
    """Wait until a killed process has ended; it may be a zombie until its parent looks."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(LOOK)


def _seen(root: Path) -> list[str]:
    try:
        return visible(root)
    except Exception:
        return [traceback.format_exc()[-400:]]


# Counting ------------------------------------------------------------------------------------------------------------


def measure(
    courses: tuple[str, ...], most: int, seed: int, minutes: float | None = None, write: Path | None = None
) -> dict[str, Any]:
    """Kill processes, one task of these courses after the other, until there were so many kills or the time is over.

    Returns:
        Counts by course and task. `write` has them after every kill, and a later call goes on from there.
    """
    end = None if minutes is None else time.monotonic() + 60 * minutes
    tasks = [(course, task) for course in courses for task in COURSES[course]]
    kept: dict[str, Any] = {"seed": seed, "courses": list(courses), "stores": 0, "tasks": {}}
    if write is not None and write.exists():
        earlier = json.loads(write.read_text())
        if [earlier["seed"], earlier["courses"]] != [seed, list(courses)]:
            raise ValueError(f"{write} has kills of another seed or course: give another file.")
        kept = earlier
    found = {_name(*one): Found(**kept["tasks"].get(_name(*one), {})) for one in tasks}

    def tell() -> None:
        kept["tasks"] = {name: asdict(one) for name, one in found.items()}
        total = sum(one.kills for one in found.values())
        print(f"{total} kills, {kept['stores']} stores done", file=sys.stderr, flush=True)
        if write is not None:
            beside = write.with_name(f".{write.name}")
            beside.write_text(json.dumps(kept, indent=1, ensure_ascii=False))
            beside.replace(write)

    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(KeyboardInterrupt):
        known: dict[int, Known] = {}
        while sum(one.kills for one in found.values()) < most and (end is None or time.monotonic() < end):
            at, number = kept["stores"], kept["stores"] % len(tasks)
            course, task = tasks[number]
            if number not in known:
                known[number] = uninterrupted(task, Path(folder) / f"known-{number}")
            rng = random.Random(f"{seed} {at}")
            shares = sorted(rng.random() for _ in range(IN_A_ROW[course]))
            moments = [(rng.choice(("change", "time")), share) for share in shares]
            disturbed(task, known[number], Path(folder) / f"store-{at}", moments, found[_name(course, task)], tell)
            kept["stores"] += 1
            tell()
    return kept["tasks"]


def _name(course: str, task: Task) -> str:
    return f"{course}: {task.name}"
