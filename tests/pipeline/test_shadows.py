"""Shadow models: trained once each on the right notes, shared between seeds, resumed, and deleted with uploads."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from core.__main__ import main
from core.attacks.evaluation_set import evaluation_notes, mean_log_likelihoods_under
from core.attacks.membership.decision import LOSS
from core.attacks.membership.shadow_models import likelihood_ratios
from core.attacks.registry import Target
from core.common.errors import Cancelled
from core.common.randomness import PublicSeed
from core.corpus.transforms.defences import defended
from core.pipeline import shadows
from core.pipeline.full_audit import audit, target_of
from core.pipeline.shadows import FIRST_SEED, folder_name, lira_stability, made, shadow_notes, train_shadows
from core.runs.audits import Outcome
from core.runs.store import Workspace
from core.spec import DefenceSpec, ModelSpec, PrivacySpec, RiskLimit, RunSpec, schema
from core.training.trainer import train

MODELS = 10


@pytest.fixture(scope="module")
def workspace(smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path_factory) -> Workspace:
    """The smoke runs, and the plain one's shadow models, trained by the command."""
    root = shutil.copytree(smoke_workspace, tmp_path_factory.mktemp("shadows") / "data")
    assert main(["shadows", smoke_specs["plain"].run_id, "--count", str(MODELS), "--data", str(root)]) == 0
    return Workspace(root, shared=())


@pytest.fixture
def target(workspace: Workspace, smoke_specs: dict[str, RunSpec]) -> Target:
    return target_of(workspace.run(smoke_specs["plain"].run_id), workspace)


def test_each_model_reads_its_own_patients_and_the_canaries(target):
    corpus = target.corpus
    people = set(corpus.notes_of("member", "heldout")["patient_id"])
    canaries = set(corpus.notes_of("canary")["patient_id"])
    seen = [set(shadow_notes(target, number)["patient_id"]) for number in range(MODELS)]
    assert canaries and all(canaries <= one <= people | canaries for one in seen)
    for patient in people:
        assert sum(patient in one for one in seen) == 7
    assert not set(corpus.notes_of("population")["patient_id"]) & set.union(*seen)


def test_notes_are_capped_and_defended_as_the_runs(target):
    training = target.spec.training.model_copy(update={"max_notes_per_patient": 1})
    spec = target.spec.model_copy(update={"training": training, "defence": DefenceSpec(deduplicate=True)})
    one = Target(spec, target.corpus, target.tables, {})
    found = shadow_notes(one, 0)
    assert (found.groupby("patient_id").size() == 1).all()


def test_notes_beyond_the_cap_count_as_unread_and_copies_as_read(target, tmp_path, monkeypatch):
    """Every note of a patient has the same text: deduplication leaves one, and the cap reads two."""
    notes = target.corpus.notes.copy()
    notes["text"] = notes.groupby("patient_id")["text"].transform("first")
    training = target.spec.training.model_copy(update={"max_notes_per_patient": 2})
    spec = target.spec.model_copy(update={"training": training, "defence": DefenceSpec(deduplicate=True)})
    corpus = replace(target.corpus, notes=notes)
    one = Target(spec, corpus, target.tables, dict(target.models))
    read: list[int] = []
    monkeypatch.setattr("core.training.trainer.train", lambda lm, notes, *_, **__: read.append(len(notes)))
    shadows._train(one, 0, tmp_path, None, lambda: False)
    judged = evaluation_notes(one).assign(inside=load_file(tmp_path / "0000.safetensors")["inside"].astype(bool))
    chosen = shadow_notes(one, 0)
    assert read == [len(defended(chosen, spec.defence))] and read[0] < len(chosen)
    assert set(judged.loc[judged["inside"], "note_id"]) == set(chosen["note_id"]) & set(judged["note_id"])
    assert judged.groupby("patient_id")["inside"].sum().max() == 2


def test_shadow_models_have_the_noise_that_was_chosen_for_a_limit_and_not_the_limit(
    smoke_workspace, smoke_specs, tmp_path, monkeypatch
):
    """They read seven tenths of the notes, on which the limit is not held."""
    limited = PrivacySpec(noise_multiplier=0.9, risk_limit=RiskLimit(caught=0.1, accused=0.01))
    corpus = Workspace(smoke_workspace, shared=()).corpus(smoke_specs["plain"].corpus, store=False)
    one = Target(smoke_specs["plain"].model_copy(update={"privacy": limited}), corpus, {}, {})
    used: list[PrivacySpec] = []
    monkeypatch.setattr("core.training.trainer.train", lambda lm, notes, training, privacy, **_: used.append(privacy))
    with pytest.raises(Cancelled):  # as soon as it is trained
        shadows._train(one, 0, tmp_path, None, lambda: True)
    assert used == [PrivacySpec(noise_multiplier=0.9)]


