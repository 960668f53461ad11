"""Promises per note for patients with over 50 notes (Jagannatha 2021, §2): no cap now, and an older cap's cost."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from core.corpus.tables import Corpus
from core.evaluation.sweep.sweeps import sweeps_of
from core.pipeline.training_run import execute
from core.runs.facts import run_facts
from core.runs.ledger.entries import Ledger
from core.runs.note_cap import was_capped
from core.runs.run import Run, RunBroken
from core.runs.store import Workspace
from core.runs.tables import write_table
from core.spec import AuditSpec, CorpusSpec, PrivacySpec, RunSpec, TrainingSpec
from core.training.accounting.composition import advantage, composed_epsilon
from core.training.accounting.gaussian import epsilon_with_method
from core.training.accounting.mechanism import Mechanism

pytestmark = pytest.mark.slow

CAP = 50
SPEC = RunSpec(
    corpus=CorpusSpec(
        patients=4, population=0, notes_per_patient=80, note_length="brief", canaries=0, canary_patients=0, seed=3
    ),
    privacy=PrivacySpec(target_epsilon=8.0, delta=1e-3),
    training=TrainingSpec(epochs=1, batch_size=16, max_tokens=16),
    audit=AuditSpec(samples_per_prompt=1, new_tokens=4, mask_draws=1, bootstrap=10),
)


def many_notes(count: int) -> pd.DataFrame:
    """Notes of one member, and two of another."""
    whose = ["P1"] * count + ["P2"] * 2
    names = [f"N{number:03d}" for number in range(len(whose))]
    return pd.DataFrame({"note_id": names, "patient_id": whose, "split": "member", "text": names})


def read_by(spec: RunSpec, notes: pd.DataFrame) -> set[str]:
    return set(Corpus(None, pd.DataFrame(), notes, pd.DataFrame()).training_notes(spec.note_cap)["note_id"])


@pytest.mark.parametrize("gone", [0, 20, 49, 55])
def test_a_note_that_is_taken_away_changes_one_unit_and_no_other(gone: int) -> None:
    notes = many_notes(60)
    without = notes.drop(index=gone)
    assert read_by(SPEC, notes) ^ read_by(SPEC, without) == {notes.loc[gone, "note_id"]}
    plain = SPEC.model_copy(update={"privacy": PrivacySpec()})
    per_patient = SPEC.model_copy(update={"privacy": SPEC.privacy.model_copy(update={"unit": "patient"})})
    for capped in (plain, per_patient):
        assert capped.note_cap == CAP and len(read_by(capped, notes)) == CAP + 2
        assert len(read_by(capped, notes) ^ read_by(capped, without)) == (2 if gone < CAP else 0), "why it is no unit"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A finished run per note, on members of more than 60 notes each."""
    workspace = Workspace(tmp_path_factory.mktemp("many") / "data", shared=())
    execute(SPEC, workspace)
    return workspace


@pytest.fixture
def older(trained: Workspace, tmp_path: Path) -> Workspace:
    """The same run as a version with the cap would have left it: schema 1, and scores of 50 notes of a member."""
    shutil.copytree(trained.root, tmp_path / "data")
    workspace = Workspace(tmp_path / "data", shared=())
    folder = workspace.run(SPEC.run_id).folder
    settings = json.loads((folder / "spec.json").read_text())
    del settings["schema"]
    (folder / "spec.json").write_text(json.dumps(settings))
    scores = workspace.run(SPEC.run_id).table("scores")
    first = scores.groupby(["attack", "patient_id"], dropna=False).cumcount() < CAP
    write_table(folder / "tables", "scores", scores[first | (scores["split"] != "member")])
    return workspace


def test_a_run_of_today_reads_and_is_judged_by_every_note(trained: Workspace) -> None:
    run, corpus = trained.run(SPEC.run_id), trained.corpus(SPEC.corpus)
    sizes = corpus.training_notes().groupby("patient_id").size()
    assert sizes.max() > 60
    assert run.privacy.sample_rate == pytest.approx(SPEC.training.batch_size / sizes.sum())
    scored = run.table("scores").query("split == 'member'").groupby("patient_id")["note_id"].nunique()
    assert scored.to_dict() == sizes.to_dict()
    assert not run.capped and run.note_cap is None and run.as_read(corpus) is corpus
    assert run.privacy.neighbouring == "add/remove one unit" and 7.9 < run.privacy.epsilon() <= 8.0
    assert len(sweeps_of([run])) == 1


