"""What a session remembers of a run that it submits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from core.spec import CORPUS_PRESETS, RunSpec, recipe
from pages.parts.jobs import monitor
from pages.parts.pickers import run_picker


def test_pages_do_not_open_with_a_run_that_was_trained_again_without_a_patient(monkeypatch):
    """Forget does not offer it, so it opened with a shipped model instead of the one whose patient was taken out."""
    state: dict[str, Any] = {}
    monkeypatch.setattr(monitor.st, "session_state", state)
    monkeypatch.setattr(monitor.viewer, "require", lambda right: None)
    monkeypatch.setattr(monitor.instructor, "user", lambda: None)
    accepts = SimpleNamespace(submit=lambda spec, user: SimpleNamespace(id=spec.run_id))
    monkeypatch.setattr(monitor, "engine", lambda: accepts)
    run = RunSpec(corpus=CORPUS_PRESETS["smoke"], training=recipe("gpt2"))
    assert monitor.submit(run) and state["watched"] == state[run_picker.OWN] == run.run_id
    again = run.retrained_spec("P0001")
    assert monitor.submit(again) and state["watched"] == again.run_id
    assert state[run_picker.OWN] == run.run_id
