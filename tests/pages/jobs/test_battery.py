"""The full audit as the pages offer it: the button, what it asks for, live progress, and who cannot be attacked."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from core.common.formatting import duration_text
from core.jobs.engine import Engine
from core.jobs.times.costs import whole
from core.jobs.times.expected import expected_stages
from core.pipeline.full_audit import SUMMARY, chosen_attacks, open_figures, summaries
from core.runs.audits import Outcome
from core.runs.events import EVENTS_FILE, EventLog
from core.runs.lock import held
from core.runs.store import Workspace
from pages.parts.jobs.battery import FIGURES, LABEL
from tests.pages.visit import said, visit

PAGES = ("membership", "canaries", "probes")


@pytest.fixture
def data(monkeypatch, smoke_workspace: Path, smoke_specs, tmp_path: Path) -> Path:
    """A data folder of one's own with the smoke runs; nothing is started."""
    monkeypatch.setattr(Engine, "warm", lambda self: None)
    root = tmp_path / "data"
    shutil.copytree(smoke_workspace, root, ignore=shutil.ignore_patterns("audits"))
    monkeypatch.setenv("PHILAB_DATA", str(root))
    return root


def link(page: str, run_id: str) -> dict[str, str]:
    return {"run": run_id} if page == "probes" else {"left": run_id, "right": run_id}


@pytest.mark.parametrize("page", PAGES)
def test_a_click_asks_once_for_everybody(data, smoke_specs, page):
    run_id = smoke_specs["plain"].run_id
    app = visit(page, **link(page, run_id))
    next(button for button in app.button if button.label == LABEL).click().run()
    assert not app.exception and "Attacking" in said(app)
    (job,) = Engine.connect(workspace=Workspace(data, shared=())).jobs()
    assert (job.run_id, job.is_audit, job.state) == (run_id, True, "queued")
    other = visit(page, **link(page, run_id))
    assert "Attacking" in said(other) and not any(button.label == LABEL for button in other.button)
    next(button for button in other.button if button.label == "Cancel").click().run()
    assert any(button.label == LABEL for button in other.button)


def test_each_of_two_buttons_names_its_model(data, smoke_specs):
    app = visit("membership", left=smoke_specs["plain"].run_id, right=smoke_specs["dp"].run_id)
    labels = [button.label for button in app.button if button.label.startswith(LABEL)]
    assert labels == [f"{LABEL}: no privacy", f"{LABEL}: ε = 8 per note · DP"], "a screen reader lists buttons by name"


def test_progress_is_told_an_attack_at_a_time(data, smoke_specs):
    workspace, run_id = Workspace(data, shared=()), smoke_specs["plain"].run_id
    engine = Engine.connect(workspace=workspace)
    engine.submit_audit(run_id)
    with held(workspace.audit_lock_file(run_id), should_stop=lambda: False):
        engine._queue.clear()  # it is in another server's hands
        diary = EventLog(workspace.audit(run_id).folder)
        diary.emit({"event": "attack", "attack": "prefix", "number": 3, "of": 12})
        diary.emit({"event": "progress", "attack": "prefix", "done": 30, "total": 40, "eta_seconds": 20.0})
        status = workspace.audit(run_id).folder / "status.json"
        status.write_text(status.read_text().replace("queued", "running"))
        app = visit("membership", **link("membership", run_id))
        bars = [bar.proto for bar in app.get("progress")]
        (text,) = [bar.text for bar in bars]
        assert re.match(r"Attack 3 of 12, prefix: 30 of 40 · about \d+ (s|min) left", text), "of all attacks"
        assert bars[0].value == int(100 * (2 + 30 / 40) / 12)
    assert (workspace.audit(run_id).folder / EVENTS_FILE).exists()


def test_the_attacks_that_were_not_run_are_named_once(data, smoke_specs):
    workspace, run_id = Workspace(data, shared=()), smoke_specs["plain"].run_id
    every = chosen_attacks(workspace.run(run_id), None)
    for attack in every[:-1]:
        workspace.audit(run_id).record(Outcome(attack.name, "done", 0.0, "", (), attack.version, 1.0), {})
    told = said(visit("canaries", **link("canaries", run_id)))
    scores = sum("scores" in attack.tables for attack in every)
    scope = f"{scores} on membership and {len(every) - scores} others"
    expected = f"The full audit has {len(every)} attacks ({scope}); one was not run on “no privacy”: {every[-1].name}."
    assert told.count(expected) == 1 and "on membership among them" not in told


