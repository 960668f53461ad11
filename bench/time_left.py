"""How wrong the time left is, from the event logs of finished runs: `PHILAB_DATA=DIR python -m core bench time_left`.

Each log is played again. At 25, 50 and 75 % of the run's time, the estimate of `core.jobs.time_left` is compared with
the time that the run then took. The earlier runs of the folder correct the expectation, as they do on the pages.
"""

from __future__ import annotations

import json as json_format
import statistics
from collections.abc import Sequence

from core.jobs.time_left import TimeLeft
from core.jobs.times.costs import CONTROL, Stage, default_stages
from core.jobs.times.expected import EARLIER, corrected, slowness, stage_seconds
from core.runs.events import Event
from core.runs.run import Run
from core.runs.store import Workspace

SHARES = (0.25, 0.5, 0.75)
SHORTEST = 30.0  # seconds of a run that counts
LONGEST_GAP = 600.0  # a run with a longer gap in its log was interrupted


def main(json: bool = False) -> None:
    """Print the mean and the median error at each share of a run, in percent of the run's time."""
    found = measure(Workspace())
    if json:
        print(json_format.dumps(found))
        return
    for name, figure in found.items():
        print(f"{name}: {figure:.3g}")


def measure(workspace: Workspace) -> dict[str, float]:
    """Number of runs, and mean and median absolute error at each share, in percent of the run's time."""
    runs = sorted(
        ((events, run) for run in workspace.runs() if (events := _whole(run))), key=lambda one: one[0][0]["time"]
    )
    errors: dict[float, list[float]] = {share: [] for share in SHARES}
    for events, run in runs:
        before = [
            other
            for log, other in runs
            if log[-1]["time"] < events[0]["time"] and other.spec.model.kind == run.spec.model.kind
        ]
        for share, left in replayed(events, _expected(run, events, before[-EARLIER:])).items():
            whole = events[-1]["time"] - events[0]["time"]
            errors[share].append(100 * abs(left - (1 - share) * whole) / whole)
    found: dict[str, float] = {"runs": len(runs)}
    for share, values in errors.items():
        if values:
            found[f"mean_error_at_{share:.0%}"] = statistics.mean(values)
            found[f"median_error_at_{share:.0%}"] = statistics.median(values)
    return found


def replayed(events: Sequence[Event], stages: Sequence[Stage]) -> dict[float, float]:
    """The time left that is shown when each of `SHARES` of the log's time is over, in seconds."""
    estimator, begun = TimeLeft(stages), events[0]["time"]
    whole = events[-1]["time"] - begun
    shown: dict[float, float] = {}
    for event in events:
        for share in SHARES:
            at = begun + share * whole
            if share not in shown and event["time"] >= at and estimator.ends is not None:
                estimator.at(at)
                shown[share] = estimator.ends - at
        estimator.read(event)
    return shown


def _whole(run: Run) -> list[Event]:
    """The log of a run that was made in one go and took long enough; empty for others."""
    events = run.events()
    if not events or events[-1]["event"] != "done" or events[-1]["time"] - events[0]["time"] < SHORTEST:
        return []
    gaps = (after["time"] - before["time"] for before, after in zip(events, events[1:], strict=False))
    return events if max(gaps, default=0.0) <= LONGEST_GAP else []


def _expected(run: Run, events: Sequence[Event], before: Sequence[Run]) -> list[Stage]:
    taken = stage_seconds(events)
    control = not any(key.startswith(f"{CONTROL}/audit") for key in taken)
    stages = default_stages(run.spec, cohort=True, control=control)
    return corrected(stages, slowness(before, stages))
