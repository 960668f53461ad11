"""The strips of a running training: loss, ε spent and the exposure of planted canaries."""

from __future__ import annotations

import pytest

from core.runs.progress import Progress, progress_of
from core.spec import PrivacySpec
from pages.parts.common import chart_style
from pages.parts.common.chart_style import legend_html
from pages.parts.jobs import monitor
from pages.parts.jobs.live_strips import EPSILON, FEWEST_TO_SMOOTH, MOST_POINTS, loss_sentence, smoothed, strips, window


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
    assert canaries | {"loss on held-out notes, once an epoch", "budget ε = 2"} <= set(drawn)
    legend = legend_html(figure)
    assert all(name in legend for name in canaries | {"budget ε = 2"})
    assert "single steps" in drawn and "single steps" not in legend, "the sentence below the chart names the dots"
    assert legend.count("<span>") == len(drawn) - 1
    solid = [trace.line.color for trace in figure.data if trace.mode != "markers" and trace.line.dash is None]
    assert len(solid) == len(set(solid)) == 6 and set(solid) <= set(chart_style.OKABE_ITO.values())
    losses = {trace.line.color for trace in figure.data if trace.name.startswith("loss")}
    assert losses == {chart_style.OKABE_ITO["orange"], chart_style.OKABE_ITO["blue"]}, "not two kinds of blue"
    without = strips(progress, copies={}, budget=None, private=False)
    names = {trace.name for trace in without.data}
    assert "ε spent" not in names and "canary C0000" in names
    assert EPSILON not in [title.text for title in without.layout.annotations]


@pytest.mark.parametrize(
    ("privacy", "told", "drawn"),
    [
        (PrivacySpec(target_epsilon=8.0), 7.99, ["budget ε = 8"]),
        (PrivacySpec(target_epsilon=8.0, accountant="gdp"), 9.214, ["budget ε = 9.22"]),
        (PrivacySpec(target_epsilon=8.0, accountant="gdp"), None, []),
        (PrivacySpec(noise_multiplier=1.0), 3.1, []),
    ],
    ids=["PRV", "GDP", "log without it", "σ is given"],
)
def test_the_budget_is_what_the_training_guarantees(privacy, told, drawn):
    """A run planned by GDP spends more than its target; a log of an earlier version does not say how much."""
    figures = {"loss": 1.0, "epsilon": 0.5, "tokens": 9, "seconds": 1.0, "eta_seconds": 1.0}
    event = {"event": "step", "step": 1, "steps": 4, "epoch": 1, "epochs": 1} | figures
    progress = progress_of([event if told is None else event | {"epsilon_end": told}])
    figure = strips(progress, copies={}, budget=monitor._budget(progress, privacy), private=True)
    levels = {trace.name: trace.y[0] for trace in figure.data if trace.name and trace.name.startswith("budget")}
    assert list(levels) == drawn and (told is None or not levels or abs(next(iter(levels.values())) - told) < 0.1)


def test_the_first_step_can_be_seen():
    progress = Progress(step=1, steps=46, steps_taken=[1], loss=[4.8], epsilon=[2.9])
    drawn = {trace.name: trace for trace in strips(progress, copies={}, budget=8.0, private=True).data}
    assert "markers" in drawn["loss on training notes"].mode and "markers" in drawn["ε spent"].mode


@pytest.mark.parametrize("private", [True, False])
def test_no_title_is_wider_than_a_phone(private):
    progress = Progress(step=1, steps=4, steps_taken=[1], loss=[1.0], epsilon=[1.0], exposure={"C1": []})
    figure = strips(progress, copies={}, budget=1.0, private=private)
    assert [len(title.text) < 30 for title in figure.layout.annotations] == [True] * (2 + private)


def test_the_loss_is_averaged_over_the_last_steps_without_empty_ones():
    assert smoothed([4.0, None, 2.0, 6.0], 2) == [4.0, 4.0, 2.0, 4.0]
    assert smoothed([None, None], 2) == [None, None] and smoothed([1.0, 5.0], 1) == [1.0, 5.0]
    assert window(FEWEST_TO_SMOOTH - 1) == 1 and window(200) == 20
    progress = Progress(steps=200, steps_taken=list(range(200)), loss=[float(step % 2) for step in range(200)])
    drawn = {trace.name: list(trace.y) for trace in strips(progress, copies={}, budget=None, private=False).data}
    assert drawn["loss on training notes"][-1] == 0.5 and set(drawn["single steps"]) == {0.0, 1.0}


@pytest.mark.parametrize(("private", "cause"), [(True, "the noise"), (False, "overfitting")])
def test_a_loss_that_has_risen_is_explained_and_one_that_falls_is_not(private, cause):
    steps = list(range(1, 41))
    progress = Progress(
        steps=40, steps_taken=steps, loss=[2.0] * 40, epoch_steps=[10, 20, 30], eval_loss=[3.0, 2.5, 3.1]
    )
    said = loss_sentence(progress, private=private, masked=False)
    assert "has risen since epoch 2" in said and cause in said and "mean of the last 4 steps" in said
    progress.eval_loss = [3.0, 2.5, 2.51]
    said = loss_sentence(progress, private=private, masked=True)
    assert "risen" not in said and cause not in said and "random masks" in said
    progress.eval_loss, progress.epoch_steps = [None, None, None], []
    assert "risen" not in loss_sentence(progress, private=private, masked=False)
