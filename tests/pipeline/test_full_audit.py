"""The full audit: what it leaves, that one failure costs one attack, and that nothing is done twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from core.__main__ import main
from core.attacks import registry
from core.attacks.membership import attacks, reference
from core.attacks.registry import Attack
from core.common.errors import Cancelled
from core.evaluation.audit_summaries import Summary
from core.pipeline.full_audit import audit, open_attacks, target_of
from core.runs.audits import AuditBroken, file_name
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS


@pytest.fixture
def workspace(smoke_workspace: Path, tmp_path: Path) -> Workspace:
    """A data folder of one's own; the smoke runs are shipped to it."""
    return Workspace(tmp_path / "data", shared=(smoke_workspace,))


@pytest.fixture
def run(workspace: Workspace, smoke_specs: dict) -> Run:
    return workspace.run(smoke_specs["plain"].run_id)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of an attack that fails."""

    def fail(target, report):
        report(1, 2)
        raise ArithmeticError("the numbers ran out")

    attack = Attack("broken", "", "black-box", registry.KINDS, "cheap", "Fails.", ("scores",), fail)
    monkeypatch.setitem(registry.REGISTRY, "broken", attack)
    return "broken"


def test_a_failure_is_told_and_costs_nothing_of_the_others(
    workspace: Workspace, run: Run, broken: str, caplog: pytest.LogCaptureFixture
) -> None:
    events = []
    stored = audit(run, workspace, attacks=["loss", broken, "zlib"], on_event=events.append)
    outcomes = stored.outcomes()
    assert {name: outcomes[name].state for name in ("loss", "zlib", broken)} == {
        "loss": "done",
        "zlib": "done",
        broken: "failed",
    }
    assert outcomes[broken].message == "ArithmeticError: the numbers ran out"
    assert f"broken on run {run.id} failed" in caplog.text and "in fail" in caplog.text, "the log says where"
    assert set(stored.table("scores")["attack"]) == {"loss", "zlib"}
    assert set(stored.table("membership")["attack"]) == {"loss", "zlib"}
    assert [event["attack"] for event in events if event["event"] == "attack"] == ["loss", "zlib", broken]
    progress = [event for event in events if event["event"] == "progress"]
    assert progress and all(0 <= event["done"] <= event["total"] for event in progress)
    assert stored.folder == workspace.root / "audits" / run.id and not list(workspace.root.rglob(".*.parquet"))


def test_what_a_cohort_does_not_allow_is_no_failure_and_is_not_tried_again(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(target, report):
        raise registry.NotPossible("the cohort has no codes")

    attack = Attack("codes", "", "black-box", registry.KINDS, "cheap", "Needs codes.", ("scores",), refuse)
    monkeypatch.setitem(registry.REGISTRY, "codes", attack)
    (outcome, *_) = audit(run, workspace, attacks=["codes"]).outcomes().values()
    assert (outcome.state, outcome.message) == ("not possible", "the cohort has no codes")
    events: list[dict] = []
    audit(run, workspace, attacks=["codes"], on_event=events.append)
    assert not [event for event in events if event["event"] == "attack"]
    assert attack not in open_attacks(run, workspace)


def test_what_is_done_is_not_done_again_unless_asked_or_its_code_changed(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attacked(**options) -> list[str]:
        events: list[dict] = []
        audit(run, workspace, on_event=events.append, **options)
        return [event["attack"] for event in events if event["event"] == "attack"]

    assert attacked(attacks=["loss"]) == ["loss"]
    before = workspace.audit(run.id).table("scores")
    assert attacked(attacks=["loss"]) == []
    assert attacked(attacks=["zlib", "loss"]) == ["zlib"]
    assert attacked(attacks=["loss"], again=True) == ["loss"]
    after = workspace.audit(run.id).table_of("loss", "scores")
    pd.testing.assert_frame_equal(before, after)
    newer = Attack(**{**vars(registry.REGISTRY["loss"]), "version": 2})
    monkeypatch.setitem(registry.REGISTRY, "loss", newer)
    assert attacked(attacks=["loss", "zlib"]) == ["loss"]


def test_a_summary_is_made_again_when_its_code_changed_though_every_attack_is_done(
    workspace: Workspace, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []

    def known_as(version: int) -> None:
        def make(audited) -> pd.DataFrame:
            made.append(version)
            return pd.DataFrame({"notes": [len(audited.audit.table("scores"))]})

        one = Summary("counted", {"notes": "int64"}, ("scores",), make, version=version)
        monkeypatch.setattr("core.pipeline.full_audit.summaries", lambda: (one,))

    known_as(1)
    for _ in range(2):
        audit(run, workspace, attacks=["loss"])
    known_as(2)
    stored = audit(run, workspace, attacks=["loss"])
    assert made == [1, 2] and len(stored.table("counted")) == 1
    assert stored.outcomes()["summary: counted"].version == 2


def test_figures_are_made_again_when_the_audit_that_changed_their_attacks_was_stopped_before(
    workspace: Workspace, run: Run
) -> None:
    seen: list[str] = []

    def figures() -> float:
        return workspace.audit(run.id).outcomes()["summary: membership"].finished

    audit(run, workspace, attacks=["loss"])
    first = figures()
    with pytest.raises(Cancelled):
        audit(
            run,
            workspace,
            attacks=["loss"],
            again=True,
            should_stop=lambda: "figures" in seen,
            on_event=lambda event: seen.append(event.get("stage", "")),
        )
    assert figures() == first, "what was found anew has no figures yet"
    audit(run, workspace, attacks=["loss"])
    assert figures() > first
    second = figures()
    audit(run, workspace, attacks=["loss"])
    assert figures() == second


def test_stopping_keeps_what_is_done(workspace: Workspace, run: Run) -> None:
    seen: list[str] = []

    def stop() -> bool:
        return "loss" in seen

    with pytest.raises(Cancelled, match="finished attacks are kept"):
        audit(
            run,
            workspace,
            attacks=["loss", "zlib"],
            should_stop=stop,
            on_event=lambda event: seen.append(event["attack"]) if event["event"] == "outcome" else None,
        )
    assert list(workspace.audit(run.id).outcomes()) == ["loss"]
    assert workspace.audit(run.id).table("scores")["attack"].unique().tolist() == ["loss"]


def test_a_shipped_audit_is_read_and_never_written(workspace: Workspace, run: Run, smoke_workspace: Path) -> None:
    audit(run, workspace, attacks=["loss"])
    shipped = workspace.root.parent / "shipped"
    shutil.copytree(smoke_workspace, shipped)
    shutil.move(workspace.root / "audits", shipped / "audits")
    files = {path: path.read_bytes() for path in shipped.rglob("*") if path.is_file()}
    other = Workspace(workspace.root.parent / "other", shared=(shipped,))
    assert set(audit(other.run(run.id), other, attacks=["loss", "zlib"]).table("scores")["attack"]) == {"loss", "zlib"}
    assert {path: path.read_bytes() for path in shipped.rglob("*") if path.is_file()} == files
    assert "zlib" in (other.root / "audits" / run.id / "attacks.json").read_text()


def test_damage_is_a_sentence_naming_the_file(workspace: Workspace, run: Run) -> None:
    stored = audit(run, workspace, attacks=["loss"])
    path = stored.folder / "tables" / "scores" / "loss.parquet"
    path.write_bytes(b"no table")
    with pytest.raises(AuditBroken, match=r"loss\.parquet is missing or damaged"):
        stored.table("scores")
    (stored.folder / "attacks.json").write_text("[{}]")
    with pytest.raises(AuditBroken, match=r"attacks\.json is damaged"):
        stored.outcomes()
    assert workspace.audit("gpt2-000000000000").outcomes() == {}
    assert workspace.audit("gpt2-000000000000").table("scores").empty
    assert file_name("min-k++ 20 %") == "min-k-plus-plus-20" and file_name("min-k 20 %") == "min-k-20"


def test_wrong_names_are_refused_before_anything_is_done(workspace: Workspace, run: Run) -> None:
    with pytest.raises(ValueError, match="There is no attack “los”"):
        audit(run, workspace, attacks=["los"])
    with pytest.raises(ValueError, match="is for distilbert, bert"):
        audit(run, workspace, attacks=["normalised energy"])
    assert not (workspace.root / "audits").exists()


def test_a_reference_model_is_trained_once_for_all_runs_of_a_cohort(
    workspace: Workspace, smoke_specs: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = reference.recipe
    short = {"epochs": 1, "max_tokens": 64}
    monkeypatch.setattr(reference, "recipe", lambda *a, **k: recipe(*a, **k).model_copy(update=short))
    calls: list[tuple[int, int]] = []
    roles = (reference.POPULATION, reference.SHADOWS[0])
    for name in ("plain", "dp"):
        target = target_of(workspace.run(smoke_specs[name].run_id), workspace)
        weights = [target.model(role, lambda done, total: calls.append((done, total))) for role in roles]
        assert all(lm.kind == "gpt2" for lm in weights)
        calls.append((0, 0)) if name == "plain" else None
    assert calls[-1] == (0, 0) and len(calls) > 1, "the second run trained nothing"
    assert len(list(workspace.references(CORPUS_PRESETS["smoke"]).iterdir())) == 2
    assert attacks.SHADOWS == reference.SHADOWS


def test_the_command_prints_outcomes_and_figures(workspace: Workspace, run: Run, capsys, monkeypatch) -> None:
    monkeypatch.setenv("PHILAB_SHIPPED", str(workspace.shared[0]))
    arguments = ["audit", run.id, "--suite", "full", "--attack", "loss", "--data", str(workspace.root)]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["attack"]: row["state"] for row in found["attacks"]}["loss"] == "done"
    auc = [
        row for row in found["membership"] if (row["metric"], row["level"], row["length"]) == ("auc", "sample", "all")
    ]
    assert len(auc) == 1 and 0 <= auc[0]["value"] <= 1
    assert main(arguments) == 0
    said = capsys.readouterr().out
    assert "membership" in said and "probe_figures\nNothing was measured:" in said and "DataFrame" not in said
    assert main(["audit", run.id, "--suite", "everything", "--data", str(workspace.root)]) == 2
    assert main(["audit", run.id, "--again", "--data", str(workspace.root)]) == 2
