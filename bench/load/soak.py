"""A class for ten minutes, on a network that loses connections: `python -m core bench soak --json`.

A presenter opens a room. Thirty sessions join it, vote on the first step of the lesson, and then do what a class does:
they follow the lesson, open other pages, ask the Playground, and read. At one action in five the connection is lost
without a word: half of these before the answer is there, half of them while reading. The session comes back by its id,
as a browser does, or, half the time, as a new page in the same browser, which still has its seat's cookie.

Counted: errors; after each return, whether the session is in its room and its vote is kept; at the end, whether the
room has each browser and each vote once; and the server's memory, from the moment when every page had been drawn once.
"""

from __future__ import annotations

import json as json_format
import random
import secrets
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.load._client import NoAnswer, Session
from bench.load._server import Served, serving
from bench.load.sessions import Measured, _of, alone, reading

SESSIONS, MINUTES, PACE, DROPPED = 30, 10.0, 12.0, 0.2
MOST_GROWTH = 50.0  # MiB
KEPT = "Your vote is counted"
VIEW = "step=1&screen=vote"  # the voting view of the lesson's first step
PROMPT = "Patient name:"
# What a class does, with its share: most of it is the lesson.
MIX = (("lesson", 0.45), ("playground", 0.1), ("prompt", 0.1), ("other", 0.35))


@dataclass
class Kept:
    """What became of rooms and votes."""

    returns: int = 0
    rooms_lost: int = 0
    votes_lost: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, room: bool, vote: bool) -> None:
        """Count one return, and what was kept."""
        with self._lock:
            self.returns += 1
            self.rooms_lost += not room
            self.votes_lost += not vote


class Student:
    """One browser of the class."""

    def __init__(self, address: str, room: str, pages: Sequence[str], rng: random.Random, dropped: float) -> None:
        """A browser with a seat of its own in this room."""
        self.address, self.room, self.pages, self.rng, self.dropped = address, room, pages, rng, dropped
        self.seat = secrets.token_urlsafe(16)
        self.session = Session(address, seat=self.seat)
        self.voted = False

    def join(self, measured: Measured) -> None:
        """Open the join link and vote."""
        self.session.connect()
        measured.add(lambda: self.session.open("lesson", f"room={self.room}&{VIEW}"))
        measured.add(lambda: self.session.press_key("lesson-1-0"))
        self.voted = KEPT in self.session.texts()
        if not self.voted:
            measured.errors.append("a vote was not counted")

    def act(self, measured: Measured, kept: Kept, pace: float) -> None:
        """Do one thing and read; perhaps lose the connection meanwhile."""
        lost = self.rng.random() < self.dropped
        early = lost and self.rng.random() < 0.5
        what = self.rng.choices([name for name, _ in MIX], [share for _, share in MIX])[0]
        if early:
            self._lose_while_drawing()
            self._return(measured, kept)
        elif what == "prompt":
            measured.add(lambda: self.session.open("playground", f"room={self.room}"))
            measured.add(lambda: self.session.write(PROMPT))
        else:
            page = self.rng.choice(self.pages) if what == "other" else what
            measured.add(lambda: self.session.open(page, f"room={self.room}"))
        reading(self.session, self.rng.expovariate(1 / pace), measured)
        if lost and not early:
            self.session.drop()
            self._return(measured, kept)

    def _lose_while_drawing(self) -> None:
        """Ask for a page and lose the connection before the answer."""
        self.session.ask_only(self.rng.choice(self.pages), f"room={self.room}")
        time.sleep(self.rng.uniform(0, 0.3))
        self.session.drop()

    def _return(self, measured: Measured, kept: Kept) -> None:
        """Come back, and look whether room and vote are still there."""
        time.sleep(self.rng.uniform(0, 3))
        if self.rng.random() < 0.5:
            self.session = Session(self.address, seat=self.seat)  # the page is loaded again
        try:
            self.session.connect()
        except OSError as error:
            measured.errors.append(f"no connection: {error}")
            return
        measured.add(lambda: self.session.open("lesson", f"room={self.room}&{VIEW}"))
        told = self.session.texts()
        kept.add(room=f"Class {self.room}" in told, vote=KEPT in told)


def measure(
    served: Served,
    *,
    sessions: int = SESSIONS,
    minutes: float = MINUTES,
    pace: float = PACE,
    dropped: float = DROPPED,
    seed: int = 0,
    pages: Sequence[str] = (),
) -> dict[str, Any]:
    """A class of so many sessions for so many minutes, as JSON."""
    from pages.parts.common.shell import page_names

    pages = pages or [page for page in page_names() if page not in ("home", "lesson")]
    measured, kept, memory = Measured(), Kept(), []
    first = alone(served.address, [*pages, "lesson"], 1)
    with Session(served.address) as host:
        host.open("lesson", "step=1")
        host.press("Open a class")
        room = _room(host.query)
        students = [
            Student(served.address, room, pages, random.Random(seed * 1_000 + number), dropped)
            for number in range(sessions)
        ]
        with ThreadPoolExecutor(sessions) as threads:
            list(threads.map(lambda one: one.join(measured), students))
            begun = time.monotonic()
            end = begun + 60 * minutes

            def course(one: Student) -> None:
                try:
                    while time.monotonic() < end:
                        one.act(measured, kept, pace)
                    one.session.close()
                except NoAnswer as error:
                    measured.errors.append(str(error))

            running = [threads.submit(course, one) for one in students]
            while not all(one.done() for one in running):
                memory.append((time.monotonic() - begun, served.memory()))
                reading(host, 5.0, measured)
            for one in running:
                one.result()
        host.open("lesson", f"room={room}&{host.query}")
        told = host.texts()
    begin, finish = _flat(memory)
    return {
        "sessions": sessions,
        "minutes": minutes,
        "connections_lost": kept.returns,
        "pages": _of(measured.seconds()),
        "polls": len(measured.polls),
        "errors": [*first.errors, *measured.errors],
        "tracebacks": served.tracebacks(),
        "rooms_lost": kept.rooms_lost,
        "votes_lost": kept.votes_lost,
        "browsers_counted_once": f"{sessions} browser{'s' * (sessions > 1)} joined" in told,
        "votes_counted_once": f"{sessions} prediction{'s' * (sessions > 1)} so far" in told,
        "memory_mib": {"after_warm_up": begin, "at_the_end": finish, "growth": round(finish - begin, 1)},
        "memory_each_minute": [round(value) for _, value in memory[:: max(1, len(memory) // max(1, round(minutes)))]],
        "goal_held": not (first.errors or measured.errors or kept.rooms_lost or kept.votes_lost)
        and finish - begin <= MOST_GROWTH,
    }


def _flat(memory: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Median memory in the second and in the last tenth of the time: in the first tenth, caches still fill."""
    whole = max(at for at, _ in memory) or 1.0
    early = [value for at, value in memory if whole * 0.1 <= at <= whole * 0.2] or [memory[0][1]]
    late = [value for at, value in memory if at >= whole * 0.9]
    return round(statistics.median(early), 1), round(statistics.median(late), 1)


def _room(query: str) -> str:
    return next(part.removeprefix("room=") for part in query.split("&") if part.startswith("room="))


def main(json: bool = False, seed: int = 0) -> None:
    """Start a server, let a class use it, and print."""
    with tempfile.TemporaryDirectory() as folder, serving(Path(folder) / "data", Path(folder) / "log.txt") as served:
        found = measure(served, seed=seed)
    if json:
        print(json_format.dumps(found, indent=1))
        return
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main(json="--json" in sys.argv)
