"""Events of trainings and audits as lines: each stage, some steps and always the last one, and what did not succeed."""

from __future__ import annotations

from core.pipeline.progress_lines import audit_lines, training_lines


def step(number: int, **changes: object) -> dict[str, object]:
    return {"event": "step", "step": number, "steps": 3, "loss": 2.0, "epsilon": None, "eta_seconds": 9.0} | changes


def test_stages_are_told_at_once_and_steps_now_and_then() -> None:
    said, now = [], [0.0]
    tell = training_lines(said.append, stage="run: {}", every=10.0, clock=lambda: now[0])
    tell({"event": "stage", "message": "training"})
    now[0] = 1.0
    tell(step(1))
    now[0] = 5.0
    tell(step(2))
    tell(step(3, loss=None, epsilon=1.234))
    tell({"event": "epoch"})
    assert said == ["run: training", "  step 1/3, loss 2.000, 9 s left", "  step 3/3, loss –, ε 1.24, 9 s left"]


def test_an_audit_tells_its_attacks_their_progress_and_failures() -> None:
    said: list[str] = []
    tell = audit_lines(said.append)
    tell({"event": "attack", "attack": "loss", "number": 1, "of": 2})
    tell({"event": "progress", "done": 5, "total": 9, "eta_seconds": None})
    tell({"event": "progress", "done": 6, "total": 9, "eta_seconds": 3.0})
    tell({"event": "outcome", "state": "done", "message": ""})
    tell({"event": "outcome", "state": "failed", "message": "a reason"})
    assert said == ["[1/2] loss", "  6 of 9, 3 s left", "  failed: a reason"]
