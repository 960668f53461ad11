"""Planted gradients: what `prove --canaries` found is kept, apart from the audit, and shown with its ceiling."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import pytest

from core.__main__ import main
from core.common.errors import Cancelled
from core.evaluation.guarantee.step_audit import PLANTED_COLUMNS, chosen_proof, step_audit, stored_proofs
from core.evaluation.wording import planted_sentence
from core.models.build import load
from core.pipeline.full_audit import open_figures
from core.pipeline.planted_gradients import plant
from core.runs.audits import AuditBroken
from core.runs.backup.kinds import files_of
from core.runs.lock import held, inner_work
from core.runs.store import Workspace
from core.training.checks import steps
from core.training.checks.check import Check
from core.training.checks.gradient_canaries import watch


@pytest.fixture(scope="module")
def root(smoke_workspace, tmp_path_factory) -> Path:
    return shutil.copytree(smoke_workspace, tmp_path_factory.mktemp("planted") / "data")


@pytest.fixture(scope="module")
def told(root, smoke_specs):
    """What the command printed: 100 gradients with seed 3, 100 with seed 4, then 60."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "check_steps", lambda *given: [Check("size", "It is small", "size", 1.0, 0.0, 2.0)])
        for canaries, seed in ((100, 3), (100, 4), (60, 0)):
            printed: list[dict] = []
            patch.setattr("core.cli.verify.answer", lambda out, text, as_json, kept=printed: kept.append(out))
            asked = ["prove", smoke_specs["dp"].run_id, "--data", str(root), "--canaries", str(canaries)]
            assert main([*asked, "--seed", str(seed), "--json"]) == 0
            found += printed
    return found


def test_each_result_is_kept_with_everything_it_depends_on(root, smoke_specs, told):
    workspace = Workspace(root, shared=())
    run = workspace.run(smoke_specs["dp"].run_id)
    kept = stored_proofs(workspace.audit(run.id))
    assert list(kept.columns) == list(PLANTED_COLUMNS)
    assert list(zip(kept["canaries"], kept["seed"], strict=True)) == [(100, 3), (100, 4), (60, 0)]
    for row, one in zip(kept.to_dict("records"), told, strict=True):
        assert {name: row[name] for name in one["planted"]} == pytest.approx(one["planted"])
        assert (row["steps"], row["unit"], row["delta"]) == (run.privacy.steps, "note", run.privacy.delta)
        assert row["promised"] == run.privacy.epsilon() and 0 <= row["proved_by_curve"] <= row["ceiling"]
    notes = workspace.corpus(run.spec.corpus).training_notes(run.note_cap)
    seen = watch(load(run.spec.model), notes, run.spec.training, run.spec.privacy, canaries=100, seed=3)
    again = step_audit(seen.inside, seen.evidence, seen.mechanism, promised=run.privacy.epsilon())
    row = kept.iloc[0].to_dict()
    assert {name: row[name] for name in asdict(again)} == pytest.approx(asdict(again))


def test_the_same_question_is_kept_once(root, smoke_specs, told, tmp_path):
    copied = shutil.copytree(root, tmp_path / "data")
    workspace = Workspace(copied, shared=())
    run = workspace.run(smoke_specs["dp"].run_id)
    notes = workspace.corpus(run.spec.corpus).training_notes(run.note_cap)
    plant(run, notes, workspace, canaries=100, seed=3)
    kept = stored_proofs(workspace.audit(run.id))
    assert sorted(zip(kept["canaries"], kept["seed"], strict=True)) == [(60, 0), (100, 3), (100, 4)]


def test_a_sentence_uses_the_first_with_the_most_whatever_they_prove(told):
    rows = [
        {"canaries": canaries, "seed": seed, "proved": proved}
        for canaries, seed, proved in ((60, 0, 9.0), (100, 4, 0.1), (100, 3, 5.0))
    ]
    chosen = chosen_proof(pd.DataFrame(rows))
    assert chosen is not None and (chosen["canaries"], chosen["seed"]) == (100, 4)
    assert chosen_proof(pd.DataFrame()) is None


def test_it_is_no_result_of_the_audit_of_the_model(root, smoke_specs, told):
    """Another attacker: it makes no run audited, no figure outdated, and enters no table of the audit."""
    workspace = Workspace(root, shared=())
    run = workspace.run(smoke_specs["dp"].run_id)
    audit = workspace.audit(run.id)
    assert audit.outcomes() == {} and audit.table("planted").empty and open_figures(run, workspace) == []
    known, unknown = files_of("audits", audit.folder)
    assert sum(name.startswith("prove/") for name in known) == 4 and not unknown, "backups have it"


def test_a_shipped_result_is_read_and_stays(root, smoke_specs, told, tmp_path):
    workspace = Workspace(tmp_path / "data", shared=(root,))
    run = workspace.run(smoke_specs["dp"].run_id)
    assert len(stored_proofs(workspace.audit(run.id))) == 3
    assert stored_proofs(workspace.audit(smoke_specs["plain"].run_id)).empty


