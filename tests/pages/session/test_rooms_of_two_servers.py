"""Two servers on one data folder have the same class rooms: nothing is counted twice, and nothing is lost."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from core.common.database import DatabaseUnusable
from pages.parts.session.room_store import FILE, HOURS
from pages.parts.session.room_values import Audited, Tries, Vote
from pages.parts.session.rooms import Classroom, RoomGone
from tests.pages.visit import ROOT

SEATS, STEPS = 12, 5
# A server: thirty votes of the same browsers as every other server, in an order of its own. It prints what it was told.
SERVER = f"""
import json, random, sys
from pathlib import Path
from pages.parts.session.room_values import Tries, Vote
from pages.parts.session.rooms import Classroom
root, code, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
rooms, order = Classroom(root), [(seat, step) for seat in range({SEATS}) for step in range(1, {STEPS} + 1)]
random.Random(number).shuffle(order)
for seat, step in order:
    rooms.join(code, f"seat {{seat}}")
    told = rooms.predict(code, f"seat {{seat}}", step, f"of server {{number}}")
    new = rooms.unseen(code, [(seat, step, sample) for sample in range(3)])
    rooms.add_tries(code, "run", Tries(3, 1, 0))
    rooms.vote(code, "run", Vote(right=True, machine=False), 0)
    dealt = rooms.deal(code, "hospital", 6)[1].start
    print(json.dumps([seat, step, told, sum(new), dealt]), flush=True)
