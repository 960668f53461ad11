"""Recipes of specs: what was chosen by measurement, and what the caller chose instead."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from core.demo import demo_spec
from core.spec import (
    CORPUS_PRESETS,
    AuditSpec,
    CorpusSpec,
    ModelSpec,
    PrivacySpec,
    RiskLimit,
    RunSpec,
    TrainingSpec,
    VocabularySpec,
    audit_of,
    recipe,
)
from core.training.accounting.mechanism import Mechanism


def test_a_recipe_takes_any_number_of_epochs_that_a_training_can_have():
    usual = recipe("gpt2")
    assert (usual.epochs, usual.seed) == (8, 0) and recipe("bert").epochs == 16
    assert recipe("gpt2", epochs=0) == TrainingSpec(**{**usual.model_dump(), "epochs": 0})
    assert recipe("gpt2", PrivacySpec(target_epsilon=8.0), epochs=2, seed=3).epochs == 2
    for wrong in ({"epochs": -1}, {"seed": -1}):
        with pytest.raises(ValidationError):
            recipe("gpt2", **wrong)


def test_a_spec_that_does_not_ask_for_secret_noise_is_what_it_was():
    """Ids of runs that are shipped; two of them with and without privacy."""
    private = demo_spec("gpt2", 8.0, 0)
    assert private.run_id == "gpt2-2be987fac6e6" and demo_spec("gpt2", None, 0).run_id == "gpt2-804b3c7f558b"
    assert "noise_source" not in private.privacy.model_dump() and not private.secret_noise
    assert RunSpec.model_validate_json(private.model_dump_json()) == private


def test_who_has_secret_noise():
    asked = PrivacySpec(target_epsilon=8.0, noise_source="secret")
    chosen = RunSpec(privacy=asked)
    assert chosen.secret_noise and chosen.run_id != RunSpec(privacy=PrivacySpec(target_epsilon=8.0)).run_id
    assert RunSpec.model_validate_json(chosen.model_dump_json()) == chosen
    imported = CorpusSpec(imported="0" * 16)
    assert RunSpec(corpus=imported, privacy=PrivacySpec(noise_multiplier=1.0)).secret_noise, "without being asked"
    assert not RunSpec(corpus=imported).secret_noise and not chosen.base_spec().secret_noise
    with pytest.raises(ValidationError, match="no noise to keep secret"):
        PrivacySpec(noise_source="secret")
    with pytest.raises(ValidationError, match="always has secret noise"):
        RunSpec(corpus=imported, privacy=asked)


def test_a_mechanism_without_a_source_is_of_a_public_seed():
    text = Mechanism(
        unit="note", noise_multiplier=1.0, sample_rate=0.1, steps=3, delta=1e-5, max_grad_norm=1.0
    ).to_json()
    before = text.replace(',\n  "noise_source": "public seed"', "")
    assert "noise_source" not in before and Mechanism.from_json(before).noise_source == "public seed"
    assert Mechanism.from_json(text.replace("public seed", "secret")).noise_source == "secret"


@pytest.mark.parametrize(("name", "notes", "judged"), [("classroom", 3_010, None), ("classroom-12k", 12_040, 600)])
def test_a_large_hospital_comes_with_an_audit_of_some_patients(name: str, notes: int, judged: int | None) -> None:
    corpus = CORPUS_PRESETS[name]
    assert corpus.training_notes == notes
    assert audit_of(corpus).patients == judged
    assert audit_of(corpus.model_copy(update={"seed": 7})) == audit_of(corpus), "a hospital of another seed compares"
    assert audit_of(corpus.model_copy(update={"naming_rate": 0.25})) == AuditSpec(), "a custom hospital is judged whole"


def test_a_run_may_record_the_limit_that_its_noise_was_chosen_for():
    limit = RiskLimit(caught=0.05, accused=0.01)
    without, chosen = PrivacySpec(noise_multiplier=1.2), PrivacySpec(noise_multiplier=1.2, risk_limit=limit)
    assert (
        "risk_limit" not in without.model_dump() and RunSpec(privacy=without).run_id != RunSpec(privacy=chosen).run_id
    )
    stored = RunSpec(privacy=chosen).model_dump_json()
    assert RunSpec.model_validate_json(stored) == RunSpec(privacy=chosen) and '"right"' not in stored
    assert limit.label == "at most 5 % caught at 1 % accused by mistake"
    assert "accuses 1 of 100 patients" in limit.sentence("patient") and "at most 5 of 100" in limit.sentence("note")
    guesses = RiskLimit(right=0.6)
    assert guesses.label == "at most 60 of 100 guesses right" and "(50 by tossing a coin)" in guesses.sentence("note")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "not both or neither"),
        ({"caught": 0.05, "accused": 0.01, "right": 0.6}, "not both or neither"),
        ({"caught": 0.05}, "needs the share accused"),
        ({"right": 0.6, "accused": 0.01}, "needs the share accused"),
        ({"caught": 0.01, "accused": 0.01}, "random guessing"),
        ({"right": 0.5}, "right"),
        ({"caught": 1.0, "accused": 0.01}, "caught"),
        ({"caught": 0.05, "accused": 1e-5}, "accused"),
    ],
)
def test_a_limit_that_means_nothing_is_refused(given, says):
    with pytest.raises(ValidationError, match=says):
        RiskLimit(**given)


def test_a_limit_belongs_to_a_run_whose_noise_is_given():
    limit = RiskLimit(right=0.6)
    with pytest.raises(ValidationError, match="give σ"):
        PrivacySpec(target_epsilon=8.0, risk_limit=limit)
    with pytest.raises(ValidationError, match="give σ"):
        PrivacySpec(risk_limit=limit)
    with pytest.raises(ValidationError, match="accountant prv"):
        PrivacySpec(noise_multiplier=1.0, accountant="gdp", risk_limit=limit)
    with pytest.raises(ValidationError, match="leave out the vocabulary"):
        RunSpec(
            model=ModelSpec(kind="bert"),
            privacy=PrivacySpec(noise_multiplier=1.0, risk_limit=limit),
            vocabulary=VocabularySpec(epsilon=1.0),
        )


@pytest.mark.parametrize(
    ("delta", "of_words", "says"),
    [
        (0.5, 0.6, r"0\.5 \+ 0\.6: choose δ that are below 1 together"),
        (0.5, 0.5, "below 1"),
        (1e-30, 1e-6, "too small"),
    ],
)
def test_delta_of_training_and_of_the_vocabulary_are_a_delta_together(delta, of_words, says):
    with pytest.raises(ValidationError, match=says):
        RunSpec(
            model=ModelSpec(kind="distilbert"),
            privacy=PrivacySpec(target_epsilon=8.0, delta=delta),
            vocabulary=VocabularySpec(epsilon=1.0, delta=of_words),
        )


@pytest.mark.parametrize("norm", [0.0, -1.0, 1e-23, 9.9e-7])
def test_a_clipping_norm_whose_noise_may_be_rounded_to_zero_is_refused(norm):
    for given in ({"max_grad_norm": norm}, {"target_epsilon": 8.0, "max_grad_norm": norm}):
        with pytest.raises(ValidationError, match="C must be at least 1e-06, not"):
            PrivacySpec(**given)
    with pytest.raises(ValidationError, match="C must be at least 1e-06, not"):
        TrainingSpec(clip_norm=norm)
    assert PrivacySpec(max_grad_norm=1e-6).max_grad_norm == TrainingSpec(clip_norm=1e-6).clip_norm == 1e-6


def test_a_limit_just_below_all_is_not_written_as_all() -> None:
    assert RiskLimit(right=0.99999999).label == "at most 99.999999 of 100 guesses right"
    assert RiskLimit(caught=0.05, accused=0.01).label == "at most 5 % caught at 1 % accused by mistake"
