"""Jobs on workers that share only a store with the engine: their events and their finished runs are brought here.

A job's folder here has the same status and event log as if a worker wrote into it, so queue, progress and cancel do not
differ. The run itself comes from the store when the worker has published it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from pathlib import Path
from typing import cast

from core.jobs.by_store.messages import Message
from core.jobs.limits import Refused
from core.jobs.work import Work
from core.runs.events import Event, Status, append_event, write_status
from core.runs.integrity.disk import error_sentence
from core.runs.remote.sharing import brought, stays_here
from core.runs.remote.store import Store
from core.runs.run import RunBroken, RunNotFound
from core.spec import RunSpec

NOT_OURS = ("time", "key", "worker")  # fields that are set here, or that only the message needs
TRIES, PAUSE_SECONDS = 3, 2.0  # to fetch a finished run
INSTEAD = "Use an app or a command without PHILAB_SCHEDULER for it."


def check_for_store(spec: RunSpec, *, is_audit: bool) -> None:
    """Raise Refused for a job that workers without the data folder cannot do, because it needs what no store has."""
    if is_audit:
        raise Refused(f"Workers that share only the store PHILAB_STORE make no full audits. {INSTEAD}")
    if (reason := stays_here(spec)) is not None:
        raise Refused(f"{reason} Workers that share only the store PHILAB_STORE cannot make this run. {INSTEAD}")
    if not spec.model.shipped and Path(spec.model.base).is_dir():
        raise Refused(
            f"The base model is in the folder {spec.model.base} of this machine. Workers that share only the store "
            f"PHILAB_STORE do not have it. {INSTEAD}"
        )


class Mirror:
    """Writes what workers report into the folders of their jobs. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held while something is written: after `end` nothing is
        self._jobs: dict[str, tuple[Work, float]] = {}

    def begin(self, key: str, work: Work, submitted: float) -> None:
        """Follow the job whose task has this key, until it is submitted again or `end`."""
        with self._lock:
            self._jobs[key] = work, submitted

    def end(self, key: str) -> None:
        """Write nothing more of this job."""
        with self._lock:
            self._jobs.pop(key, None)

    def hear(self, message: Message) -> bool:
        """Append a worker's event to the job's log, with this machine's time: clocks of machines differ.

        Returns:
            False if the job is followed, but its folder is gone or another submission's: somebody else withdrew it.
        """
        event = cast(Event, {name: value for name, value in message.items() if name not in NOT_OURS})
        with self._lock:
            if message["key"] not in self._jobs:
                return True
            work, submitted = self._jobs[message["key"]]
            status = work.status()
            if status is None or status.submitted != submitted:
                return False
            with contextlib.suppress(OSError):  # a full disk here does not stop the run there
                if status.state == "queued":
                    write_status(work.folder, Status(state="running", submitted=submitted, started=time.time()))
                append_event(work.folder, event)
        return True


def bring(work: Work, spec: RunSpec) -> str:
    """Bring a finished run and its control here from the store, and remove the job's folder. A sentence if it fails.

    A store that does not answer is tried again: the run is finished, and training it again would be a waste.
    """
    for left in reversed(range(TRIES)):
        try:
            store = Store.of_environment()
            if store is None:
                return "PHILAB_STORE is no longer set here, so the finished run cannot be fetched."
            brought(store, spec, work.workspace)
            break
        except OSError as error:  # RunUnread too
            if not left:
                return error_sentence(error)
            time.sleep(PAUSE_SECONDS)
        except (RunBroken, RunNotFound) as error:
            return str(error)
    if work.folder.exists():
        work.workspace.discard(work.folder)
    return ""
