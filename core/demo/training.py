"""`python -m core demo`: lists the planned runs, trains what is missing, and exports each run as it finishes.

An interrupted run goes on from its checkpoint. Several processes may work on one data folder: each skips the runs that
another one is making.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.demo.plan import SEEDS, Part, Planned, parts, planned, state_of
from core.demo.side_by_side import Prefixed, reason, workers
from core.demo.work_left import WorkLeft
from core.pipeline.progress_lines import Say, training_lines
from core.pipeline.training_run import RunBusy, execute
from core.runs.integrity.disk import DiskFull
from core.runs.store import Workspace
from core.spec import RunSpec

STEP_SECONDS = 30.0  # between two lines about steps
_HEADER = "run                      ε            seed  state         minutes"


def chosen_parts(only: Sequence[str], seeds: Sequence[int]) -> list[Part]:
    """The parts with these names in the plan's order; without names, all.

    Raises:
        ValueError: There is no such part.
    """
    every = parts(seeds)
    names = [part.name for part in every]
    for name in only:
        if name not in names:
            raise ValueError(f"There is no part “{name}”. The parts are: {', '.join(names)}.")
    return [part for part in every if not only or part.name in only]


def listed(rows: Sequence[Planned]) -> str:
    """The plan as text: every run with its state, then each part's and the whole sweep's estimated time."""
    names = list(dict.fromkeys(row.part for row in rows))
    wide = max(map(len, ("together", *names)))
    lines = [f"{'part':<{wide}} {_HEADER}"]
    for row in rows:
        spec = row.spec
        lines.append(
            f"{row.part:<{wide}} {spec.run_id:<24} {described(spec):<12} {spec.training.seed:>4}  {row.state:<12}"
            f"{row.seconds / 60:>9.0f}"
        )
    lines.append("")
    for name in names:
        lines.append(f"{name:<{wide}} {_summed([row for row in rows if row.part == name])}")
    lines.append(f"{'together':<{wide}} {_summed(rows)}")
    return "\n".join(lines)


def described(spec: RunSpec) -> str:
    """What a run is within the sweep: `base`, `plain`, `no noise`, its ε, or σ, epochs and batch of the grid."""
    if spec.is_base:
        return "base"
    if spec.training.clip_norm is not None:
        return "no noise"
    epsilon, sigma = spec.privacy.target_epsilon, spec.privacy.noise_multiplier
    if sigma is not None:
        return f"{sigma:.3g}, {spec.training.epochs}×{spec.training.batch_size}"
    return "plain" if epsilon is None else f"ε = {epsilon:g}"


def _summed(rows: Sequence[Planned]) -> str:
    count = Counter(row.state for row in rows)
    again = any(row.seconds for row in rows if row.state == "figures only")
    asked = "the missing ones and those with figures only" if again else "the missing ones"
    hours = sum(row.seconds for row in rows) / 3_600
    return (
        f"{count['there']} of {len(rows)} there, {count['figures only']} shipped with figures only, "
        f"{count['missing']} missing; about {hours:.1f} hours for {asked}"
    )


def train_missing(
    workspace: Workspace,
    rows: Sequence[Planned],
    *,
    say: Say,
    again: bool = False,
    limit: int | None = None,
    export_to: Path | None = None,
    processes: int = 1,
    left: WorkLeft | None = None,
) -> list[str]:
    """Train the missing runs in order, and export each finished one. Returns the ids of those trained here.

    A run that another process is making is skipped. A run that fails is reported, and the next one begins: what it had
    trained stays, and the same command goes on from there.

    Args:
        workspace: Where runs are stored, and the shipped ones, which count as trained.
        rows: The plan.
        say: Receives what happens, line by line.
        again: Also train those that are shipped with figures only.
        limit: At most this many runs are trained.
        export_to: `assets/demo`, or another folder to copy finished runs to; None: nowhere.
        processes: Runs that are trained at a time; if it is not 1, `say` has to be a function that can be pickled.
        left: How much work there is, if more follows than these runs.

    Raises:
        ValueError: Some runs failed; the message names them.
        DiskFull: There is no room left.
    """
    sweep = _Sweep(workspace, again, limit, export_to, say, left or WorkLeft([row.seconds for row in rows]))
    sweep.go(rows, processes)
    if sweep.failed:
        raise ValueError(f"These runs failed: {'; '.join(sweep.failed)}. The same command resumes them.")
    return sweep.trained


@dataclass
class _Sweep:
    """Trains runs one after the other, or several at a time; its arguments are those of `train_missing`."""

    workspace: Workspace
    again: bool
    limit: int | None
    export_to: Path | None
    say: Say
    left: WorkLeft
    trained: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    under_way: dict[Future[str], tuple[Planned, Say]] = field(default_factory=dict)

    def go(self, rows: Sequence[Planned], processes: int) -> None:
        """Train what is missing."""
        waiting = deque(enumerate(rows, start=1))
        with workers(processes) as pool:
            while waiting or self.under_way:
                while waiting and len(self.under_way) < processes and self._may_begin():
                    number, row = waiting.popleft()
                    if self._to_train(row):
                        self.say(f"{number}/{len(rows)} {_named(row)}, {self.left}")
                        say = self.say if processes == 1 else Prefixed(self.say, row.spec.run_id)
                        self.under_way[pool.submit(_train, row.spec, self.workspace, say)] = row, say
                for future in wait(self.under_way, return_when=FIRST_COMPLETED).done:
                    self._end(future, *self.under_way.pop(future))

    def _may_begin(self) -> bool:
        """False while those under way may be all that are allowed: one of them may turn out to be made elsewhere."""
        return self.limit is None or not self.under_way or len(self.trained) + len(self.under_way) < self.limit

    def _to_train(self, row: Planned) -> bool:
        """Whether the run is missing and more are wanted. One that is there is exported."""
        state = state_of(self.workspace, row.spec)
        there = state == "there" or (state == "figures only" and not self.again)
        if there:
            self._export(row.spec)
        elif self.limit is None or len(self.trained) < self.limit:
            return True
        self.left.drop(row.seconds)
        return False

    def _end(self, future: Future[str], row: Planned, say: Say) -> None:
        """Report how a training ended. Raises DiskFull."""
        error = future.exception()
        if error is None:
            self.left.finish(row.seconds)
            self.trained.append(future.result())
            self._export(row.spec)
            return
        if isinstance(error, DiskFull):
            raise error
        self.left.drop(row.seconds)
        if isinstance(error, RunBusy):
            say(f"  {error}")
        else:  # one run that fails must not end a sweep of days
            say(f"  failed: {reason(error)}")
            self.failed.append(f"{row.spec.run_id} ({reason(error)})")

    def _export(self, spec: RunSpec) -> None:
        if self.export_to is not None:
            _export(self.workspace, spec, self.export_to, self.say)


def _named(row: Planned) -> str:
    """`12k-gpt2 gpt2-0123456789ab (ε = 8, seed 0)`."""
    return f"{row.part} {row.spec.run_id} ({described(row.spec)}, seed {row.spec.training.seed})"


def _train(spec: RunSpec, workspace: Workspace, say: Say) -> str:
    """Make a run, perhaps in a separate process, and return its id. Raises RunBusy if another process makes it."""
    return execute(spec, workspace, wait=False, on_event=training_lines(say, stage="  {}", every=STEP_SECONDS)).id


def _export(workspace: Workspace, spec: RunSpec, out: Path, say: Say) -> None:
    """Export a run of the data folder; shipped ones have been exported."""
    from core.demo.export import export_run

    run = workspace.find(spec)
    if run is None or run.shipped:
        return
    for folder in export_run(workspace, spec, out):
        say(f"  exported {folder.parent.name}/{folder.name}")


@dataclass(frozen=True)
class Answer:
    """The plan after the work, as text and as rows."""

    text: str
    rows: list[dict[str, Any]]


def main(
    workspace: Workspace,
    *,
    say: Say,
    plan: bool = False,
    only: Sequence[str] = (),
    seeds: Sequence[int] = SEEDS,
    again: bool = False,
    limit: int | None = None,
    export_to: Path | None = None,
    audits: bool = False,
    processes: int = 1,
) -> Answer:
    """Train what is missing (with `plan`, nothing), and return the plan with the state of each run.

    Args:
        workspace: Where runs are stored, and the shipped ones, which count as trained.
        say: Receives what happens, line by line; a function that can be pickled.
        plan: Only list the runs.
        only: Names of parts; empty for all.
        seeds: Seeds of the trainings.
        again: Also train those that are shipped with figures only.
        limit: At most this many runs are trained.
        export_to: Where finished runs are copied to; None: nowhere.
        audits: Also run the full audit on the runs trained here that ship with their weights.
        processes: Runs that are trained at a time.
    """
    rows = planned(workspace, chosen_parts(only, seeds), again=again)
    if not plan:
        train_missing(workspace, rows, say=say, again=again, limit=limit, export_to=export_to, processes=processes)
        if audits:
            _audit(workspace, rows, export_to, say)
        rows = planned(workspace, chosen_parts(only, seeds), again=again)
    named = [
        {"part": row.part, "run": row.spec.run_id, "state": row.state, "seconds": round(row.seconds)} for row in rows
    ]
    return Answer(listed(rows), named)


def _audit(workspace: Workspace, rows: Sequence[Planned], export_to: Path | None, say: Say) -> None:
    """Run the full audit on the runs trained here that ship with their weights. Finished attacks are not repeated."""
    from core.demo.export import weighted_specs
    from core.pipeline.full_audit import audit

    weighted = {spec.run_id for spec in weighted_specs()}
    for row in rows:
        run = workspace.find(row.spec) if row.spec.run_id in weighted else None
        if run is not None and not run.shipped:
            audit(run, workspace)
            if export_to is not None:
                _export(workspace, row.spec, export_to, say)
