"""A run's event log `events.jsonl` (append-only) and `status.json` (replaced as a whole), safe to read at any time."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict, cast

from pydantic import BaseModel, ConfigDict, ValidationError

from core.common.files import file_mode, replace_text

State = Literal["queued", "running", "done", "cancelled", "failed"]
EVENTS_FILE = "events.jsonl"
STATUS_FILE = "status.json"
CANCEL_FILE = "cancel"  # a file of this name in a job's folder asks the process that works on the job to stop
PROGRESS_SECONDS = 0.25
LOOK_SECONDS = 0.2  # between two looks at the disk for a request to stop

# The events, one class for each line of the table in docs/reference/events.md. A line may have more keys: one that a
# later version wrote.


class _Timed(TypedDict):
    time: NotRequired[float]  # Unix seconds; `append_event` adds it


class StageRecord(_Timed):
    """A stage begins."""

    event: Literal["stage"]
    stage: str
    message: str


class InStepRecord(_Timed):
    """Part of a step's logical batch is done; the further fields are those of `core.training.events.InStepEvent`."""

    event: Literal["progress_in_step"]
    step: int
    steps: int
    epoch: int
    epochs: int
    done: int
    total: int
    loss: float | None


class StepRecord(_Timed):
    """A step is done; the further fields are those of `core.training.events.StepEvent`."""

    event: Literal["step"]
    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float | None
    epsilon: float | None
    epsilon_end: NotRequired[float | None]  # not in logs of earlier versions
    tokens: int
    seconds: float
    eta_seconds: float


class EpochRecord(_Timed):
    """An epoch is done; the further fields are those of `core.training.events.EpochEvent`."""

    event: Literal["epoch"]
    epoch: int
    step: int
    loss: float | None
    eval_loss: float | None
    epsilon: float | None
    canary_exposure: dict[str, float]


class Sample(TypedDict):
    """What a model wrote after `prompt`; each of the spans has the fields of `core.phi.spans.Span`."""

    prompt: str
    seed: int
    text: str
    spans: list[dict[str, Any]]


class SampleRecord(_Timed, Sample):
    """What the model wrote after an epoch, or before training (0)."""

    event: Literal["sample"]
    epoch: int
    step: int


class ProgressRecord(_Timed):
    """Part of a stage is done; in a full audit, of an attack."""

    event: Literal["progress"]
    attack: NotRequired[str]
    done: int
    total: int
    eta_seconds: float | None


class AttackRecord(_Timed):
    """An attack of a full audit begins."""

    event: Literal["attack"]
    attack: str
    number: int
    of: int


class OutcomeRecord(_Timed):
    """How an attack of a full audit ended."""

    event: Literal["outcome"]
    attack: str
    state: Literal["done", "failed", "not possible"]
    seconds: float
    message: str


class EndRecord(_Timed):
    """The job has ended."""

    event: Literal["done", "cancelled", "failed"]
    message: str


Event = (
    StageRecord
    | InStepRecord
    | StepRecord
    | EpochRecord
    | SampleRecord
    | ProgressRecord
    | AttackRecord
    | OutcomeRecord
    | EndRecord
)
Listener = Callable[[Event], None]


def asked_to_cancel(folder: Path, withdrawn: Callable[[], bool] = lambda: False) -> Callable[[], bool]:
    """A function that tells whether a job was cancelled: its folder has a cancel file, or it was `withdrawn`.

    It may be called as often as one likes: it looks at the disk at most five times a second.
    """
    looked, found = -math.inf, False

    def stop() -> bool:
        nonlocal looked, found
        now = time.monotonic()
        if not found and now - looked > LOOK_SECONDS:
            looked = now
            found = (folder / CANCEL_FILE).exists() or withdrawn()
        return found

    return stop


def still_submitted(folder: Path) -> Callable[[], bool]:
    """A function that tells whether the job that waits in this folder now, if one does, was not cancelled since.

    Another job may make its run meanwhile, and be cancelled.
    """
    before = read_status(folder)
    waits = before is not None and before.state == "queued" and before.submitted is not None
    return lambda: waits and not (folder / CANCEL_FILE).exists()


class Status(BaseModel):
    """State of a run. Times are Unix seconds; None means not yet."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    state: State
    message: str = ""
    submitted: float | None = None
    started: float | None = None
    finished: float | None = None


def _finite(value: Any) -> Any:
    """Replace infinity and NaN by null, which JSON lacks (docs/reference/events.md: ε without privacy is null)."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    if hasattr(value, "item"):  # a numpy or torch scalar
        value = value.item()
    return None if isinstance(value, float) and not (-1e308 <= value <= 1e308) else value


def append_event(folder: Path, event: Event) -> Event:
    """Append one event to the folder's log in a single write, with the time, and return it as stored.

    A line that an earlier writer could not finish (it was killed, or the disk was full) is ended first, so that only
    that event is lost. Raises OSError if the event could not be written as a whole.
    """
    record = {"time": time.time(), **_finite(event)}
    line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
    descriptor = os.open(folder / EVENTS_FILE, os.O_RDWR | os.O_APPEND | os.O_CREAT, file_mode(folder))
    try:
        size = os.fstat(descriptor).st_size
        left = (b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b"") + line.encode()
        while left:  # a disk that is nearly full takes a part, and reports the error at the next write
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)
    return cast(Event, record)


def read_events(folder: Path) -> list[Event]:
    """All complete events of a folder, oldest first; an empty list if there is no log yet.

    An incomplete line (its writer was killed, or is writing at this moment) is skipped.
    """
    return read_events_from(folder, 0)[0]


def read_events_from(folder: Path, offset: int) -> tuple[list[Event], int]:
    """Events from a byte offset on, and the offset for the next call (the end of the last complete line)."""
    try:
        with (folder / EVENTS_FILE).open("rb") as file:
            file.seek(offset)
            text = file.read()
    except FileNotFoundError:
        return [], 0
    whole = text.rfind(b"\n") + 1
    return list(_parsed(text[:whole])), offset + whole


def _parsed(text: bytes) -> Iterator[Event]:
    for line in text.split(b"\n"):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("event"), str):
            yield cast(Event, record)  # of any kind and with any keys: readers pass over what they do not know


class EventLog:
    """Writes a run's events as they happen and passes each one on to `listener`."""

    def __init__(self, folder: Path, listener: Listener | None = None) -> None:
        self.folder = folder
        self.listener = listener
        self._stage_began = time.monotonic()
        self._last_progress = 0.0

    def emit(self, event: Event) -> None:
        """Append an event."""
        record = append_event(self.folder, event)
        if self.listener is not None:
            self.listener(record)

    def stage(self, stage: str, message: str) -> None:
        """Report the start of a stage."""
        self._stage_began, self._last_progress = time.monotonic(), 0.0
        self.emit({"event": "stage", "stage": stage, "message": message})

    def progress(self, done: int, total: int) -> None:
        """Report progress within the stage, at most four times a second; its end is always reported."""
        now = time.monotonic()
        if done < total and now - self._last_progress < PROGRESS_SECONDS:
            return
        self._last_progress = now
        eta = (now - self._stage_began) * (total - done) / done if done else None
        self.emit({"event": "progress", "done": done, "total": total, "eta_seconds": eta})


def write_status(folder: Path, status: Status) -> None:
    """Replace `status.json` as a whole: a reader sees either the old one or the new one."""
    replace_text(folder / STATUS_FILE, status.model_dump_json())


def read_status(folder: Path) -> Status | None:
    """The folder's status, or None if it has none that can be read."""
    try:
        return Status.model_validate_json((folder / STATUS_FILE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
