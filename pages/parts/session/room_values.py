"""What a class room counts and holds: predictions, leaks, guesses, where the presenter is; and the stored room."""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal

MOST_PRESENTERS = 64  # browsers of a room that may lead it without the key
QUESTIONS = 3  # asked before and after the lesson (`lesson.questions`)
AFTER = 6  # the lesson's place that shows what the class learned; its answers are revealed like a step's

Query = tuple[tuple[str, str], ...]  # a link's parameters; a choice of several values has its name several times


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
    query: Query = ()
    exact: bool = False


Verdicts = Literal["hidden", "shown"]  # what the presenter did with the verdicts on Findings
Chosen = tuple[int | None, ...]  # the place of the chosen option of each of the three questions; None: not answered


@dataclass(frozen=True)
class Answers:
    """What one browser answered: its predictions by step, and the three questions before and after the lesson."""

    predictions: dict[int, str] = field(default_factory=dict)
    before: Chosen = (None,) * QUESTIONS
    after: Chosen = (None,) * QUESTIONS


@dataclass(frozen=True)
class Counts:
    """A room's counts at one moment, which do not change later."""

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
    verdicts: Verdicts | None = None  # None: the presenter has neither hidden nor shown them
    step: int | None = None  # the lesson's place at which the presenter leads, or last led; None in a new round
    learned: tuple[tuple[Chosen, Chosen], ...] = ()  # before and after, of everyone who answered one of the questions


@dataclass
class Seat:
    """What one browser has answered in this round. Changed in place, unlike the values above."""

    predictions: dict[int, str] = field(default_factory=dict)
    before: list[int | None] = field(default_factory=lambda: [None] * QUESTIONS)
    after: list[int | None] = field(default_factory=lambda: [None] * QUESTIONS)
    joined: bool = False  # whether the room counted it; stays over rounds


@dataclass
class Room:
    """A room as it is stored. Changed in place by `rooms`."""

    salt: str = field(default_factory=lambda: secrets.token_hex(16))
    host: str = ""  # digest of the host's key
    presenters: list[str] = field(default_factory=list)  # digests of further keys, one for each presenter's browser
    round: int = 0
    joined: int = 0
    seats: dict[str, Seat] = field(default_factory=dict)  # by digest
    predictions: dict[int, Counter[str]] = field(default_factory=dict)
    tries: dict[str, Tries] = field(default_factory=dict)
    audited: Audited | None = None
    votes: dict[str, str] = field(default_factory=dict)  # run id → a digit for each guess (`rooms`)
    dealt: Counter[str] = field(default_factory=Counter)  # hospital → notes that were handed out
    lead: Lead | None = None
    sent: Lead | None = None
    moves: int = 0
    revealed: set[int] = field(default_factory=set)
    ends: float | None = None
    verdicts: Verdicts | None = None  # rooms of earlier versions lack it
    step: int | None = None

    def move(self, page: str, query: Iterable[tuple[str, str]]) -> None:
        """The presenter leads and is on this page. The same place again is no move."""
        place = _by_name(query)
        asked = dict(place).get("step", "")
        if page == "lesson" and len(asked) == 1 and asked in "0123456":
            self.step = int(asked)
        if self.lead is None or (self.lead.page, self.lead.query) != (page, place):
            self.moves += 1
            self.lead = Lead(self.moves, page, place)

    def send(self, page: str, query: Iterable[tuple[str, str]]) -> None:
        """Send everybody to exactly this."""
        self.moves += 1
        self.sent = Lead(self.moves, page, _by_name(query), exact=True)
        if self.lead is not None:
            self.lead = self.sent

    def digest(self, thing: object) -> bytes:
        """What the room keeps instead of a key, a seat or a sample."""
        return hashlib.blake2b(repr(thing).encode(), key=bytes.fromhex(self.salt), digest_size=16).digest()

    def hosts(self, key: str) -> bool:
        """Whether this is the host's key, or that of a browser that has presented."""
        digest = self.digest(key).hex()
        return any([secrets.compare_digest(one, digest) for one in (self.host, *self.presenters)])

    def seat_key(self, seat: str) -> str:
        """The host's key that this seat has once it has presented."""
        return self.digest(("presents", seat)).hex()

    def present(self, key: str, seat: str) -> None:
        """Note that this browser presents, if the key is the host's."""
        if not self.hosts(key):
            return
        self._uncount(self.digest(seat).hex())
        own = self.digest(self.seat_key(seat)).hex()
        if own not in self.presenters and len(self.presenters) < MOST_PRESENTERS:
            self.presenters.append(own)

    def _uncount(self, seat: str) -> None:
        """The browser with this digest turned out to be the presenter's: it is no student, and its votes are none."""
        own = self.seats.pop(seat, Seat())
        self.joined -= own.joined
        for step, answer in own.predictions.items():
            self.predictions[step][answer] -= 1


def _by_name(query: Iterable[tuple[str, str]]) -> Query:
    """In the order of names, so that the same place is the same; several values of one name stay in theirs."""
    return tuple(sorted(query, key=itemgetter(0)))
