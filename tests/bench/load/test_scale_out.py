"""The sweep on hosts, at a small scale: what is counted, what a timeline says, and what the comparison finds."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.load import _hosts, _timeline, scale_out
from bench.load._hosts import Host


def event(time: float, what: str, worker: str = "", task: str = "") -> dict[str, object]:
    return {"time": time, "what": what, **({"worker": worker} if worker else {}), **({"task": task} if task else {})}


RECORDS = [
    event(0, "start"),
    event(1, "join", "a"),
    event(2, "join", "b"),
    event(3, "begin", "a", "run-1-1"),
    event(4, "begin", "b", "run-2-2"),
    event(5, "begin", "b", "run-3-3"),  # one that waits on the worker for the other
    event(6, "end", "b", "run-2-2"),
    event(7, "leave", "a"),
    event(7, "end", "a", "run-1-1"),
    event(8, "start"),  # the scheduler was killed at 7 or later: nobody can say when its tasks ended
    event(9, "join", "a"),
    event(10, "begin", "a", "run-3-4"),
]


def test_a_timeline_gives_each_workers_busy_share() -> None:
    found = _timeline.shares(RECORDS, 12)
    assert found["a"] == {"busy": 4 + 2, "connected": 6 + 3, "share": 6 / 9}
    assert found["b"] == {"busy": 3, "connected": 5, "share": 3 / 5}
    assert _timeline.under_way(RECORDS[:6]) == {"run-1-1": "a", "run-2-2": "b", "run-3-3": "b"}
    assert _timeline.under_way(RECORDS) == {"run-3-4": "a"}
    assert _timeline.shares([], 1) == {}


def test_an_event_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    assert _timeline.read(tmp_path / "none") == []
    timeline = _timeline.Timeline(tmp_path / "file")
    timeline.note("join", worker="a")
    with (tmp_path / "file").open("a") as file:
        file.write('{"time": 1, "wh')
    (found,) = _timeline.read(tmp_path / "file")
    assert (found["what"], found["worker"]) == ("join", "a")


def test_a_task_that_the_scheduler_moves_is_followed(tmp_path: Path) -> None:
    timeline, task = _timeline.Timeline(tmp_path / "file"), SimpleNamespace(processing_on=SimpleNamespace(name="a"))
    timeline.scheduler = SimpleNamespace(tasks={"run-1-1": task})
    timeline.transition("run-1-1", "released", "processing")
    timeline.look()
    task.processing_on = SimpleNamespace(name="b")
    timeline.look()
    assert _timeline.under_way(_timeline.read(tmp_path / "file")) == {"run-1-1": "b"}
    task.processing_on = None
    timeline.look()
    timeline.transition("run-1-1", "processing", "memory")
    told = [(one["what"], one["worker"]) for one in _timeline.read(tmp_path / "file")]
    assert told == [("begin", "a"), ("end", "a"), ("begin", "b"), ("end", "b")]


def store_run(root: Path, run_id: str, *, weights: str = "same", status: str = "first") -> None:
    folder = root / "data" / "runs" / run_id
    (folder / "model").mkdir(parents=True)
    (folder / scale_out.WEIGHTS).write_text(weights)
    (folder / "status.json").write_text(status)


def described(run_id: str, **changes: object) -> dict[str, object]:
    return {"run": run_id, "epsilon": 8.0, "metrics": [{"value": 1.0}], **changes}


def test_the_comparison_names_every_run_that_differs(tmp_path: Path) -> None:
    one, office, worker = tmp_path / "one", tmp_path / "hosts" / "office", tmp_path / "hosts" / "worker-1"
    for run_id in ("same", "weights", "epsilon", "figures", "twice", "gone"):
        store_run(one, run_id)
    for run_id in ("same", "epsilon", "figures", "twice", "more"):
        store_run(office, run_id)
    store_run(office, "weights", weights="other")
    store_run(worker, "same")
    store_run(worker, "twice", status="second")
    (one / "sweep.json").write_text(json.dumps([described(run) for run in ("same", "weights", "epsilon", "figures")]))
    there = [
        described("same"),
        described("weights"),
        described("epsilon", epsilon=7.9),
        described("figures", metrics=[{"value": 1.1}]),
    ]
    (office / "sweep.json").write_text(json.dumps(there))
    (tmp_path / "store" / "leases").mkdir(parents=True)
    (tmp_path / "store" / "leases" / "same.0").touch()
    assert scale_out.compared(tmp_path) == {
        "runs": 4,
        "controls": 2,
        "missing": ["gone"],
        "not_asked_for": ["more"],
        "made_more_than_once": ["twice"],
        "other_weights": ["weights"],
        "other_epsilon": ["epsilon"],
        "other_figures": ["figures"],
        "left_in_the_store": ["same.0"],
    }


def test_faults_come_in_their_order_and_at_their_moments(tmp_path: Path) -> None:
    office = Host("office", "", tmp_path, tmp_path)
    killed: list[str] = []

    class Recorded(scale_out.Service):
        def kill(self, how: object = None) -> None:
            killed.append(self.host.name)

    def service(name: str) -> scale_out.Service:
        return Recorded(Host(name, "", tmp_path, tmp_path), (), {})

    workers, scheduler = {"a": service("a"), "b": service("b")}, service("scheduler")
    faults = scale_out.Faults(office, tmp_path / "store", runs=4)
    timeline = _timeline.Timeline(tmp_path / "timeline.jsonl")
    work = tmp_path / "data" / "work" / "run-1"
    work.mkdir(parents=True)

    def tell(**fields: object) -> None:
        with (work / "events.jsonl").open("a") as file:
            file.write(json.dumps(fields) + "\n")
        faults.next(workers, scheduler)

    timeline.note("begin", worker="b", task="run-1-77-1")
    tell(event="stage", stage="training")
    tell(event="step", epoch=1, step=6)
    assert killed == []
    tell(event="step", epoch=2, step=7)
    assert killed == ["b"] and faults.done[0]["step"] == 7 and faults.done[0]["checkpoint_in_store"] is False
    tell(event="stage", stage="audit: extraction")
    assert killed == ["b"], "a quarter of the runs must be done first"
    store_run(tmp_path, "run-0")
    tell(event="stage", stage="audit: membership")
    assert killed == ["b", "b"] and faults.done[1]["stage"] == "audit: membership"
    faults.next(workers, scheduler)
    store_run(tmp_path, "run-2")
    faults.next(workers, scheduler)
    faults.next(workers, scheduler)
    assert killed == ["b", "b", "scheduler"] and len(faults.done) == 3


def test_without_root_hosts_are_addresses_with_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_hosts.os, "geteuid", lambda: 1000)
    assert not _hosts.may_isolate()
    with _hosts.hosts(tmp_path, ["one", "two"], isolated=False) as found:
        assert [host.address for host in found.values()] == ["127.0.0.2", "127.0.0.3"]
        with (tmp_path / "said").open("w") as said:
            process = found["two"].start(("sh", "-c", "pwd; echo $HOME $GIVEN"), {"GIVEN": "this"}, said, said)
            assert process.wait() == 0
        home = tmp_path / "hosts" / "two"
        assert (tmp_path / "said").read_text().split() == [str(home), str(home), "this"]


def test_a_service_is_started_again_and_ends_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale_out, "AGAIN", 0.0)
    service = scale_out.Service(Host("a", "", tmp_path, tmp_path), ("sleep", "60"), {"PATH": "/usr/bin:/bin"})
    service.keep()
    first = service.process
    service.keep()
    assert service.process is first and service.starts == 1
    service.kill()
    service.keep()  # notices
    service.keep()
    assert service.process is not first and service.starts == 2
    service.kill()
    assert service.process.poll() is not None


@pytest.mark.slow
def test_two_workers_make_a_sweep_that_is_the_same_on_one_machine(tmp_path: Path) -> None:
    """Without losses: `tests/jobs/test_workers_by_store.py` has those, with leases that end after seconds."""
    found = scale_out.measure(1, epsilon="8", workers=2, losses=0, isolated=False, folder=tmp_path / "bench")
    assert found["hosts"] == "loopback addresses" and (found["runs"], found["controls"]) == (1, 1)
    assert found["faults"] == [] and set(found["starts"].values()) == {1} and found["goal_held"]
    differs = ("missing", "made_more_than_once", "other_weights", "other_epsilon", "other_figures", "left_in_the_store")
    assert {name: found[name] for name in differs} == {name: [] for name in differs}
    shares = sorted(told["share"] for told in found["timeline"].values())
    assert shares[0] == 0 < shares[1] <= 1, "one run: one worker has it, the other nothing"
