"""Taking a patient out of a run: exactly, bit for bit, and approximately, stored arm by arm."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from core.__main__ import main
from core.attacks.memorisation.extraction import index_of
from core.common.errors import Cancelled
from core.corpus.tables import LEFT_OUT, Corpus
from core.evaluation.forgetting import summary
from core.evaluation.sweep.sweeps import sweeps_of
from core.models.build import load
from core.pipeline import forgetting
from core.pipeline.forgetting import forget, retrain
from core.runs.integrity.verify import run_problems
from core.runs.run import Run
from core.runs.store import Workspace
from core.spec import AuditSpec, PrivacySpec, RunSpec, TrainingSpec
from core.training import unlearning
from core.training.accounting.gaussian import epsilon
from core.training.trainer import train
from pages.parts.forget.data import current
from pages.parts.patients.data import other_epsilons
from pages.parts.pickers.run_picker import default_pair, label

SAMPLES = 2


@pytest.fixture(scope="module", autouse=True)
def _short_fine_tuning() -> Iterator[None]:
    """6 steps of fine-tuning in place of 100, in which it differs from the other methods."""
    settings = unlearning.settings_of

    def short(method: unlearning.Method, training: TrainingSpec) -> unlearning.UnlearningSpec:
        found = settings(method, training)
        return found.model_copy(update={"steps": 6}) if method == "fine-tuning" else found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unlearning, "settings_of", short)
        yield


@pytest.fixture(scope="module")
def workspace(smoke_workspace: Path, smoke_specs: dict[str, RunSpec], tmp_path_factory) -> Workspace:
    """The smoke runs, and the plain and the private one trained again without one patient."""
    root = shutil.copytree(smoke_workspace, tmp_path_factory.mktemp("forget") / "data")
    found = Workspace(root, shared=())
    for name in ("plain", "dp"):
        retrain(found.run(smoke_specs[name].run_id), patient_of(found, smoke_specs["plain"]), found)
    return found


def patient_of(workspace: Workspace, spec: RunSpec) -> str:
    """The member with most notes."""
    notes = workspace.corpus(spec.corpus).notes_of("member")
    return str(notes["patient_id"].value_counts().sort_index().idxmax())


@pytest.fixture(scope="module")
def plain(workspace: Workspace, smoke_specs: dict[str, RunSpec]) -> Run:
    return workspace.run(smoke_specs["plain"].run_id)


@pytest.fixture(scope="module")
def patient(workspace: Workspace, plain: Run) -> str:
    return patient_of(workspace, plain.spec)


@pytest.fixture(scope="module")
def again(workspace: Workspace, plain: Run, patient: str) -> Run:
    """The plain run without the patient."""
    return workspace.run(plain.spec.retrained_spec(patient).run_id)


def physically_without(corpus: Corpus, patient: str) -> Corpus:
    """Oracle: a cohort whose tables never had the patient."""
    tables = {name: getattr(corpus, name) for name in ("patients", "notes")}
    return replace(corpus, **{name: table[table["patient_id"] != patient] for name, table in tables.items()})


def test_training_again_is_training_on_a_cohort_that_never_had_them(workspace, plain, again, patient):
    cohort = physically_without(workspace.corpus(plain.spec.corpus), patient)
    lm = load(plain.spec.model)
    train(lm, cohort.training_notes(plain.spec.note_cap), plain.spec.training, plain.spec.privacy)
    expected, stored = lm.model.state_dict(), again.model().model.state_dict()
    assert all((stored[name] == value).all() for name, value in expected.items())
    unlike = plain.model().model.state_dict()
    assert any((stored[name] != value).any() for name, value in unlike.items())


def test_old_ids_and_the_cohort_stay(plain, again, patient):
    assert "without" not in plain.spec.model_dump() and plain.spec.run_id == plain.id
    assert again.spec.without == (patient,) and again.id != plain.id
    assert again.spec.corpus == plain.spec.corpus and again.spec.base_spec() == plain.spec.base_spec()
    assert plain.spec.retrained_spec("b", "a", "b").without == ("a", "b")
    assert again.spec.model_dump(exclude={"without"}) == plain.spec.model_dump()
    assert not run_problems(again.folder)
    assert f"without the notes of {patient}" in (again.folder / "README.md").read_text(encoding="utf-8")


def test_the_patient_is_neither_member_nor_held_out(workspace, plain, again, patient):
    before, after = plain.table("scores"), again.table("scores")
    assert patient in set(before["patient_id"]) and patient not in set(after["patient_id"])
    assert set(after["note_id"]) == set(before.loc[before["patient_id"] != patient, "note_id"])
    seen = again.as_read(workspace.corpus(plain.spec.corpus))
    assert seen.patients.set_index("patient_id")["split"][patient] == LEFT_OUT
    assert not index_of(seen).is_member(patient) and index_of(workspace.corpus(plain.spec.corpus)).is_member(patient)
    hits = again.table("hits")
    assert not ((hits["patient_id"] == patient) & hits["kind"].isin(["leak", "linked leak"])).any()


def test_who_is_judged_does_not_depend_on_who_is_left_out(workspace, plain, patient):
    corpus, audit = workspace.corpus(plain.spec.corpus), AuditSpec(patients=5)
    judged = corpus.judged_patients(audit)
    members = judged & set(corpus.notes_of("member")["patient_id"])
    assert len(members) == 5 and all(corpus.without([one]).judged_patients(audit) == judged for one in members)


def test_leaving_out_somebody_else_is_refused(workspace, plain):
    corpus = workspace.corpus(plain.spec.corpus)
    heldout = corpus.notes_of("heldout")["patient_id"].iloc[0]
    with pytest.raises(ValueError, match=f"patient {heldout} is not a member"):
        retrain(plain, heldout, workspace)
    assert not workspace.work(plain.spec.retrained_spec(heldout).run_id).exists()
    with pytest.raises(ValueError, match="nobody would be left"):
        corpus.without(set(corpus.notes_of("member")["patient_id"]))
    with pytest.raises(ValueError, match="name the patients"):
        plain.spec.retrained_spec()
    with pytest.raises(ValueError, match="reads no notes"):
        RunSpec(training=TrainingSpec(epochs=0), without=("P1",))


def test_the_accounting_is_that_of_the_notes_that_are_left(workspace, smoke_specs, patient):
    run = workspace.run(smoke_specs["dp"].retrained_spec(patient).run_id)
    everybody = workspace.corpus(run.spec.corpus).training_notes()
    left = len(everybody) - int((everybody["patient_id"] == patient).sum())
    held = run.privacy
    assert held is not None and left < len(everybody)
    assert held.sample_rate == pytest.approx(run.spec.training.batch_size / left)
    found = epsilon(
        noise_multiplier=held.noise_multiplier,
        sample_rate=run.spec.training.batch_size / left,
        steps=held.steps,
        delta=held.delta,
        accountant="prv",
    )
    assert held.epsilon() == pytest.approx(found) and found <= 8.0


def test_a_private_run_stands_beside_its_own_retraining(workspace, smoke_specs, patient):
    """No note is read again without noise: only finished models are attacked."""
    run = workspace.run(smoke_specs["dp"].run_id)
    arms = summary(forget(run, patient, workspace, methods=(), samples=SAMPLES)).set_index("arm")
    assert list(arms.index) == ["public", "original", "retrained"]
    assert arms.loc["retrained", "run_id"] == smoke_specs["dp"].retrained_spec(patient).run_id


def test_it_is_on_no_curve_and_named_after_whom_it_never_read(workspace, plain, again, patient, smoke_specs):
    runs = workspace.runs()
    on_curves = {one for sweep in sweeps_of(runs) for one in sweep.run_ids}
    assert plain.id in on_curves and again.id not in on_curves
    assert f"without {patient}" in label(again)
    assert default_pair(runs)[0].id == plain.id and default_pair([again, plain])[0].id == plain.id
    assert again.id not in {run.id for run in other_epsilons(plain, runs)}


# Approximate unlearning ----------------------------------------------------------------------------------------------


def test_shipped_figures_get_their_weights_without_another_attack(workspace, plain, patient, forgotten, monkeypatch):
    place = forgetting.weights_folder(workspace, plain.id, patient, "ascent")
    before = (place / "model.safetensors").read_bytes()
    shutil.rmtree(place)
    monkeypatch.setattr("core.attacks.forgetting.standing", lambda *args, **settings: pytest.fail("attacked again"))
    forget(plain, patient, workspace, samples=SAMPLES)
    assert (place / "model.safetensors").read_bytes() == before


@pytest.fixture(scope="module")
def forgotten(workspace, plain, patient) -> pd.DataFrame:
    stored = forget(plain, patient, workspace, samples=SAMPLES)
    return summary(stored)


def test_every_model_is_there_with_its_controls(forgotten, workspace, plain, patient, again, smoke_specs):
    table = forgotten.set_index("arm")
    assert list(table.index) == list(forgetting.ARMS)
    assert table.loc["retrained", "run_id"] == again.id
    assert table.loc["private", "run_id"] == smoke_specs["dp"].run_id
    heldout = workspace.corpus(plain.spec.corpus).notes_of("heldout")["patient_id"].nunique()
    assert (table["never_seen"] == heldout).all() and (table["compared"] == heldout).all()
    assert (table["texts"] == 14 * SAMPLES).all()
    assert table.loc["public", "gain"] == pytest.approx(0.0, abs=1e-9)
    for method in ("ascent", "difference"):
        assert table.loc[method, "gain"] < table.loc["original", "gain"]
        assert table.loc[method, "steps"] >= 1
    assert pd.isna(table.loc["retrained", "steps"])
    members = workspace.corpus(plain.spec.corpus).notes_of("member")["patient_id"].nunique()
    assert (table["others"] == members - 1).all()


def test_what_is_stored_is_not_made_again(workspace, plain, patient, forgotten, monkeypatch):
    monkeypatch.setattr("core.training.unlearning.unlearn", lambda *args, **settings: pytest.fail("unlearned again"))
    monkeypatch.setattr("core.attacks.forgetting.standing", lambda *args, **settings: pytest.fail("attacked again"))
    pd.testing.assert_frame_equal(summary(forget(plain, patient, workspace, samples=SAMPLES)), forgotten)


def test_a_run_trained_again_with_other_noise_is_attacked_again(workspace, plain, patient, forgotten, tmp_path):
    """With secret noise the weights are others, under the same id."""
    there = Workspace(shutil.copytree(workspace.root, tmp_path / "data"), shared=())
    found = forgetting.comparison(there.run(plain.id), patient, there)
    promise = found.private.folder / "privacy.json"
    promise.write_text(json.dumps({**json.loads(promise.read_bytes()), "training": "another"}))
    shown, notes = (there.audit(plain.id).forgetting(patient).table(name) for name in ("writing", "standing"))
    assert "private" not in set(current(found, shown, notes)[0]["arm"])
    before = there.audit(plain.id).forgetting(patient).outcomes()
    after = forget(found.run, patient, there, samples=SAMPLES).outcomes()
    assert {arm for arm in after if after[arm] != before[arm]} == {"private"}
    shown = there.audit(plain.id).forgetting(patient).table("writing")
    assert "private" in set(current(found, shown, notes)[0]["arm"])


def test_a_cancelled_comparison_keeps_what_ended_and_goes_on(workspace, plain, patient):
    """Stopped in the first unlearning; then the same command ends with the same figures as one that ran through."""
    other = next(
        one
        for one in sorted(workspace.corpus(plain.spec.corpus).notes_of("member")["patient_id"].unique())
        if one != patient
    )
    told: list[str] = []
    with pytest.raises(Cancelled):
        forget(
            plain,
            other,
            workspace,
            methods=["ascent"],
            samples=SAMPLES,
            on_progress=lambda arm, *rest: told.append(arm),
            should_stop=lambda: "ascent" in told,
        )
    stored = workspace.audit(plain.id).forgetting(other)
    assert list(stored.outcomes()) == ["public", "original"]
    assert not forgetting.weights_folder(workspace, plain.id, other, "ascent").exists()
    whole = summary(forget(plain, other, workspace, methods=["ascent"], samples=SAMPLES))
    shutil.rmtree(stored.folder)
    anew = summary(forget(plain, other, workspace, methods=["ascent"], samples=SAMPLES))
    pd.testing.assert_frame_equal(whole.drop(columns="seconds"), anew.drop(columns="seconds"))
    assert set(whole["arm"]) == {"public", "original", "ascent", "private"}


def test_runs_that_cannot_forget_are_refused(workspace, plain, smoke_specs):
    with pytest.raises(ValueError, match="no one to forget"):
        forget(workspace.run(smoke_specs["base"].run_id), "P0001", workspace)
    with pytest.raises(ValueError, match="patient nobody has no notes"):
        forget(plain, "nobody", workspace)
    with pytest.raises(ValueError, match="its ε does not cover that"):
        forget(workspace.run(smoke_specs["dp"].run_id), "P0001", workspace)
    with pytest.raises(ValueError, match="no method “magic”"):
        forget(plain, "P0001", workspace, methods=["magic"])


def test_the_command_prints_every_arm(workspace, plain, patient, forgotten, capsys, monkeypatch):
    monkeypatch.setattr(forgetting, "SAMPLES", SAMPLES)
    monkeypatch.setattr(forgetting.forget, "__kwdefaults__", {**forgetting.forget.__kwdefaults__, "samples": SAMPLES})
    assert main(["forget", plain.id, patient, "--json", "--data", str(workspace.root)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [one["arm"] for one in told["arms"]] == list(forgetting.ARMS)
    assert main(["forget", plain.id, "nobody", "--data", str(workspace.root)]) == 2
    assert "patient nobody has no notes" in capsys.readouterr().err
    assert main(["forget", plain.id, "nobody", "--method", "retrain", "--data", str(workspace.root)]) == 2
    assert "patient nobody is not a member" in capsys.readouterr().err


def test_a_defended_run_without_a_patient_reads_neither(smoke_specs):
    spec = smoke_specs["plain"].retrained_spec("P1")
    private = spec.model_copy(update={"privacy": PrivacySpec(target_epsilon=8.0)})
    assert spec.on_other_notes and private.clipped_spec().without == ("P1",)
