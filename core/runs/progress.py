"""The progress in a run's event log, in the form that pages draw, for runs in progress and finished ones."""

from __future__ import annotations

import copy
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from core.phi.spans import Span
from core.runs.events import EVENTS_FILE, EpochRecord, Event, SampleRecord, StepRecord, read_events_from

ENDED = ("done", "cancelled", "failed")


@dataclass(frozen=True)
class EpochSample:
    """What the model wrote after an epoch (0: before training), with the PHI in it. `step` is the epoch's last step."""

    epoch: int
    step: int
    prompt: str
    text: str  # without the prompt
    spans: tuple[Span, ...]


@dataclass
class Progress:
    """Progress of a run. Lists are parallel: step `steps_taken[i]` had the loss `loss[i]` and had spent `epsilon[i]`.

    `loss` holds None for a step whose Poisson sample was empty; `epsilon` holds None without privacy. At step
    `epoch_steps[i]`, `eval_loss[i]` (nats per token, held-out notes) and `exposure[canary_id][i]` (bits) were measured.
    """

    stage: str = ""
    message: str = ""
    step: int = 0
    steps: int = 0
    epoch: int = 0
    epochs: int = 0
    tokens: int = 0
    done: int = 0  # within an audit stage, or examples within the current training step
    total: int = 0
    step_loss: float | None = None  # mean over the `done` examples of the current training step
    part: int = 0  # number of the current attack of a full audit, counted from 1
    parts: int = 0
    eta_seconds: float | None = None  # of the current stage
    started: float | None = None  # Unix seconds at which the job began, or was resumed
    ends: float | None = None  # Unix seconds at which the whole job should end; None if that is not estimated
    slower: str = ""  # the stage that is so much slower than expected that `ends` was moved out
    updated: float | None = None  # Unix seconds of the last event
    steps_taken: list[int] = field(default_factory=list)
    loss: list[float | None] = field(default_factory=list)
    epsilon: list[float | None] = field(default_factory=list)
    epsilon_end: float | None = None  # what the whole training will have spent; None in logs of earlier versions
    epoch_steps: list[int] = field(default_factory=list)
    eval_loss: list[float | None] = field(default_factory=list)
    exposure: dict[str, list[float]] = field(default_factory=dict)
    samples: list[EpochSample] = field(default_factory=list)  # one an epoch, in their order

    @property
    def share(self) -> float:
        """Completed share of the current stage, 0 to 1; for a full audit, of its attacks."""
        within = self.done / self.total if self.total else 0.0
        if self.parts:
            return min(1.0, (self.part - 1 + within) / self.parts)
        if self.stage != "training":
            return min(1.0, within)
        return min(1.0, (self.step + within) / self.steps) if self.steps else 0.0

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the whole job should end, as of `now` (Unix seconds); None if that is not estimated."""
        return None if self.ends is None else max(0.0, self.ends - now)

    def whole_share(self, now: float) -> float | None:
        """Share of the job's time that is over, 0 to 1; None if its end is not estimated."""
        if self.ends is None or self.started is None:
            return None
        return min(1.0, max(0.0, now - self.started) / max(1e-6, self.ends - self.started, now - self.started))


def progress_of(events: Iterable[Event]) -> Progress:
    """Read an event log from its start. Steps repeated after an interruption count once, with their last values."""
    progress = Progress()
    for event in events:
        _read(progress, event)
    return progress


class Estimator(Protocol):
    """Estimates when a job ends from its events (`core.jobs.time_left`)."""

    started: float | None
    ends: float | None
    slower: str

    def read(self, event: Event) -> None:
        """Take in one event."""

    def at(self, now: float) -> None:
        """Estimate again as of this time, in Unix seconds."""


