"""A sweep on several hosts that share only a store, with losses: `python -m core bench scale-out --json`.

Each worker, and the command with the scheduler, is on a host of its own (`bench.load._hosts`): a network namespace with
its own address, account and data folder, or a loopback address without root. The store is a folder that all hosts see,
which stands for a bucket. Processes are real: `dask scheduler`, `dask worker` with one thread, `python -m core sweep`.

While the sweep runs, one worker gets SIGKILL in training, one in the audit of a run, and the scheduler once. Like a
service manager, the script starts again what has ended. Then the sweep is made once more by one process on one machine,
and compared: the same runs, each made once, with the same ε, the same figures, and the same weights bit for bit.

`--rounds 1` makes one seed of each ε instead of three, and `--epsilon inf,8` fewer values. `--workers` is their number.
"""

from __future__ import annotations

import contextlib
import json as json_format
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench._ratio import check_rounds
from bench.load import _timeline
from bench.load._hosts import WHY_NOT, Host, hosts, may_isolate

ROOT = Path(__file__).resolve().parents[2]
EPSILON = "inf,32,16,8,4,2,1"
SWEEP = ("--corpus", "smoke", "--size", "micro", "--epochs", "2", "--samples-per-prompt", "1")
LOSSES = 3
LOOK, AGAIN, START, LIMIT = 0.25, 2.0, 180.0, 4 * 3600.0  # seconds
OFFICE, PORT = "office", 8786
WEIGHTS = "model/model.safetensors"
Command = tuple[str, ...]


@dataclass
class Service:
    """A process on a host that is started again when it has ended."""

    host: Host
    command: Command
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    ended: float = 0.0

    def keep(self) -> None:
        """Start it, also again, two seconds after it was found to have ended."""
        now = time.monotonic()
        if self.process is not None and self.process.poll() is None:
            return
        if self.process is not None and not self.ended:
            self.ended = now
        if self.process is None or now - self.ended > AGAIN:
            self.ended, self.starts = 0.0, self.starts + 1
            with (self.host.folder / "log.txt").open("a") as log:
                self.process = self.host.start(self.command, self.environment, log, log)

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it without waiting for anything."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(how)
            self.process.wait()


@dataclass
class Faults:
    """What is killed when: in training, in an audit, and the scheduler, in this order, spread over the sweep."""

    office: Host
    store: Path
    runs: int
    wanted: int = LOSSES
    done: list[dict[str, Any]] = field(default_factory=list)

    def next(self, workers: dict[str, Service], scheduler: Service) -> None:
        """Kill the next one if its moment has come."""
        finished = len(list((self.office.folder / "data" / "runs").glob("*/status.json")))
        if len(self.done) == self.wanted or finished < len(self.done) * self.runs // 4:
            return
        tasks = _timeline.under_way(_timeline.read(self.office.folder / "timeline.jsonl"))
        if len(self.done) == 2:
            if tasks:
                self._kill(scheduler, "scheduler", {"runs_under_way": len(tasks)}, finished)
            return
        wanted = self._in_audit if self.done else self._in_training
        for task, worker in tasks.items():
            run_id = task.rsplit("-", 2)[0]
            where = wanted(run_id, _last(self.office, run_id))
            if where is not None:
                kind = "worker in the audit" if self.done else "worker in training"
                self._kill(workers[worker], kind, {"run": run_id, "worker": worker, **where}, finished)
                return

    def _in_training(self, run_id: str, last: dict[str, Any]) -> dict[str, Any] | None:
        """In the second epoch, when the run has a checkpoint at least on that host."""
        told = {
            "step": last.get("step"),
            "checkpoint_in_store": (self.store / "checkpoints" / f"{run_id}.json").exists(),
        }
        return told if last.get("stage") == "training" and last.get("epoch") == 2 else None

    @staticmethod
    def _in_audit(run_id: str, last: dict[str, Any]) -> dict[str, Any] | None:
        stage = str(last.get("stage"))
        return {"stage": stage} if stage.startswith("audit") else None

    def _kill(self, service: Service, what: str, told: dict[str, Any], finished: int) -> None:
        service.kill()
        self.done.append({"killed": what, **told, "runs_done": finished})
        print(self.done[-1], file=sys.stderr, flush=True)


def _last(office: Host, run_id: str) -> dict[str, Any]:
    """The stage of a job as the command's host sees it, and in training the last step's epoch and number."""
    last: dict[str, Any] = {}
    with contextlib.suppress(OSError):
        for line in (office.folder / "data" / "work" / run_id / "events.jsonl").read_text().splitlines():
            with contextlib.suppress(ValueError):
                event = json_format.loads(line)
                if event["event"] == "stage":
                    last = {"stage": event["stage"]}
                elif event["event"] == "step":
                    last |= {"epoch": event["epoch"], "step": event["step"]}
    return last


