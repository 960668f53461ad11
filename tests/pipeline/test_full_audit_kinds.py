"""The full suite on a masked model: every attack that is for its kind runs, and none fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.attacks import evaluation_set, unlearning
from core.attacks.battery import applicable
from core.attacks.membership import attacks, reference
from core.pipeline.full_audit import audit, open_attacks, summaries
from core.pipeline.training_run import execute
from core.runs.store import Workspace
from core.spec import AuditSpec, CorpusSpec, ModelSpec, RunSpec, TrainingSpec
from tests.tiny_models import tiny

pytestmark = pytest.mark.slow

CORPUS = CorpusSpec(
    patients=16, population=6, notes_per_patient=2, naming_rate=1.0, note_length="brief", canaries=2, canary_patients=1
)


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained BERT of 2 layers × 32."""
    folder = tmp_path_factory.mktemp("bert")
    tiny("bert", seed=3).save(folder)
    return folder


def test_the_full_suite_on_bert_has_no_failed_attack(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = reference.recipe
    monkeypatch.setattr(
        reference, "recipe", lambda *a, **k: recipe(*a, **k).model_copy(update={"epochs": 1, "max_tokens": 64})
    )
    draw = unlearning.drawn_patients
    monkeypatch.setattr(unlearning, "drawn_patients", lambda target: draw(target, 2))
    monkeypatch.setattr(attacks, "NEIGHBOURS", 2)
    for module in (evaluation_set, attacks):
        monkeypatch.setattr(module, "MASK_DRAWS", 2)
    workspace = Workspace(tmp_path / "data", shared=())
    spec = RunSpec(
        corpus=CORPUS,
        model=ModelSpec(kind="bert", base=str(tiny_bert)),
        training=TrainingSpec(epochs=1, batch_size=16, max_tokens=64),
        audit=AuditSpec(samples_per_prompt=1, new_tokens=4, mask_draws=1, bootstrap=10),
    )
    run = execute(spec, workspace)
    outcomes = audit(run, workspace).outcomes()
    states = {name: one.state for name, one in outcomes.items() if one.state != "done"}
    assert states == {"lira": "not possible"}, outcomes  # this run has no shadow models
    names = {attack.name for attack in applicable("bert")} | {f"summary: {one.name}" for one in summaries()}
    assert set(outcomes) == names and "normalised energy" in names and "prefix" not in names
    assert open_attacks(run, workspace) == []
