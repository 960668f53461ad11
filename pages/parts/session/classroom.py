"""A class's counts: the predictions at each step of the lesson, and how often each model leaked; nothing else.

The presenter opens a room; everyone who opens its join link is in it. A room keeps only numbers (no names, prompts or
texts) and, of each counted sample, a digest under the room's own key. It exists in this process only and is gone when
the server stops. All sessions share one `Classroom`.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

import streamlit as st

from pages.parts.session import resources

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"  # without 0, O, 1 and I, which are easily misread
CODE_LETTERS = 5
MOST_ROOMS = 50  # beyond this, the least recently used one is removed
MOST_KEYS = 64  # different answers per step, or models, so that no session can fill the memory
MOST_SAMPLES = 100_000  # per room; further ones are not counted
Result = TypeVar("Result")
_ROOM, _HOST, _ROUND, _COUNTED = "class_room", "class_host", "class_round", "class_counted"


@dataclass(frozen=True)
class Tries:
    """Samples that a model wrote, and how many have a direct identifier of a member, or of a held-out patient."""

    samples: int = 0
    leaks: int = 0
    control: int = 0

    def __add__(self, other: Tries) -> Tries:
        return Tries(self.samples + other.samples, self.leaks + other.leaks, self.control + other.control)


@dataclass(frozen=True)
class Counts:
    """A room's counts at one moment: a copy that does not change later."""

    round: int  # grows with every reset
    joined: int  # browser sessions
    predictions: dict[int, Counter[str]]  # step → answer → how many
    tries: dict[str, Tries]  # run id → what it wrote for the whole class


@dataclass
class _Room:
    host: str
    round: int = 0
    joined: int = 0
    predictions: dict[int, Counter[str]] = field(default_factory=dict)
    tries: dict[str, Tries] = field(default_factory=dict)
    seen: set[bytes] = field(default_factory=set)  # digests of the samples that were counted
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

    def join(self, code: str) -> int:
        """Add a session; returns the room's round."""
        return self._change(code, _joined)

    def hosts(self, code: str, key: str) -> bool:
        """Whether this is the key of the session that opened the room."""
        with self._lock:
            return code in self._rooms and secrets.compare_digest(self._rooms[code].host.encode(), key.encode())

    def predict(self, code: str, step: int, answer: str) -> None:
        """Count a prediction. `answer` is one of the app's own; a 65th different one is not counted."""
        self._change(code, lambda room: _count(room, step, answer))

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

    def reset(self, code: str) -> int:
        """Clear all counts except the number of sessions; returns the new round."""
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


def _joined(room: _Room) -> int:
    room.joined += 1
    return room.round


def _count(room: _Room, step: int, answer: str) -> None:
    if step not in room.predictions and len(room.predictions) >= MOST_KEYS:
        return
    counted = room.predictions.setdefault(step, Counter())
    if answer in counted or len(counted) < MOST_KEYS:
        counted[answer] += 1


def _add(room: _Room, run_id: str, tries: Tries) -> None:
    if run_id in room.tries or len(room.tries) < MOST_KEYS:
        room.tries[run_id] = room.tries.get(run_id, Tries()) + tries


def _is_new(room: _Room, sample: object) -> bool:
    digest = hashlib.blake2b(repr(sample).encode(), key=room.salt, digest_size=16).digest()
    if digest in room.seen or len(room.seen) >= MOST_SAMPLES:
        return False
    room.seen.add(digest)
    return True


def _emptied(room: _Room) -> int:
    room.round += 1
    room.seen.clear()
    room.predictions.clear()
    room.tries.clear()
    return room.round


def _copied(room: _Room) -> Counts:
    predictions = {step: Counter(answers) for step, answers in room.predictions.items()}
    return Counts(room.round, room.joined, predictions, dict(room.tries))


# This browser session ------------------------------------------------------------------------------------------------


@resources.process_object
def classroom() -> Classroom:
    """The `Classroom` of this process, shared by all browsers."""
    return Classroom()


def enter() -> None:
    """Join the room in the link (`?room=CODE`), once per session. Every page calls this through `shell.page`.

    With the host's key (`&host=KEY`), the session is the presenter's again and not a student's. A link with a round
    (`&round=2`) belongs to a page that was reloaded; its browser was counted when it joined.
    """
    code, key, number = (st.query_params.get(name, "") for name in ("room", "host", "round"))
    code = code.upper()
    if code == st.session_state.get(_ROOM, "") or code not in classroom():
        return
    if key and classroom().hosts(code, key):
        _take(code, key, classroom().counts(code).round)
    elif number.isdecimal() and len(number) < 9:
        _take(code, None, int(number))
    else:
        join(code)


def join(code: str) -> bool:
    """Put this session into a room; False, without any effect, if there is no room with that code."""
    code = code.strip().upper()
    try:
        _take(code, None, classroom().join(code))
    except LookupError:
        return False
    return True


def open_room() -> None:
    """Open a room; this session is its host and not a student."""
    _take(*classroom().open(), 0)


def _take(code: str, key: str | None, number: int) -> None:
    st.session_state[_ROOM], st.session_state[_HOST] = code, key
    st.session_state[_ROUND], st.session_state[_COUNTED] = number, set()


def leave() -> None:
    """Remove this session from its room; its counts stay."""
    for name in (_ROOM, _HOST, _ROUND, _COUNTED):
        st.session_state.pop(name, None)
    for name in ("room", "host"):
        st.query_params.pop(name, None)


def room() -> str | None:
    """The code of this session's room; None if it is in none, or the room is gone."""
    code = st.session_state.get(_ROOM)
    return code if code is not None and code in classroom() else None


def host_key() -> str | None:
    """The host's key, if this session opened its room."""
    return st.session_state.get(_HOST) if room() else None


def counts() -> Counts | None:
    """The counts of this session's room."""
    code = room()
    try:
        return classroom().counts(code) if code else None
    except LookupError:  # it was removed just now
        return None


def predicted(step: int, answer: str) -> None:
    """Count this session's prediction of a step, once."""
    code = room()
    if code and step not in st.session_state[_COUNTED]:
        st.session_state[_COUNTED].add(step)
        classroom().predict(code, step, answer)


def has_counted(steps: set[int]) -> None:
    """Mark these predictions as counted: they were, before this browser reloaded the page."""
    st.session_state.setdefault(_COUNTED, set()).update(steps)


def unseen(samples: Sequence[object]) -> list[bool]:
    """Whether each sample is new to this session's room, which then knows it; False outside a room."""
    code = room()
    try:
        return classroom().unseen(code, samples) if code else [False] * len(samples)
    except LookupError:  # it was removed just now
        return [False] * len(samples)


def tried(run_id: str, tries: Tries) -> None:
    """Count the samples that a model wrote for this session."""
    code = room()
    if code and tries.samples:
        classroom().add_tries(code, run_id, tries)


def joined_round() -> int | None:
    """The round that this session is in; lower than that of `counts` after the presenter has reset the room."""
    return st.session_state.get(_ROUND) if room() else None


def next_round() -> None:
    """Move to the room's current round, with nothing counted yet."""
    now = counts()
    if now:
        st.session_state[_ROUND], st.session_state[_COUNTED] = now.round, set()


def reset() -> None:
    """Clear the room's counts; only its host can."""
    code, key = room(), host_key()
    if code and key and classroom().hosts(code, key):
        classroom().reset(code)
