"""Every page on a model that was trained on brought notes: no canaries, no codes, no ages, hardly a name."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.corpus.importing.importer import read_notes
from core.corpus.synthetic.hospital import build
from core.pipeline.training_run import execute
from core.runs.store import Workspace
from core.spec import CORPUS_PRESETS, AuditSpec, ModelSpec, PrivacySpec, RunSpec, TrainingSpec
from tests.pages.visit import said, visit
from tests.tiny_models import tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def brought(tmp_path_factory) -> tuple[Path, dict[str, RunSpec]]:
    """A data folder with runs on the smoke hospital's notes, brought as a bare CSV file: plain and with DP."""
    folder, base = tmp_path_factory.mktemp("brought"), tmp_path_factory.mktemp("base")
    tiny("gpt2", seed=3).save(base)
    notes = build(CORPUS_PRESETS["smoke"]).notes
    notes[notes["split"] != "canary"][["patient_id", "text"]].to_csv(folder / "ward.csv", index=False)
    corpus = read_notes(folder / "ward.csv", canaries=0)
    workspace = Workspace(folder / "data", shared=())
    workspace.add(corpus)
    audit = AuditSpec(samples_per_prompt=2, new_tokens=16, mask_draws=1, bootstrap=20)
    training = TrainingSpec(epochs=1, batch_size=32, max_tokens=64)
    specs = {
        name: RunSpec(
            corpus=corpus.spec, model=ModelSpec(base=str(base)), privacy=privacy, training=training, audit=audit
        )
        for name, privacy in (("plain", PrivacySpec()), ("dp", PrivacySpec(target_epsilon=8.0, delta=1e-3)))
    }
    for spec in specs.values():
        execute(spec, workspace)
    return folder / "data", specs


@pytest.fixture
def data(brought, monkeypatch) -> dict[str, str]:
    """The app over that folder, as a server that shows brought notes; ids of the runs."""
    folder, specs = brought
    monkeypatch.setenv("PHILAB_DATA", str(folder))
    monkeypatch.setenv("PHILAB_SHOW_IMPORTED", "1")
    return {name: spec.run_id for name, spec in specs.items()}


@pytest.mark.parametrize("page", ["home", "tradeoff", "playground", "membership", "probes", "report", "ledger"])
def test_no_page_calls_brought_notes_synthetic_or_fails_on_them(data, page):
    app = visit(page, run=data["plain"], left=data["plain"], right=data["dp"])
    assert not app.exception and not app.error
    assert "no real people" not in said(app) and "maybe real people" in said(app)


def test_the_auditors_cards_show_no_real_notes_and_the_page_says_so(data):
    app = visit("auditor")
    assert not app.exception and "There is no trained model with scores yet" in app.info[0].value
    assert any(caption.value == "Models of your own notes are not offered here." for caption in app.caption)


def test_patients_without_codes_or_ages_are_told_so(data):
    first = visit("patients", run=data["plain"])
    assert any("have no ICD codes" in info.value for info in first.info)
    (buckets,) = (caption.value for caption in first.caption if caption.value.startswith("One bucket"))
    assert "too few for several" not in buckets, "the reason is that no rarity is known"
    listed = first.dataframe[-1].value
    assert "score percentile" in listed and not {"rarer than", "profile"} & set(listed), "their rarity is unknown"
    typed = {"patient": listed["patient"].iloc[0], "code": "E11", "age_from": "90"}
    app = visit("patients", run=data["plain"], **typed)
    assert not app.text_input(key="patient").value, "no address names a patient of real notes"
    assert not app.text_input(key="code").value and app.number_input(key="age_from").value is None, "nor describes one"
    app.text_input(key="patient").input(listed["patient"].iloc[0]).run()
    assert not app.exception and "of unknown age" in said(app)
    assert next(metric.value for metric in app.metric if metric.label == "Rarer than") == "–"


@pytest.mark.parametrize("view", ["Copies", "Epochs", "Whole patients"])
def test_views_of_planted_secrets_say_that_none_was_planted(data, view):
    app = visit("canaries", left=data["plain"], right=data["dp"], view=view)
    assert any("contain no canaries of this kind" in info.value for info in app.info)


def test_the_other_views_of_canaries_need_none(data):
    app = visit("canaries", left=data["plain"], right=data["dp"], view="Questions")
    assert "of training patients" in said(app) and not app.info
