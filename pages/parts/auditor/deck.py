"""The notes that auditors guess about: each was put into the deck from members or from others by a fair coin."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from core.attacks.membership.scores import LOSS
from core.corpus.tables import JUDGED_SPLITS
from core.runs.run import Run
from core.spec import audit_of
from pages.parts.session import owner, resources

SPARE = 2.5  # standard deviations of heads that a deck leaves on each side: one runs out in fewer than 1 of 100 decks


@dataclass(frozen=True)
class Card:
    """One note of the deck.

    `member`: the model was trained on it. `familiar`: the share of the deck's other notes that the model finds less
    likely than this one, token by token.
    """

    text: str
    member: bool
    familiar: float

    @property
    def machine(self) -> bool:
        """The machine's guess: the half of the deck that the model finds likelier was in the training data."""
        return self.familiar >= 0.5


def cards(run: Run, salt: bytes) -> tuple[Card | None, ...]:
    """The deck of a run in the order that `salt` gives, one note of each patient. Empty if the run keeps no scores.

    The deck is the hospital's, so that a patient who was guessed about does not come again with another run. A run
    skips a place (None) if it did not score both notes between which the coin decided there, for example of a patient
    whom its training left out: which places it skips says nothing about the coins.
    """
    return _cards(run.id, salt, run)


def hospital(run: Run) -> str:
    """The name of a run's patients: a deck is dealt once for all runs on them."""
    return run.spec.corpus.digest()


@resources.cached_object(max_entries=30, show_spinner=False)
def _cards(run_id: str, salt: bytes, _run: Run) -> tuple[Card | None, ...]:
    if _run.figures_only:
        return ()
    corpus = owner.workspace().corpus(_run.spec.corpus)
    notes = corpus.evaluation_notes(None, audit_of(_run.spec.corpus))
    notes = notes.loc[notes["split"].isin(JUDGED_SPLITS), ["note_id", "patient_id", "split"]].sort_values("note_id")
    seed = int.from_bytes(hashlib.blake2b(hospital(_run).encode(), key=salt, digest_size=8).digest())
    places = drawn(notes.assign(member=notes["split"] == "member"), np.random.default_rng(seed))
    scores = _run.table("scores")
    own = scores[scores["attack"] == LOSS].set_index("note_id")["score"]
    both = places["note_id"].isin(own.index) & places["rival"].isin(own.index)
    ranks = places["note_id"].map(own).where(both).rank(method="average")
    familiar = (ranks - 1) / max(1, int(both.sum()) - 1)
    texts = corpus.notes.set_index("note_id")["text"]
    return tuple(
        Card(texts[note], bool(member), float(share)) if scored else None
        for note, member, share, scored in zip(places["note_id"], places["member"], familiar, both, strict=True)
    )


def drawn(notes: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """One note of each of as many patients as fair coins allow: the coin says from which side the next one comes.

    The deck's length is fixed before the first coin, and such that hardly ever a side runs out of patients before it: a
    deck that ends when one does would give its last cards away.

    Args:
        notes: a row a note, with columns note_id, patient_id and member; members and held-out patients.
        rng: the coins, the order of patients, and which of their notes is taken.

    Returns:
        The rows of these notes in their order, and in the column `rival` the note that the coin decided against, which
        may come at a later place.
    """
    each = notes.sample(frac=1.0, random_state=rng).drop_duplicates("patient_id")
    # Shuffled again: the first of each patient's notes comes early for patients with many notes, and cards are dealt
    # from the end.
    each = each.sample(frac=1.0, random_state=rng)
    sides = {member: list(each.index[each["member"] == member]) for member in (True, False)}
    fewest = min(map(len, sides.values()))
    length = max(1, int(2 * fewest - SPARE * math.sqrt(2 * fewest)))
    taken: list[Hashable] = []
    rivals: list[Hashable] = []
    while len(taken) < length and all(sides.values()):
        member = bool(rng.integers(2))
        taken.append(sides[member].pop())
        rivals.append(sides[not member][-1])
    return each.loc[taken].assign(rival=each.loc[rivals, "note_id"].to_numpy())
