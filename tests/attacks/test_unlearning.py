"""The battery's unlearning: the model under attack keeps its weights, and from a private run nobody is unlearned."""

from __future__ import annotations

import shutil
from copy import deepcopy
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch

import core.attacks.unlearning as unlearning_attack
from core.attacks.battery import REGISTRY
from core.attacks.forgetting import judged_notes, never_seen_loss, public_means, standing
from core.attacks.registry import KINDS, NotPossible, Target, checked
from core.attacks.unlearning import METHODS, NAME, PATIENTS, STANDING, STEPS, drawn_patients, unlearning
from core.corpus.tables import Corpus
from core.evaluation.forgetting import standings
from core.evaluation.memorisation.unlearning import places
from core.models.build import LanguageModel
from core.pipeline.full_audit import audit
from core.runs.store import Workspace
from core.spec import AuditSpec, CorpusSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec
from core.training.trainer import train
from core.training.unlearning import patient_loss, settings_of, unlearn
from tests.tiny_models import tiny
from tests.training.tiny import notes

TRAINING = TrainingSpec(epochs=12, batch_size=6, max_tokens=32, learning_rate=5e-3)


@cache
def every() -> pd.DataFrame:
    """30 patients with 3 notes each: 4 members, the rest held out."""
    table = notes(90, a_patient=3, words=12)
    members = table["patient_id"].unique()[:4]
    return table.assign(split=np.where(table["patient_id"].isin(members), "member", "heldout"))


@cache
def trained(kind: str) -> LanguageModel:
    """A tiny model that knows the four members by heart."""
    lm = deepcopy(public(kind))
    train(lm, every()[every()["split"] == "member"], TRAINING, PrivacySpec())
    return lm


@cache
def public(kind: str) -> LanguageModel:
    return tiny(kind, seed=0, spread=6)


def target(kind: str = "gpt2", **changed) -> Target:
    table = changed.pop("notes", every())
    patients = table[["patient_id", "split"]].drop_duplicates()
    corpus = Corpus(spec=CorpusSpec(), notes=table, patients=patients, canaries=pd.DataFrame())
    spec = RunSpec(model=ModelSpec(kind=kind), audit=AuditSpec(mask_draws=2), **{"training": TRAINING, **changed})
    models = {"target": lambda report: trained(kind), "base": lambda report: public(kind)}
    return Target(spec, corpus, {}.get, models)


def run(made: Target) -> dict[str, pd.DataFrame]:
    return checked(REGISTRY[NAME], unlearning(made, lambda done, total: None))


def weights(lm: LanguageModel) -> list[torch.Tensor]:
    return [weight.detach().clone() for weight in lm.model.parameters()]


@pytest.fixture(scope="module")
def found() -> dict[str, pd.DataFrame]:
    return run(target())


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_under_attack_keeps_every_bit(kind):
    before = weights(trained(kind))
    made = run(target(kind))
    assert all(torch.equal(one, other) for one, other in zip(before, weights(trained(kind)), strict=True))
    assert all(weight.grad is None for weight in trained(kind).model.parameters())
    assert set(made[STANDING]["arm"]) == {"original", *METHODS} and made[STEPS]["steps"].max() > 0


def test_patients_who_were_known_stand_out_before_and_not_after(found):
    mean = places(found[STANDING]).groupby("arm")["percentile"].mean()
    assert mean["original"] > 0.9, "the model knows them by heart"
    assert max(mean[list(METHODS)]) < mean["original"]
    steps = found[STEPS]
    assert steps["reached"].all() and (steps["loss"] >= steps["stop_loss"]).all()


