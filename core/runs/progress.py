"""The progress in a run's event log, in the form that pages draw, for runs in progress and finished ones."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.runs.events import EVENTS_FILE, read_events_from


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
    updated: float | None = None  # Unix seconds of the last event
    steps_taken: list[int] = field(default_factory=list)
    loss: list[float | None] = field(default_factory=list)
    epsilon: list[float | None] = field(default_factory=list)
    epoch_steps: list[int] = field(default_factory=list)
    eval_loss: list[float | None] = field(default_factory=list)
    exposure: dict[str, list[float]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Completed share of the current stage, 0 to 1; for a full audit, of its attacks."""
        within = self.done / self.total if self.total else 0.0
        if self.parts:
            return min(1.0, (self.part - 1 + within) / self.parts)
        if self.stage != "training":
            return min(1.0, within)
        return min(1.0, (self.step + within) / self.steps) if self.steps else 0.0


def progress_of(events: Iterable[dict[str, Any]]) -> Progress:
    """Read an event log from its start. Steps repeated after an interruption count once, with their last values."""
    progress = Progress()
    for event in events:
        _read(progress, event)
    return progress


class ProgressReader:
    """Follows an event log that grows: each call reads only what was added. Threads may share a reader."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._seen: tuple[int, bytes] | None = None
        self._offset, self._progress = 0, Progress()

    def read(self) -> Progress:
        """The progress so far, as an independent copy."""
        with self._lock:
            log, size = self._log()
            if log != self._seen or size < self._offset:  # the run was cancelled and started again
                self._start_again(log)
            events, self._offset = read_events_from(self.folder, self._offset)
            for event in events:
                _read(self._progress, event)
            return copy.deepcopy(self._progress)

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
        self._seen, self._offset, self._progress = log, 0, Progress()


def _read(progress: Progress, event: dict[str, Any]) -> None:
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
        case "progress":
            progress.done, progress.total = event["done"], event["total"]
            progress.eta_seconds = event["eta_seconds"]
        case "done" | "cancelled" | "failed":
            progress.stage, progress.message, progress.eta_seconds = event["event"], event["message"], None


def _step(progress: Progress, event: dict[str, Any]) -> None:
    while progress.steps_taken and progress.steps_taken[-1] >= event["step"]:
        of_steps: tuple[list[Any], ...] = (progress.steps_taken, progress.loss, progress.epsilon)
        for values in of_steps:
            values.pop()
    while progress.epoch_steps and progress.epoch_steps[-1] >= event["step"]:
        of_epochs: tuple[list[Any], ...] = (progress.epoch_steps, progress.eval_loss, *progress.exposure.values())
        for values in of_epochs:
            values.pop()
    progress.steps_taken.append(event["step"])
    progress.loss.append(event["loss"])
    progress.epsilon.append(event["epsilon"])
    progress.step, progress.steps = event["step"], event["steps"]
    progress.epoch, progress.epochs = event["epoch"], event["epochs"]
    progress.tokens, progress.eta_seconds = event["tokens"], event["eta_seconds"]
    progress.done, progress.total, progress.step_loss = 0, 0, None


def _epoch(progress: Progress, event: dict[str, Any]) -> None:
    progress.epoch_steps.append(event["step"])
    progress.eval_loss.append(event["eval_loss"])
    for canary_id, bits in event["canary_exposure"].items():
        progress.exposure.setdefault(canary_id, []).append(bits)
