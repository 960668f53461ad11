"""What a model writes after every epoch: the same for the same weights, marked, and without effect on the training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from core.corpus.synthetic.hospital import build
from core.models.build import LanguageModel
from core.phi.spans import Span
from core.pipeline.epochs import sample as epoch_sample
from core.runs.progress import progress_of
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, AuditSpec, PrivacySpec, TrainingSpec
from core.training.events import EpochEvaluation
from core.training.trainer import train
from tests.tiny_models import KINDS, tiny

AUDIT = AuditSpec(samples_per_prompt=1, new_tokens=16)


@pytest.fixture(scope="module")
def corpus():
    return build(CORPUS_PRESETS["smoke"])


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_weights_write_the_same_text_and_other_weights_another(kind, corpus) -> None:
    write = epoch_sample.writer(corpus, AUDIT)
    lm = tiny(kind, seed=3, spread=6)
    torch.manual_seed(1)
    first = write(lm)
    torch.manual_seed(2)
    assert write(lm) == first, "it draws with its own seed"
    assert (first["prompt"], first["seed"]) == ("Patient:", 0) and first["text"]
    assert write(tiny(kind, seed=4, spread=6))["text"] != first["text"]


def test_a_patient_who_was_trained_on_is_marked_and_one_who_was_not_is_a_coincidence(corpus, monkeypatch) -> None:
    patients = corpus.patients.drop_duplicates("full_name").set_index("split")["full_name"]
    member, stranger = patients["member"].iloc[0], patients["heldout"].iloc[0]
    monkeypatch.setattr(epoch_sample, "_text", lambda lm, audit: f" {member} met {stranger}.")
    found = [Span(**span) for span in epoch_sample.writer(corpus, AUDIT)(None)["spans"]]
    assert [(span.kind, span.value) for span in found] == [("leak", member), ("coincidence", stranger)]


@pytest.mark.parametrize("epsilon", [None, 8.0])
@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_writing_does_not_change_the_training(kind, epsilon, corpus) -> None:
    privacy = PrivacySpec(target_epsilon=epsilon, delta=1e-2)
    notes = corpus.training_notes().head(12)
    training = TrainingSpec(epochs=2, batch_size=4, max_tokens=32)
    write = epoch_sample.writer(corpus, AUDIT)
    trained = []

    def look(lm: LanguageModel) -> EpochEvaluation:
        write(lm)
        return EpochEvaluation()

    for evaluate in (None, look):
        lm = tiny(kind, seed=3)
        train(lm, notes, training, privacy, evaluate=evaluate)
        trained.append([weight.detach().clone() for weight in lm.model.parameters()])
    assert all(torch.equal(one, other) for one, other in zip(*trained, strict=True))


def test_a_finished_run_keeps_one_text_an_epoch(smoke_workspace: Path, smoke_specs) -> None:
    for name in ("plain", "dp"):
        run = Workspace(smoke_workspace, shared=()).run(smoke_specs[name].run_id)
        samples = progress_of(run.events()).samples
        assert [sample.epoch for sample in samples] == [0, 1, 2]
        ends = run.table("history").groupby("epoch")["step"].max().tolist()
        assert [sample.step for sample in samples] == [0, *ends]
        audit = run.spec.audit
        write = epoch_sample.writer(Workspace(smoke_workspace, shared=()).corpus(run.spec.corpus), audit)
        last = write(run.model())
        assert last["text"] == samples[-1].text, "the last one is what the finished model writes"
        assert [Span(**span) for span in last["spans"]] == [replace(span) for span in samples[-1].spans]
