"""The full suite on a masked model: every attack that is for its kind runs, and none fails."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from core.attacks.battery import applicable
from core.attacks.membership import reference
from core.corpus.public_text import training_text
from core.models import build, tokenizer
from core.pipeline.full_audit import audit, open_attacks, summaries
from core.pipeline.training_run import execute
from core.runs.store import Workspace
from core.spec import AuditSpec, CorpusSpec, ModelSpec, RunSpec, TrainingSpec

CORPUS = CorpusSpec(
    patients=30, population=12, notes_per_patient=2, naming_rate=1.0, note_length="brief", canaries=2, canary_patients=1
)


@pytest.fixture(scope="module")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an untrained BERT of 2 layers × 32."""
    folder = tmp_path_factory.mktemp("bert") / "model"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(build._SHAPES, "tiny", (2, 32, 4))
        torch.manual_seed(3)
        build.new("bert", "tiny", tokenizer.train("bert", training_text()[:120], 700)).save(folder)
    return folder


def test_the_full_suite_on_bert_has_no_failed_attack(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = reference.recipe
    monkeypatch.setattr(
        reference, "recipe", lambda *a, **k: recipe(*a, **k).model_copy(update={"epochs": 1, "max_tokens": 64})
    )
    workspace = Workspace(tmp_path / "data", shared=())
    spec = RunSpec(
        corpus=CORPUS,
        model=ModelSpec(kind="bert", base=str(tiny_bert)),
        training=TrainingSpec(epochs=1, batch_size=16, max_tokens=64),
        audit=AuditSpec(samples_per_prompt=1, new_tokens=4, mask_draws=1, bootstrap=10),
    )
    run = execute(spec, workspace)
    outcomes = audit(run, workspace).outcomes()
    assert {name: one.message for name, one in outcomes.items() if one.state != "done"} == {}
    names = {attack.name for attack in applicable("bert")} | {f"summary: {one.name}" for one in summaries()}
    assert set(outcomes) == names and "normalised energy" in names and "prefix" not in names
    assert open_attacks(run, workspace) == []
