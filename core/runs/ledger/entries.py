"""The ledger of a cohort: an append-only list of released promises, one small file each.

The files are `ledger/<cohort's digest>/0001.json`, `0002.json`, … in the data folder. A release cannot be undone:
whoever has a model keeps it. So nothing here changes or removes an entry. Each entry contains the digest of the one
before it, and the file `head` (core.runs.ledger.head) that of the newest. A gap, or a missing, edited or damaged file,
is an error and never a smaller total. This protects against accidents and careless edits. Anyone who may write to the
folder can recreate every file, or remove all of them, and no chain of digests shows that; only a copy kept elsewhere
does.

Entries contain the mechanism itself, so deleting a run does not delete its promise. Runs may be shipped (read-only);
the ledger is always in the user's own data folder. `core.runs.ledger.totals` adds the entries up.
"""

from __future__ import annotations

import hashlib
import math
import os
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from core.common.files import create, make_folder, sync
from core.common.folders import locked
from core.runs.integrity.disk import full_disk_as_sentence
from core.runs.ledger.choice import MOST_LETTERS, Choice, in_one_line, refuse_choice, why_not_chosen
from core.runs.ledger.head import Head
from core.runs.run import Run, RunBroken, RunNotFound
from core.runs.store import CohortGone, Workspace
from core.spec import CorpusSpec, Unit
from core.training.accounting.chosen_composition import Chosen
from core.training.accounting.mechanism import Mechanism

FIRST = "the first entry"


class LedgerBroken(ValueError):
    """An entry or the head is missing, damaged or was changed. The message is a sentence naming the file."""


class LedgerChanged(ValueError):
    """After a release was drafted the ledger got another entry, or its run was trained again. A sentence says which."""


