"""Stands in for the processes that check uploaded notes: the same code, in a thread of this process."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

from core.jobs import import_task


class _Input(io.StringIO):
    """Standard input of a check, which begins with its first line."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self._process = process

    def flush(self) -> None:
        if not self.closed and self.getvalue():
            self._process.begin(self.getvalue())


class Process:
    """`python -m core.jobs.import_task FOLDER`, as far as `core.jobs.imports` uses it. `kill` lets it end by itself."""

    def __init__(self, command: Sequence[str], **_: object) -> None:
        self._folder = Path(command[-1])
        self._thread: threading.Thread | None = None
        self.stdin = _Input(self)

    def begin(self, line: str) -> None:
        """Check the notes that a line of JSON names."""
        if self._thread is None:
            asked = json.loads(line)
            work = (self._folder, asked["path"], asked["options"])
            self._thread = threading.Thread(target=import_task.check, args=work, daemon=True)
            self._thread.start()

    def poll(self) -> int | None:
        """0 once the check has ended."""
        return None if self._thread is None or self._thread.is_alive() else 0

    def kill(self) -> None:
        """Nothing: `wait` waits for the end."""

    def wait(self) -> None:
        """Wait for the end of the check."""
        if self._thread is not None:
            self._thread.join()


def run(command: Sequence[str], *, input: bytes, **_: object) -> SimpleNamespace:
    """`python -m core.jobs.import_task first-rows`: what it prints."""
    assert command[-1] == import_task.FIRST_ROWS
    return SimpleNamespace(stdout=json.dumps(import_task.first_rows(json.loads(input))).encode())
