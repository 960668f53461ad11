"""Thirty sessions at once while a training runs: `python -m core bench sessions --json`.

Sessions speak Streamlit's websocket protocol with a real server (`bench.load._client`); a worker of the server trains
meanwhile. Every session opens every page, in an order of its own. Three rounds are compared:

- alone: one session, with nobody else there, and a new one for each pass through the pages;
- class: all sessions, each of which reads a page for a while (PACE seconds on average) before it opens the next, and
  lets the timers of its page ask for news, as browsers do;
- moment: all sessions ask for the same page in the same moment, page after page. This is the worst case: one
  interpreter draws thirty pages one after the other.

A time is that from the click until the page is drawn. Each page was opened before, also after the first training had
begun: its control replaces a shipped run, and every page then computes its figures again, once for the server.
"""

from __future__ import annotations

import json as json_format
import random
import re
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.load._client import Drawn, NoAnswer, Session
from bench.load._server import Served, serving
from core.runs.events import read_events
from core.runs.store import Workspace

SESSIONS = 30
PACE = 20.0  # mean seconds for which a session reads a page
TRAININGS = 3  # queued, so that one runs all the time
BEGINS = 300.0  # seconds within which the first one must have begun
GOAL = 3.0


@dataclass
class Measured:
    """Answers of many sessions; threads add to it."""

    drawn: list[Drawn] = field(default_factory=list)
    polls: list[Drawn] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, work: Callable[[], Drawn], *, poll: bool = False) -> Drawn | None:
        """Do it, and count the answer or the error."""
        try:
            answer = work()
        except (NoAnswer, LookupError) as error:
            with self._lock:
                self.errors.append(str(error))
            return None
        with self._lock:
            (self.polls if poll else self.drawn).append(answer)
            self.errors += answer.exceptions
        return answer

    def seconds(self, page: str | None = None) -> np.ndarray:
        """The seconds of each answer, of one page or of all."""
        return np.array([one.seconds for one in self.drawn if page in (None, one.page)])