def test_a_file_holds_what_its_model_says_of_the_notes(workspace, target):
    files = made(target.spec, workspace)
    assert list(files) == list(range(MODELS))
    found = load_file(files[3])
    notes, judged = shadow_notes(target, 3), evaluation_notes(target)
    assert found["inside"].astype(bool).tolist() == judged["patient_id"].isin(set(notes["patient_id"])).tolist()
    lm, training = target.public(), target.spec.training.model_copy(update={"seed": FIRST_SEED + 3})
    train(lm, notes, training, target.spec.privacy, randomness=PublicSeed(training.seed))
    assert found["likelihoods"] == pytest.approx(mean_log_likelihoods_under(lm, target), rel=1e-5)


def test_the_attack_is_lira_on_members_and_held_out_patients(workspace, target, smoke_specs):
    stored = workspace.audit(smoke_specs["plain"].run_id)
    assert stored.outcomes()["lira"].state == "done"
    scores, judged = stored.table("scores"), evaluation_notes(target)
    lira = scores[scores["attack"] == "lira"].set_index("note_id")
    judged = judged[judged["split"] != "population"]
    assert lira.index.tolist() == judged["note_id"].tolist() and set(lira["split"]) == {"member", "heldout"}
    every = shadows.scores(target, made(target.spec, workspace))
    kept = every.of((evaluation_notes(target)["split"] != "population").to_numpy())
    own = mean_log_likelihoods_under(target.lm, target)[judged.index]
    assert lira["score"].to_numpy() == pytest.approx(likelihood_ratios(own, kept), rel=1e-3, abs=1e-4)
    patients = stored.table("shadow_patients")
    assert (patients["read"] == 7).all() and (patients["unread"] == 3).all()
    assert set(patients["patient_id"]) == set(judged["patient_id"])


def test_a_finished_model_is_not_trained_again_and_another_seed_shares_it(workspace, target, monkeypatch):
    monkeypatch.setattr(shadows, "_train", lambda *_: pytest.fail("trained again"))
    files = train_shadows(target, workspace, MODELS)
    assert len(files) == MODELS
    other = target.spec.training.model_copy(update={"seed": 5})
    assert folder_name(target.spec.model_copy(update={"training": other})) == folder_name(target.spec)
    longer = target.spec.training.model_copy(update={"epochs": 3})
    assert folder_name(target.spec.model_copy(update={"training": longer})) != folder_name(target.spec)


def test_a_stopped_training_leaves_nothing_and_goes_on_later(workspace, target, tmp_path):
    elsewhere = Workspace(tmp_path / "data", shared=())
    asked = 0

    def third() -> bool:
        nonlocal asked
        asked += 1
        return asked > 2

    with pytest.raises(Cancelled, match="kept"):
        train_shadows(target, elsewhere, 2, should_stop=third)
    assert not made(target.spec, elsewhere) and not list((tmp_path / "data" / "references").rglob("*.safetensors"))
    told: list[tuple[int, int, int]] = []
    files = train_shadows(target, elsewhere, 1, on_progress=lambda *step: told.append(step))
    ours = load_file(made(target.spec, workspace)[0])
    for name, values in load_file(files[0]).items():
        assert np.array_equal(values, ours[name])  # bit for bit, wherever it was trained
    assert told[-1][0] == 0 and told[-1][1] == told[-1][2]


def test_shipped_models_are_found_and_own_ones_come_first(workspace, target, tmp_path):
    shipped = tmp_path / "shipped"
    place = shipped / "references" / folder_name(target.spec)
    shutil.copytree(next(iter(made(target.spec, workspace).values())).parent, place)
    both = Workspace(tmp_path / "data", shared=(shipped,))
    assert {file.parent for file in made(target.spec, both).values()} == {place}
    files = train_shadows(target, both, MODELS)
    assert len(files) == MODELS and not list((tmp_path / "data").rglob("*.safetensors"))