@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_it_is_the_page_s_own_measure_on_a_fresh_copy_each_time(kind):
    """One patient by hand, with the parts of `core.pipeline.forgetting`: the last one drawn, so that a copy that was
    not fresh would show."""
    made, table = target(kind), run(target(kind))
    patient, own = drawn_patients(made)[-1], every()["patient_id"]
    training = every()[every()["split"] == "member"]
    judged = public_means(
        public(kind), judged_notes(training, made.corpus.notes_of("heldout"), patient, 0), made.spec.audit
    )
    before, lm = standing(trained(kind), judged, made.spec.audit), deepcopy(trained(kind))
    texts = [training.loc[(own == patient) == wanted, "text"].tolist() for wanted in (True, False)]
    settings = settings_of("ascent", TRAINING)
    stop = never_seen_loss(patient_loss(public(kind), texts[0], settings.max_tokens), before)
    unlearn(lm, *texts, settings, stop_loss=stop)
    after = standing(lm, judged, made.spec.audit)
    here = table[STANDING][(table[STANDING]["drawn"] == patient) & (table[STANDING]["arm"] == "ascent")]
    if kind == "gpt2":  # masks of a masked model depend on a note's place among those that are read
        np.testing.assert_allclose(here["gain"], after["gain"], atol=1e-5)
        one = standings(after.assign(arm="x"))["percentile"].iloc[0]
        assert places(here)["percentile"].iloc[0] == pytest.approx(one)
    assert len(here) == len(after) and here["patient_id"].tolist() == after["patient_id"].tolist()


def test_a_private_run_unlearns_nobody(monkeypatch):
    monkeypatch.setattr("core.training.unlearning.unlearn", lambda *_, **__: pytest.fail("it read notes again"))
    made = run(target(privacy=PrivacySpec(target_epsilon=8.0)))
    assert set(made[STANDING]["arm"]) == {"original"} and made[STEPS].empty
    assert made[STANDING]["drawn"].nunique() == 4


def test_the_draw_is_seeded_and_of_members_alone():
    many = every().assign(split=np.where(every()["patient_id"] < "patient-8", "member", "heldout"))
    canary = many.iloc[:1].assign(patient_id="canary", split="canary", note_id="c")
    made = target(notes=pd.concat([many, canary], ignore_index=True))
    members = set(many.loc[many["split"] == "member", "patient_id"])
    assert len(members) > PATIENTS, "so that a draw leaves somebody out"
    assert drawn_patients(made) == drawn_patients(made) and len(set(drawn_patients(made))) == PATIENTS
    assert set(drawn_patients(made)) <= members
    other = target(notes=made.corpus.notes)
    other.spec = other.spec.model_copy(update={"audit": AuditSpec(seed=1)})
    assert drawn_patients(other) != drawn_patients(made)


def test_without_anybody_to_forget_or_to_compare_with_it_is_not_possible():
    with pytest.raises(NotPossible, match="no one to forget"):
        run(target(training=TrainingSpec(epochs=0)))
    with pytest.raises(NotPossible, match="no held-out patients"):
        run(target(notes=every()[every()["split"] == "member"]))


def test_an_audit_stores_it_with_its_figures(smoke_workspace, smoke_specs, tmp_path, monkeypatch):
    drawn = unlearning_attack.drawn_patients
    monkeypatch.setattr(unlearning_attack, "drawn_patients", lambda target: drawn(target, 3))  # seconds each
    shutil.copytree(smoke_workspace, tmp_path / "data")
    workspace = Workspace(tmp_path / "data", shared=())
    for name, arms in (("plain", {"original", *METHODS}), ("dp", {"original"})):
        stored = audit(workspace.run(smoke_specs[name].run_id), workspace, attacks=[NAME])
        assert stored.outcomes()[NAME].state == "done", stored.outcomes()[NAME].message
        assert set(stored.table("unlearned")["arm"]) == arms


def test_a_masked_models_stop_compares_losses_under_the_same_masks():
    """A model that read nothing is at the level of never-seen notes: with a gain of 0, no step is taken."""
    lm, texts = deepcopy(public("distilbert")), every()["text"].tolist()[:3]
    settings = settings_of("ascent", TRAINING)
    nothing_gained = pd.DataFrame({"patient_id": ["a", "b"], "forgotten": False, "gain": 0.0})
    stop = never_seen_loss(patient_loss(public("distilbert"), texts, settings.max_tokens), nothing_gained)
    done = unlearn(lm, texts, ["another note"], settings, stop_loss=stop)
    assert (done.history, done.final_loss, done.reached) == ((), stop, True)
