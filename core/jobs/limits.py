"""Permissions for the queue: limits per user, owners of jobs, and the instructor's key.

Commands are run by the machine's owner and have no limits. On the pages, a user is a browser session or a signed-in
person. `make class` sets PHILAB_CLASS=1, which makes the limits strict and lets users cancel only their own jobs, and
PHILAB_INSTRUCTOR_KEY: anyone who knows the key can cancel and reorder all jobs, close the queue, and has no limits.
"""

from __future__ import annotations

import hmac
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.common.in_memory_duckdb import cursor
from core.spec import MEMBER_SHARE, RunSpec

log = logging.getLogger(__name__)

# Seconds on two busy cores for the shipped (tiny) size, about three times what two idle ones need, so that limits hold
# on a slow machine, too. What a user is shown beforehand is `core.jobs.stage_times`.
NOTE_SECONDS = 0.0125  # of training, for one note in one epoch, with privacy
SCORE_SECONDS = 0.0025  # for scoring one note
START_SECONDS = 30.0  # quick audit, figures and saving
AUDIT_SECONDS = 0.11  # of the full audit, for one training note of GPT-2
TIME_BY_SIZE = {"micro": 0.4, "tiny": 1.0, "small": 3.3}  # a factor; measured with both kinds, 1.4 to 25 ms a note
MASKED = 2.4  # factor of time for the full audit of DistilBERT and BERT
USUAL_CHARACTERS = 170  # of a synthetic note, on average; an imported note counts once for each of these


class Refused(ValueError):
    """A user may not submit a job or change the queue in this way. The message is a sentence that says why."""


@dataclass(frozen=True)
class User:
    """A user of a page.

    Attributes:
        name: Tells users apart, and is not shown to others.
        key: What they typed as the instructor's key.
        instructor: Whether their role is that of an instructor; None where people have no roles, and the key decides.
    """

    name: str
    key: str = field(default="", repr=False)
    instructor: bool | None = None


@dataclass(frozen=True)
class Limits:
    """The most that one user, and all users together, may submit. None = no limit.

    Attributes:
        jobs: A user's waiting and running jobs.
        minutes: The estimated minutes of one job.
        day_minutes: The estimated minutes of all jobs that a user submitted in the last 24 hours.
        queue: The waiting and running jobs of all users.
        key: The instructor's key; if it is empty, every user has the instructor's rights.
    """

    jobs: int | None = 20
    minutes: float | None = 1_440
    day_minutes: float | None = 2_880
    queue: int | None = 200
    key: str = field(default="", repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str] = os.environ) -> Limits:
        """The limits in the environment; the defaults are those for a personal computer, or for a class."""
        key = environment.get("PHILAB_INSTRUCTOR_KEY", "").strip()
        in_class = environment.get("PHILAB_CLASS") == "1" or bool(key)
        usual = CLASS if in_class else cls()
        named: dict[str, Any] = {
            name: _limit(environment, variable, getattr(usual, name)) for name, variable in VARIABLES.items()
        }
        return replace(usual, **named, key=key if key or not in_class else NOBODY)

    @property
    def in_class(self) -> bool:
        """Whether users may cancel only their own jobs, because an instructor manages the queue."""
        return bool(self.key)

    def instructs(self, user: User | None) -> bool:
        """Whether this user may change the whole queue.

        The machine's owner (None) may. Of signed-in people those may whose role says so, whatever key they know. Of
        others those may who know the key, or everybody if there is none.
        """
        if user is not None and user.instructor is not None:
            return user.instructor
        if user is None or not self.key:
            return True
        if self.key == NOBODY:
            return False
        return hmac.compare_digest(self.key.encode(), user.key.strip().encode())


CLASS = Limits(jobs=2, minutes=20, day_minutes=90, queue=40)
VARIABLES = {
    "jobs": "PHILAB_JOBS_PER_USER",
    "minutes": "PHILAB_MINUTES_PER_JOB",
    "day_minutes": "PHILAB_MINUTES_PER_DAY",
    "queue": "PHILAB_QUEUE",
}
NOBODY = "\0"  # key of a class without a key: no typed text equals it, so nobody is the instructor


def _limit(environment: Mapping[str, str], variable: str, usual: float | None) -> float | None:
    """A limit from a variable: a whole number from 0 up, or `none`. Otherwise logs a warning and uses the default."""
    value = environment.get(variable, "").strip().lower()
    if not value:
        return usual
    if value == "none":
        return None
    if value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    log.warning("%s is “%s”: it must be a whole number or “none”. The default, %s, is used.", variable, value, usual)
    return usual


# How long a job takes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notes:
    """How many notes of usual length a job reads: `trained` in each epoch, and `every` note of the cohort."""

    trained: float
    every: float


def expected_notes(spec: RunSpec) -> Notes:
    """What a run reads, from its spec alone: the cohort need not exist yet. Copies of canaries are notes, too."""
    corpus, cap = spec.corpus, spec.note_cap
    per_patient = corpus.notes_per_patient if cap is None else min(corpus.notes_per_patient, cap)
    return Notes(
        trained=corpus.patients * MEMBER_SHARE * per_patient + corpus.canary_notes(cap),
        every=(corpus.patients + corpus.population) * corpus.notes_per_patient + corpus.canary_notes(),
    )