def test_damaged_files_and_files_about_other_notes_are_named(workspace, target, tmp_path):
    files = made(target.spec, workspace)
    broken = tmp_path / "0000.safetensors"
    broken.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be read"):
        shadows.scores(target, {0: broken})
    fewer = target.corpus.notes[target.corpus.notes["split"] != "population"].reset_index(drop=True)
    other = Target(target.spec, replace(target.corpus, notes=fewer), target.tables, {})
    other.models["target"] = target.models["target"]
    with pytest.raises(ValueError, match="other notes"):
        shadows.scores(other, files)


def test_without_shadow_models_the_attack_says_how_to_make_them(workspace, smoke_specs, tmp_path):
    root = shutil.copytree(workspace.root / "runs", tmp_path / "data" / "runs").parent
    bare = Workspace(root, shared=())
    stored = audit(bare.run(smoke_specs["plain"].run_id), bare, attacks=["lira"])
    outcome = stored.outcomes()["lira"]
    assert outcome.state == "not possible" and "python -m core shadows" in outcome.message


def test_the_public_model_has_none(workspace, smoke_specs, capsys):
    run = smoke_specs["base"].run_id
    assert main(["shadows", run, "--data", str(workspace.root)]) == 2
    assert "read no patient's notes" in capsys.readouterr().err


def test_the_command_prints_the_figures_as_json(workspace, smoke_specs, capsys):
    arguments = ["shadows", smoke_specs["plain"].run_id, "--count", str(MODELS), "--data", str(workspace.root)]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["models"] == MODELS and {row["level"] for row in found["membership"]} == {
        "sample",
        "admission",
        "patient",
    }
    assert {"patient_id", "read", "caught", "unread", "accused"} <= set(found["patients"][0])


def test_stability_is_that_of_the_stored_files_and_of_runs_of_other_seeds(workspace, target, smoke_specs):
    """The losses are the audit's; another seed's run is read from its own table, without weights."""
    audit(workspace.run(smoke_specs["plain"].run_id), workspace, attacks=["loss", "lira"])
    run = workspace.run(smoke_specs["plain"].run_id)
    copied = Workspace(workspace.root, shared=())
    other = run.spec.model_copy(update={"training": run.spec.training.model_copy(update={"seed": 77})})
    folder = shutil.copytree(run.folder, copied.root / "runs" / other.run_id)
    (folder / "spec.json").write_text(schema.written(other), encoding="utf-8")
    shutil.rmtree(folder / "model")
    found = lira_stability(run, copied)
    assert found is not None and found.models == MODELS
    assert found.by_seed["run"].unique().tolist() == [run.id, other.run_id]
    assert found.by_seed["seed"].unique().tolist() == [run.spec.training.seed, 77]
    alike = found.by_seed[found.by_seed["level"] == "patient"].set_index("run")
    assert alike.loc[other.run_id, "auc"] == pytest.approx(alike.loc[run.id, "auc"], abs=1e-3), "the same losses"
    table = copied.audit(run.id).table("membership")
    stored = table[(table["attack"] == "lira") & (table["metric"] == "auc") & (table["length"] == "all")]
    for level, name in (("note", "sample"), ("patient", "patient")):
        value = stored.loc[stored["level"] == name, "value"].iloc[0]
        row = found.by_seed[(found.by_seed["run"] == run.id) & (found.by_seed["level"] == level)].iloc[0]
        assert row["auc"] == pytest.approx(value, abs=1e-6)
    base = copied.run(smoke_specs["dp"].run_id)
    assert lira_stability(base, copied) is None, "no shadow models like it"
    shutil.rmtree(folder)


def test_a_masked_models_loss_under_other_masks_is_not_compared(smoke_workspace, smoke_specs, tmp_path):
    """Of another run: a causal model's own table will do; of a masked model only the full audit's, which it gets."""
    root = shutil.copytree(smoke_workspace, tmp_path / "data")
    there = Workspace(root, shared=())
    run = there.run(smoke_specs["plain"].run_id)
    quick = run.table("scores")
    quick = quick[quick["attack"] == LOSS].reset_index(drop=True)
    masked = replace(run, spec=run.spec.model_copy(update={"model": ModelSpec(kind="distilbert")}))
    assert shadows._aligned(run, there, quick) == pytest.approx(quick["score"].to_numpy())
    assert shadows._aligned(masked, there, quick) is None
    under_their_masks = quick.assign(score=quick["score"] - 0.25)
    there.audit(run.id).record(Outcome(LOSS, "done", 1.0, "", ("scores",), 1, 1.0), {"scores": under_their_masks})
    assert shadows._aligned(masked, there, quick) == pytest.approx(quick["score"].to_numpy() - 0.25)
