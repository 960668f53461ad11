"""A session's notes and guesses: dealt a few at a time, by the class or, alone, by the session itself."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import streamlit as st

from core.runs.run import Run
from pages.parts.auditor import deck
from pages.parts.auditor.deck import Card
from pages.parts.session import classroom
from pages.parts.session.rooms import Audited, Vote

HAND = 6  # notes dealt at a time
_STATE = "auditor"


@dataclass
class _Own:
    """What this session has been dealt and has guessed, in one class (or alone) and one of its rounds."""

    place: tuple[str | None, int | None]
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    hands: dict[str, list[int]] = field(default_factory=dict)  # run id → places in the deck, not yet guessed
    dealt: dict[str, int] = field(default_factory=dict)
    used_up: set[str] = field(default_factory=set)
    votes: dict[Audited, list[Vote]] = field(default_factory=dict)


def _own() -> _Own:
    place = (classroom.room(), classroom.joined_round())
    own = st.session_state.get(_STATE)
    if own is None or own.place != place:
        own = st.session_state[_STATE] = _Own(place)
    return own


def next_card(run: Run) -> Card | None:
    """The note to guess about; None if the hand is played, or the deck is empty."""
    own = _own()
    every = deck.cards(run, own.salt)
    hand = own.hands.get(run.id, [])
    return every[hand[0]] if hand and hand[0] < len(every) else None


def left(run: Run) -> int:
    """Notes that are left in the hand."""
    return len(_own().hands.get(run.id, []))


def deal(run: Run) -> None:
    """Take the next notes; in a class, notes that nobody else gets."""
    own = _own()
    shared = classroom.deal(run.id, HAND)
    if shared is None:
        first = own.dealt.get(run.id, 0)
        own.dealt[run.id] = first + HAND
        places = range(first, first + HAND)
    else:
        own.salt, places = shared
    size = len(deck.cards(run, own.salt))
    own.hands[run.id] = [place for place in places if place < size]
    if places.stop >= size:
        own.used_up.add(run.id)


def used_up(run: Run) -> bool:
    """Whether no note of this model's deck is left to deal."""
    return run.id in _own().used_up


def guess(run: Run, card: Card, says_member: bool, *, helped: bool) -> None:
    """Keep a guess about the first note of the hand, and count it for the class."""
    own = _own()
    vote = Vote(right=says_member == card.member, machine=card.machine == card.member)
    audited = Audited(run.id, helped)
    own.hands[run.id].pop(0)
    own.votes.setdefault(audited, []).append(vote)
    classroom.voted(audited, vote)


def votes(run: Run) -> dict[bool, list[Vote]]:
    """The guesses about a model, without (False) and with its help (True): the class's, or one's own."""
    now = classroom.counts()
    found = _own().votes if now is None else now.votes
    return {helped: list(found.get(Audited(run.id, helped), ())) for helped in (False, True)}
