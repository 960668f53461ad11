"""Checks of notes that somebody brought, each in a process of its own, apart from the queue of runs.

The engine's one worker may train for an hour, and everybody sees its jobs; a check is short, and its existence is its
owner's affair. So there is no list of checks: whoever starts one holds the only handle to it.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from core.corpus.importing.importer import STAGES, Seen
from core.jobs.import_task import COHORT, FAILED_FILE, NO_MEMORY, PROGRESS_FILE, SEEN_FILE
from core.runs.uploads.scratch import Scratch

ROOT = Path(__file__).resolve().parents[2]
AT_ONCE = 2  # the others wait for their turn
LOOK_SECONDS = 0.2
ETA_FROM = 0.05  # of the whole; earlier, nobody can tell how long the rest takes

CheckState = Literal["queued", "running", "done", "failed", "ended"]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CheckProgress:
    """How far a check is. `share` is that of the whole, `eta_seconds` None while nothing can be said."""

    what: str = ""
    done: int = 0
    total: int = 0
    share: float = 0.0
    eta_seconds: float | None = None


class Check:
    """One check: started by `Checks.start`, and gone with everything it wrote after `end`."""

    def __init__(self, root: Path, path: Path, options: dict[str, Any], alive: Callable[[], bool]) -> None:
        self.state: CheckState = "queued"
        self.message = ""
        self.seen: Seen | None = None
        self._asked = {"path": str(path), "options": options}
        self._folder = Scratch(root, alive)
        self._process: subprocess.Popen | None = None
        self._lock = threading.RLock()

    @property
    def cohort(self) -> Path:
        """The folder with the cohort, once the state is `done`."""
        return self._folder.path / COHORT

    @property
    def active(self) -> bool:
        """True while it waits or runs."""
        return self.state in ("queued", "running")

    def progress(self) -> CheckProgress:
        """How far it is, as it said last."""
        said = _read(self._folder.path / PROGRESS_FILE)
        if said is None or said["what"] not in STAGES:
            return CheckProgress()
        before = sum(list(STAGES.values())[: list(STAGES).index(said["what"])])
        within = min(1.0, said["done"] / max(1, said["total"]))
        share = before + STAGES[said["what"]] * within
        eta = said["seconds"] * (1 - share) / share if share > ETA_FROM else None
        return CheckProgress(said["what"], said["done"], said["total"], share, eta)

    def end(self) -> None:
        """Stop it, and remove what it wrote; at any time, any number of times."""
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
        """Start its process, when its turn has come."""
        with self._lock:
            if self.state != "queued":
                return
            try:
                self._process = self._started()
                self.state = "running"
            except OSError as error:
                self.fail(f"The check could not be started ({error}).")

    def _started(self) -> subprocess.Popen:
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(  # noqa: S603 — our own module
            [sys.executable, "-m", "core.jobs.import_task", str(self._folder.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            start_new_session=True,  # Ctrl-C is for the server; this ends with it
            text=True,
        )
        assert process.stdin is not None  # a pipe
        process.stdin.write(json.dumps(self._asked) + "\n")  # not an argument: whose notes they are is in no list
        process.stdin.flush()
        return process

    def look(self) -> None:
        """See whether its process has ended, and whether anybody is still there for whom it was started."""
        with self._lock:
            if self._folder.gone:
                self.end()
            elif self._process is not None and self.state == "running" and (ended := self._process.poll()) is not None:
                self._take_outcome(ended)

    def _take_outcome(self, returncode: int) -> None:
        self._stop()
        seen, failed = (_read(self._folder.path / name) for name in (SEEN_FILE, FAILED_FILE))
        if seen is not None:
            self.seen, self.state = Seen.model_validate(seen), "done"
            return
        broken = "The check's process ended in the middle of its work; the server's log may say why."
        self.fail(failed["message"] if failed else NO_MEMORY if returncode == -9 else broken)

    def fail(self, message: str) -> None:
        """End it with a sentence of what went wrong, and remove what it wrote."""
        with self._lock:
            if self.state == "ended":  # somebody ended it between the fault and this
                return
            self._stop()
            self._folder.cleanup()
            self.message, self.state = message, "failed"  # last: whoever sees it finds nothing left


class Checks:
    """All checks of this process. Threads may share it."""

    def __init__(self) -> None:
        self._checks: list[Check] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self, root: Path, path: Path, options: dict[str, Any], *, alive: Callable[[], bool]) -> Check:
        """Check the notes of `path` with the `options` of `import_notes`; returns at once.

        `root` is the data folder that may take the cohort over. `alive` tells whether anybody still waits for it: once
        it has not for a while (`Scratch`), the check ends, and what it has written goes. Raises DiskFull.
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


CHECKS = Checks()  # of this process


def _or_fail(check: Check, step: Callable[[], None]) -> None:
    """Take a step with a check; whatever goes wrong is that check's own affair, and the others go on."""
    try:
        step()
    except Exception:
        log.exception("a check of notes failed")
        check.fail("The check failed on an unexpected error; the server's log has it.")


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
