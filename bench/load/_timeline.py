"""What a scheduler saw, for `dask scheduler --preload`: which worker was there, and had which task, from when to when.

Each line of the file in $PHI_TIMELINE is one event: `start` of the scheduler, `join` and `leave` of a worker, `begin`
and `end` of a task on a worker. Times are Unix seconds of the scheduler's host.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from distributed import Scheduler, SchedulerPlugin
from tornado.ioloop import PeriodicCallback

LOOK_MS = 200.0
Record = dict[str, Any]


class Timeline(SchedulerPlugin):
    """Appends what happens to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._names: dict[str, str] = {}  # of each address
        self._tasks: dict[str, str] = {}  # worker of each task under way

    def note(self, what: str, **fields: str) -> None:
        """Append one event."""
        with self.path.open("a") as file:
            file.write(json.dumps({"time": time.time(), "what": what, **fields}) + "\n")

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """A worker has joined."""
        self._names[worker] = str(scheduler.workers[worker].name)
        self.note("join", worker=self._names[worker])

    def remove_worker(self, scheduler: Scheduler, worker: str, **_: Any) -> None:
        """A worker has left or was lost."""
        self.note("leave", worker=self._names.pop(worker, worker))

    def transition(self, key: Any, start: str, finish: str, *_: Any, **__: Any) -> None:
        """A task was given to a worker, or has ended there."""
        if start == "processing" and key in self._tasks:
            self.note("end", worker=self._tasks.pop(key), task=str(key), state=finish)
        if finish == "processing" and (worker := self._worker(key)) is not None:
            self._tasks[key] = worker
            self.note("begin", worker=worker, task=str(key))

    def look(self) -> None:
        """Note tasks that the scheduler has moved to an idle worker, which it does not tell a plugin."""
        for key, worker in list(self._tasks.items()):
            if (now := self._worker(key)) not in (None, worker):
                self.note("end", worker=worker, task=str(key), state="moved")
                self.note("begin", worker=now, task=str(key))
                self._tasks[key] = now

    def _worker(self, key: Any) -> str | None:
        task = self.scheduler.tasks.get(key)
        return None if task is None or task.processing_on is None else str(task.processing_on.name)

    scheduler: Scheduler


async def dask_setup(scheduler: Scheduler) -> None:
    """Called by dask in a scheduler that preloads this file."""
    timeline = Timeline(Path(os.environ["PHI_TIMELINE"]))
    timeline.scheduler = scheduler
    scheduler.add_plugin(timeline)
    timeline.note("start")
    looking = scheduler.periodic_callbacks["timeline"] = PeriodicCallback(timeline.look, LOOK_MS)
    looking.start()


def read(path: Path) -> list[Record]:
    """All complete events so far."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def under_way(records: Iterable[Record]) -> dict[str, str]:
    """The worker of each task that has begun and not ended."""
    found: dict[str, str] = {}
    for one in records:
        if one["what"] == "begin":
            found[one["task"]] = one["worker"]
        elif one["what"] == "end":
            found.pop(one["task"], None)
        elif one["what"] == "start":  # the scheduler before it is gone with its tasks
            found.clear()
    return found


def shares(records: list[Record], until: float) -> dict[str, dict[str, float]]:
    """Of each worker: seconds with a task, seconds connected, and the share of the former, up to the time `until`."""
    found: dict[str, dict[str, float]] = {}
    since: dict[tuple[str, str], tuple[float, int]] = {}  # (worker, busy or connected) → since when, and how often

    def change(worker: str, which: str, time: float, by: int) -> None:
        began, depth = since.get((worker, which), (time, 0))
        if depth > 0 and depth + by <= 0:
            found.setdefault(worker, {"busy": 0.0, "connected": 0.0})[which] += time - began
        since[worker, which] = (time if depth == 0 else began, max(0, depth + by))

    def end_all(time: float) -> None:
        for (worker, which), (_, depth) in list(since.items()):
            change(worker, which, time, -depth)

    last = records[0]["time"] if records else until
    for one in records:
        if one["what"] == "start":
            end_all(last)
        else:
            which = "busy" if one["what"] in ("begin", "end") else "connected"
            change(one["worker"], which, one["time"], 1 if one["what"] in ("begin", "join") else -1)
        last = one["time"]
    end_all(until)
    return {
        worker: {**told, "share": told["busy"] / told["connected"] if told["connected"] else 0.0}
        for worker, told in sorted(found.items())
    }