def test_a_damaged_result_is_said(root, smoke_specs, told, tmp_path):
    copied = shutil.copytree(root, tmp_path / "data")
    audit = Workspace(copied, shared=()).audit(smoke_specs["dp"].run_id)
    next(audit.proving().folder.glob("tables/planted/*.parquet")).write_bytes(b"PAR1")
    with pytest.raises(AuditBroken, match="missing or damaged"):
        stored_proofs(audit)


def test_what_is_stopped_or_promises_nothing_leaves_nothing(root, smoke_specs, tmp_path):
    workspace = Workspace(tmp_path / "data", shared=(root,))
    runs = {name: workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp")}
    notes = workspace.corpus(runs["dp"].spec.corpus, store=False).training_notes(None)
    with pytest.raises(Cancelled):
        plant(runs["dp"], notes, workspace, canaries=60, should_stop=lambda: True)
    with pytest.raises(ValueError, match="promises no ε"):
        plant(runs["plain"], notes, workspace, canaries=60)
    with pytest.raises(ValueError, match="at least 50"):
        plant(runs["dp"], notes, workspace, canaries=49)
    assert not (tmp_path / "data" / "audits" / runs["dp"].id).exists()


def test_who_is_cancelled_while_another_is_at_it_leaves_that_alone(root, smoke_specs, tmp_path):
    workspace = Workspace(tmp_path / "data", shared=(root,))
    run = workspace.run(smoke_specs["dp"].run_id)
    notes = workspace.corpus(run.spec.corpus, store=False).training_notes(None)
    lock = workspace.audit(run.id).proving().folder / ".lock"
    with held(lock, should_stop=lambda: False):
        with pytest.raises(Cancelled):
            plant(run, notes, workspace, canaries=60, should_stop=lambda: True)
        assert lock.exists(), "the deletion of the notes waits for its holder"


def test_pages_and_report_show_it_apart_from_the_attacks_on_the_model(root, smoke_specs, told, monkeypatch):
    from core.evaluation.report.facts import build
    from core.evaluation.report.html import render
    from tests.pages.visit import said, visit

    workspace = Workspace(root, shared=())
    runs = [workspace.run(smoke_specs[name].run_id) for name in ("dp", "plain")]
    chosen = chosen_proof(stored_proofs(workspace.audit(runs[0].id)))
    assert chosen is not None and chosen["seed"] == 3
    sentence = planted_sentence(chosen)
    made = build(workspace, runs, now=0.0)
    (fact,) = [one["answer"] for one in made.facts["glance"] if one["key"] == "audit"]
    assert fact.startswith("No. Attacks on the finished model prove")
    assert "An attacker who sees every step of such a training proves" in fact
    assert [(one["run"], one["seed"]) for one in made.facts["planted_gradients"]] == [(runs[0].id, 3)]
    assert json.loads(made.to_json())["planted_gradients"][0]["sentence"] == sentence
    page = render(made)
    assert all(f'id="planted-{runs[0].id}-{canaries}-{seed}"' in page for canaries, seed in ((100, 3), (60, 0)))
    assert "An attacker who sees every step: not measured." not in page

    monkeypatch.setenv("PHILAB_DATA", str(root))
    app = visit("canaries", view="Guarantee", left=runs[0].id, right=runs[1].id)
    assert said(app).count("every step (white-box)") == 1 and sentence in said(app), (
        "nothing about a run without privacy"
    )
    assert any("3 such runs" in caption.value for caption in app.caption)
    table = next(frame.value for frame in app.dataframe if "proved_by_curve" in frame.value.columns)
    assert len(table) == 3
    assert sentence in said(visit("step", run=runs[0].id))


def test_pages_and_report_say_where_it_was_not_measured(data, smoke_specs):
    from core.evaluation.report.facts import build
    from core.evaluation.report.html import render
    from tests.pages.visit import said, visit

    run = smoke_specs["dp"].run_id
    command = f"python -m core prove {run} --canaries 5000"
    assert command in said(visit("canaries", view="Guarantee", left=run, right=run))
    assert command in said(visit("step", run=run))
    workspace = Workspace(data, shared=())
    made = build(workspace, [workspace.run(run)], now=0.0)
    assert made.facts["planted_gradients"] == [] and "An attacker who sees every step: not measured." in render(made)
    assert any(command in line for line in made.facts["open"])


@pytest.fixture
def data(monkeypatch, smoke_workspace) -> Path:
    monkeypatch.setenv("PHILAB_DATA", str(smoke_workspace))
    return smoke_workspace


def test_its_lock_is_held_from_the_first_step_to_the_end(root, smoke_specs, tmp_path):
    """The deletion of an upload waits for it, and finds nothing afterwards that it would have missed."""
    workspace = Workspace(shutil.copytree(root, tmp_path / "data"), shared=())
    run = workspace.run(smoke_specs["dp"].run_id)
    notes = workspace.corpus(run.spec.corpus).training_notes(run.note_cap)
    audit, at_work = workspace.audit(run.id), []

    def step(done: int, steps: int) -> None:
        at_work.append(inner_work(audit.folder))

    with pytest.raises(Cancelled):
        plant(run, notes, workspace, canaries=100, seed=9, on_step=step, should_stop=lambda: bool(at_work))
    assert at_work == [[audit.proving().folder]] and inner_work(audit.folder) == []
