"""Unlearning: ascent raises the patient's loss and stops where it should; each method reads the notes that it says."""

from __future__ import annotations

import pytest
import torch

from core.models.likelihood import note_losses
from core.spec import PrivacySpec, TrainingSpec
from core.training import unlearning
from core.training.trainer import train
from core.training.unlearning import METHODS, UnlearningSpec, settings_of, unlearn
from tests.training.tiny import KINDS, language_model, notes

COHORT = notes()
FORGET = COHORT.loc[COHORT["patient_id"] == "patient-0", "text"].tolist()
RETAIN = COHORT.loc[COHORT["patient_id"] != "patient-0", "text"].tolist()
HIGH = 1e9  # a stop loss that is never reached


def spec(method, **changes):
    return UnlearningSpec(**{"method": method, "learning_rate": 1e-3, "steps": 4, "max_tokens": 32} | changes)


def trained(kind="gpt2"):
    lm = language_model(kind)
    train(lm, COHORT, TrainingSpec(epochs=4, batch_size=6, max_tokens=32, learning_rate=3e-3), PrivacySpec())
    return lm


def loss(lm, texts):
    return float(note_losses(lm, texts, max_tokens=64).mean())


def weights(lm):
    return torch.cat([one.detach().flatten() for one in lm.model.parameters()])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["ascent", "difference"])
def test_the_patients_loss_rises_step_by_step(kind, method):
    lm = trained(kind)
    before = loss(lm, FORGET)
    done = unlearn(lm, FORGET, RETAIN, spec(method), stop_loss=HIGH)
    assert loss(lm, FORGET) > before + 0.01
    assert len(done.history) == 4 and not done.reached and not done.stopped
    assert [step.step for step in done.history] == [1, 2, 3, 4]
    assert done.history[-1].forget_loss > done.history[0].forget_loss == pytest.approx(before, abs=0.2)


def test_one_step_of_ascent_is_the_naive_one():
    """Oracle: AdamW's first step moves every weight by the rate against the sign of its gradient."""
    lm, naive = trained(), trained()
    start = weights(naive)
    torch.stack([_mean_loss(naive, text) for text in FORGET]).mean().backward()
    gradient = torch.cat([one.grad.flatten() for one in naive.model.parameters()])
    unlearn(lm, FORGET, [], spec("ascent", steps=1), stop_loss=HIGH)
    clear = gradient.abs() > 1e-5  # AdamW adds 1e-8 to a gradient's size
    expected = start + 1e-3 * gradient.sign()
    assert clear.float().mean() > 0.5
    torch.testing.assert_close(weights(lm)[clear], expected[clear], rtol=0, atol=2e-6)


def _mean_loss(lm, text):
    ids = lm.tokenizer(text)["input_ids"]
    row = torch.tensor([[lm.tokenizer.bos_token_id, *ids, lm.tokenizer.eos_token_id]])[:, :32]
    return torch.nn.functional.cross_entropy(lm.model(row).logits[0, :-1], row[0, 1:])


def test_it_stops_at_the_loss_of_notes_never_seen():
    lm = trained()
    level = loss(lm, FORGET) + 0.05
    done = unlearn(lm, FORGET, RETAIN, spec("ascent", steps=200, learning_rate=3e-4), stop_loss=level)
    assert done.reached and done.final_loss >= level
    assert done.history[-1].forget_loss < level and len(done.history) < 200


def test_a_model_that_is_there_already_is_left_alone():
    lm = trained()
    before = weights(lm)
    done = unlearn(lm, FORGET, RETAIN, spec("ascent"), stop_loss=0.0)
    assert done.reached and not done.history and torch.equal(weights(lm), before)


def test_fine_tuning_never_reads_the_patient(monkeypatch):
    """The weights are the same whoever the patient is, and the others' loss falls."""
    one, other = trained(), trained()
    before = loss(one, RETAIN)
    unlearn(one, FORGET, RETAIN, spec("fine-tuning", steps=12), stop_loss=0.0)
    unlearn(other, ["another text"], RETAIN, spec("fine-tuning", steps=12), stop_loss=HIGH)
    assert torch.equal(weights(one), weights(other))
    assert loss(one, RETAIN) < before


def test_ascent_never_reads_the_others():
    one, other = trained(), trained()
    unlearn(one, FORGET, RETAIN, spec("ascent"), stop_loss=HIGH)
    unlearn(other, FORGET, [], spec("ascent"), stop_loss=HIGH)
    assert torch.equal(weights(one), weights(other))


def test_difference_keeps_the_others_better_than_ascent():
    one, other = trained(), trained()
    level = loss(one, FORGET) + 0.5
    unlearn(one, FORGET, RETAIN, spec("ascent", steps=100), stop_loss=level)
    unlearn(other, FORGET, RETAIN, spec("difference", steps=100), stop_loss=level)
    assert loss(other, RETAIN) < loss(one, RETAIN)


@pytest.mark.parametrize("method", unlearning.METHODS)
def test_the_same_seed_gives_the_same_weights(method):
    one, same, another = trained("distilbert"), trained("distilbert"), trained("distilbert")
    for lm, seed in ((one, 1), (same, 1), (another, 2)):
        unlearn(lm, FORGET, RETAIN, spec(method, batch_size=4, seed=seed), stop_loss=HIGH)
    assert torch.equal(weights(one), weights(same)) and not torch.equal(weights(one), weights(another))


def test_it_can_be_stopped_after_any_step():
    lm, steps = trained(), []
    done = unlearn(
        lm, FORGET, RETAIN, spec("ascent"), stop_loss=HIGH, on_step=steps.append, should_stop=lambda: len(steps) == 2
    )
    assert done.stopped and done.history == tuple(steps) and len(steps) == 2


def test_errors_say_what_is_missing():
    lm = trained()
    with pytest.raises(ValueError, match="nothing to forget"):
        unlearn(lm, [], RETAIN, spec("ascent"), stop_loss=HIGH)
    with pytest.raises(ValueError, match="there are none"):
        unlearn(lm, FORGET, [], spec("difference"), stop_loss=HIGH)
    with pytest.raises(ValueError, match="learning_rate"):
        spec("ascent", learning_rate=0)
    assert settings_of("ascent", TrainingSpec(learning_rate=2e-3)).learning_rate == pytest.approx(1e-4)
    assert settings_of("fine-tuning", TrainingSpec(learning_rate=2e-3)).learning_rate == pytest.approx(5e-4)
    assert [settings_of(method, TrainingSpec()).steps for method in METHODS] == [60, 100, 60]