def notes_read(spec: RunSpec, cohort: Path | None) -> Notes:
    """What a run reads: of imported notes those that are stored in the folder `cohort`, otherwise what is expected.

    A long imported note counts as several. `CorpusSpec.notes_per_patient` does not say how much there is to read: it
    has a maximum, and notes may have any length.
    """
    if spec.corpus.imported is None or cohort is None:
        return expected_notes(spec)
    query = """
        WITH notes AS (
            SELECT split, greatest(1.0, length(text) / $usual) AS weight,
                row_number() OVER (PARTITION BY patient_id ORDER BY file_row_number) AS place
            FROM read_parquet($file, file_row_number = true)
        )
        SELECT coalesce(sum(weight) FILTER (split IN ('member', 'canary') AND place <= $cap), 0), sum(weight) FROM notes
    """
    cap = 2**31 if spec.note_cap is None else spec.note_cap
    with cursor() as database:
        asked = {"usual": USUAL_CHARACTERS, "file": str(cohort / "notes.parquet"), "cap": cap}
        (found,) = database.execute(query, asked).fetchall()
    return Notes(*map(float, found))


def run_minutes(spec: RunSpec, notes: Notes | None = None) -> float:
    """A rough estimate of the minutes that a run takes, for limits only. `notes` are the expected ones by default."""
    notes, size = notes or expected_notes(spec), TIME_BY_SIZE[spec.model.size]
    training = notes.trained * spec.training.epochs * (spec.training.masks or 1) * NOTE_SECONDS
    generation = START_SECONDS * spec.audit.samples_per_prompt / 100
    return size * (training + 2 * notes.every * SCORE_SECONDS + generation) / 60


def audit_minutes(spec: RunSpec, notes: Notes | None = None) -> float:
    """A rough estimate of the minutes that the full audit of a run takes, for limits only."""
    notes, masked = notes or expected_notes(spec), 1.0 if spec.model.kind == "gpt2" else MASKED
    return TIME_BY_SIZE[spec.model.size] * masked * (START_SECONDS + notes.trained * AUDIT_SECONDS) / 60


# What users submit ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request:
    """A job that a user submits. `size` says in words what the estimate is based on."""

    minutes: float
    size: str

    @classmethod
    def of(cls, spec: RunSpec, cohort: Path | None, *, full_audit: bool) -> Request:
        """Training or attacking a run on the cohort in this folder, if it is stored."""
        return (cls.full_audit if full_audit else cls.run)(spec, notes_read(spec, cohort))

    @classmethod
    def run(cls, spec: RunSpec, notes: Notes | None = None) -> Request:
        """Training a run."""
        notes, epochs, masks = notes or expected_notes(spec), spec.training.epochs, spec.training.masks or 1
        read = f"{notes.trained:,.0f} notes × {epochs:,} epoch{'' if epochs == 1 else 's'}"
        return cls(run_minutes(spec, notes), read if masks == 1 else f"{read} × {masks} masks")

    @classmethod
    def full_audit(cls, spec: RunSpec, notes: Notes | None = None) -> Request:
        """Attacking a run."""
        notes = notes or expected_notes(spec)
        return cls(audit_minutes(spec, notes), f"every attack on {notes.trained:,.0f} notes")


def check(limits: Limits, request: Request, *, own: int, everybody: int, day_minutes: float) -> None:
    """Raise Refused, with a sentence, for a job beyond a user's limits.

    Args:
        limits: Those of this server.
        request: The job.
        own: Number of the user's waiting and running jobs.
        everybody: Number of all waiting and running jobs.
        day_minutes: Estimated minutes that the user submitted in the last 24 hours.
    """
    if limits.minutes is not None and request.minutes > limits.minutes:
        raise Refused(
            f"This job would take about {_minutes(request.minutes)} ({request.size}); the limit here is "
            f"{_minutes(limits.minutes)}. Choose the short training, fewer epochs or a smaller hospital."
        )
    if limits.jobs is not None and own >= limits.jobs:
        jobs = "1 job" if own == 1 else f"{own} jobs"
        raise Refused(
            f"You have {jobs} waiting or running, and the limit here is {limits.jobs}. Wait until one is done, or "
            "cancel one on the Train page."
        )
    if limits.day_minutes is not None and day_minutes + request.minutes > limits.day_minutes:
        raise Refused(
            f"This job would take about {_minutes(request.minutes)}. You have submitted {_minutes(day_minutes)} in the "
            f"last 24 hours, and the limit here is {_minutes(limits.day_minutes)}."
        )
    if limits.queue is not None and everybody >= limits.queue:
        raise Refused(f"{everybody} jobs are already waiting or running, the limit of this server. Try again later.")


def _minutes(minutes: float) -> str:
    """`1 minute`, `90 minutes`, `40 hours`, `56,250 days`."""
    for unit, length, most in (("minute", 1, 120), ("hour", 60, 72), ("day", 1_440, float("inf"))):
        count = max(1, round(minutes / length)) if minutes > 0 else 0
        if count <= most:
            return f"{count:,} {unit}{'' if count == 1 else 's'}"
    raise AssertionError("a day has no most")


def in_words(limits: Limits, instructs: bool) -> Sequence[str]:
    """The limits of one user in words, for pages; empty for a user without limits."""
    if instructs and limits.in_class:
        return ()
    found = []
    if limits.jobs is not None:
        found.append(f"{limits.jobs} job{'' if limits.jobs == 1 else 's'} at a time")
    if limits.minutes is not None:
        found.append(f"{_minutes(limits.minutes)} per job")
    if limits.day_minutes is not None:
        found.append(f"{_minutes(limits.day_minutes)} of jobs in any 24 hours")
    return found