# The sweep on hosts --------------------------------------------------------------------------------------------------


def on_hosts(
    root: Path, epsilon: str, seeds: int, workers: int, *, isolated: bool, losses: int = LOSSES
) -> dict[str, Any]:
    """The sweep on `workers` hosts with so many losses: what was killed, each worker's time, and its seconds."""
    names = [OFFICE, *(f"worker-{number}" for number in range(1, workers + 1))]
    runs = seeds * len(epsilon.split(","))
    with hosts(root, names, isolated=isolated) as there:
        office = there[OFFICE]
        port = PORT if isolated else _free_port(office.address)
        address = f"tcp://{office.address}:{port}"
        scheduler = Service(office, _scheduler(office, port), _environment(office, root))
        every = {
            name: Service(host, _worker(host, address), _environment(host, root))
            for name, host in there.items()
            if name != OFFICE
        }
        with _ended([scheduler, *every.values()]):
            begun = _wait_for(scheduler, every, office.folder / "timeline.jsonl")
            command = (*_sweep(epsilon, seeds), "--scheduler", address, "--json")
            faults = Faults(office, root / "store", runs, losses)
            _run_sweep(office, command, _environment(office, root), lambda: _look(scheduler, every, faults))
            seconds = time.time() - begun
        records = [one for one in _timeline.read(office.folder / "timeline.jsonl")]
        return {
            "hosts": "network namespaces" if isolated else "loopback addresses",
            "accounts": "one each" if isolated else "one",
            "store": "a folder that all hosts see (file://)",
            "workers": workers,
            "seconds": seconds,
            "faults": faults.done,
            "starts": {"scheduler": scheduler.starts, **{name: one.starts for name, one in every.items()}},
            "timeline": _timeline.shares(_since(records, begun), begun + seconds),
        }


def _look(scheduler: Service, workers: dict[str, Service], faults: Faults) -> None:
    faults.next(workers, scheduler)
    for service in (scheduler, *workers.values()):
        service.keep()


def _run_sweep(host: Host, command: Command, environment: dict[str, str], look: Callable[[], None]) -> None:
    """Run the command on its host, calling `look` meanwhile. Raises RuntimeError if it fails."""
    with (host.folder / "sweep.json").open("w") as out, (host.folder / "sweep.txt").open("w") as said:
        process = host.start(command, environment, out, said)
        end = time.monotonic() + LIMIT
        try:
            while process.poll() is None and time.monotonic() < end:
                look()
                time.sleep(LOOK)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise RuntimeError(f"the sweep failed: {(host.folder / 'sweep.txt').read_text()[-2000:]}")


def _wait_for(scheduler: Service, workers: dict[str, Service], timeline: Path) -> float:
    """Start everything, and wait until all workers have joined; the time of that."""
    end = time.monotonic() + START
    while time.monotonic() < end:
        for service in (scheduler, *workers.values()):
            service.keep()
        joined = {one["worker"] for one in _timeline.read(timeline) if one["what"] == "join"}
        if joined >= set(workers):
            return time.time()
        time.sleep(LOOK)
    logs = {name: (one.host.folder / "log.txt").read_text()[-500:] for name, one in workers.items()}
    raise RuntimeError(f"not all workers came: {logs}")


def _since(records: list[_timeline.Record], begun: float) -> list[_timeline.Record]:
    """The events with nothing before `begun`: what happened earlier counts as if it happened then."""
    return [{**one, "time": max(begun, one["time"])} for one in records]


@contextlib.contextmanager
def _ended(services: list[Service]) -> Iterator[None]:
    try:
        yield
    finally:
        for service in services:
            service.kill()


def _environment(host: Host, root: Path) -> dict[str, str]:
    """What a process on a host finds: its data folder and the store, and nothing that is shipped."""
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PHILAB_", "AWS_", "DASK_"))},
        "PATH": os.environ.get("PATH", os.defpath),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PHILAB_DATA": str(host.home / "data"),
        "PHILAB_STORE": (root / "store").as_uri(),
        "PHILAB_SHIPPED": os.devnull,
        "PHI_TIMELINE": str(host.home / "timeline.jsonl"),
    }


def _scheduler(host: Host, port: int) -> Command:
    place = ("--host", f"tcp://{host.address}", "--port", str(port), "--no-dashboard")
    preload = ("--preload", str(Path(_timeline.__file__)))
    return (sys.executable, "-m", "distributed.cli.dask_scheduler", *place, *preload)


