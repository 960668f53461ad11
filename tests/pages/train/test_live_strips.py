"""The strips of a running training: loss, ε spent and the exposure of planted canaries."""

from __future__ import annotations

from core.runs.progress import Progress
from pages.parts.jobs.live_strips import MOST_POINTS, strips


def test_the_strips_stay_small_and_keep_the_last_step():
    steps = 10 * MOST_POINTS + 7
    progress = Progress(
        step=steps,
        steps=steps,
        steps_taken=list(range(1, steps + 1)),
        loss=[None, *[1.0] * (steps - 1)],
        epsilon=[0.1] * steps,
        epoch_steps=[steps],
        eval_loss=[2.0],
        exposure={"C0000": [1.0], "C0001": [2.0], "C0002": [3.0]},
    )
    figure = strips(progress, copies={"C0000": 16, "C0001": 1, "C0002": 0}, budget=2.0, private=True)
    drawn = {trace.name: list(trace.x) for trace in figure.data}
    assert len(drawn["ε spent"]) <= MOST_POINTS + 1 and drawn["ε spent"][-1] == steps
    canaries = {"canary C0000, planted 16 times", "canary C0001, planted 1 time", "canary C0002, never planted"}
    assert canaries | {"loss on held-out notes"} <= set(drawn)
    unknown = {trace.name for trace in strips(progress, copies={}, budget=None, private=False).data}
    assert "ε spent" not in unknown and "canary C0000" in unknown


def test_the_first_step_can_be_seen():
    progress = Progress(step=1, steps=46, steps_taken=[1], loss=[4.8], epsilon=[2.9])
    drawn = {trace.name: trace for trace in strips(progress, copies={}, budget=8.0, private=True).data}
    assert "markers" in drawn["loss on training notes"].mode and "markers" in drawn["ε spent"].mode