def reading(session: Session, seconds: float, measured: Measured) -> None:
    """Read a page for a while; its timers go on."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        for fragment in session.due():
            measured.add(lambda fragment=fragment: session.poll(fragment), poll=True)  # type: ignore[misc]
        time.sleep(min(0.05, max(0.0, left)))


def begin_trainings(address: str, count: int = TRAININGS) -> int:
    """Press Train for several settings; returns how many jobs the queue then has."""
    for seed in range(count):
        with Session(address) as teacher:
            teacher.open("train", f"training_seed={1_000 + seed}")
            teacher.press("Train")
    with Session(address) as teacher:
        teacher.open("train")
        told = re.search(r"(\d+) waiting or running", teacher.texts())
        return 0 if told is None else int(told[1])


def until_training(data: Path) -> None:
    """Wait until a job has trained for a step. Raises TimeoutError."""
    end = time.monotonic() + BEGINS
    while time.monotonic() < end:
        if any(event["event"] == "step" for work in Workspace(data).works() for event in read_events(work)):
            return
        time.sleep(0.5)
    raise TimeoutError(f"no job had begun to train after {BEGINS:.0f} seconds")


def alone(address: str, pages: Sequence[str], rounds: int) -> Measured:
    """One session at a time opens every page, as each session of a class does: some pages draw more the first time."""
    measured = Measured()
    for _ in range(rounds):
        with Session(address) as session:
            for page in pages:
                measured.add(lambda page=page: session.open(page))  # type: ignore[misc]
    return measured


def together(address: str, pages: Sequence[str], sessions: int, pace: float, seed: int) -> Measured:
    """All sessions open every page, each at its own pace and in its own order."""
    measured = Measured()

    def one(number: int) -> None:
        rng = random.Random(seed * 1_000 + number)
        with Session(address) as session:
            time.sleep(rng.uniform(0, pace))
            for page in rng.sample(pages, len(pages)):
                if measured.add(lambda page=page: session.open(page)) is None:  # type: ignore[misc]
                    return
                reading(session, rng.expovariate(1 / pace) if pace else 0.0, measured)

    with ThreadPoolExecutor(sessions) as threads:
        list(threads.map(one, range(sessions)))
    return measured


def moment(address: str, pages: Sequence[str], sessions: int) -> Measured:
    """All sessions open the same page in the same moment, page after page."""
    measured, together_now = Measured(), threading.Barrier(sessions)

    def one(number: int) -> None:
        with Session(address) as session:
            for page in pages:
                together_now.wait()
                measured.add(lambda page=page: session.open(page))  # type: ignore[misc]

    with ThreadPoolExecutor(sessions) as threads:
        list(threads.map(one, range(sessions)))
    return measured


def measure(
    served: Served,
    pages: Sequence[str],
    *,
    sessions: int = SESSIONS,
    rounds: int = 5,
    pace: float = PACE,
    seed: int = 0,
    trainings: int = TRAININGS,
) -> dict[str, Any]:
    """The three rounds beside trainings that were begun before, as JSON."""
    first = alone(served.address, pages, 1)  # caches are filled, the worker starts
    jobs = begin_trainings(served.address, trainings)
    if trainings:
        until_training(served.data)
    again = alone(served.address, pages, 1)
    before = served.memory()
    rounds_of = {
        "alone": alone(served.address, pages, rounds),
        "class": together(served.address, pages, sessions, pace, seed),
        "moment": moment(served.address, pages, sessions),
    }
    one = rounds_of["alone"]
    found: dict[str, Any] = {
        "sessions": sessions,
        "pace_seconds": pace,
        "jobs_in_the_queue": jobs,
        "jobs_left": len(Workspace(served.data).works()),
        "errors": [error for measured in (first, again, *rounds_of.values()) for error in measured.errors],
        "tracebacks": served.tracebacks(),
        "memory_mib": {"before": round(before), "after": round(served.memory())},
        "first_visit_seconds": {page: _of(first.seconds(page))["median"] for page in pages},
        "all_pages": {name: _of(measured.seconds()) for name, measured in rounds_of.items()},
        "polls": {name: _of(np.array([poll.seconds for poll in each.polls])) for name, each in rounds_of.items()},
        "p95_over_alone": {name: _ratio(rounds_of[name].seconds(), one.seconds()) for name in ("class", "moment")},
        "pages": {page: {name: _of(each.seconds(page)) for name, each in rounds_of.items()} for page in pages},
    }
    found["goal_held"] = not found["errors"] and found["p95_over_alone"]["class"] <= GOAL
    return found


def _of(seconds: np.ndarray) -> dict[str, float]:
    if not len(seconds):
        return {"count": 0, "median": float("nan"), "p95": float("nan")}
    return {
        "count": len(seconds),
        "median": round(float(np.median(seconds)), 3),
        "p95": round(float(np.quantile(seconds, 0.95)), 3),
    }


def _ratio(many: np.ndarray, one: np.ndarray) -> float:
    """The 95th percentile of all sessions over that of one alone: the same pages in both."""
    return round(float(np.quantile(many, 0.95) / np.quantile(one, 0.95)), 2)


def main(json: bool = False, rounds: int = 5, seed: int = 0) -> None:
    """Start a server, measure, and print."""
    from pages.parts.common.shell import page_names

    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data", Path(folder) / "log.txt") as served:
        found = measure(served, page_names(), rounds=rounds, seed=seed)
    if json:
        print(json_format.dumps(found, indent=1))
        return
    for page, each in found["pages"].items():
        print(page, *(f"{name}: {seconds['median']} ({seconds['p95']}) s" for name, seconds in each.items()))
    print({name: found[name] for name in ("all_pages", "p95_over_alone", "errors", "memory_mib", "goal_held")})


if __name__ == "__main__":
    main(json="--json" in sys.argv)