class Vocabulary(BaseModel):
    """A word histogram that was released with noise (Hoory 2021, §3.2; `core.models.word_noise`)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epsilon: float = Field(gt=0, description="of the histogram, for one word")
    delta: float = Field(gt=0, lt=1, description="of the histogram, for one word")
    words: int = Field(ge=1, description="k: the largest number of words counted for one unit")
    unit: Unit

    def guarantee(self) -> tuple[float, float]:
        """(ε, δ) for one unit: kε, and max(k, e^((k − 1)ε/2)/4)·δ, at most 1.

        Hoory 2021 gives kδ by basic composition over k words, which holds for k different words. A unit that contains
        a new word k times raises its count at once: the word passes the threshold with probability
        (δ/4)·e^((k − 1)ε/2), which can be more. If this probability δ' leaves no room for renormalising
        (δ' > 1 − e^(−kε/2)), nothing is promised. See docs/methods/ledger.md.
        """
        per_word = math.log(self.delta) + max(math.log(self.words), (self.words - 1) * self.epsilon / 2 - math.log(4))
        delta = math.exp(min(0.0, per_word))
        total = self.words * self.epsilon
        return total, delta if delta <= -math.expm1(-total / 2) else 1.0


class Release(BaseModel):
    """One entry: what was released, why, and what was promised about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    number: int = Field(ge=1)
    time: float = Field(description="Unix seconds")
    cohort: str = Field(description="digest of the cohort's spec")
    corpus: CorpusSpec
    kind: Literal["model", "vocabulary"]
    name: str = Field(min_length=1, description="the run's id, or the vocabulary's name")
    reason: str = Field(min_length=1)
    mechanism: Mechanism | None = Field(None, description="that of a private run; none: trained without privacy")
    seed: int | None = Field(None, description="of a run's training; none if its noise came from a secret key")
    most_notes: int | None = Field(None, ge=1, description="largest number of notes read of one patient; none: all")
    vocabulary: Vocabulary | None = None
    choice: Choice | None = Field(None, description="of a run that was the best of several; none: it was the only one")
    headed: bool = Field(False, description="written when there was a head: without one, something was removed")
    previous: str = Field(description="SHA-256 of the entry before, or a note that there is none")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if (self.kind == "vocabulary") != (self.vocabulary is not None):
            raise ValueError("a vocabulary's entry has its (ε, δ), and no other entry does")
        if self.cohort != self.corpus.digest():
            raise ValueError("an entry's cohort must be that of its spec")
        if self.choice is not None and (self.mechanism is None or why_not_chosen(self.mechanism, self.most_notes)):
            raise ValueError("an entry has a choice whose cost is not known")
        return self

    @property
    def unit(self) -> Unit | None:
        """What the promise protects; None without a promise."""
        promise = self.mechanism or self.vocabulary
        return promise.unit if promise else None

    @property
    def chosen(self) -> Chosen | None:
        """The mechanism of a run that was the best of several, with the choice; None for any other entry."""
        return self.choice.best_of(self.mechanism) if self.choice and self.mechanism else None

    def epsilon(self) -> float:
        """ε that this entry alone promises for one unit, at its own δ; ∞ for a model trained without privacy.

        The choice of a run is part of it.
        """
        if self.mechanism is not None:
            return self.mechanism.epsilon() if self.chosen is None else self.chosen.epsilon()
        return math.inf if self.vocabulary is None else self.vocabulary.guarantee()[0]


def _unknown() -> float:
    """Largest number of notes of a patient, if nobody can count them."""
    return math.inf


def _nowhere(_: str) -> Run | None:
    """The run of a name, if there is no workspace to find it in."""
    return None


@dataclass(frozen=True)
class Ledger:
    """The entries of one cohort. Any process may append; readers see complete entries only."""

    folder: Path
    corpus: CorpusSpec
    notes_of_a_patient: Callable[[], float] = field(default=_unknown, compare=False, repr=False)  # the largest number
    run_of: Callable[[str], Run | None] = field(default=_nowhere, compare=False, repr=False)  # as it is now; None: gone

    @classmethod
    def of(cls, workspace: Workspace, corpus: CorpusSpec) -> Ledger:
        """The ledger of a cohort in the workspace's own data folder; it may not exist yet."""
        folder = workspace.root / "ledger" / corpus.digest()
        return cls(folder, corpus, partial(_most_notes, workspace, corpus), partial(_stored_run, workspace))

    def releases(self) -> list[Release]:
        """Every entry, oldest first. Raises LedgerBroken: a total over part of a ledger would be too small.

        Entries of older versions may be about runs whose cap left notes out (`core.runs.note_cap`). Their mechanism
        accounts for that here, whatever the file says.
        """
        found, newest, head = self._whole()
        if head is not None and newest != head:  # an append was interrupted, or is in progress
            with suppress(OSError), locked(self.folder):  # on a full or read-only disk, the next reader does it
                self._bring_up()
        return self._with_caps(found)

    def _with_caps(self, releases: list[Release]) -> list[Release]:
        """The entries, with replacing neighbours where the run read fewer notes of a patient than there are."""
        capped = [one for one in releases if one.unit == "note" and one.mechanism and one.most_notes]
        if not capped:
            return releases
        most = self.notes_of_a_patient()
        changed = {
            release.number: release.model_copy(update={"mechanism": release.mechanism.replacing()})
            for release in capped
            if release.mechanism and release.most_notes and release.most_notes < most
        }
        return [changed.get(release.number, release) for release in releases]

    def _whole(self) -> tuple[list[Release], Head, Head | None]:
        """The entries, what the head should be, and the head, all checked against each other at one moment."""
        while True:
            head = self._head()
            found, heads = self._chain()
            if head != self._head():  # another process is appending: read again
                continue
            if head is None and any(release.headed for release in found):
                raise LedgerBroken(
                    f"The ledger {self.folder} has no file “head”, so it is unknown whether its newest entry is "
                    "there. Restore the file from a backup."
                )
            if head is not None and head not in heads[-2:]:
                raise LedgerBroken(
                    f"The ledger {self.folder} has {len(found)} entries, but its file “head” names another entry "
                    f"{head.number} as the newest: that entry is missing, or was changed after it was written. Restore "
                    "both from a backup."
                )
            return found, heads[-1], head

    def _head(self) -> Head | None:
        try:
            return Head.read(self.folder)
        except ValueError:
            raise LedgerBroken(f"The ledger's file {self.folder}/head is damaged. Restore it from a backup.") from None

    def _chain(self) -> tuple[list[Release], list[Head]]:
        """The entries, each fitting the one before; and the head before the first and after each of them."""
        found, heads = [], [Head(number=0, sha256=FIRST)]
        for number, path in enumerate(self._files(), start=1):
            if path.name != _file_name(number):
                raise LedgerBroken(
                    f"The ledger {self.folder} has no entry {_file_name(number)}: something that was released is "
                    "not counted. Restore the file from a backup."
                )
            content = path.read_bytes()
            release = self._read(path, content)
            before = heads[-1].sha256
            if release.previous != before or release.number != number or release.cohort != self.corpus.digest():
                raise LedgerBroken(
                    f"The entry {path}, or the one before it, was changed after it was written. Restore both from a "
                    "backup."
                )
            found.append(release)
            heads.append(Head(number=number, sha256=hashlib.sha256(content).hexdigest()))
        return found, heads

    def _bring_up(self) -> tuple[list[Release], Head]:
        """The entries and their head, which the file contains afterwards; call it only while the folder is `locked`."""
        found, newest, head = self._whole()
        if head != newest:
            newest.replace(self.folder)
        return found, newest

    def _files(self) -> list[Path]:
        found = (path for path in self.folder.glob("*.json") if not path.name.startswith("."))
        return sorted(found, key=lambda path: (len(path.name), path.name))  # the ten-thousandth has five digits

    def _read(self, path: Path, content: bytes) -> Release:
        try:
            return Release.model_validate_json(content)
        except ValidationError:
            raise LedgerBroken(f"The ledger's entry {path} is damaged. Restore the file from a backup.") from None

    def draft_run(self, run: Run, reason: str, choice: Choice | None = None) -> Release:
        """The entry for the release of a run's model, as `enter` would write it next. Writes nothing.

        `choice` says that the run was the best of a random number of runs. The author of the entry vouches for
        `CHOICE_HOLDS`.

        Raises:
            ValueError: With a sentence, for an empty reason, the public base model (it contains nothing of the notes),
                a run of another cohort, one that is entered already (releasing the same model again costs nothing
                more; one that was `trained_again` is another), a private run whose noise came from a public seed (its
                ε is not a promise), or a choice whose cost is not known.
        """
        if run.spec.is_base:
            raise ValueError(f"{run.id} is the public base model: it read no notes, so releasing it costs nothing.")
        if run.spec.corpus != self.corpus:
            raise ValueError(f"Run {run.id} was trained on another cohort, which has its own ledger.")
        mechanism = run.privacy
        if mechanism is not None:
            refuse_public_seed(run.id, mechanism)
        if choice is not None:
            refuse_choice(run.id, mechanism, run.note_cap)
        seed = run.spec.training.seed if mechanism is None else None
        promise = {"mechanism": mechanism, "seed": seed, "most_notes": run.note_cap, "choice": choice}
        return self._draft("model", run.id, reason, run, **promise)

    def draft_vocabulary(self, name: str, vocabulary: Vocabulary, reason: str) -> Release:
        """The entry for the release of a vocabulary. Raises ValueError as `draft_run` does."""
        return self._draft("vocabulary", name, reason, vocabulary=vocabulary)

    def _draft(
        self, kind: Literal["model", "vocabulary"], name: str, reason: str, run: Run | None = None, **promise: object
    ) -> Release:
        reason = in_one_line(reason)
        if not reason:
            raise ValueError("A release needs a reason: who gets it, and what for?")
        if len(reason) > MOST_LETTERS:
            raise ValueError(f"The reason of a release has at most {MOST_LETTERS:,} characters, not {len(reason):,}.")
        releases, newest, _ = self._whole()
        for earlier in releases:
            if (earlier.kind, earlier.name) == (kind, name) and (run is None or not trained_again(run, earlier)):
                raise ValueError(
                    f"{name} is in the ledger already, as entry {earlier.number}: releasing the same thing again "
                    "promises nothing new."
                )
        return Release(
            number=newest.number + 1,
            time=time.time(),
            cohort=self.corpus.digest(),
            corpus=self.corpus,
            kind=kind,
            name=name,
            reason=reason,
            previous=newest.sha256,
            headed=True,
            **promise,
        )

    def enter(self, draft: Release) -> Release:
        """Write a drafted entry with the current time. This cannot be undone.

        A draft fits only the ledger and the training that it was made from, so its effect is exactly what the user was
        shown. A model that was trained again meanwhile is another release, with a draft of its own.

        Raises:
            LedgerChanged: The ledger got another entry, or the run was trained again, in the meantime.
        """
        with full_disk_as_sentence("the release", self.folder):
            for folder in (self.folder.parent, self.folder):
                make_folder(folder, private=True)
            with locked(self.folder):
                _, newest = self._bring_up()
                if (draft.number, draft.previous) != (newest.number + 1, newest.sha256):
                    raise LedgerChanged(
                        f"The ledger of cohort {self.corpus.digest()} got another entry after this release was "
                        "shown. Nothing was entered: check what it means now, and confirm again."
                    )
                run = self.run_of(draft.name) if draft.kind == "model" else None
                if run is not None and trained_again(run, draft):
                    raise LedgerChanged(
                        f"Run {draft.name} was trained again after this release was shown: it is another model now. "
                        "Nothing was entered: check what its release means, and confirm again."
                    )
                release = draft.model_copy(update={"time": time.time()})
                self._put(release)
        return release

    def _put(self, release: Release) -> None:
        """Write an entry beside its place, sync it, link it there, and update the head."""
        beside = self.folder / f".{release.number}-{secrets.token_hex(4)}"
        # without a choice and a known training the file is as older versions write it, and they can read it
        silent: dict[str, Any] = {} if release.choice else {"choice": True}
        if release.mechanism is not None and release.mechanism.training is None:
            silent["mechanism"] = {"training"}
        content = release.model_dump_json(indent=1, exclude=silent)
        try:
            create(beside, private=True).write_text(content, encoding="utf-8")
            sync(beside)
            os.link(beside, self.folder / _file_name(release.number))  # fails instead of replacing an entry
        finally:
            beside.unlink(missing_ok=True)
        sync(self.folder)
        Head(number=release.number, sha256=hashlib.sha256(content.encode()).hexdigest()).replace(self.folder)


def is_entered(run: Run, releases: Sequence[Release]) -> bool:
    """Whether this very model is among the entries."""
    return entry_of(run, releases) is not None


def entry_of(run: Run, releases: Sequence[Release]) -> Release | None:
    """The entry of this very model; None if it was not entered."""
    named = (one for one in releases if (one.kind, one.name) == ("model", run.id))
    return next((one for one in named if not trained_again(run, one)), None)


def trained_again(run: Run, entry: Release) -> bool:
    """Whether the run is another training than the entry of its name is about, and so another model with its own ε.

    With secret noise the same settings give other weights each time. Files of older versions do not say which training
    they are of: then a run that ended after it was entered is another.
    """
    own, known = run.privacy, entry.mechanism
    if own is None or known is None or own.noise_source != "secret":
        return False
    if own.training is not None or known.training is not None:
        return own.training != known.training
    return (run.status.finished or 0.0) > entry.time


def _most_notes(workspace: Workspace, corpus: CorpusSpec) -> float:
    """Largest number of training notes of one patient in a cohort; ∞ if the cohort is gone and nobody knows."""
    try:
        notes = workspace.corpus(corpus, store=False).training_notes()
    except CohortGone:
        return _unknown()
    return int(notes.groupby("patient_id").size().max())


def _stored_run(workspace: Workspace, run_id: str) -> Run | None:
    """The run as it is stored now; None if it is gone or damaged."""
    try:
        return workspace.run(run_id)
    except (RunNotFound, RunBroken):
        return None


def refuse_public_seed(run_id: str, mechanism: Mechanism) -> None:
    """Raise ValueError, with a sentence, for a private run whose noise came from a public seed."""
    if mechanism.noise_source != "secret":
        raise ValueError(
            f"Run {run_id} took its noise from a public seed, so anyone can generate it again. Its ε is shown, not "
            "promised. To release a private model, train it with secret noise (`python -m core train --secret-noise`, "
            "or the switch on the Train page). On imported notes every new run has secret noise: delete an older one "
            "and train it again."
        )


def _file_name(number: int) -> str:
    return f"{number:04d}.json"
