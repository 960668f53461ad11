"""A class's counts are exact under thirty threads, bounded, and hold nothing but numbers."""

from __future__ import annotations

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
import segno
import streamlit as st

from pages.parts.lesson import classroom_link
from pages.parts.session import classroom
from pages.parts.session.room_values import AFTER, Tries
from pages.parts.session.rooms import ALPHABET, MOST_KEYS, MOST_ROOMS, Classroom, RoomsFull

STUDENTS = 30


@pytest.fixture
def rooms(tmp_path: Path) -> Classroom:
    """The rooms of an empty data folder."""
    return Classroom(tmp_path)


def test_browsers_beyond_the_seats_of_a_room_do_not_count(monkeypatch, rooms):
    monkeypatch.setattr("pages.parts.session.rooms.MOST_SEATS", 2)
    code, _ = rooms.open()
    for seat in ("one", "two", "three", "three"):
        rooms.join(code, seat)
    assert rooms.predict(code, "one", 1, "a")
    assert not any(rooms.predict(code, "three", 1, "a") for _ in range(4))
    assert not rooms.answer(code, "three", 0, 1, after=False) and rooms.answer(code, "two", 0, 1, after=False)
    counts = rooms.counts(code)
    assert (counts.joined, counts.predictions, len(counts.learned)) == (2, {1: {"a": 1}}, 1)


def test_thirty_students_at_once_are_all_counted(rooms):
    code, _ = rooms.open()
    other, _ = rooms.open()

    def student(number: int) -> None:
        for _ in range(2):  # the second time from the same browser
            rooms.join(code, f"seat {number}")
            for step in range(1, 6):
                rooms.predict(code, f"seat {number}", step, "abc"[(number + step) % 3])
            for _ in range(50):
                rooms.add_tries(code, "run", Tries(8, number % 3, 1))

    with ThreadPoolExecutor(STUDENTS) as pool:
        list(pool.map(student, range(STUDENTS)))
    counts = rooms.counts(code)
    assert counts.joined == STUDENTS
    assert counts.predictions == {step: {"a": 10, "b": 10, "c": 10} for step in range(1, 6)}
    assert counts.tries == {"run": Tries(STUDENTS * 100 * 8, 10 * 100 * (0 + 1 + 2), STUDENTS * 100)}
    assert rooms.counts(other).joined == 0 and rooms.counts(other).predictions == {}


def test_a_reset_empties_the_counts_and_begins_a_new_round(rooms):
    code, _ = rooms.open()
    rooms.join(code, "seat")
    rooms.predict(code, "seat", 1, "a")
    before = rooms.counts(code)
    rooms.add_tries(code, "run", Tries(1, 1, 0))
    assert rooms.reset(code) == 1
    after = rooms.counts(code)
    assert (after.round, after.joined, after.predictions, after.tries) == (1, 1, {}, {})
    assert before.predictions == {1: {"a": 1}}, "what was read does not change afterwards"


def test_only_the_key_of_whoever_opened_a_room_hosts_it(rooms):
    (one, key), (two, other) = rooms.open(), rooms.open()
    assert key.encode() not in rooms._store.read(one), "the room has a digest of it alone"
    assert rooms.hosts(one, key) and rooms.hosts(two, other)
    assert not rooms.hosts(one, other) and not rooms.hosts(one, "") and not rooms.hosts("ZZZZZ", key)
    assert not rooms.hosts(one, "é")


def test_what_a_room_holds_is_bounded(rooms):
    first, _ = rooms.open()
    for number in range(3 * MOST_KEYS):
        rooms.predict(first, f"seat {number}", 1, f"answer {number}")
        rooms.predict(first, "seat", number, "a")
        rooms.add_tries(first, f"run {number}", Tries(1, 0, 0))
    counts = rooms.counts(first)
    assert len(counts.predictions[1]) == MOST_KEYS
    assert len(counts.predictions) == MOST_KEYS and len(counts.tries) == MOST_KEYS
    rooms.predict(first, "another seat", 1, "answer 0")
    assert rooms.counts(first).predictions[1]["answer 0"] == 2, "an answer that is known goes on being counted"


def test_the_room_that_was_left_alone_longest_makes_way(monkeypatch, rooms):
    codes = [rooms.open()[0] for _ in range(MOST_ROOMS)]
    rooms.join(codes[0], "seat")
    for name in ("IDLE_SECONDS", "EMPTY_SECONDS"):
        monkeypatch.setattr(f"pages.parts.session.rooms.{name}", 0.0)
    newest, _ = rooms.open()
    assert codes[0] in rooms and newest in rooms and codes[1] not in rooms
    assert sum(code in rooms for code in [*codes, newest]) == MOST_ROOMS
    with pytest.raises(LookupError, match="this class has ended"):
        rooms.counts(codes[1])
    assert len(set(codes)) == MOST_ROOMS and set("".join(codes)) <= set(ALPHABET)


def test_rooms_in_use_stay_however_many_others_are_opened(rooms):
    codes = [rooms.open()[0] for _ in range(MOST_ROOMS)]
    for _ in range(3):
        with pytest.raises(RoomsFull, match="50 classes are in use on this server"):
            rooms.open()
    assert all(code in rooms for code in codes)


