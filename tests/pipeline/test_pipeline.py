"""The straight line: what a run leaves behind, that it is made once, and that it goes on where it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.common.errors import Cancelled
from core.corpus.synthetic.canaries import draw
from core.evaluation.summary import summarise
from core.pipeline import training_run
from core.pipeline.epochs.evaluation import tracked_canaries
from core.pipeline.training_run import execute
from core.runs.events import read_events, read_status
from core.runs.store import Workspace
from core.runs.tables import ADDED, SCHEMAS, UTILITY
from core.spec import CorpusSpec, RunSpec, TrainingSpec


@pytest.fixture
def workspace(smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path: Path) -> Workspace:
    """A data folder of one's own with the smoke cohort and the finished control, but no other run."""
    shutil.copytree(smoke_workspace / "corpora", tmp_path / "corpora")
    base = smoke_specs["base"].run_id
    shutil.copytree(smoke_workspace / "runs" / base, tmp_path / "runs" / base)
    return Workspace(tmp_path, shared=())


def test_a_run_leaves_every_file_and_no_work(smoke_workspace: Path, smoke_specs: dict[str, RunSpec]) -> None:
    workspace = Workspace(smoke_workspace, shared=())
    assert {run.id for run in workspace.runs()} == {spec.run_id for spec in smoke_specs.values()}
    assert workspace.works() == [] and workspace.problems() == []
    for name, spec in smoke_specs.items():
        run = workspace.run(spec.run_id)
        assert run.spec == spec and run.status.state == "done" and not run.shipped
        for table, schema in (SCHEMAS | ADDED).items():
            assert list(run.table(table).columns) == schema.names
        assert (run.folder / "README.md").read_text().startswith("---\n")
        assert not (run.folder / "checkpoint").exists()
        assert (run.privacy is not None) == (name == "dp")
        assert run.has_model and run.model().kind == "gpt2"


def test_epsilon_is_reached_and_never_exceeded(smoke_workspace: Path, smoke_specs: dict[str, RunSpec]) -> None:
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["dp"].run_id)
    history, mechanism = run.table("history"), run.privacy
    assert mechanism.steps == len(history) == history["step"].iloc[-1]
    assert 7.5 < mechanism.epsilon() <= 8.0
    assert history["epsilon"].iloc[-1] == pytest.approx(mechanism.epsilon(), rel=0.02)
    assert (np.diff(history["epsilon"]) >= 0).all()
    plain = Workspace(smoke_workspace, shared=()).run(smoke_specs["plain"].run_id)
    assert plain.table("history")["epsilon"].isna().all()


def test_events_are_those_of_the_architecture(smoke_workspace: Path, smoke_specs: dict[str, RunSpec]) -> None:
    run = Workspace(smoke_workspace, shared=()).run(smoke_specs["dp"].run_id)
    events = run.events()
    stages = [event["stage"] for event in events if event["event"] == "stage"]
    assert list(dict.fromkeys(stages)) == [
        *("corpus", "training", "base control", "audit: extraction", "audit: membership", "audit: exposure"),
        *("audit: utility", "saving"),
    ]
    steps = [event for event in events if event["event"] == "step"]
    assert [event["step"] for event in steps] == list(range(1, steps[-1]["steps"] + 1))
    assert set(steps[0]) == {
        *("time", "event", "step", "steps", "epoch", "epochs", "loss", "epsilon", "epsilon_end"),
        *("tokens", "seconds", "eta_seconds"),
    }
    epochs = [event for event in events if event["event"] == "epoch"]
    assert len(epochs) == run.spec.training.epochs
    corpus = Workspace(smoke_workspace, shared=()).corpus(run.spec.corpus)
    assert set(epochs[0]["canary_exposure"]) == set(tracked_canaries(corpus.canaries)["canary_id"])
    assert events[-1]["event"] == "done"
    for epoch in epochs:  # the history holds the same evaluation
        row = run.table("history").set_index("step").loc[epoch["step"]]
        assert row["eval_loss"] == epoch["eval_loss"] and row["canary_exposure"] == epoch["canary_exposure"]


def test_the_tracked_canaries_are_sentences_of_any_cohort() -> None:
    """Also of one without canaries, whose table has no types, and of one with random lines alone."""
    for canaries, lines, tracked in ((0, None, 0), (0, 5, 0), (48, 5, 3)):
        drawn = draw(CorpusSpec(canaries=canaries, canary_patients=2 * bool(canaries), random_canaries=lines))
        found = tracked_canaries(drawn)
        assert len(found) == tracked and set(found.columns) == set(drawn.columns)
        assert not set(found["form"]) & {"patient", "random"}


