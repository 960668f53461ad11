"""What saturates first, from 30 to 10,000 users, 1,000 to 1,000,000 runs: `python -m core bench capacity --json`.

Service times are measured on this machine: the processor seconds of each page with stores of two sizes, of one poll of
a page's timer, of one prompt and of thirty together, and the memory of a session. How long a training takes is the
program's own estimate (`core.jobs.times`). From these follow, for each size, how much of each resource is asked for,
which is exhausted first, and how many there would have to be. Waiting times for pages are simulated
(`bench.load._simulation`). What cannot be run here is said to be computed: only the service times are measured.
"""

from __future__ import annotations

import json as json_format
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.load import many_runs
from bench.load._client import Session
from bench.load._server import serving
from bench.load._simulation import answers
from core.runs.store import DEMO

USERS, RUNS, NOTES = (30, 100, 300, 1_000, 3_000, 10_000), (10**3, 10**4, 10**5, 10**6), (10**5, 10**6, 10**7, 10**8)
# Assumptions about people and machines, which are no measurements.
READS, PROMPT_EVERY, TRAINS_EVERY, IN_LESSON = 20.0, 60.0, 3_600.0, 0.5  # seconds; share of users on a page that polls
POLL_EVERY, CORES, MEMORY_MIB, EURO_A_CORE_HOUR = 2.0, 8, 32_768, 0.04
GOAL = 3.0  # the 95th percentile of an answer, over that of one user alone
SLOW = 1.0  # processor seconds for one page, from which on a store is too large


@dataclass(frozen=True)
class Service:
    """Measured service times of one machine. Seconds are processor seconds, but for prompts; memory is in MiB."""

    pages: tuple[float, ...]  # each page, with the smaller store
    page_per_run: float  # more for each further run in the store, the page with the most
    run_mib: float  # on disk
    poll: float
    prompt: float  # wall seconds of a prompt among thirty
    server_mib: float
    session_mib: float


def measure(*, few: int = 50, many: int = 400, rounds: int = 3, sessions: int = 30, source: Path = DEMO) -> Service:
    """Measure this machine."""
    pages = many_runs.measure(rounds, few=few, many=many, source=source)["pages"]
    slopes = [(one["many"] - one["few"]) / (many - few) for one in pages.values()]
    with tempfile.TemporaryDirectory(prefix="phi-leak-lab-bench-") as folder:
        root = Path(folder)
        size = _disk(root, source)
        with serving(root / "data", root / "log.txt", source) as served:
            before, after, poll = _of_sessions(served.address, served.memory, served.seconds, sessions)
    return Service(
        pages=tuple(one["few"] for one in pages.values()),
        page_per_run=max(0.0, max(slopes)),
        run_mib=size,
        poll=poll,
        prompt=_prompt(),
        server_mib=after,
        session_mib=max(0.0, (after - before) / sessions),
    )


def _disk(root: Path, source: Path) -> float:
    """Mean MiB on disk of a run without weights, with its tables."""
    many_runs.fill(root / "sizes", 60, source=source)
    folders = [folder for folder in (root / "sizes" / "runs").iterdir() if not (folder / "model").is_dir()]
    files = [file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file()]
    return sum(files) / max(1, len(folders)) / 2**20


def _of_sessions(address: str, memory: Any, seconds: Any, sessions: int) -> tuple[float, float, float]:
    """The server's memory before and with so many sessions, and processor seconds of a poll of the lesson's timer."""
    from pages.parts.common.shell import page_names

    pages = page_names()
    with Session(address) as first:
        for page in pages:
            first.open(page)
        before = memory()
        others = [Session(address) for _ in range(sessions)]
        for number, one in enumerate(others):
            one.connect()
            one.open(pages[number % len(pages)])
        after = memory()
        for one in others:
            one.close()
        first.open("lesson", "step=1")
        first.press("Open a class")
        fragments = first.timers()
        begun = seconds()
        times = 50
        for _ in range(times):
            first.poll(fragments[0])
        return before, after, (seconds() - begun) / times


def _prompt() -> float:
    from bench.serving import PROMPTS
    from bench.serving import measure as prompts
    from core.models.build import load
    from core.spec import ModelSpec

    return prompts(3, lm=load(ModelSpec()))["thirty_prompts_over_one"]["seconds"]["above"] / PROMPTS


# Computed from these -------------------------------------------------------------------------------------------------