def test_a_damaged_room_makes_way(rooms):
    codes = [rooms.open()[0] for _ in range(MOST_ROOMS)]
    with rooms._store.changing() as stored:
        stored.write(codes[7], b"{")
    newest, _ = rooms.open()
    assert newest in rooms and [code for code in codes if code not in rooms] == [codes[7]]


def test_who_leads_a_class_opens_one_in_any_case(rooms):
    """Without the key anybody can open as many rooms as there may be, and look at each to keep it in use."""
    codes = [rooms.open()[0] for _ in range(MOST_ROOMS)]
    rooms.join(codes[0], "seat")
    newest, _ = rooms.open(in_any_case=True)
    assert newest in rooms and sum(code in rooms for code in codes) == MOST_ROOMS - 1
    assert codes[0] in rooms and codes[1] not in rooms, "the one that was unused for longest makes way"


@pytest.mark.parametrize(("key", "opened"), [("3f2a-91bc-77de-0a45-c3d8", True), ("a guess", False), ("", False)])
def test_the_instructors_key_opens_a_class_among_too_many(monkeypatch, tmp_path, key, opened):
    monkeypatch.setenv("PHILAB_DATA", str(tmp_path))
    monkeypatch.setenv("PHILAB_INSTRUCTOR_KEY", "3f2a-91bc-77de-0a45-c3d8")
    told, rooms = [], classroom.classroom()
    for _ in range(MOST_ROOMS):
        rooms.open()
    monkeypatch.setattr(st, "toast", lambda text, **style: told.append(text))
    monkeypatch.setitem(st.session_state, "instructor_key", key)
    classroom.open_room()
    assert (classroom.room() is not None) == opened
    assert opened or "With the instructor's key (on Train) you can still open one." in told[0]


def test_a_room_that_nobody_joined_is_replaced_before_a_class(monkeypatch, rooms):
    codes = [rooms.open()[0] for _ in range(MOST_ROOMS)]
    for code in codes[:3]:
        rooms.join(code, "seat")
    for code in codes[3:]:  # the three classes were unused for longest
        rooms.count_down(code, None)
    monkeypatch.setattr("pages.parts.session.rooms.EMPTY_SECONDS", 0.0)
    newest, _ = rooms.open()
    assert newest in rooms and all(code in rooms for code in codes[:3]) and codes[3] not in rooms


def test_a_browser_that_comes_back_has_its_answers_and_no_second_vote(rooms):
    code, _ = rooms.open()
    other, _ = rooms.open()
    for _ in range(2):
        rooms.join(code, "seat")
    assert rooms.counts(code).joined == 1
    assert rooms.predict(code, "seat", 1, "a") and not rooms.predict(code, "seat", 1, "b")
    assert rooms.counts(code).predictions == {1: {"a": 1}}
    assert rooms.answers(code, "seat").predictions == {1: "a"}
    assert rooms.answers(other, "seat").predictions == {}, "the same browser in another class is nobody"
    rooms.reveal(code, 2)
    assert not rooms.predict(code, "seat", 2, "a"), "the answer is shown"
    rooms.reset(code)
    assert rooms.answers(code, "seat").predictions == {} and rooms.predict(code, "seat", 1, "b")


def test_the_veil_is_kept_in_the_room_until_the_class_starts_again(rooms, tmp_path):
    code, _ = rooms.open()
    assert rooms.counts(code).verdicts is None
    rooms.veil(code, True)
    assert Classroom(tmp_path).counts(code).verdicts == "hidden", "on the folder's other servers too"
    rooms.veil(code, False)
    assert rooms.counts(code).verdicts == "shown"
    rooms.veil(code, True)
    rooms.reset(code)
    assert rooms.counts(code).verdicts is None


@pytest.mark.parametrize("veiled", [None, False, True])
def test_a_room_of_an_earlier_version_is_read_and_changed(rooms, veiled):
    """It said `veiled`: false also where the presenter had done nothing, which is not “shown”."""
    code, key = rooms.open()
    rooms.predict(code, "seat", 1, "a")
    with rooms._store.changing() as stored:
        old = json.loads(stored.read(code))
        del old["verdicts"]
        stored.write(code, json.dumps(old | ({} if veiled is None else {"veiled": veiled})).encode())
    assert rooms.hosts(code, key) and rooms.counts(code).predictions == {1: {"a": 1}}
    assert rooms.counts(code).verdicts is None
    rooms.veil(code, True)
    assert rooms.counts(code).verdicts == "hidden" and rooms.counts(code).predictions == {1: {"a": 1}}


def test_a_room_keeps_no_seat_in_clear(rooms):
    code, _ = rooms.open()
    rooms.join(code, "a-seat-to-look-for")
    rooms.predict(code, "a-seat-to-look-for", 1, "a")
    stored = rooms._store.read(code)
    assert b'"predictions":{"1":"a"}' in stored and b"a-seat-to-look-for" not in stored


