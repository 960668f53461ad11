"""What a run will do, said before it starts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from core.spec import PrivacySpec, RiskLimit, RunSpec, TrainingSpec, VocabularySpec
from core.training.accounting.risk import noise_for_risk, rate_and_steps
from core.training.plan import check, plan
from core.training.weights import learning_rate, trainable


def test_both_units_take_the_same_rate_and_steps_and_differ_in_units() -> None:
    training = TrainingSpec(epochs=8, batch_size=512)
    by_note = plan(PrivacySpec(target_epsilon=8.0), training, notes=1_500, patients=300)
    by_patient = plan(PrivacySpec(target_epsilon=8.0, unit="patient"), training, notes=1_500, patients=300)
    assert by_note.sample_rate == by_patient.sample_rate == training.batch_size / 1_500
    assert by_note.steps == by_patient.steps == 24  # ⌈8 / (512/1500)⌉
    assert by_note.mechanism.noise_multiplier == by_patient.mechanism.noise_multiplier
    assert by_note.mechanism.epsilon() <= 8.0
    assert by_note.expected_units == pytest.approx(512) and by_patient.expected_units == pytest.approx(102.4)
    assert by_note.epoch_ends(8)[0] == 3 and by_note.epoch_ends(8)[-1] == 24


def test_a_given_sigma_is_taken_as_it_is() -> None:
    planned = plan(PrivacySpec(noise_multiplier=1e-20), TrainingSpec(batch_size=10, epochs=3), notes=100, patients=20)
    assert planned.mechanism.noise_multiplier == 1e-20 and planned.steps == 30


def test_a_noise_that_does_not_hold_its_limit_is_refused_with_the_one_that_does() -> None:
    limit, training = RiskLimit(caught=0.05, accused=0.01), TrainingSpec(batch_size=256, epochs=4)
    weak = PrivacySpec(noise_multiplier=1.0, risk_limit=limit)
    with pytest.raises(ValueError, match=r"σ = 1 does not hold the limit .* Choose σ = 1\.\d+ or more") as error:
        plan(weak, training, notes=2_925, patients=300)
    enough = float(str(error.value).rsplit("σ = ", 1)[1].split()[0])
    held = weak.model_copy(update={"noise_multiplier": enough})
    assert plan(held, training, notes=2_925, patients=300).mechanism.noise_multiplier == enough
    with pytest.raises(ValueError, match="does not hold the limit"):  # fewer notes: each is in more steps
        plan(held, training, notes=2_000, patients=300)


def test_a_training_without_a_patient_keeps_the_noise_that_was_chosen_for_a_limit_and_not_the_limit() -> None:
    limit, training = RiskLimit(caught=0.1, accused=0.01), TrainingSpec(batch_size=256, epochs=4)
    rate, steps = rate_and_steps(training, 2_925)
    chosen = PrivacySpec(noise_multiplier=noise_for_risk(limit, sample_rate=rate, steps=steps), risk_limit=limit)
    spec = RunSpec(privacy=chosen, training=training)
    plan(spec.privacy, spec.training, notes=2_925, patients=300)
    again = spec.retrained_spec("P1")
    held = plan(again.privacy, again.training, notes=2_915, patients=299).mechanism
    assert held.noise_multiplier == chosen.noise_multiplier and again.privacy.risk_limit is None
    assert again.retrained_spec("P2").privacy == again.privacy  # and a second patient changes nothing more


def test_warnings() -> None:
    training = TrainingSpec(batch_size=10)
    assert check(PrivacySpec(), training, notes=100, patients=20) == []
    assert check(PrivacySpec(target_epsilon=1.0), training, notes=100, patients=20) == []
    (loose,) = check(PrivacySpec(target_epsilon=1.0, delta=0.01), training, notes=100, patients=20)
    assert "δ = 0.01 is not below 1/n" in loose and "100 notes" in loose
    (loose,) = check(PrivacySpec(target_epsilon=1.0, delta=0.05, unit="patient"), training, notes=100, patients=20)
    assert "20 patients" in loose
    (approximate,) = check(PrivacySpec(target_epsilon=1.0, accountant="gdp"), training, notes=100, patients=20)
    assert "under-reports" in approximate
    with pytest.raises(ValueError, match="larger than the cohort"):
        check(PrivacySpec(), TrainingSpec(batch_size=101), notes=100, patients=20)
    with pytest.raises(ValueError, match="not private"):
        plan(PrivacySpec(), training, notes=100, patients=20)


def test_the_vocabulary_counts_in_the_warning_about_delta_and_must_have_noise_that_can_be_computed() -> None:
    training, privacy = TrainingSpec(batch_size=10), PrivacySpec(target_epsilon=1.0)
    sizes = {"notes": 3_000, "patients": 300}
    assert check(privacy, training, **sizes, vocabulary=VocabularySpec(epsilon=1.0, delta=3e-4)) == []
    (loose,) = check(privacy, training, **sizes, vocabulary=VocabularySpec(epsilon=1.0, delta=0.01))
    assert loose.startswith("δ = 0.01001 of training and vocabulary together is not below 1/n (1/3000 notes = 0.00033)")
    with pytest.raises(ValueError, match="choose a smaller ε"):
        check(privacy, training, **sizes, vocabulary=VocabularySpec(epsilon=1e6))
    assert check(PrivacySpec(), training, **sizes, vocabulary=VocabularySpec()) == [], "without noise there is no δ"


def test_the_rate_rises_and_falls() -> None:
    rates = [learning_rate(TrainingSpec(learning_rate=1.0, warmup=0.2), step, 20) for step in range(1, 21)]
    assert rates[:5] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert rates[4:] == sorted(rates[4:], reverse=True) and rates[-1] == pytest.approx(1 / 16)
    assert learning_rate(TrainingSpec(learning_rate=1.0, warmup=0.0), 1, 1) == 1.0
    assert learning_rate(TrainingSpec(learning_rate=1.0, warmup=1.0), 4, 4) > 0


def test_freezing_takes_the_tied_output_with_it() -> None:
    model = nn.ModuleDict({"tokens": nn.Embedding(5, 4), "body": nn.Linear(4, 4), "head": nn.Linear(4, 5, bias=False)})
    model["head"].weight = model["tokens"].weight
    with trainable(model, "no-embeddings") as parameters:
        assert set(parameters) == {"body.weight", "body.bias"}
    with trainable(model, "all") as parameters:
        assert set(parameters) == {"tokens.weight", "body.weight", "body.bias"}
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert isinstance(model["tokens"].weight, torch.nn.Parameter)


def test_the_learning_rate_rises_and_falls_in_equal_steps_and_the_last_step_still_trains():
    training = TrainingSpec(learning_rate=1.0, warmup=0.4)
    found = [learning_rate(training, step, 10) for step in range(1, 11)]
    assert found == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6])
