"""The time left of a whole job, on event logs with known times."""

from __future__ import annotations

import random

import pytest

from core.jobs.time_left import TimeLeft
from core.jobs.times.costs import Stage
from core.runs.events import append_event
from core.runs.progress import ProgressReader

STAGES = [Stage("corpus", 4.0), Stage("training", 100.0), Stage("audit: extraction", 40.0), Stage("saving", 6.0)]
END = 150.0


def log(factors: dict[str, float], stages=STAGES, steps: int = 50) -> list[dict]:
    """Events of a job whose stages take `factors` times their expected seconds."""
    events, now = [], 0.0
    for stage in stages:
        seconds = stage.seconds * factors.get(stage.key, 1.0)
        name, _, _ = stage.key.partition("/")
        events.append({"event": "stage", "time": now, "stage": name, "message": "", "of": stage.key})
        if stage.key == "training":
            events += [
                {"event": "step", "time": now + seconds * step / steps, "step": step, "steps": steps}
                for step in range(1, steps + 1)
            ]
        elif stage.key.startswith("audit"):
            events += [
                {"event": "progress", "time": now + seconds * done / 20, "done": done, "total": 20}
                for done in range(1, 21)
            ]
        now += seconds
    return [*events, {"event": "done", "time": now, "message": ""}]


def left_at(estimator: TimeLeft, events: list[dict], seconds: float) -> float:
    """The time left that is shown after so many seconds."""
    for event in events:
        if event["time"] <= seconds:
            estimator.read(event)
    estimator.at(seconds)
    return estimator.ends - seconds


@pytest.mark.parametrize("share", [0.01, 0.25, 0.5, 0.75, 0.95])
def test_a_job_that_goes_as_expected_is_right_within_rounding(share) -> None:
    assert left_at(TimeLeft(STAGES), log({}), share * END) == pytest.approx((1 - share) * END, abs=1.0)


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 4.0])
def test_a_faster_or_slower_machine_is_noticed(factor) -> None:
    events = log({stage.key: factor for stage in STAGES})
    for share in (0.5, 0.75, 0.9):
        left, true = left_at(TimeLeft(STAGES), events, share * factor * END), (1 - share) * factor * END
        unaware = (1 - share) * END
        assert abs(left - true) < 0.6 * abs(unaware - true) + 5.0, (share, left, true)


@pytest.mark.parametrize("seed", range(8))
def test_the_time_left_never_rises_without_a_reason_and_is_never_negative(seed) -> None:
    draw = random.Random(seed)
    events = log({stage.key: draw.uniform(0.2, 6.0) for stage in STAGES})
    estimator, place, rises = TimeLeft(STAGES), 0, 0
    shown = None
    for second in range(int(events[-1]["time"] * 4)):
        now = second / 4
        while place < len(events) and events[place]["time"] <= now:
            estimator.read(events[place])
            place += 1
        estimator.at(now)
        left = estimator.ends - now
        assert left >= 0
        if shown is not None and left > shown + 1e-9:
            assert estimator.slower, (now, shown, left)
            rises += 1
        shown = left
    assert rises, "with these factors the time left rises, so the reason was asked for"


def test_a_much_slower_stage_is_named_until_it_ends() -> None:
    events = log({"training": 5.0})
    estimator = TimeLeft(STAGES)
    left = left_at(estimator, events, 200.0)
    assert estimator.slower == "training" and left > 200.0
    left_at(estimator, events, 510.0)
    assert estimator.slower == ""


def test_a_stage_without_progress_that_is_overdue_still_needs_time() -> None:
    estimator = TimeLeft(STAGES)
    events = log({"saving": 20.0})
    assert left_at(estimator, events, 144.0 + 100.0) >= 10.0 and estimator.slower == "saving"


@pytest.mark.parametrize("key", ["audit: utility", "base control/audit: utility", "attack: loss"])
def test_the_end_of_a_first_count_is_not_taken_for_the_end_of_its_stage(key) -> None:
    estimator = TimeLeft([Stage(key, 60.0)])
    name, _, what = key.rpartition("/")
    begin: dict = {"event": "stage", "time": 0.0, "stage": what, "message": ""}
    if name:
        begin |= {"stage": name, "message": "Control: Using the model: tagging entities, judging claims, writing notes"}
    if key.startswith("attack"):
        begin |= {"event": "attack", "attack": "loss"}
    estimator.read(begin)
    for done in range(1, 101):
        estimator.read({"event": "progress", "time": done / 10, "done": done, "total": 100})
    assert estimator.ends == pytest.approx(60.0, abs=2.0)


