"""Checks of uploaded notes, each in a separate process, outside the queue of runs.

The engine's only worker may train for an hour, and everybody sees its jobs. A check is short, and only its owner should
know of it. So there is no list of checks: whoever starts one holds the only handle to it.
"""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from core.common.program import PROGRAM
from core.corpus.importing.files import BadNotes
from core.corpus.importing.importer import STAGES, Seen
from core.jobs.import_task import COHORT, FAILED_FILE, FIRST_ROWS, NO_MEMORY, PROGRESS_FILE, SEEN_FILE
from core.runs.uploads.scratch import Scratch

COMMAND = [sys.executable, "-m", "core.jobs.import_task"]
PREVIEW_SECONDS = 60
AT_ONCE = 2  # number of checks that run at the same time; the others wait
MOST_SECONDS = 20 * 60.0  # a check that runs longer is ended, so that it does not keep others waiting for ever
LOOK_SECONDS = 0.2
ETA_FROM = 0.05  # share of the whole from which the remaining time is estimated

CheckState = Literal["queued", "running", "done", "failed", "ended"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckProgress:
    """Progress of a check. `share` is that of the whole; `eta_seconds` is None while there is no estimate."""

    what: str = ""
    done: int = 0
    total: int = 0
    share: float = 0.0
    eta_seconds: float | None = None


class Check:
    """One check: started by `Checks.start`, and removed with everything it wrote by `end`."""

    def __init__(self, root: Path, path: Path, options: dict[str, Any], alive: Callable[[], bool]) -> None:
        self.state: CheckState = "queued"
        self.message = ""
        self.seen: Seen | None = None
        self._asked = {"path": str(path), "options": options}
        self._folder = Scratch(root, alive)
        self._process: subprocess.Popen | None = None
        self._latest = math.inf  # on the monotonic clock, when a running check is ended
        self._lock = threading.RLock()

    @property
    def cohort(self) -> Path:
        """The folder with the cohort, once the state is `done`."""
        return self._folder.path / COHORT

    @property
    def active(self) -> bool:
        """True while the check waits or runs."""
        return self.state in ("queued", "running")

    def progress(self) -> CheckProgress:
        """The progress that the check last reported."""
        said = _read(self._folder.path / PROGRESS_FILE)
        if said is None or said["what"] not in STAGES:
            return CheckProgress()
        before = sum(list(STAGES.values())[: list(STAGES).index(said["what"])])
        within = min(1.0, said["done"] / max(1, said["total"]))
        share = before + STAGES[said["what"]] * within
        eta = said["seconds"] * (1 - share) / share if share > ETA_FROM else None
        return CheckProgress(said["what"], said["done"], said["total"], share, eta)

    def end(self) -> None:
        """Stop the check and remove what it wrote; safe at any time and more than once."""
        with self._lock:
            self._stop()
            self._folder.cleanup()
            self.state = "ended"

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None  # a pipe
            self._process.stdin.close()

    def begin(self) -> None:
        """Start the check's process when its turn has come."""
        with self._lock:
            if self.state != "queued":
                return
            try:
                self._process = self._started()
                self._latest = time.monotonic() + MOST_SECONDS
                self.state = "running"
            except OSError as error:
                self.fail(f"The check could not be started ({error}).")

    def _started(self) -> subprocess.Popen:
        process = subprocess.Popen(  # noqa: S603 — a module of this program
            [*COMMAND, str(self._folder.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for the server, which ends this process
            text=True,
        )
        assert process.stdin is not None  # a pipe
        process.stdin.write(json.dumps(self._asked) + "\n")  # not an argument: process lists must not show the path
        process.stdin.flush()
        return process

    def look(self) -> None:
        """Check whether the process has ended or has run for too long, and whether anybody still needs the result."""
        with self._lock:
            if self._folder.gone:
                self.end()
            elif self._process is not None and self.state == "running" and (ended := self._process.poll()) is not None:
                self._take_outcome(ended)
            elif self.state == "running" and time.monotonic() > self._latest:
                self.fail(_too_long(MOST_SECONDS))

    def _take_outcome(self, returncode: int) -> None:
        self._stop()
        seen, failed = (_read(self._folder.path / name) for name in (SEEN_FILE, FAILED_FILE))
        if seen is not None:
            self.seen, self.state = Seen.model_validate(seen), "done"
            return
        broken = "The check's process ended before it was done; the server's log may say why."
        self.fail(failed["message"] if failed else NO_MEMORY if returncode == -9 else broken)

    def fail(self, message: str) -> None:
        """End the check with a sentence about what went wrong, and remove what it wrote."""
        with self._lock:
            if self.state == "ended":  # it was ended after the error occurred
                return
            self._stop()
            self._folder.cleanup()
            self.message, self.state = message, "failed"  # last: when this is visible, everything is removed


class Checks:
    """All checks of this process. Threads may share it."""

    def __init__(self) -> None:
        self._checks: list[Check] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, root: Path, path: Path, options: dict[str, Any], *, alive: Callable[[], bool]) -> Check:
        """Check the notes at `path` and return at once.

        Args:
            root: The data folder that may take over the cohort.
            path: The notes.
            options: Options of `import_notes`.
            alive: Whether anybody still waits for the check. After it has returned False for a while (`Scratch`), the
                check ends, and what it has written is removed.

        Raises:
            DiskFull: There is no room for its folder.
        """
        check = Check(root, path, options, alive)
        with self._lock:
            self._checks.append(check)
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="checks of notes", daemon=True)
                self._thread.start()
        return check

    def _watch(self) -> None:
        while True:
            with self._lock:
                for check in self._checks:
                    _or_fail(check, check.look)
                self._checks = [check for check in self._checks if check.state not in ("failed", "ended")]
                waiting = [check for check in self._checks if check.state == "queued"]
                running = sum(check.state == "running" for check in self._checks)
                for check in waiting[: max(0, AT_ONCE - running)]:
                    _or_fail(check, check.begin)
                if not self._checks:
                    self._thread = None
                    return
            time.sleep(LOOK_SECONDS)


CHECKS = Checks()  # the one of this process


def first_rows(path: Path) -> pd.DataFrame:
    """The first rows of a user's file, as text, read in a separate process with limited memory and time.

    Raises:
        BadNotes: as `core.corpus.importing.files.head`, or if the rows need too much of either.
    """
    try:
        ended = subprocess.run(  # noqa: S603 — a module of this program
            [*COMMAND, FIRST_ROWS],
            input=json.dumps(str(path)).encode(),  # not an argument: process lists must not show the path
            capture_output=True,
            timeout=PREVIEW_SECONDS,
            env=_environment(),
        )
        found = json.loads(ended.stdout)
    except subprocess.TimeoutExpired:
        raise BadNotes(f"{path.name}: its first rows could not be read within {PREVIEW_SECONDS} seconds.") from None
    except ValueError:  # it was killed
        raise BadNotes(f"{path.name}: its first rows could not be read. Is it a table of notes?") from None
    if "message" in found:
        raise BadNotes(found["message"])
    return pd.DataFrame(found["columns"])


def _environment() -> dict[str, str]:
    path = os.pathsep.join([str(PROGRAM), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def _too_long(seconds: float) -> str:
    return (
        f"The check was ended after {seconds / 60:,.3g} minutes, the most that one may take here; nothing was kept. "
        "Upload fewer notes, or use python -m core corpus, which has no such limit."
    )


def _or_fail(check: Check, step: Callable[[], None]) -> None:
    """Perform a step of a check; an error fails that check only, and the others continue."""
    try:
        step()
    except Exception:
        log.exception("a check of notes failed")
        check.fail("The check failed because of an unexpected error; see the server's log.")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