def test_seats_are_bounded(monkeypatch, rooms):
    monkeypatch.setattr("pages.parts.session.rooms.MOST_SEATS", 3)
    code, _ = rooms.open()
    for number in range(5):
        rooms.answer(code, f"seat {number}", 0, 1, after=False)
    assert len(rooms._look(code)[0].seats) == 3 and len(rooms.counts(code).learned) == 3


def test_the_three_questions_are_answered_once_and_in_their_time(rooms):
    code, _ = rooms.open()
    assert rooms.answer(code, "seat", 0, 1, after=False)
    assert not rooms.answer(code, "seat", 0, 2, after=False), "the first answer counts"
    assert not rooms.answer(code, "seat", 3, 0, after=False), "there are three questions"
    rooms.predict(code, "seat", 1, "a")
    assert not rooms.answer(code, "seat", 1, 2, after=False), "the lesson has begun"
    assert rooms.answer(code, "late", 0, 3, after=True)
    assert not rooms.answer(code, "late", 0, 3, after=False), "before comes before after"
    rooms.reveal(code, 1)
    assert not rooms.answer(code, "new", 0, 1, after=False), "an answer of the lesson was shown"
    assert rooms.answer(code, "seat", 0, 2, after=True)
    rooms.reveal(code, AFTER)
    assert not rooms.answer(code, "new", 0, 1, after=True), "the right answers are shown"
    assert rooms.counts(code).learned == (((1, None, None), (2, None, None)), ((None,) * 3, (3, None, None)))
    rooms.reset(code)
    assert rooms.counts(code).learned == ()


def test_everybody_is_sent_once_to_the_same_place_too(rooms):
    code, _ = rooms.open()
    rooms.send(code, "patients", [("patient", "P0001")])
    first = rooms.counts(code)
    assert first.lead is None and first.sent.exact
    rooms.send(code, "patients", [("patient", "P0001")])
    assert rooms.counts(code).sent.number > first.sent.number
    rooms.lead(code, "lesson", [("step", "2")])
    rooms.send(code, "playground", [])
    now = rooms.counts(code)
    assert now.lead == now.sent, "who joins later goes there as well while the presenter leads"


@pytest.mark.parametrize(
    ("page", "led"),
    [("tradeoff", {"at": "8", "prompt": "Re:", "attempt": "3"}), ("playground", {"at": "8", "attempt": "3"})],
)
def test_leading_takes_a_class_to_the_same_prompt_but_answers_none(monkeypatch, rooms, page, led):
    """Trade-off shows a stored text of the link's prompt; Playground would have a model answer it."""
    code, _ = rooms.open()
    monkeypatch.setattr(classroom, "_by_host", lambda change: change(rooms, code))
    classroom.lead(page, [("at", "8"), ("prompt", "Re:"), ("attempt", "3"), ("guess", "1")])
    lead = rooms.counts(code).lead
    assert lead is not None and (lead.page, dict(lead.query)) == (page, led)


@pytest.fixture
def options(monkeypatch):
    """Streamlit's settings as a server would have them."""
    told = {"server.port": 8600, "server.address": "0.0.0.0"}  # noqa: S104
    monkeypatch.setattr(st, "get_option", told.get)
    return told


def test_the_join_link_has_the_address_that_the_server_goes_by(options, monkeypatch):
    options["browser.serverAddress"] = "10.1.2.3"
    assert classroom_link.join_url("ABCDE") == "http://10.1.2.3:8600/lesson?room=ABCDE"
    options["browser.serverAddress"] = "localhost"
    monkeypatch.setattr(classroom_link, "lan_address", lambda: "192.168.7.9")
    options["server.baseUrlPath"] = "/lab/"
    assert classroom_link.join_url("ABCDE") == "http://192.168.7.9:8600/lab/lesson?room=ABCDE"


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "::1"])
def test_a_server_for_this_computer_alone_has_no_join_link(options, address):
    options["server.address"] = address
    assert classroom_link.listens_only_here()
    assert classroom_link.join_url("ABCDE") is None


def test_a_computer_without_a_network_has_no_join_link(options, monkeypatch):
    class Unplugged(socket.socket):
        def connect(self, address):
            raise OSError("Network is unreachable")

    monkeypatch.setattr(classroom_link.socket, "socket", Unplugged)
    assert classroom_link.lan_address() is None
    assert classroom_link.join_url("ABCDE") is None


def test_the_qr_code_is_a_picture_that_names_its_link():
    url = "http://10.1.2.3:8600/lesson?room=ABCDE&x=<script>"
    found: list[tuple[str, dict[str, str | None]]] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: found.append((tag, dict(attributes)))
    parser.feed(classroom_link.qr_html(url))
    ((tag, attributes),) = found
    assert (tag, attributes["alt"]) == ("img", f"QR code of {url}")
    picture = unquote(attributes["src"].removeprefix("data:image/svg+xml;charset=utf-8,"))
    side, _ = segno.make(url, error="m", micro=False).symbol_size(scale=8, border=4)
    assert picture.startswith("<svg") and f"width='{side}'" in picture