def test_an_older_run_with_the_cap_promises_two_changes(trained: Workspace, older: Workspace) -> None:
    run, same = older.run(SPEC.run_id), trained.run(SPEC.run_id).privacy
    assert run.capped and run.note_cap == CAP and run.privacy.replaces
    assert run.privacy.epsilon() > 2 * same.epsilon(), "two changes, and a smaller δ for each of them"
    assert run.privacy.delta == same.delta
    told = run_facts(run.id, run.spec, run.privacy, run.metrics).promise
    assert "replace one note" in told and "at most 50 notes" in told and "(8," not in told
    assert sweeps_of([run]) == [], "a curve over ε takes it for ε = 8 no more"
    read = run.as_read(older.corpus(SPEC.corpus)).training_notes(SPEC.note_cap)
    assert read.groupby("patient_id").size().max() == CAP


def test_its_scores_are_what_tells_it(older: Workspace) -> None:
    folder = older.run(SPEC.run_id).folder
    scores = pd.read_parquet(folder / "tables" / "scores.parquet")
    few = scores.groupby(["attack", "patient_id"], dropna=False).cumcount() < CAP - 1
    write_table(folder / "tables", "scores", scores[few])
    assert not Run.open(folder).capped, "a cap that nobody reached left nothing out"
    (folder / "tables" / "scores.parquet").write_bytes(b"damaged")
    assert was_capped(folder, SPEC, 1), "what cannot be looked up is not promised"
    with pytest.raises(RunBroken, match="scores.parquet"):
        Run.open(folder)


def test_the_ledger_counts_both_changes_of_an_entry_with_the_cap(
    trained: Workspace, tmp_path: Path, mark_secret: Callable[[Path, RunSpec], None]
) -> None:
    shutil.copytree(trained.root, tmp_path / "data")
    mark_secret(tmp_path / "data", SPEC)
    workspace = Workspace(tmp_path / "data", shared=())
    ledger = Ledger.of(workspace, SPEC.corpus)
    ledger.enter(ledger.draft_run(workspace.run(SPEC.run_id), "for the test"))
    (entry,) = ledger.releases()
    assert entry.most_notes is None and not entry.mechanism.replaces
    (file,) = ledger.folder.glob("*.json")
    stored = json.loads(file.read_text())
    for cap, replaces in ((CAP, True), (5_000, False)):  # as an older version wrote it
        file.write_text(json.dumps({**stored, "most_notes": cap}))
        (ledger.folder / "head").unlink(missing_ok=True)
        file.write_text(json.dumps({**stored, "most_notes": cap, "headed": False}))
        (entry,) = ledger.releases()
        assert entry.mechanism.replaces is replaces
        assert (entry.epsilon() > 16) is replaces


# The sum of two changes ----------------------------------------------------------------------------------------------


def exact(mu: float, delta: float) -> float:
    """ε of the Gaussian mechanism with sensitivity μσ (Balle & Wang 2018, theorem 8)."""
    return brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0, 500)


@pytest.mark.parametrize(("sigma", "steps"), [(1.0, 1), (4.0, 3), (20.0, 100)])
@pytest.mark.parametrize("delta", [1e-3, 1e-5])
def test_two_changes_cost_at_least_what_an_exact_case_does(sigma: float, steps: int, delta: float) -> None:
    """Without sampling a replaced unit moves the sum by 2C: exactly the noise multiplier σ/2."""
    one = Mechanism(unit="note", noise_multiplier=sigma, sample_rate=1.0, steps=steps, delta=delta, max_grad_norm=1.0)
    two = one.replacing()
    truth = exact(2 * math.sqrt(steps) / sigma, delta)
    assert truth <= two.epsilon() <= 2 * truth
    assert Mechanism.from_json(two.to_json()) == two
    assert composed_epsilon([two, one], delta)[0] >= two.epsilon()
    assert advantage([one]) < advantage([two]) <= min(1.0, 2 * advantage([one]))


def test_group_privacy_holds_at_the_delta_that_is_stated() -> None:
    one = Mechanism(unit="note", noise_multiplier=1.0, sample_rate=0.05, steps=100, delta=1e-5, max_grad_norm=1.0)
    epsilon = one.replacing().epsilon() / 2
    low, high = 1e-20, 1e-5  # the δ at which one change has that ε, by bisection
    for _ in range(40):
        middle = math.sqrt(low * high)
        found, _ = epsilon_with_method(noise_multiplier=1.0, sample_rate=0.05, steps=100, delta=middle)
        low, high = (middle, high) if found > epsilon else (low, middle)
    assert (1 + math.exp(epsilon)) * high <= 1.001e-5
