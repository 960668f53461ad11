"""Work that waits: trainings and audits of worker processes, held at a moment that a test looks at.

A test that only waited until a job is so far would find it further, or over, on a machine that keeps the test waiting.
Dask imports this module into worker processes as it does `tests.few_claims`. The folder $HELD_WORK has a file for each
job that is held, by the job's id: a training waits after the first step of the epoch that it names, an audit before the
attack that it names. What is cancelled waits no longer.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.common.files import replace_text

PLACE = "HELD_WORK"


@dataclass(frozen=True)
class Held:
    """Holds the jobs of workers that have this folder as $HELD_WORK."""

    folder: Path

    @contextmanager
    def at(self, job_id: str, moment: int | str = 1) -> Iterator[None]:
        """A training waits in this epoch, or an audit before this attack, until the block ends."""
        replace_text(self.folder / job_id, str(moment))
        try:
            yield
        finally:
            (self.folder / job_id).unlink()


def _moment(job_id: str) -> str:
    """At which moment the job is held now; empty if at none."""
    place = os.environ.get(PLACE)
    try:
        return (Path(place) / job_id).read_text(encoding="utf-8") if place and job_id else ""
    except FileNotFoundError:
        return ""


def dask_setup(worker: Any) -> None:
    """Let the work of this process wait where it is held, for good."""
    from core.pipeline.full_audit import _Battery
    from core.training.trainer import _Run

    go, step, keep = _Run.go, _Run._step, _Battery._keep

    def named(run: Any, on_step: Any, on_epoch: Any, folder: Path | None, evaluate: Any) -> Any:
        run.job_id = "" if folder is None else folder.parent.name
        return go(run, on_step, on_epoch, folder, evaluate)

    def waiting_step(run: Any, number: int) -> tuple[float | None, int]:
        while number > 1 and (epoch := _moment(run.job_id)) and run._epoch_of(number - 1) >= int(epoch):
            run._poll()
            time.sleep(0.02)
        return step(run, number)

    def waiting_attack(battery: Any, stored: Any, name: str, make: Any, version: int) -> None:
        while _moment(f"audit-{battery.run.id}") == name:
            battery._check_stop()
            time.sleep(0.02)
        keep(battery, stored, name, make, version)

    _Run.go, _Run._step, _Battery._keep = named, waiting_step, waiting_attack