class ProgressReader:
    """Follows an event log that grows: each call reads only what was added. Threads may share a reader.

    `estimator` makes what estimates the end of the job; it is called when the log begins.
    """

    def __init__(self, folder: Path, estimator: Callable[[], Estimator] | None = None) -> None:
        self.folder = folder
        self._make_estimator = estimator
        self._lock = threading.Lock()
        self._seen: tuple[int, bytes] | None = None
        self._offset, self._progress = 0, Progress()
        self._estimator: Estimator | None = None

    def read(self) -> Progress:
        """The progress so far, as an independent copy."""
        with self._lock:
            log, size = self._log()
            if log != self._seen or size < self._offset:  # the run was cancelled and started again
                self._start_again(log)
            events, self._offset = read_events_from(self.folder, self._offset)
            if events and self._estimator is None and self._make_estimator is not None:
                self._estimator = self._make_estimator()
            for event in events:
                _read(self._progress, event)
                if self._estimator is not None:
                    self._estimator.read(event)
            if self._estimator is not None:
                self._estimate(self._estimator)
            return copy.deepcopy(self._progress)

    def _estimate(self, estimator: Estimator) -> None:
        progress = self._progress
        if progress.stage in ENDED:
            progress.ends = None
            return
        estimator.at(time.time())
        progress.started, progress.ends, progress.slower = estimator.started, estimator.ends, estimator.slower

    def _log(self) -> tuple[tuple[int, bytes] | None, int]:
        """What distinguishes this log from the next one of the same name (None: there is none yet), and its size.

        The inode number is not enough, since file systems reuse that of a removed file. So the first line, which
        contains a time, is compared as well.
        """
        try:
            with (self.folder / EVENTS_FILE).open("rb") as file:
                stat = os.fstat(file.fileno())
                return (stat.st_ino, file.readline()), stat.st_size
        except FileNotFoundError:
            return None, 0

    def _start_again(self, log: tuple[int, bytes] | None) -> None:
        self._seen, self._offset, self._progress, self._estimator = log, 0, Progress(), None


def _read(progress: Progress, event: Event) -> None:
    progress.updated = event.get("time")
    match event["event"]:
        case "stage":
            progress.stage, progress.message = event["stage"], event["message"]
            progress.done = progress.total = progress.part = progress.parts = 0
            progress.step_loss = progress.eta_seconds = None
        case "attack":
            progress.stage, progress.message = f"attack {event['number']} of {event['of']}", event["attack"]
            progress.done, progress.total, progress.eta_seconds = 0, 0, None
            progress.part, progress.parts = event["number"], event["of"]
        case "step":
            _step(progress, event)
        case "progress_in_step":
            progress.done, progress.total, progress.step_loss = event["done"], event["total"], event["loss"]
            progress.steps, progress.epoch, progress.epochs = event["steps"], event["epoch"], event["epochs"]
        case "epoch":
            _epoch(progress, event)
        case "sample":
            _sample(progress, event)
        case "progress":
            progress.done, progress.total = event["done"], event["total"]
            progress.eta_seconds = event["eta_seconds"]
        case "done" | "cancelled" | "failed":  # ENDED
            progress.stage, progress.message, progress.eta_seconds = event["event"], event["message"], None


def _step(progress: Progress, event: StepRecord) -> None:
    while progress.steps_taken and progress.steps_taken[-1] >= event["step"]:
        of_steps: tuple[list[Any], ...] = (progress.steps_taken, progress.loss, progress.epsilon)
        for values in of_steps:
            values.pop()
    while progress.epoch_steps and progress.epoch_steps[-1] >= event["step"]:
        of_epochs: tuple[list[Any], ...] = (progress.epoch_steps, progress.eval_loss, *progress.exposure.values())
        for values in of_epochs:
            values.pop()
    while progress.samples and progress.samples[-1].step >= event["step"]:
        progress.samples.pop()
    progress.steps_taken.append(event["step"])
    progress.loss.append(event["loss"])
    progress.epsilon.append(event["epsilon"])
    progress.epsilon_end = event.get("epsilon_end")
    progress.step, progress.steps = event["step"], event["steps"]
    progress.epoch, progress.epochs = event["epoch"], event["epochs"]
    progress.tokens, progress.eta_seconds = event["tokens"], event["eta_seconds"]
    progress.done, progress.total, progress.step_loss = 0, 0, None


def _epoch(progress: Progress, event: EpochRecord) -> None:
    progress.epoch_steps.append(event["step"])
    progress.eval_loss.append(event["eval_loss"])
    for canary_id, bits in event["canary_exposure"].items():
        progress.exposure.setdefault(canary_id, []).append(bits)


def _sample(progress: Progress, event: SampleRecord) -> None:
    progress.samples = [sample for sample in progress.samples if sample.epoch < event["epoch"]]
    spans = tuple(Span(**{**span, "patient_ids": tuple(span["patient_ids"])}) for span in event["spans"])
    progress.samples.append(EpochSample(event["epoch"], event["step"], event["prompt"], event["text"], spans))