def test_a_training_that_resumes_is_judged_by_the_steps_it_took_since() -> None:
    events = [{"event": "stage", "time": 0.0, "stage": "training", "message": ""}]
    events += [{"event": "step", "time": 2.0 * (step - 40), "step": step, "steps": 50} for step in range(41, 46)]
    assert left_at(TimeLeft(STAGES), events, 10.0) == pytest.approx(10.0 + 46.0, rel=0.15)


def test_the_control_tells_how_long_the_runs_own_audit_will_take() -> None:
    control = Stage("base control/audit: extraction", 40.0)
    stages = [control, Stage("audit: extraction", 40.0)]
    message = "Control: Prompting the model with 14 prompts, many times each"
    events = [{"event": "stage", "time": 0.0, "stage": "base control", "message": message}]
    events += [{"event": "stage", "time": 120.0, "stage": "audit: extraction", "message": ""}]
    estimator = TimeLeft(stages)
    for event in events:
        estimator.read(event)
    for second in range(121, 180):
        estimator.at(float(second))
    assert estimator.ends - 180.0 == pytest.approx(60.0, abs=12.0)


def test_a_reader_follows_the_estimate_and_starts_again_with_a_new_log(tmp_path) -> None:
    made = []

    def make() -> TimeLeft:
        made.append(TimeLeft(STAGES))
        return made[-1]

    reader = ProgressReader(tmp_path, make)
    assert reader.read().ends is None and made == []
    append_event(tmp_path, {"event": "stage", "stage": "corpus", "message": ""})
    first = reader.read()
    assert first.ends - first.started == pytest.approx(150.0, abs=5.0)
    assert first.seconds_left(first.ends + 9.0) == 0.0 and 0.0 <= first.whole_share(first.started + 30.0) <= 0.25
    append_event(tmp_path, {"event": "done", "message": ""})
    assert reader.read().ends is None and reader.read().seconds_left(0.0) is None
    (tmp_path / "events.jsonl").rename(tmp_path / "old")
    append_event(tmp_path, {"event": "stage", "stage": "corpus", "message": "again"})
    assert reader.read().ends is not None and len(made) == 2


def test_without_stages_there_is_no_estimate() -> None:
    estimator = TimeLeft([])
    estimator.read({"event": "stage", "time": 1.0, "stage": "corpus", "message": ""})
    assert estimator.ends is None


@pytest.mark.parametrize("pause", [0.0, 60.0, 3_600.0, 3 * 86_400.0])
@pytest.mark.parametrize("ended", [None, "failed", "cancelled"])
def test_time_in_which_nothing_ran_does_not_count(pause, ended) -> None:
    """Half of the training, a pause, and the rest from its checkpoint: 30 steps of 2 s and 46 s of later stages."""
    stages = [Stage("corpus", 4.0), Stage("training", 200.0), Stage("audit: extraction", 40.0), Stage("saving", 6.0)]
    estimator, now = TimeLeft(stages), 0.0

    def train(first: int, last: int) -> None:
        nonlocal now
        for stage, seconds in (("corpus", 4.0), ("training", 0.0)):
            estimator.read({"event": "stage", "time": now, "stage": stage, "message": ""})
            now += seconds
        for step in range(first, last + 1):
            now += 2.0
            estimator.read({"event": "step", "time": now, "step": step, "steps": 100})

    train(1, 50)
    if ended:
        estimator.read({"event": ended, "time": now, "message": ""})
    now += pause
    train(51, 70)
    assert estimator.ends - now == pytest.approx(60.0 + 46.0, abs=1.0)
    assert now - estimator.started == pytest.approx(104.0 + 44.0), "only what was worked"
    assert estimator.slower == ""


def test_a_computer_that_slept_during_a_stage_loses_nothing() -> None:
    awake = log({})
    asleep = [event | {"time": event["time"] + 7_200.0 * (event["time"] > 60.0)} for event in awake]
    assert left_at(TimeLeft(STAGES), asleep, 7_280.0) == pytest.approx(END - 80.0, abs=3.0), "a step takes 2 s"


def test_an_audit_that_is_made_again_begins_anew() -> None:
    estimator = TimeLeft(STAGES)
    for event in log({}):
        estimator.read(event)
    later = [event | {"time": event["time"] + 86_400.0} for event in log({})]
    assert left_at(estimator, later, 86_400.0 + 75.0) == pytest.approx(END - 75.0, abs=1.0)
    assert estimator.started == 86_400.0
