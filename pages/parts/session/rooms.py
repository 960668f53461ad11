"""A class's counts: predictions at each step of the lesson, how often each model leaked, and the guesses of auditors.

The presenter opens a room; everyone who opens its join link is in it. A room keeps no names, and no prompts or texts
of students: only numbers, the answers of each browser under a digest of its seat (`session.seat`), a digest of each
counted sample, and the link that the presenter last showed to everybody. Digests are under the room's own key. It
is in the data folder (`session.room_store`), so that all servers of the folder have the same rooms.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter

from pages.parts.session.room_store import Rooms, RoomStore
from pages.parts.session.room_values import AFTER, QUESTIONS, Answers, Audited, Counts, Room, Seat, Tries, Vote

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without 0, O, 1 and I, which are easily misread
CODE_LETTERS = 5
MOST_ROOMS = 50
IDLE_SECONDS = 3_600.0  # after which a room without an open page is removed for a new one, if there are too many
EMPTY_SECONDS = 600.0  # the same, of a room that no browser has joined
MOST_KEYS = 64  # different answers per step, or models, so that no session can fill the disk
MOST_SAMPLES = 100_000  # per room; further ones are not counted
MOST_VOTES = 5_000  # per model, with and without its help
MOST_SEATS = 1_000  # per room; what further browsers answer is not counted
Result = TypeVar("Result")
_CODE = re.compile(f"[{ALPHABET}]{{{CODE_LETTERS}}}")
log = logging.getLogger(__name__)


class RoomGone(LookupError):
    """There is no room with this code, or not any more. The message says so."""


class RoomsFull(RuntimeError):
    """Every room is in use, so that none can be opened. The message says what to do."""


# A text of digits is stored and read faster than a list of votes.
_VOTES = {str(n): Vote(right=bool(n & 1), machine=bool(n & 2), helped=bool(n & 4)) for n in range(8)}
_DIGITS = {vote: digit for digit, vote in _VOTES.items()}
_ROOM = TypeAdapter(Room)


class Classroom:
    """Every room of a data folder. Any thread may call a method; an unknown code raises RoomGone.

    Servers and threads change rooms one after another. A change that cannot be written raises OSError, and leaves the
    room as it was.
    """

    def __init__(self, root: Path) -> None:
        self._store = RoomStore(root)
        self._known: dict[str, tuple[bytes, Room, Counts]] = {}  # as last read; nobody changes these

    def open(self, *, in_any_case: bool = False) -> tuple[str, str]:
        """Open an empty room. Returns its code, and the host's key, which allows resetting it.

        Of too many rooms the ones that were unused for longest are removed. A room in use is removed only for those
        who may open one `in_any_case`; for others RoomsFull is raised.
        """
        room, key = Room(), _draw(12)
        room.host = room.digest(key).hex()
        with self._store.changing() as rooms:
            rooms.clear_out()
            there = rooms.last_used()
            surplus = max(0, len(there) + 1 - MOST_ROOMS)
            unused = [one for one, used in there.items() if surplus and _unused(rooms, one, used)][:surplus]
            if in_any_case:
                unused += [one for one in there if one not in unused][: surplus - len(unused)]
            if len(unused) < surplus:
                raise RoomsFull(
                    f"{len(there)} classes are in use on this server, the maximum. Try again later: a class can be "
                    "replaced when it has been unused for an hour."
                )
            for one in unused:
                rooms.remove(one)
            code = _draw(CODE_LETTERS)
            while code in there:
                code = _draw(CODE_LETTERS)
            rooms.write(code, _ROOM.dump_json(room))
        return code, key

    def clear_out(self) -> None:
        """Remove rooms that nobody has used for hours."""
        self._store.clear_out()

    def __contains__(self, code: str) -> bool:
        try:
            self._look(code)
        except RoomGone:
            return False
        return True

    def join(self, code: str, seat: str) -> int:
        """Add a browser, which counts once however often it joins; returns the room's round."""
        return self._change(code, lambda room: _joined(room, seat))

    def hosts(self, code: str, key: str) -> bool:
        """Whether this is the key of the session that opened the room."""
        try:
            room, _ = self._look(code)
        except RoomGone:
            return False
        return room.hosts(key)

    def present(self, code: str, key: str, seat: str) -> None:
        """The presenter's browser, as the key shows: it is no student, and can come back by `key_of`."""
        self._change(code, lambda room: room.present(key, seat))

    def key_of(self, code: str, seat: str) -> str | None:
        """A host's key for a browser that has presented this room; None for others.

        It follows from the seat, which only the browser keeps. Reading the stored room gives no key.
        """
        room, _ = self._look(code)
        key = room.seat_key(seat)
        return key if room.hosts(key) else None

    def predict(self, code: str, seat: str, step: int, answer: str) -> bool:
        """Count a browser's first prediction of a step, if the presenter has not shown the answer; whether it counts.

        `answer` is one of the app's own; a 65th different one is not counted.
        """
        return self._change(code, lambda room: _count(room, seat, step, answer))

    def answer(self, code: str, seat: str, question: int, option: int, *, after: bool) -> bool:
        """Keep a browser's first answer to one of the three questions; whether it was still open.

        Before: until the browser has predicted a step, or the presenter has shown any answer. After: until the
        presenter shows what the class learned.
        """
        return self._change(code, lambda room: _answered(room, seat, question, option, after=after))

    def answers(self, code: str, seat: str) -> Answers:
        """What a browser has answered in this round."""
        room, _ = self._look(code)
        return _answers(room.seats.get(room.digest(seat).hex()))

    def add_tries(self, code: str, run_id: str, tries: Tries) -> None:
        """Count a model's samples. Samples of a 65th model are not counted."""
        self._change(code, lambda room: _add(room, run_id, tries))

    def unseen(self, code: str, samples: Sequence[object]) -> list[bool]:
        """Whether each sample is new to the room. Afterwards all of them are known.

        The same model, prompt, seed and sampling give the same text in every browser, which is no further trial.

        Args:
            code: The room's code.
            samples: What determines each sample's text; anything with a `repr`.
        """
        with self._store.changing() as rooms:
            room = _parsed(code, rooms.read(code))
            return rooms.new_samples(code, room.round, [room.digest(one) for one in samples], MOST_SAMPLES)

    def lead(self, code: str, page: str, query: Iterable[tuple[str, str]]) -> None:
        """The presenter leads and is on this page. The same place again is no move."""
        self._change(code, lambda room: room.move(page, query))

    def send(self, code: str, page: str, query: Iterable[tuple[str, str]]) -> None:
        """Send everybody to exactly this, once: also the same place again, and also if the presenter does not lead."""
        self._change(code, lambda room: room.send(page, query))

    def release(self, code: str) -> None:
        """The presenter no longer leads: everyone goes their own way, and sees answers when they like."""
        self._change(code, _released)

    def reveal(self, code: str, step: int) -> None:
        """The presenter shows the answer of a step."""
        self._change(code, lambda room: room.revealed.add(step))

    def veil(self, code: str, hidden: bool) -> None:
        """The presenter hides the verdicts on Findings, or shows them."""
        self._change(code, lambda room: _veiled(room, hidden))

    def count_down(self, code: str, seconds: float | None) -> None:
        """Start a countdown; None ends it."""
        ends = None if seconds is None else time.time() + seconds
        self._change(code, lambda room: _counted_down(room, ends))

    def choose(self, code: str, audited: Audited) -> None:
        """Let the class of auditors guess about this."""
        self._change(code, lambda room: _chosen(room, audited))

    def deal(self, code: str, hospital: str, number: int) -> tuple[bytes, range]:
        """Hand out the next notes of a hospital's deck: what their order follows from, and their places.

        Each is handed out once as long as the room exists: also for another model and after a restart, since somebody
        may know by then whether it was in the training data. Of a 65th hospital none are.
        """
        return self._change(code, lambda room: _dealt(room, hospital, number))

    def vote(self, code: str, run_id: str, vote: Vote, number: int | None) -> None:
        """Count one guess of this round; those beyond MOST_VOTES, or about a 65th model, are not counted."""
        self._change(code, lambda room: _voted(room, run_id, vote, number))

    def reset(self, code: str) -> int:
        """Clear all counts except the number of browsers; returns the new round."""
        with self._store.changing() as rooms:
            number = _changed(rooms, code, _emptied)
            rooms.forget_samples(code)
        return number

    def counts(self, code: str) -> Counts:
        """The room's counts now. Shared by all who ask; read-only."""
        return self._look(code)[1]

    def _look(self, code: str) -> tuple[Room, Counts]:
        """The room and its counts, both read-only. It counts as used."""
        raw = self._store.read(code) if _CODE.fullmatch(code) else None
        known = self._known.get(code)
        if known is None or known[0] != raw:
            room = _parsed(code, raw)
            known = (raw or b"", room, _copied(room))
            if len(self._known) > MOST_ROOMS:
                self._known.clear()
            self._known[code] = known
        return known[1], known[2]

    def _change(self, code: str, change: Callable[[Room], Result]) -> Result:
        with self._store.changing() as rooms:
            return _changed(rooms, code, change)


