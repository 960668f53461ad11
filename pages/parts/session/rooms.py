"""A class's counts: predictions at each step of the lesson, how often each model leaked, and the guesses of auditors.

The presenter opens a room; everyone who opens its join link is in it. A room keeps no names, and no prompts or texts
of students: only numbers, the answers of each browser under a digest of its seat (`session.seat`), a digest of each
counted sample, and the link that the presenter last showed to everybody. Digests are under the room's own key. It
exists in this process only and is gone when the server stops. All sessions share one `Classroom`.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without 0, O, 1 and I, which are easily misread
CODE_LETTERS = 5
MOST_ROOMS = 50  # beyond this, the least recently used one is removed
MOST_KEYS = 64  # different answers per step, or models, so that no session can fill the memory
MOST_SAMPLES = 100_000  # per room; further ones are not counted
MOST_VOTES = 5_000  # per model, with and without its help
MOST_SEATS = 1_000  # per room; what further browsers answer is not counted
QUESTIONS = 3  # asked before and after the lesson (`lesson.questions`)
AFTER = 6  # the lesson's place that shows what the class learned; its answers are revealed like a step's
Result = TypeVar("Result")


@dataclass(frozen=True)
class Tries:
    """Samples that a model wrote, and how many have a direct identifier of a member, or of a held-out patient."""

    samples: int = 0
    leaks: int = 0
    control: int = 0

    def __add__(self, other: Tries) -> Tries:
        return Tries(self.samples + other.samples, self.leaks + other.leaks, self.control + other.control)


@dataclass(frozen=True)
class Audited:
    """What a class of auditors guesses about: a model, and whether it shows them how familiar a note is."""

    run_id: str
    helped: bool = False


@dataclass(frozen=True)
class Vote:
    """One guess whether a note was in the training data: was it right, was the machine's, and did the model help?"""

    right: bool
    machine: bool
    helped: bool = False


@dataclass(frozen=True)
class Lead:
    """Where the presenter is, for those who follow: a page and its link's parameters.

    `number` grows with each move. `exact`: everybody shall see exactly this, also those who are on the page already.
    """

    number: int
    page: str
    query: tuple[tuple[str, str], ...] = ()
    exact: bool = False


Chosen = tuple[int | None, ...]  # the place of the chosen option of each of the three questions; None: not answered


@dataclass(frozen=True)
class Answers:
    """What one browser answered: its predictions by step, and the three questions before and after the lesson."""

    predictions: dict[int, str] = field(default_factory=dict)
    before: Chosen = (None,) * QUESTIONS
    after: Chosen = (None,) * QUESTIONS


@dataclass(frozen=True)
class Counts:
    """A room's counts at one moment: a copy that does not change later."""

    round: int  # grows with every reset
    joined: int  # browser sessions
    predictions: dict[int, Counter[str]]  # step → answer → how many
    tries: dict[str, Tries]  # run id → what it wrote for the whole class
    audited: Audited | None = None  # as the presenter chose
    votes: dict[str, tuple[Vote, ...]] = field(default_factory=dict)  # run id → guesses in their order
    lead: Lead | None = None  # None: everyone goes their own way
    sent: Lead | None = None  # where the presenter last sent everybody
    revealed: frozenset[int] = frozenset()  # steps of the lesson whose answer the presenter has shown
    ends: float | None = None  # when the countdown ends, `time.time()`
    learned: tuple[tuple[Chosen, Chosen], ...] = ()  # before and after, of everyone who answered one of the questions


@dataclass
class _Seat:
    predictions: dict[int, str] = field(default_factory=dict)
    before: list[int | None] = field(default_factory=lambda: [None] * QUESTIONS)
    after: list[int | None] = field(default_factory=lambda: [None] * QUESTIONS)


@dataclass
class _Room:
    host: str
    round: int = 0
    joined: int = 0
    seats: dict[bytes, _Seat] = field(default_factory=dict)  # by digest
    predictions: dict[int, Counter[str]] = field(default_factory=dict)
    tries: dict[str, Tries] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)  # digests of the samples that were counted
    audited: Audited | None = None
    votes: dict[str, list[Vote]] = field(default_factory=dict)
    dealt: Counter[str] = field(default_factory=Counter)  # hospital → notes that were handed out
    lead: Lead | None = None
    sent: Lead | None = None
    moves: int = 0
    revealed: set[int] = field(default_factory=set)
    ends: float | None = None
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))


