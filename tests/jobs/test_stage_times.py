"""How long the stages of a job should take: their order, what changes them, and what this machine took."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from core.jobs import stage_times
from core.jobs.limits import Notes, expected_notes
from core.jobs.stage_times import PAUSE_SECONDS, default_stages, expected_stages, slowness, stage_key, stage_seconds
from core.runs.events import EVENTS_FILE, read_events
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, PrivacySpec, RunSpec, TrainingSpec, VocabularySpec


def spec_of(epochs: int = 4, **changes) -> RunSpec:
    return RunSpec(corpus=CORPUS_PRESETS["classroom"], training=TrainingSpec(epochs=epochs), **changes)


def event(kind: str, time: float, **fields) -> dict:
    return {"event": kind, "time": time, **fields}


def test_the_stages_are_those_of_a_run_in_their_order(smoke_workspace: Path, smoke_specs) -> None:
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    keys = list(dict.fromkeys(key for one in run.events() if (key := stage_key(one)) is not None))
    expected = [stage.key for stage in default_stages(run.spec, cohort=True, control=True)]
    assert [key for key in keys if not key.startswith("base control")] == expected


def test_a_missing_control_has_the_same_audit_before_the_runs_own() -> None:
    stages = [stage.key for stage in default_stages(spec_of(), cohort=True, control=False)]
    own = [key for key in stages if key.startswith("audit: ")]
    control = [key.removeprefix("base control/") for key in stages if key.startswith("base control/audit")]
    assert control == own and stages.index("base control/saving") < stages.index(own[0])
    told = {"event": "stage", "stage": "base control", "message": "Control: Computing the figures and saving the run"}
    assert stage_key(told) == "base control/saving"
    told["message"] = f"Control: {stage_times.ATTACKS[1].message}"
    assert stage_key(told) == "base control/audit: membership"


def test_more_epochs_texts_and_words_take_longer() -> None:
    def seconds(spec: RunSpec) -> dict[str, float]:
        return {stage.key: stage.seconds for stage in default_stages(spec, cohort=True, control=True)}

    short, long = seconds(spec_of(4)), seconds(spec_of(8))
    assert long["training"] > 1.9 * short["training"] - 10 and long["saving"] == short["saving"]
    assert seconds(spec_of(privacy=PrivacySpec(target_epsilon=8.0)))["training"] > short["training"]
    fewer = spec_of().audit.model_copy(update={"samples_per_prompt": 10})
    assert seconds(spec_of(audit=fewer))["audit: extraction"] < short["audit: extraction"] / 5
    masked = spec_of().model.model_copy(update={"kind": "distilbert"})
    assert {"vocabulary", "audit: reading"} <= set(seconds(spec_of(model=masked, vocabulary=VocabularySpec())))


def test_seconds_of_stages_leave_out_interruptions() -> None:
    log = [event("stage", 0.0, stage="corpus", message=""), event("stage", 2.0, stage="training", message="")]
    log += [event("step", 7.0, step=1), event("stage", 7.0 + 2 * PAUSE_SECONDS, stage="corpus", message="")]
    log += [event("stage", 8.0 + 2 * PAUSE_SECONDS, stage="training", message="")]
    log += [event("done", 12.0 + 2 * PAUSE_SECONDS, message="")]
    assert stage_seconds(log) == {"corpus": 3.0, "training": 9.0}


class Made(Run):
    """A finished run whose training took so many times the default."""

    def __init__(self, times: float) -> None:
        object.__setattr__(self, "spec", spec_of())
        object.__setattr__(self, "times", times)

    def events(self) -> list[dict]:
        usual = {one.key: one.seconds for one in default_stages(self.spec, cohort=True, control=True)}
        end = self.times * usual["training"]
        return [event("stage", 0.0, stage="training", message=""), *_between(end), event("done", end, message="")]


USUAL = default_stages(spec_of(), cohort=True, control=True)


def test_a_much_shorter_or_longer_run_says_nothing() -> None:
    made = [Made(3.0)] * 5
    assert slowness(made, default_stages(spec_of(epochs=200), cohort=True, control=True)) == {}
    assert set(slowness(made, default_stages(spec_of(epochs=8), cohort=True, control=True))) == {"training"}


def _between(end: float) -> list[dict]:
    return [event("step", at, step=1) for at in range(100, int(end), 100)]


@pytest.mark.parametrize(("times", "expected"), [([], None), ([3.0], 1.0), ([3.0, 3.0], 2.0), ([3.0] * 5, 3.0)])
def test_one_slow_run_does_not_decide_but_several_do(times, expected) -> None:
    found = slowness([Made(one) for one in times], USUAL).get("training")
    assert found is None if expected is None else found == pytest.approx(expected)


def test_finished_runs_of_this_machine_correct_the_expectation(smoke_workspace, smoke_specs, tmp_path) -> None:
    shutil.copytree(smoke_workspace, tmp_path, dirs_exist_ok=True)
    workspace = Workspace(tmp_path, shared=())
    plain = smoke_specs["plain"]
    before = {stage.key: stage.seconds for stage in expected_stages(plain, workspace)}
    for folder in (tmp_path / "runs").iterdir():
        events = read_events(folder)
        for one in events:  # the same runs on a machine 20 times as slow
            one["time"] = events[0]["time"] + 20 * (one["time"] - events[0]["time"])
        (folder / EVENTS_FILE).write_text("".join(json.dumps(one) + "\n" for one in events))
    after = {stage.key: stage.seconds for stage in expected_stages(plain, workspace)}
    assert list(after) == list(before) and sum(after.values()) > 3 * sum(before.values())


def test_a_full_audit_has_its_attacks_as_stages(smoke_workspace: Path, smoke_specs) -> None:
    workspace = Workspace(smoke_workspace, shared=())
    stages = expected_stages(smoke_specs["plain"], workspace, is_audit=True)
    assert stages[0].key == "notes" and stages[-1].key == "figures"
    assert {"attack: loss", "attack: canary patients"} <= {stage.key for stage in stages}
    assert all(stage.seconds > 0 for stage in stages)
    missing = smoke_specs["plain"].model_copy(update={"training": TrainingSpec(epochs=77)})
    assert expected_stages(missing, workspace, is_audit=True) == []


def test_longer_notes_take_longer_in_training_and_audit(monkeypatch, tmp_path) -> None:
    spec = spec_of(privacy=PrivacySpec(target_epsilon=8.0))
    usual = expected_notes(spec)

    def seconds(times: float) -> dict[str, float]:
        read = Notes(times * usual.trained, times * usual.every)
        monkeypatch.setattr(stage_times, "notes_read", lambda spec, cohort: read)
        return {stage.key: stage.seconds for stage in expected_stages(spec, Workspace(tmp_path, shared=()))}

    short, long = seconds(1.0), seconds(10.0)
    for key, beside in (("training", 4.0), ("audit: membership", 0.7), ("base control/audit: membership", 0.7)):
        assert long[key] - beside == pytest.approx(10 * (short[key] - beside))
    assert long["audit: extraction"] == short["audit: extraction"]
