"""The registered attacks on a run that the real pipeline made, through the audit that stores them, to their figures."""

from __future__ import annotations

import math
import shutil

import pytest

from core.attacks.battery import REGISTRY, applicable
from core.pipeline.full_audit import audit, summaries
from core.runs.store import Workspace

OURS = ("greedy extraction", "extraction ranking", "prefix", "canary exposure", "memorised notes")


@pytest.fixture(scope="module")
def audited(smoke_workspace, smoke_specs, tmp_path_factory):
    root = tmp_path_factory.mktemp("audited") / "data"
    shutil.copytree(smoke_workspace, root)
    workspace = Workspace(root, shared=())
    runs = {name: workspace.run(smoke_specs[name].run_id) for name in ("plain", "dp")}
    return {name: (run, audit(run, workspace, attacks=OURS)) for name, run in runs.items()}


@pytest.mark.parametrize("name", ["plain", "dp"])
def test_every_attack_and_summary_succeeds(audited, name):
    _, stored = audited[name]
    failed = {one.attack: one.message for one in stored.outcomes().values() if one.state != "done"}
    assert failed == {}
    assert set(OURS) <= set(stored.outcomes())


def test_tables_speak_of_the_same_run(audited):
    run, stored = audited["plain"]
    assert set(stored.table("ranking")["generation_id"]) == set(run.table("generations")["generation_id"])
    assert stored.table("greedy_generations")["prompt_id"].tolist() == list(range(1, 15))
    assert set(stored.table("prefixes")["model"]) == {"target", "base"}
    exposures = stored.table("exposures").set_index("canary_id")
    ranked = run.table("canaries").set_index("canary_id")
    for canary, row in exposures.iterrows():
        assert row["rank_exposure"] == pytest.approx(ranked.loc[canary, "exposure"], abs=0.02)
    assert set(stored.table("note_features")["split"]) == {"member", "heldout"}


def test_summaries_are_tables_with_controls(audited):
    run, stored = audited["dp"]
    assert set(stored.table("memorised")["arm"]) == {"run", "heldout", "base"}
    assert set(stored.table("extraction_fields")["arm"]) == {"run", "heldout"}
    risk = stored.table("risk")
    assert set(risk["version"]) == {"old", "calibrated"} and "memorisation" in set(risk["part"])
    bounds = stored.table("bounds")
    assert bounds["promised"].unique() == pytest.approx([run.privacy.epsilon()])
    assert not bounds["alarm"].any()
    plain = audited["plain"][1].table("bounds")
    assert (plain["promised"] == math.inf).all()


def test_masked_models_are_not_asked_to_go_on():
    assert {attack.name for attack in applicable("bert")} >= set(OURS) - {"prefix"}
    assert "prefix" not in {attack.name for attack in applicable("bert")}
    assert set(OURS) <= set(REGISTRY)
    assert {"bounds", "risk", "memorised"} <= {summary.name for summary in summaries()}