def test_metrics_are_a_pure_function_of_the_tables(smoke_workspace: Path, smoke_specs: dict[str, RunSpec]) -> None:
    workspace = Workspace(smoke_workspace, shared=())
    run, base = workspace.run(smoke_specs["plain"].run_id), workspace.run(smoke_specs["base"].run_id)
    names = [*(name for name in SCHEMAS if name != "metrics"), UTILITY]
    again = summarise(
        {name: run.table(name) for name in names},
        {name: base.table(name) for name in names},
        corpus=workspace.corpus(run.spec.corpus),
        audit=run.spec.audit,
    )
    pd.testing.assert_frame_equal(run.metrics, again, check_dtype=False)
    assert {"run", "heldout", "base"} == set(run.metrics["arm"])


def test_a_finished_spec_returns_at_once(smoke_workspace: Path, smoke_specs: dict[str, RunSpec]) -> None:
    events: list[dict[str, Any]] = []
    workspace = Workspace(smoke_workspace, shared=())
    before = workspace.run(smoke_specs["plain"].run_id).status
    assert execute(smoke_specs["plain"], workspace, on_event=events.append).status == before
    assert events == []


def test_cancelling_leaves_nothing(workspace: Workspace, smoke_spec: Callable[..., RunSpec]) -> None:
    spec = smoke_spec(seed=7)
    events: list[dict[str, Any]] = []
    with pytest.raises(Cancelled):
        execute(spec, workspace, on_event=events.append, should_stop=lambda: len(events) > 3)
    assert events[-1]["event"] == "cancelled"
    assert workspace.works() == [] and workspace.find(spec) is None
    assert list(workspace.root.glob("work/.*")) == []  # the lock is gone too


class _Killed(BaseException):
    """Stands in for a process that ends in the middle: no `except Exception` sees it."""


def test_a_run_that_is_killed_twice_equals_the_uninterrupted(
    workspace: Workspace, smoke_workspace: Path, smoke_specs: dict[str, RunSpec]
) -> None:
    spec = smoke_specs["dp"]
    whole = Workspace(smoke_workspace, shared=()).run(spec.run_id)
    work = workspace.work(spec.run_id)

    def die_in_the_second_epoch(event: dict[str, Any]) -> None:
        if event["event"] == "step" and event["epoch"] == 2:
            raise _Killed

    def die_at_the_second_attack(event: dict[str, Any]) -> None:
        if event["event"] == "stage" and event["stage"] == "audit: membership":
            raise _Killed

    for killer in (die_in_the_second_epoch, die_at_the_second_attack):
        with pytest.raises(_Killed):
            execute(spec, workspace, on_event=killer)
        assert read_status(work).state == "running"
    run = execute(spec, workspace)
    steps = [event["step"] for event in run.events() if event["event"] == "step"]
    assert steps.count(1) == 1, "it went on from its checkpoint, it did not start again"
    assert run.privacy == whole.privacy and run.privacy.epsilon() == whole.privacy.epsilon()
    assert run.table("history")["step"].tolist() == whole.table("history")["step"].tolist()
    pd.testing.assert_frame_equal(run.metrics, whole.metrics, rtol=1e-3)


def test_a_failing_attack_loses_no_training(
    workspace: Workspace, smoke_spec: Callable[..., RunSpec], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = smoke_spec(epochs=1, seed=3)
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="no luck"):
        patch.setattr("core.attacks.membership.scores.loss_scores", _raise)
        execute(spec, workspace)
    work = workspace.work(spec.run_id)
    assert read_status(work).state == "failed" and "no luck" in read_status(work).message
    assert read_events(work)[-1]["event"] == "failed"
    events: list[dict[str, Any]] = []
    execute(spec, workspace, on_event=events.append)
    assert not [event for event in events if event["event"] == "step"], "trained again"
    assert "audit: extraction" not in [event.get("stage") for event in events], "attacked again"


def _raise(*_: object, **__: object) -> None:
    raise RuntimeError("no luck")


def test_bad_input_is_a_sentence_and_leaves_no_run(workspace: Workspace, smoke_spec: Callable[..., RunSpec]) -> None:
    spec = smoke_spec().model_copy(update={"training": TrainingSpec(epochs=1, batch_size=100_000)})
    with pytest.raises(ValueError, match="batch"):
        execute(spec, workspace)
    assert workspace.find(spec) is None
    assert json.loads((workspace.work(spec.run_id) / "status.json").read_text())["state"] == "failed"


def test_imported_notes_are_read_and_never_generated(smoke_specs: dict[str, RunSpec]) -> None:
    spec = smoke_specs["plain"]
    own = spec.model_copy(update={"corpus": spec.corpus.model_copy(update={"imported": "0" * 16})})
    assert training_run._reading_message(own) == "Reading the imported notes"
    assert "generating them" in training_run._reading_message(spec)
