"""A session's notes and guesses: dealt a few at a time, by the class or, alone, by the session itself."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import streamlit as st

from core.runs.run import Run
from pages.parts.auditor import deck
from pages.parts.auditor.deck import Card
from pages.parts.session import classroom, gone
from pages.parts.session.room_values import Vote

ALONE, IN_CLASS = 9, 6  # notes dealt at a time: alone, enough to prove something; a class counts its guesses together
_STATE = "auditor"


@dataclass
class _Own:
    """What this session has been dealt and has guessed, in one class (or alone) and one of its rounds."""

    place: tuple[str | None, int | None]
    salt: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    hands: dict[str, list[int]] = field(default_factory=dict)  # hospital → places in the deck, not yet guessed
    dealt: dict[str, int] = field(default_factory=dict)
    used_up: set[str] = field(default_factory=set)
    votes: dict[str, list[Vote]] = field(default_factory=dict)  # run id → guesses in their order
    last: dict[str, Card] = field(default_factory=dict)  # run id → the note of the newest of these


def _own() -> _Own:
    place = (classroom.room(), classroom.joined_round())
    own = st.session_state.get(_STATE)
    if own is None or own.place != place:
        own = st.session_state[_STATE] = _Own(place)
    return own


@gone.drops
def _drop_gone(still: gone.Still) -> None:
    """Forget the notes that were guessed about last, where the model is gone, and the guesses about it."""
    own: _Own | None = st.session_state.get(_STATE)
    if own is None or not own.last:
        return
    for run_id in set(own.last) - still.runs:
        del own.last[run_id]
        own.votes.pop(run_id, None)


def next_card(run: Run) -> Card | None:
    """The note to guess about; None if the hand is played, or the deck is empty."""
    return next((card for _, card in _hand(run)), None)


def left(run: Run) -> int:
    """Notes that are left in the hand."""
    return len(_hand(run))


def _hand(run: Run) -> list[tuple[int, Card]]:
    """The places in the hand with their notes, without those that this run skips."""
    own = _own()
    every = deck.cards(run, own.salt)
    hand = own.hands.get(deck.hospital(run), [])
    return [(place, card) for place in hand if place < len(every) and (card := every[place]) is not None]


def hand() -> int:
    """How many notes are dealt at a time."""
    return IN_CLASS if classroom.room() else ALONE


def deal(run: Run) -> None:
    """Take the next notes; in a class, notes that no one else gets."""
    own, name = _own(), deck.hospital(run)
    number = hand()
    shared = classroom.deal(name, number)
    if shared is None:
        first = own.dealt.get(name, 0)
        own.dealt[name] = first + number
        places = range(first, first + number)
    else:
        own.salt, places = shared
    size = len(deck.cards(run, own.salt))
    own.hands[name] = [place for place in places if place < size]
    if not places or places.stop >= size:
        own.used_up.add(name)


def used_up(run: Run) -> bool:
    """Whether no note of this hospital's deck is left to deal."""
    return deck.hospital(run) in _own().used_up


def guess(run: Run, card: Card, says_member: bool, *, helped: bool) -> None:
    """Keep a guess about the first note of the hand, and count it for the class.

    A second click on the same note, before the page shows the next one, is none.
    """
    hand = _hand(run)
    if not hand or hand[0][1] != card:
        return
    own = _own()
    vote = Vote(right=says_member == card.member, machine=card.machine == card.member, helped=helped)
    own.hands[deck.hospital(run)] = [place for place in own.hands[deck.hospital(run)] if place > hand[0][0]]
    own.votes.setdefault(run.id, []).append(vote)
    own.last[run.id] = card
    classroom.voted(run.id, vote)


def last_answer(run: Run) -> str:
    """Whether one's own newest guess about a model was right, and the machine's, in a sentence; empty before one.

    Knowing it proves nothing more: the bound holds whatever was guessed before, and each note has a separate coin.
    """
    own = _own()
    card, mine = own.last.get(run.id), own.votes.get(run.id)
    if card is None or not mine:
        return ""
    was = "It was in the training data." if card.member else "The model was not trained on it."
    newest = mine[-1]
    machine = f"{'right' if newest.machine else 'wrong'}{', too' if newest.machine == newest.right else ''}"
    return f"**{'Right' if newest.right else 'Wrong'}.** {was} The machine was {machine}."


def votes(run: Run) -> list[Vote]:
    """The guesses about a model in their order: the class's, or one's own."""
    now = classroom.counts()
    return list(_own().votes.get(run.id, ()) if now is None else now.votes.get(run.id, ()))
