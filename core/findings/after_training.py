"""Work on runs that are there: shadow models, attacks, and tables from their weights. What is finished is kept."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass

from core.attacks.registry import no_report
from core.demo.plan import training_seconds
from core.demo.side_by_side import Prefixed, reason, workers
from core.demo.work_left import WorkLeft
from core.findings.from_weights.tables import MEASUREMENTS, make
from core.findings.measures.references import shadow_target
from core.findings.stored_runs import SHIPPED, StoredRuns
from core.pipeline.full_audit import SUMMARY, audit
from core.pipeline.progress_lines import Say, audit_lines
from core.pipeline.shadows import made, train_shadows
from core.runs.audits import ATTACKS_FILE
from core.runs.store import DEMO, Workspace
from core.spec import RunSpec


@dataclass(frozen=True)
class ShadowModels:
    """Training a number of further shadow models of a run. Shipped ones count, new ones stay in the data folder."""

    spec: RunSpec
    count: int

    @property
    def named(self) -> str:
        """`2 shadow models of gpt2-0123456789ab`."""
        return f"{self.count} shadow model{'s' * (self.count != 1)} of {self.spec.run_id}"

    @property
    def seconds(self) -> float:
        """Estimate, on one slow core."""
        return self.count * training_seconds(self.spec)

    def do(self, workspace: Workspace, say: Say) -> bool:
        """Do it. False if the run is not there: its training failed, or another process makes it."""
        run = workspace.find(self.spec)
        if run is None:
            return False
        target = shadow_target(run, workspace)
        for number in range(1, self.count + 1):
            say(f"  shadow model {number}/{self.count}")
            train_shadows(target, workspace, len(made(self.spec, workspace)) + 1)
        return True


@dataclass(frozen=True)
class Attacks:
    """Attacks of the full audit on a run of the data folder; None for all that apply."""

    spec: RunSpec
    names: tuple[str, ...] | None

    @property
    def named(self) -> str:
        """`attacks on gpt2-0123456789ab (loss, ratio base)`."""
        return f"attacks on {self.spec.run_id} ({', '.join(self.names) if self.names else 'all that apply'})"

    @property
    def seconds(self) -> float:
        """What they and the figures made of them took on the shipped run, or on that with seed 0; 0 if neither is."""
        seed_0 = self.spec.model_copy(update={"training": self.spec.training.model_copy(update={"seed": 0})})
        recorded = _recorded_seconds(self.spec.run_id) or _recorded_seconds(seed_0.run_id)
        return sum(
            seconds
            for name, seconds in recorded.items()
            if self.names is None or name in self.names or name.startswith(SUMMARY)
        )

    def do(self, workspace: Workspace, say: Say) -> bool:
        """Do it. False if the run is not there: its training failed, or another process makes it."""
        here = Workspace(workspace.root, shared=())
        run = here.find(self.spec)
        if run is None:
            return False
        audit(run, here, attacks=self.names, on_event=audit_lines(say))
        return True


@dataclass(frozen=True)
class Tables:
    """Making tables from a run's weights. New ones stay in the data folder."""

    spec: RunSpec
    names: tuple[str, ...]

    @property
    def named(self) -> str:
        """`tables from the weights of gpt2-0123456789ab (samples)`."""
        return f"tables from the weights of {self.spec.run_id} ({', '.join(self.names)})"

    @property
    def seconds(self) -> float:
        """Estimate, on one slow core."""
        return sum(MEASUREMENTS[name].seconds for name in self.names)

    def do(self, workspace: Workspace, say: Say) -> bool:
        """Do it. False if the run is not there: its training failed, or another process makes it."""
        run = StoredRuns(workspace).find(self.spec)
        if run is None:
            return False
        for name in self.names:
            say(f"  table “{name}”, about {MEASUREMENTS[name].seconds / 60:.0f} minutes")
            make(run, name, workspace, no_report)
        return True


Task = ShadowModels | Attacks | Tables


def work_off(tasks: Sequence[Task], workspace: Workspace, say: Say, left: WorkLeft, processes: int) -> None:
    """Do these tasks, `processes` of them at a time. One that fails does not keep the others from being done.

    Raises:
        ValueError: Some failed; the message names their runs.
    """
    waiting, under_way, failed = deque(enumerate(tasks, start=1)), dict[Future[bool], Task](), []
    with workers(processes) as pool:
        while waiting or under_way:
            while waiting and len(under_way) < processes:
                number, task = waiting.popleft()
                say(f"{number}/{len(tasks)} {task.named}, {left}")
                lines = say if processes == 1 else Prefixed(say, task.spec.run_id)
                under_way[pool.submit(task.do, workspace, lines)] = task
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                task, error = under_way.pop(future), future.exception()
                if error is not None:
                    failed.append(f"{task.spec.run_id} ({reason(error)})")
                    say(f"  failed: {failed[-1]}")
                if error is None and future.result():
                    left.finish(task.seconds)
                else:
                    left.drop(task.seconds)
    if failed:
        raise ValueError(f"These runs could not be attacked: {'; '.join(failed)}. The same command goes on with them.")


def _recorded_seconds(run_id: str) -> dict[str, float]:
    """Seconds of each attack and each figure of the shipped audit of a run, in the longer of two if there are two."""
    found: dict[str, float] = {}
    for shipped in (SHIPPED, DEMO):
        file = shipped / "audits" / run_id / ATTACKS_FILE
        if file.exists():
            for row in json.loads(file.read_text(encoding="utf-8")):
                found[row["attack"]] = max(found.get(row["attack"], 0.0), row["seconds"])
    return found
