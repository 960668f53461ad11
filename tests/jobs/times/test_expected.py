"""How long the stages of a job should take: their order, what changes them, and what this machine took."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from core.jobs.times import expected
from core.jobs.times.costs import BUSY, default_stages, whole
from core.jobs.times.expected import PAUSE_SECONDS, expected_stages, request_of, slowness, stage_key, stage_seconds
from core.jobs.times.notes import Notes, expected_notes
from core.runs.audits import ATTACKS_FILE
from core.runs.events import EVENTS_FILE, read_events
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, ModelSpec, PrivacySpec, RunSpec, TrainingSpec


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
    told["message"] = f"Control: {expected.ATTACKS[1].message}"
    assert stage_key(told) == "base control/audit: membership"


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


@pytest.mark.parametrize(("times", "ratio"), [([], None), ([3.0], 1.0), ([3.0, 3.0], 2.0), ([3.0] * 5, 3.0)])
def test_one_slow_run_does_not_decide_but_several_do(times, ratio) -> None:
    found = slowness([Made(one) for one in times], USUAL).get("training")
    assert found is None if ratio is None else found == pytest.approx(ratio)


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
        monkeypatch.setattr(expected, "notes_read", lambda spec, cohort: read)
        return {stage.key: stage.seconds for stage in expected_stages(spec, Workspace(tmp_path, shared=()))}

    short, long = seconds(1.0), seconds(10.0)
    for key, beside in (("training", 4.0), ("audit: membership", 0.7), ("base control/audit: membership", 0.7)):
        assert long[key] - beside == pytest.approx(10 * (short[key] - beside))
    assert long["audit: extraction"] == short["audit: extraction"]


def test_limits_count_all_stages_of_a_job(smoke_workspace, smoke_specs, tmp_path) -> None:
    spec, usual = spec_of(), whole(default_stages(spec_of(), cohort=False, control=False))
    request = request_of(spec, Workspace(tmp_path, shared=()))
    assert request.minutes == pytest.approx(usual / 60) and request.size == "3,116 notes × 4 epochs"
    masked = RunSpec(model=ModelSpec(kind="bert"), training=TrainingSpec(epochs=1, masks=4))
    assert request_of(masked, Workspace(tmp_path, shared=())).size.endswith(" notes × 1 epoch × 4 masks")
    workspace, run = Workspace(smoke_workspace, shared=()), smoke_specs["plain"]
    audit = request_of(run, workspace, is_audit=True)
    assert audit.minutes == pytest.approx(whole(expected_stages(run, workspace, is_audit=True)) / 60)
    assert audit.size.startswith("every attack on ")


def test_stored_audits_say_what_each_attack_takes(monkeypatch, smoke_workspace, smoke_specs) -> None:
    """Shipped ones were made on busy cores; those made here say how fast this machine is, but one does not decide."""
    workspace, spec = Workspace(smoke_workspace, shared=()), smoke_specs["plain"]
    notes = expected_notes(spec)
    shipped = [(spec, notes, {"loss": 300.0})]

    def loss(here: list) -> float:
        monkeypatch.setattr(expected, "_audits", lambda *_: (shipped, here))
        stages = expected_stages(spec, workspace, is_audit=True)
        (found,) = [stage.seconds for stage in stages if stage.key == "attack: loss"]
        return found

    assert loss([]) == pytest.approx(300.0 / BUSY)
    assert loss([(spec, notes, {"loss": 3 * 300.0 / BUSY})]) == pytest.approx(300.0 / BUSY)
    assert loss([(spec, notes, {"loss": 3 * 300.0 / BUSY})] * 3) == pytest.approx(300.0)


def test_shipped_audits_and_those_made_here_are_told_apart(smoke_specs, smoke_workspace, tmp_path) -> None:
    spec, attacks = smoke_specs["plain"], [{"attack": "loss", "state": "done", "seconds": 8.0}]
    attacks[0] |= {"message": "", "tables": [], "version": 1, "finished": 1.0}
    for root in ("shipped", "here"):
        shutil.copytree(smoke_workspace / "runs", tmp_path / root / "runs")
        folder = tmp_path / root / "audits" / spec.run_id
        folder.mkdir(parents=True)
        (folder / ATTACKS_FILE).write_text(json.dumps(attacks))
    taken = [(spec, expected_notes(spec), {"loss": 8.0})]
    both = Workspace(tmp_path / "here", shared=(tmp_path / "shipped",))
    assert expected._audits(spec, both, expected_notes) == ([], taken), "what was run here hides what was shipped"
    (tmp_path / "here" / "audits" / spec.run_id / ATTACKS_FILE).unlink()
    assert expected._audits(spec, both, expected_notes) == (taken, [])


def test_a_damaged_audit_counts_as_one_that_is_made_again(smoke_specs, smoke_workspace, tmp_path) -> None:
    """A job of no minutes would pass every limit."""
    shutil.copytree(smoke_workspace / "runs", tmp_path / "runs")
    workspace, spec = Workspace(tmp_path, shared=()), smoke_specs["plain"]
    before = expected_stages(spec, workspace, is_audit=True)
    folder = tmp_path / "audits" / spec.run_id
    folder.mkdir(parents=True)
    (folder / ATTACKS_FILE).write_text("[")
    assert expected_stages(spec, workspace, is_audit=True) == before and len(before) > 20