def _changed(rooms: Rooms, code: str, change: Callable[[Room], Result]) -> Result:
    raw = rooms.read(code)
    room = _parsed(code, raw)
    result = change(room)
    changed = _ROOM.dump_json(room)
    if changed != raw:
        rooms.write(code, changed)
    return result


def _parsed(code: str, raw: bytes | None) -> Room:
    """The room in these bytes, as an object of the caller's own."""
    if raw is None:
        raise RoomGone("this class has ended: its room no longer exists")
    try:
        return _ROOM.validate_json(raw)
    except ValueError:  # its message would quote the room
        log.warning("the room of the class %s is damaged", code)
        raise RoomGone("this class has ended: its room is damaged") from None


def _draw(letters: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(letters))


def _seat(room: Room, seat: str) -> Seat | None:
    """The browser's answers; None for one beyond MOST_SEATS, which does not count."""
    digest = room.digest(seat).hex()
    if digest not in room.seats and len(room.seats) >= MOST_SEATS:
        return None
    return room.seats.setdefault(digest, Seat())


def _answers(seat: Seat | None) -> Answers:
    return Answers() if seat is None else Answers(dict(seat.predictions), tuple(seat.before), tuple(seat.after))


def _unused(rooms: Rooms, code: str, used: float) -> bool:
    """Whether a room may be removed for a new one: one that no browser has joined sooner than a class."""
    try:
        joined = _parsed(code, rooms.read(code)).joined
    except RoomGone:  # damaged: no browser is in it
        return True
    return time.time() - used >= (IDLE_SECONDS if joined else EMPTY_SECONDS)