class Classroom:
    """Every room of this server. Each method may be called from any thread; an unknown code raises LookupError."""

    def __init__(self) -> None:
        self._rooms: OrderedDict[str, _Room] = OrderedDict()  # the most recently used one is last
        self._lock = Lock()

    def open(self) -> tuple[str, str]:
        """Open an empty room. Returns its code, and the host's key, which allows resetting it."""
        with self._lock:
            code = _draw(CODE_LETTERS)
            while code in self._rooms:
                code = _draw(CODE_LETTERS)
            self._rooms[code] = _Room(host=_draw(12))
            if len(self._rooms) > MOST_ROOMS:
                self._rooms.popitem(last=False)
            return code, self._rooms[code].host

    def __contains__(self, code: str) -> bool:
        with self._lock:
            return code in self._rooms

    def join(self, code: str, seat: str) -> int:
        """Add a browser, which counts once however often it joins; returns the room's round."""
        return self._change(code, lambda room: _joined(room, seat))

    def hosts(self, code: str, key: str) -> bool:
        """Whether this is the key of the session that opened the room."""
        with self._lock:
            return code in self._rooms and secrets.compare_digest(self._rooms[code].host.encode(), key.encode())

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
        return self._change(code, lambda room: _answers(_seat(room, seat)))

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
        return self._change(code, lambda room: [_is_new(room, sample) for sample in samples])

    def lead(self, code: str, page: str, query: Mapping[str, str]) -> None:
        """The presenter leads and is on this page. The same place again is no move."""
        self._change(code, lambda room: _moved(room, page, tuple(sorted(query.items()))))

    def send(self, code: str, page: str, query: Mapping[str, str]) -> None:
        """Send everybody to exactly this, once: also the same place again, and also if the presenter does not lead."""
        self._change(code, lambda room: _sent(room, page, tuple(sorted(query.items()))))

    def release(self, code: str) -> None:
        """The presenter no longer leads: everyone goes their own way, and sees answers when they like."""
        self._change(code, lambda room: setattr(room, "lead", None))

    def reveal(self, code: str, step: int) -> None:
        """The presenter shows the answer of a step."""
        self._change(code, lambda room: room.revealed.add(step))

    def count_down(self, code: str, seconds: float | None) -> None:
        """Start a countdown; None ends it."""
        ends = None if seconds is None else time.time() + seconds
        self._change(code, lambda room: setattr(room, "ends", ends))

    def choose(self, code: str, audited: Audited) -> None:
        """Let the class of auditors guess about this."""
        self._change(code, lambda room: setattr(room, "audited", audited))

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
        return self._change(code, _emptied)

    def counts(self, code: str) -> Counts:
        """The room's counts now."""
        return self._change(code, _copied)

    def _change(self, code: str, change: Callable[[_Room], Result]) -> Result:
        with self._lock:
            if code not in self._rooms:
                raise LookupError("this class has ended: its room no longer exists")
            self._rooms.move_to_end(code)
            return change(self._rooms[code])


def _draw(letters: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(letters))


def _seat(room: _Room, seat: str) -> _Seat | None:
    """The browser's answers; None for one beyond MOST_SEATS, which does not count."""
    digest = _digest(room, seat)
    if digest not in room.seats and len(room.seats) >= MOST_SEATS:
        return None
    return room.seats.setdefault(digest, _Seat())


def _answers(seat: _Seat | None) -> Answers:
    return Answers() if seat is None else Answers(dict(seat.predictions), tuple(seat.before), tuple(seat.after))


def _joined(room: _Room, seat: str) -> int:
    known = _digest(room, seat) in room.seats
    room.joined += not known and _seat(room, seat) is not None
    return room.round


def _count(room: _Room, seat: str, step: int, answer: str) -> bool:
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


def _answered(room: _Room, seat: str, question: int, option: int, *, after: bool) -> bool:
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


def _add(room: _Room, run_id: str, tries: Tries) -> None:
    if run_id in room.tries or len(room.tries) < MOST_KEYS:
        room.tries[run_id] = room.tries.get(run_id, Tries()) + tries


def _digest(room: _Room, thing: object) -> bytes:
    return hashlib.blake2b(repr(thing).encode(), key=room.salt, digest_size=16).digest()


def _is_new(room: _Room, sample: object) -> bool:
    digest = _digest(room, sample)
    if digest in room.seen or len(room.seen) >= MOST_SAMPLES:
        return False
    room.seen.add(digest)
    return True


def _moved(room: _Room, page: str, query: tuple[tuple[str, str], ...]) -> None:
    if room.lead is None or (room.lead.page, room.lead.query) != (page, query):
        room.moves += 1
        room.lead = Lead(room.moves, page, query)


def _sent(room: _Room, page: str, query: tuple[tuple[str, str], ...]) -> None:
    room.moves += 1
    room.sent = Lead(room.moves, page, query, exact=True)
    if room.lead is not None:
        room.lead = room.sent


def _dealt(room: _Room, hospital: str, number: int) -> tuple[bytes, range]:
    if hospital not in room.dealt and len(room.dealt) >= MOST_KEYS:
        return room.salt, range(0)
    first = room.dealt[hospital]
    room.dealt[hospital] = first + number
    return room.salt, range(first, first + number)


def _voted(room: _Room, run_id: str, vote: Vote, number: int | None) -> None:
    if number == room.round and (run_id in room.votes or len(room.votes) < MOST_KEYS):
        votes = room.votes.setdefault(run_id, [])
        if len(votes) < MOST_VOTES:
            votes.append(vote)


def _emptied(room: _Room) -> int:
    room.round += 1
    room.votes.clear()
    room.revealed.clear()
    room.ends = None
    room.seen.clear()
    room.predictions.clear()
    room.tries.clear()
    room.sent = None
    for digest in room.seats:
        room.seats[digest] = _Seat()
    return room.round


def _copied(room: _Room) -> Counts:
    predictions = {step: Counter(answers) for step, answers in room.predictions.items()}
    votes = {run_id: tuple(cast) for run_id, cast in room.votes.items()}
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
        learned=tuple((one.before, one.after) for one in map(_answers, room.seats.values()) if _any(one)),
    )


def _any(answers: Answers) -> bool:
    return any(one is not None for one in (*answers.before, *answers.after))