@pytest.mark.parametrize(("done", "what"), [(0, "It"), (3, "What is left")])
def test_the_time_is_that_of_the_attacks_that_are_left(data, smoke_specs, done, what):
    """Not one sentence for all: the attacks on 48,000 notes take hours."""
    workspace, run_id = Workspace(data, shared=()), smoke_specs["plain"].run_id
    for attack in chosen_attacks(workspace.run(run_id), None)[:done]:
        workspace.audit(run_id).record(Outcome(attack.name, "done", 0.0, "", (), attack.version, 1.0), {})
    seconds = whole(expected_stages(smoke_specs["plain"], workspace, is_audit=True))
    told = said(visit("canaries", **link("canaries", run_id)))
    assert f" {what} takes about {duration_text(seconds)} on this machine." in told


def test_a_failed_attack_is_named_and_can_be_tried_again(data, smoke_specs):
    workspace, run_id = Workspace(data, shared=()), smoke_specs["plain"].run_id
    stored = workspace.audit(run_id)
    for attack in chosen_attacks(workspace.run(run_id), None):
        failed = attack.name == "prefix"
        state, why = ("failed", "OSError: no luck") if failed else ("done", "")
        stored.record(Outcome(attack.name, state, 0.0, why, (), attack.version, 1.0), {})
    app = visit("canaries", **link("canaries", run_id))
    assert " others); one failed on “no privacy”: prefix (OSError\\: no luck)." in said(app), "as Markdown shows it"
    assert any(button.label == LABEL for button in app.button)


def test_figures_of_older_code_can_be_made_anew(data, smoke_specs):
    """All attacks are done, but what was made of them is missing, old, or from before the last attack."""
    workspace, run_id = Workspace(data, shared=()), smoke_specs["plain"].run_id
    stored, run = workspace.audit(run_id), workspace.run(run_id)
    for attack in chosen_attacks(run, None):
        stored.record(Outcome(attack.name, "done", 0.0, "", (), attack.version, 1.0), {})
    first, second, *others = summaries()
    for summary in (first, second, *others):
        stored.record(Outcome(SUMMARY + summary.name, "done", 0.0, "", (), summary.version, 2.0), {})
    assert open_figures(run, workspace) == []
    stored.record(Outcome(SUMMARY + first.name, "done", 0.0, "", (), first.version - 1, 2.0), {})
    stored.record(Outcome(SUMMARY + second.name, "done", 0.0, "", (), second.version, 0.5), {})
    assert open_figures(run, workspace) == [first, second]
    app = visit("canaries", **link("canaries", run_id))
    assert "runs no attack again" in said(app)
    next(button for button in app.button if button.label == FIGURES).click().run()
    (job,) = Engine.connect(workspace=workspace).jobs()
    assert (job.run_id, job.is_audit, job.state) == (run_id, True, "queued")


def test_what_a_cohort_does_not_allow_is_told_with_its_reason(data, smoke_specs):
    workspace, run_id = Workspace(data, shared=()), smoke_specs["plain"].run_id
    stored = workspace.audit(run_id)
    for attack in chosen_attacks(workspace.run(run_id), None):
        refused = attack.name in ("prefix", "zlib")
        state, why = ("not possible", "there are no codes") if refused else ("done", "")
        stored.record(Outcome(attack.name, state, 0.0, why, (), attack.version, 1.0), {})
    app = visit("canaries", **link("canaries", run_id))
    told = [caption.value for caption in app.caption if "Not possible" in caption.value]
    assert len(told) == 1 and "zlib" in told[0] and "prefix" in told[0] and "There are no codes." in told[0]
    assert not any(button.label == LABEL for button in app.button)


def test_a_command_in_the_reason_is_set_as_code_and_the_rest_as_text(data, smoke_specs):
    """LiRA lacks shadow models, and nothing is wrong with the cohort. Its backticks were shown."""
    workspace, run_id = Workspace(data, shared=()), smoke_specs["plain"].run_id
    why = "LiRA has no *shadow* models. `python -m core shadows RUN` trains 64 and then attacks."
    workspace.audit(run_id).record(Outcome("lira", "not possible", 0.0, why, (), 1, 1.0), {})
    app = visit("probes", **link("probes", run_id))
    (told,) = (caption.value for caption in app.caption if "Not possible" in caption.value)
    assert told.endswith("LiRA has no \\*shadow\\* models\\. `python -m core shadows RUN` trains 64 and then attacks.")
    assert "cohort" not in told


@pytest.mark.parametrize("page", PAGES)
def test_without_weights_a_sentence_stands_in_the_buttons_place(data, smoke_specs, page):
    run_id = smoke_specs["dp"].run_id
    shutil.rmtree(data / "runs" / run_id / "model")
    app = visit(page, **link(page, run_id))
    assert any("Its weights are not stored here" in caption.value for caption in app.caption)
    assert not any(button.label == LABEL for button in app.button)