"""


@pytest.fixture
def servers(tmp_path: Path) -> tuple[Classroom, Classroom]:
    """The rooms as two servers have them: nothing in common but the folder."""
    return Classroom(tmp_path), Classroom(tmp_path)


def started(root: Path, code: str, number: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SERVER, str(root), code, str(number)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)  # noqa: S603


def test_a_student_on_the_other_server_is_in_the_class(servers: tuple[Classroom, Classroom]) -> None:
    one, two = servers
    code, key = one.open()
    assert code in two and two.hosts(code, key) and not two.hosts(code, "another key")
    assert two.join(code, "seat") == 0 and one.counts(code).joined == 1
    assert two.answer(code, "seat", 0, 2, after=False) and one.answers(code, "seat").before == (2, None, None)
    assert two.predict(code, "seat", 1, "a") and not one.predict(code, "seat", 1, "b"), "one browser has one vote"
    one.lead(code, "lesson", [("step", "2")])
    one.reveal(code, 1)
    one.count_down(code, 60)
    one.choose(code, Audited("run", helped=True))
    two.vote(code, "run", Vote(right=True, machine=False, helped=True), 0)
    two.vote(code, "run", Vote(right=False, machine=True), 0)
    one.add_tries(code, "run", Tries(8, 2, 1))
    assert one.unseen(code, ["a", "b"]) == [True, True] and two.unseen(code, ["b", "c", "c"]) == [False, True, False]
    assert one.deal(code, "hospital", 6)[1] == range(6) and two.deal(code, "hospital", 6)[1] == range(6, 12)
    assert one.deal(code, "hospital", 1)[0] == two.deal(code, "hospital", 1)[0], "both deal from one deck"
    now = two.counts(code)
    assert now == one.counts(code)
    assert now.lead is not None and now.lead.page == "lesson" and now.revealed == {1} and now.ends is not None
    assert now.votes["run"] == (Vote(True, False, True), Vote(False, True)) and now.audited == Audited("run", True)
    assert now.predictions == {1: {"a": 1}} and now.tries == {"run": Tries(8, 2, 1)}
    two.reset(code)
    assert one.counts(code).round == 1 and one.counts(code).predictions == {} and one.unseen(code, ["a"]) == [True]


def test_servers_that_count_at_once_lose_no_vote_and_count_none_twice(tmp_path: Path) -> None:
    rooms = Classroom(tmp_path)
    code, _ = rooms.open()
    running = [started(tmp_path, code, number) for number in range(4)]
    while any(one.poll() is None for one in running):
        assert rooms.counts(code).joined <= SEATS  # as the presenter's page, meanwhile
        time.sleep(0.01)
    told = [json.loads(line) for one in running for line in one.communicate()[0].splitlines()]
    assert len(told) == 4 * SEATS * STEPS and all(one.returncode == 0 for one in running)
    counted = Counter((seat, step) for seat, step, counts, _, _ in told if counts)
    assert len(counted) == SEATS * STEPS and set(counted.values()) == {1}, "each browser's step on one server"
    now = rooms.counts(code)
    assert now.joined == SEATS and {step: votes.total() for step, votes in now.predictions.items()} == dict.fromkeys(
        range(1, STEPS + 1), SEATS
    )
    assert sum(new for *_, new, _ in told) == SEATS * STEPS * 3, "each sample is new once"
    assert now.tries["run"] == Tries(4 * 60 * 3, 4 * 60, 0) and len(now.votes["run"]) == 4 * 60
    assert sorted(dealt for *_, dealt in told) == list(range(0, 4 * 60 * 6, 6)), "no note is dealt twice"


def test_a_server_that_is_killed_loses_nothing_that_it_has_said(tmp_path: Path) -> None:
    rooms, rng = Classroom(tmp_path), random.Random(0)
    code, _ = rooms.open()
    said = 0
    for number in range(6):
        victim = started(tmp_path, code, number)
        assert victim.stdout is not None
        for _ in range(number + 1):
            assert victim.stdout.readline()
        time.sleep(rng.uniform(0, 0.05))
        victim.send_signal(signal.SIGKILL)
        said += number + 1 + len(victim.communicate()[0].splitlines())
        now = rooms.counts(code)  # at once: a dead process holds nobody up
        assert said <= now.tries["run"].samples / 3 <= said + number + 1, "at most one more of each"
        votes = sum(votes.total() for votes in now.predictions.values())
        assert votes == sum(len(rooms.answers(code, f"seat {seat}").predictions) for seat in range(SEATS))
    assert rooms.predict(code, "another seat", 1, "a")


def test_a_room_is_removed_when_it_was_unused_for_hours_or_its_file_is_gone(
    servers: tuple[Classroom, Classroom], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = servers
    one.clear_out()
    assert not (tmp_path / FILE).exists(), "nothing to clear out, and no file made for it"
    (code, _), (used, _) = one.open(), one.open()
    two.unseen(code, ["sample"])
    two.counts(used)
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + HOURS * 3600 - 60)
    monkeypatch.setattr("pages.parts.session.room_store.USED_SECONDS", 0.0)
    two.counts(used)  # a page that is open looks every two seconds
    two.clear_out()
    assert code in one._store._database.path.read_bytes().decode("latin-1")
    monkeypatch.setattr("time.time", lambda: now + HOURS * 3600 + 60)
    two.clear_out()
    assert code not in one and used in one
    with pytest.raises(RoomGone, match="this class has ended"):
        one.counts(code)
    assert code.encode() not in (tmp_path / FILE).read_bytes(), "overwritten, with the samples"
    (tmp_path / FILE).unlink()
    assert used not in one and used not in two
    again, _ = two.open()
    assert again in one


@pytest.mark.parametrize("code", ["", "../AB", "ABCDE\n", "abcde", "ABCDEF", "ABCD0", "' OR '", "\x00" * 5])
def test_what_is_no_code_is_no_room(servers: tuple[Classroom, Classroom], code: str) -> None:
    servers[0].open()
    assert code not in servers[0] and not servers[0].hosts(code, "key")


def test_a_damaged_room_has_ended_and_a_damaged_file_is_one_sentence(tmp_path: Path) -> None:
    rooms = Classroom(tmp_path)
    code, _ = rooms.open()
    with rooms._store.changing() as stored:
        stored.write(code, b'{"round": "many"}')
    assert code not in rooms and rooms.open()[0] in rooms
    with pytest.raises(RoomGone, match="damaged"):
        rooms.join(code, "seat")
    (tmp_path / FILE).write_bytes(b"no database" * 1_000)
    with pytest.raises(DatabaseUnusable, match="cannot be used"):
        Classroom(tmp_path).open()
