"""The measurements of load at a small scale, and that what they count can be found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bench.load import capacity, many_runs, sessions, soak
from bench.load._client import Drawn, NoAnswer, Session
from bench.load._server import Served, serving
from bench.load._simulation import WARM_UP, answers, exact_mean

PAGES = ["glossary", "ledger"]
SERVICE = capacity.Service(
    pages=(0.05, 0.1, 0.3), page_per_run=1e-4, run_mib=0.1, poll=0.005, prompt=0.01, server_mib=800, session_mib=1.5
)


@pytest.fixture(scope="module")
def served(smoke_workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(smoke_workspace, folder / "data")  # sessions press buttons, some of which write
    with serving(folder / "data", folder / "log.txt", Path(os.devnull)) as one:
        yield one


@pytest.mark.slow
def test_sessions_draw_every_page_alone_and_together(served) -> None:
    found = sessions.measure(served, PAGES, sessions=3, rounds=1, pace=0.2, trainings=0)
    assert (found["errors"], found["tracebacks"], found["jobs_in_the_queue"]) == ([], 0, 0)
    assert [found["all_pages"][name]["count"] for name in ("alone", "class", "moment")] == [2, 6, 6]
    assert all(found["pages"][page]["moment"]["count"] == 3 for page in PAGES)
    assert all(ratio > 0 for ratio in found["p95_over_alone"].values())


@pytest.mark.slow
def test_a_class_that_loses_every_connection_keeps_rooms_and_votes(served) -> None:
    found = soak.measure(served, sessions=2, minutes=0.1, pace=0.3, dropped=1.0, pages=PAGES)
    assert (found["errors"], found["rooms_lost"], found["votes_lost"], found["tracebacks"]) == ([], 0, 0, 0)
    assert found["connections_lost"] >= 2 and found["browsers_counted_once"] and found["votes_counted_once"]
    assert found["goal_held"] == (found["memory_mib"]["growth"] <= soak.MOST_GROWTH)


@pytest.mark.slow
def test_a_session_resumes_by_its_id_and_says_what_a_page_lacks(served) -> None:
    with Session(served.address) as session:
        assert session.open("ledger").elements > 5 and session.id
        before = session.id
        session.drop()
        with pytest.raises(AssertionError):
            session.send(b"")
        session.connect()
        session.open("glossary")
        assert session.id == before
        for act in (
            lambda: session.press("No such button"),
            lambda: session.press_key("none"),
            lambda: session.write("x"),
        ):
            with pytest.raises(LookupError):
                act()


@pytest.mark.slow
def test_each_page_is_measured_with_both_stores(smoke_workspace, capsys) -> None:
    before = {name: os.environ.get(name) for name in ("PHILAB_DATA", "PHILAB_SHIPPED")}
    found = many_runs.measure(1, few=3, many=6, pages=["glossary", "train"], source=smoke_workspace)
    assert found["runs"] == {"few": 3, "many": 6} and set(found["pages"]) == {"glossary", "train"}
    assert all(one["few"] > 0 and one["many"] > 0 for one in found["pages"].values())
    assert before == {name: os.environ.get(name) for name in before}


def test_an_error_is_counted() -> None:
    measured, kept = sessions.Measured(), soak.Kept()

    def gone() -> Drawn:
        raise NoAnswer("home: closed")

    assert measured.add(gone) is None
    measured.add(lambda: Drawn("home", 1.0, 3, ["home: ValueError: no"]))
    assert measured.errors == ["home: closed", "home: ValueError: no"] and list(measured.seconds("home")) == [1.0]
    kept.add(room=True, vote=False)
    kept.add(room=False, vote=True)
    assert (kept.returns, kept.rooms_lost, kept.votes_lost) == (2, 1, 1)


@pytest.mark.parametrize(
    ("people", "think", "work"), [(1, 1.0, 1.0), (30, 20.0, 0.2), (30, 2.0, 0.2), (100, 20.0, 0.2)]
)
def test_the_simulation_has_the_exact_mean(people: int, think: float, work: float) -> None:
    found = answers(people, think, [work], asked=20_000, rng=np.random.default_rng(0))
    mean, busy = exact_mean(people, think, work)
    assert len(found) == round(20_000 * (1 - WARM_UP)) and abs(found.mean() / mean - 1) < 0.05
    assert 0 < busy <= 1 and found.min() >= work - 1e-9


def test_timers_take_their_share_of_the_processor() -> None:
    rng = np.random.default_rng(0)
    assert answers(1, 1.0, [0.2], asked=50, rng=rng, poll=0.5) == pytest.approx(0.4)


def test_more_users_need_more_servers_and_a_larger_store_is_slower() -> None:
    found = capacity.table(SERVICE, users=(30, 1_000), asked=500)
    few, many = found["users"]
    assert few["app_processes"] < many["app_processes"] and few["cores"] < many["cores"]
    assert many["of_one"]["model server"] == pytest.approx(1_000 * 0.01 / capacity.PROMPT_EVERY, abs=1e-3)
    assert {one["first"] for one in found["users"]} <= {"interpreter", "model server", "workers", "memory"}
    assert [one["slowest_page_seconds"] for one in found["runs"]] == [0.4, 1.3, 10.3, 100.3]
    hours = [one["training_hours_one_core"] for one in found["notes"]]
    assert hours == sorted(hours) and 5 < hours[2] / hours[1] < 11, "in proportion to the notes"