def run_seconds(notes: int) -> float:
    """Seconds of one core for a private GPT-2 run with its quick audit on a hospital of this size."""
    from core.jobs.times.costs import on_one_core, whole
    from core.spec import CORPUS_PRESETS, PrivacySpec, RunSpec, TrainingSpec

    usual = CORPUS_PRESETS["classroom"]
    corpus = usual.model_copy(update={"patients": max(4, round(notes / (0.7 * usual.notes_per_patient)))})
    spec = RunSpec(corpus=corpus, privacy=PrivacySpec(target_epsilon=8.0), training=TrainingSpec(epochs=4))
    return whole(on_one_core(spec))


def for_users(service: Service, users: int, rng: np.random.Generator, *, asked: int = 4_000) -> dict[str, Any]:
    """How much of each resource so many users ask for, and what it takes to serve them."""
    page = float(np.mean(service.pages))
    demand = {
        "interpreter": users * (page / READS + IN_LESSON * service.poll / POLL_EVERY),
        "model server": users * service.prompt / PROMPT_EVERY,
        "workers": users * run_seconds(3_000) / TRAINS_EVERY,
        "memory": (service.server_mib + users * service.session_mib) / MEMORY_MIB,
    }
    servers = _servers(service, users, rng, asked)
    cores = servers + demand["model server"] + demand["workers"]
    return {
        "users": users,
        "of_one": {name: round(value, 3) for name, value in demand.items()},
        "first": _first(demand),
        "p95_over_alone_with_one_server": _p95(service, users, rng, asked),
        "app_processes": servers,
        "workers": int(np.ceil(demand["workers"])),
        "cores": int(np.ceil(cores)),
        "machines": int(np.ceil(max(cores / CORES, demand["memory"]))),
        "euro_an_hour": round(float(np.ceil(cores)) * EURO_A_CORE_HOUR, 2),
    }


def _first(demand: Mapping[str, float]) -> str:
    """The resource of which the largest share is asked for, whether or not it is more than there is."""
    return max(demand, key=lambda name: demand[name])


def _p95(service: Service, users: int, rng: np.random.Generator, asked: int) -> float | None:
    """The 95th percentile of an answer with these users on one server, over that of one user; None: it never ends."""
    polls = users * IN_LESSON * service.poll / POLL_EVERY
    if polls >= 1:
        return None
    many = answers(users, READS, service.pages, asked=max(asked, 5 * users), rng=rng, poll=polls)
    return round(float(np.quantile(many, 0.95) / np.quantile(service.pages, 0.95)), 2)


def _servers(service: Service, users: int, rng: np.random.Generator, asked: int) -> int:
    """The fewest app processes, each with its share of the users, that hold the goal."""
    least, most = 0, users
    while most - least > 1:
        middle = (least + most) // 2
        ratio = _p95(service, -(-users // middle), rng, asked)
        least, most = (middle, most) if ratio is None or ratio > GOAL else (least, middle)
    return most


def for_runs(service: Service, runs: int) -> dict[str, Any]:
    """What a store of so many runs costs each page, and how large it is."""
    page = max(service.pages) + service.page_per_run * runs
    gib = runs * service.run_mib / 1024
    return {
        "runs": runs,
        "slowest_page_seconds": round(page, 2),
        "disk_gib": round(gib, 1),
        "first": "listing runs in each page" if page > SLOW else "nothing",
    }


def for_notes(notes: int) -> dict[str, Any]:
    """How long one training on so many notes takes."""
    hours = run_seconds(notes) / 3600
    return {
        "notes": notes,
        "training_hours_one_core": round(hours, 1),
        "euro": round(hours * EURO_A_CORE_HOUR, 2),
        "first": "training on processors" if hours > 24 else "nothing",
    }


def table(service: Service, *, users: Sequence[int] = USERS, seed: int = 0, asked: int = 4_000) -> dict[str, Any]:
    """Every size, as JSON."""
    rng = np.random.default_rng(seed)
    return {
        "measured": asdict(service),
        "users": [for_users(service, number, rng, asked=asked) for number in users],
        "runs": [for_runs(service, number) for number in RUNS],
        "notes": [for_notes(number) for number in NOTES],
    }


def main(json: bool = False, rounds: int = 3, seed: int = 0) -> None:
    """Measure, compute, and print."""
    found = table(measure(rounds=rounds), seed=seed)
    if json:
        print(json_format.dumps(found, indent=1))
        return
    for name in ("users", "runs", "notes"):
        for row in found[name]:
            print(row)


if __name__ == "__main__":
    main(json="--json" in sys.argv)