def _worker(host: Host, address: str) -> Command:
    own = ("--name", host.name, "--host", host.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")
    where = ("--local-directory", str(host.home / "tmp"), "--death-timeout", "60")
    return (sys.executable, "-m", "distributed.cli.dask_worker", address, *own, *where)


def _sweep(epsilon: str, seeds: int) -> Command:
    return (sys.executable, "-m", "core", "sweep", "--epsilon", epsilon, "--seeds", str(seeds), *SWEEP)


def _free_port(address: str) -> int:
    with socket.create_server((address, 0)) as free:
        return int(free.getsockname()[1])


# The comparison ------------------------------------------------------------------------------------------------------


def on_one_machine(root: Path, epsilon: str, seeds: int) -> float:
    """The sweep by one process, with no store and no scheduler, in `root/one/data`; seconds of it."""
    folder = root / "one"
    (folder / "data").mkdir(parents=True)
    host = Host("one", "", folder, folder)
    environment = {**_environment(host, root), "PHILAB_STORE": ""}
    begun = time.monotonic()
    _run_sweep(host, (*_sweep(epsilon, seeds), "--json"), environment, lambda: None)
    return time.monotonic() - begun


def compared(root: Path) -> dict[str, Any]:
    """The sweep on hosts against the one on one machine: runs that are missing, made twice, or differ, and how."""
    here = {run["run"]: run for run in json_format.loads((root / "one" / "sweep.json").read_text())}
    there = {run["run"]: run for run in json_format.loads((root / "hosts" / OFFICE / "sweep.json").read_text())}
    folders = root / "one" / "data" / "runs", root / "hosts" / OFFICE / "data" / "runs"
    made = sorted(path.name for path in folders[0].iterdir())
    both = [run_id for run_id in made if (folders[1] / run_id).is_dir()]
    return {
        "runs": len(here),
        "controls": len(made) - len(here),
        "missing": sorted(set(made) - set(both)),
        "not_asked_for": sorted({path.name for path in folders[1].iterdir()} - set(made)),
        "made_more_than_once": _made_more_than_once(root),
        "other_weights": [
            run for run in both if _content(folders[0] / run / WEIGHTS) != _content(folders[1] / run / WEIGHTS)
        ],
        "other_epsilon": [run for run in here if run in there and here[run]["epsilon"] != there[run]["epsilon"]],
        "other_figures": [run for run in here if run in there and here[run]["metrics"] != there[run]["metrics"]],
        "left_in_the_store": sorted(
            path.name for kind in ("leases", "checkpoints", "seen") for path in (root / "store" / kind).glob("[!.]*")
        ),
    }


def _made_more_than_once(root: Path) -> list[str]:
    """Runs that different hosts have with different times: each of them has made the run to its end."""
    times: dict[str, set[bytes]] = {}
    for status in (root / "hosts").glob("*/data/runs/*/status.json"):
        times.setdefault(status.parent.name, set()).add(status.read_bytes())
    return sorted(run for run, found in times.items() if len(found) > 1)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def measure(
    seeds: int = 3,
    *,
    epsilon: str = EPSILON,
    workers: int = 3,
    losses: int = LOSSES,
    isolated: bool | None = None,
    folder: Path | None = None,
) -> dict[str, Any]:
    """The sweep on hosts and on one machine, and the comparison, as JSON. `folder` is kept, and must not exist."""
    if isolated is None:
        isolated = may_isolate()
        if not isolated:
            print(WHY_NOT, file=sys.stderr, flush=True)
    root = Path(tempfile.mkdtemp(prefix="phi-leak-lab-bench-")) if folder is None else folder
    root.mkdir(exist_ok=True)
    try:
        found = on_hosts(root, epsilon, seeds, workers, isolated=isolated, losses=losses)
        found["seconds_on_one_machine"] = on_one_machine(root, epsilon, seeds)
        found |= {"epsilon": epsilon, "seeds": seeds, **compared(root)}
    finally:
        if folder is None:
            shutil.rmtree(root, ignore_errors=True)
    wrong = ("missing", "not_asked_for", "made_more_than_once", "other_weights", "other_epsilon", "other_figures")
    found["goal_held"] = not any(found[name] for name in wrong) and len(found["faults"]) == losses
    return found


def main(json: bool = False, rounds: int = 3, epsilon: str = EPSILON, workers: int = 3) -> None:
    """Make the sweep on hosts, with losses, and on one machine, and print what differs."""
    check_rounds(rounds)
    found = measure(rounds, epsilon=epsilon, workers=workers)
    if json:
        print(json_format.dumps(found, indent=1))
        return
    print(f"{found['runs']} runs on {workers} hosts ({found['hosts']}): {found['seconds']:.0f} s")
    print(f"on one machine: {found['seconds_on_one_machine']:.0f} s")
    for fault in found["faults"]:
        print(f"killed: {fault}")
    for worker, told in found["timeline"].items():
        print(f"{worker}: busy {told['busy']:.0f} of {told['connected']:.0f} s")
    print("every run once, the same ε, figures and weights" if found["goal_held"] else f"differs: {found}")