def _joined(room: Room, seat: str) -> int:
    known = room.digest(seat).hex() in room.seats
    place = _seat(room, seat)
    if place is not None and not known:
        place.joined = True
        room.joined += 1
    return room.round


def _count(room: Room, seat: str, step: int, answer: str) -> bool:
    place = _seat(room, seat)
    if place is None:
        return False
    own = place.predictions
    if step in own or step in room.revealed or (step not in room.predictions and len(room.predictions) >= MOST_KEYS):
        return False
    counted = room.predictions.setdefault(step, Counter())
    if answer not in counted and len(counted) >= MOST_KEYS:
        return False
    counted[answer] += 1
    own[step] = answer
    return True


def _answered(room: Room, seat: str, question: int, option: int, *, after: bool) -> bool:
    own = _seat(room, seat)
    if own is None:
        return False
    closed = AFTER in room.revealed if after else bool(own.predictions or any(room.revealed))
    closed = closed or (not after and any(one is not None for one in own.after))
    chosen = own.after if after else own.before
    if closed or not 0 <= question < QUESTIONS or chosen[question] is not None:
        return False
    chosen[question] = option
    return True


def _add(room: Room, run_id: str, tries: Tries) -> None:
    if run_id in room.tries or len(room.tries) < MOST_KEYS:
        room.tries[run_id] = room.tries.get(run_id, Tries()) + tries


def _released(room: Room) -> None:
    room.lead = None


def _veiled(room: Room, hidden: bool) -> None:
    room.verdicts = "hidden" if hidden else "shown"


def _counted_down(room: Room, ends: float | None) -> None:
    room.ends = ends


def _chosen(room: Room, audited: Audited) -> None:
    room.audited = audited


def _dealt(room: Room, hospital: str, number: int) -> tuple[bytes, range]:
    if hospital not in room.dealt and len(room.dealt) >= MOST_KEYS:
        return bytes.fromhex(room.salt), range(0)
    first = room.dealt[hospital]
    room.dealt[hospital] = first + number
    return bytes.fromhex(room.salt), range(first, first + number)


def _voted(room: Room, run_id: str, vote: Vote, number: int | None) -> None:
    if number == room.round and (run_id in room.votes or len(room.votes) < MOST_KEYS):
        votes = room.votes.setdefault(run_id, "")
        if len(votes) < MOST_VOTES:
            room.votes[run_id] = votes + _DIGITS[vote]


def _emptied(room: Room) -> int:
    room.round += 1
    room.votes.clear()
    room.revealed.clear()
    room.ends = None
    room.verdicts = None
    room.predictions.clear()
    room.tries.clear()
    room.sent = None
    room.step = None
    for digest, seat in room.seats.items():
        room.seats[digest] = Seat(joined=seat.joined)
    return room.round


def _copied(room: Room) -> Counts:
    predictions = {step: Counter(answers) for step, answers in room.predictions.items()}
    votes = {run_id: tuple(map(_VOTES.__getitem__, cast)) for run_id, cast in room.votes.items()}
    return Counts(
        round=room.round,
        joined=room.joined,
        predictions=predictions,
        tries=dict(room.tries),
        audited=room.audited,
        votes=votes,
        lead=room.lead,
        sent=room.sent,
        revealed=frozenset(room.revealed),
        ends=room.ends,
        verdicts=room.verdicts,
        step=room.step,
        learned=tuple((one.before, one.after) for one in map(_answers, room.seats.values()) if _any(one)),
    )


def _any(answers: Answers) -> bool:
    return any(one is not None for one in (*answers.before, *answers.after))
