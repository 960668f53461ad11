"""The loop: it learns, keeps its promises on noise and ε, stops at once, and goes on exactly where it was killed."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from core.common import versions
from core.common.randomness import SecretKey
from core.spec import PrivacySpec, TrainingSpec
from core.training import checkpoint, trainer
from core.training.accounting.gaussian import epsilon
from core.training.events import EpochEvaluation, EpochEvent, InStepEvent, StepEvent, TrainingResult
from core.training.gradients.clipping import Clipper, TrainingDiverged
from core.training.trainer import train
from tests.training.tiny import KINDS, language_model, notes

PLAIN = PrivacySpec()
COHORT = notes()


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def spec(**changes: Any) -> TrainingSpec:
    return TrainingSpec(**{"epochs": 2, "batch_size": 6, "max_tokens": 32, "learning_rate": 3e-3} | changes)


def trained(
    kind: str, training: TrainingSpec, privacy: PrivacySpec = PLAIN, cohort: pd.DataFrame = COHORT, **hooks: Any
) -> tuple[dict[str, torch.Tensor], TrainingResult]:
    lm = language_model(kind)
    result = train(lm, cohort, training, privacy, **hooks)
    return {name: value.clone() for name, value in lm.model.state_dict().items()}, result


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor], atol: float = 0.0) -> bool:
    return all(torch.allclose(first[name], second[name], rtol=0, atol=atol) for name in first)


@pytest.mark.parametrize("privacy", [PLAIN, PrivacySpec(noise_multiplier=1e-20, unit="patient")], ids=["plain", "σ→0"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_learns(kind: str, privacy: PrivacySpec) -> None:
    _, result = trained(kind, spec(epochs=8, learning_rate=1e-2), privacy)
    losses = [row["loss"] for row in result.history if row["loss"] is not None]
    assert np.mean(losses[-4:]) < 0.8 * np.mean(losses[:2])
    if privacy.private:
        assert result.mechanism.epsilon() > 1e39


@pytest.mark.parametrize("unit", ["note", "patient"])
def test_events_tell_the_steps_and_the_epsilon(unit: str) -> None:
    steps: list[StepEvent] = []
    epochs: list[EpochEvent] = []
    privacy = PrivacySpec(target_epsilon=5.0, delta=1e-3, unit=unit)
    _, result = trained(
        "gpt2",
        spec(epochs=3, batch_size=7),
        privacy,
        on_step=steps.append,
        on_epoch=epochs.append,
        evaluate=lambda lm: EpochEvaluation(eval_loss=1.5, canary_exposure={"c": 2.0}),
    )
    assert [event.step for event in steps] == list(range(1, 12))  # q = 7/24: ⌈3/q⌉ = 11 steps
    assert [event.epoch for event in steps] == [1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3]
    assert [(event.epoch, event.step) for event in epochs] == [(1, 4), (2, 7), (3, 11)]
    assert all(event.steps == 11 and event.epochs == 3 for event in steps)
    spent = [event.epsilon for event in steps]
    assert spent == sorted(spent) and spent[-1] == epochs[-1].epsilon == pytest.approx(result.mechanism.epsilon())
    assert 4.9 < spent[-1] <= 5.0
    tokens = [event.tokens for event in steps]
    assert tokens == sorted(tokens) and tokens[-1] > 0
    assert steps[-1].eta_seconds == 0.0 and steps[0].eta_seconds > 0
    assert result.mechanism.unit == unit and result.mechanism.sample_rate == 7 / 24 and not result.stopped
    rows = {row["step"]: row for row in result.history}
    assert list(rows) == list(range(1, 12))
    assert rows[4]["eval_loss"] == 1.5 and rows[4]["canary_exposure"] == {"c": 2.0}
    assert rows[5]["eval_loss"] is None and rows[5]["canary_exposure"] == {}
    assert set(rows[1]) == {"step", "epoch", "loss", "epsilon", "tokens", "seconds", "eval_loss", "canary_exposure"}


def test_the_epsilon_at_the_end_is_the_guarantee_and_not_the_target_of_gdp() -> None:
    steps: list[StepEvent] = []
    privacy = PrivacySpec(target_epsilon=5.0, delta=1e-3, accountant="gdp")
    _, result = trained("gpt2", spec(), privacy, on_step=steps.append)
    (told,) = {event.epsilon_end for event in steps}
    assert told == steps[-1].epsilon == pytest.approx(result.mechanism.epsilon()) and abs(told - 5.0) > 0.01
    trained("gpt2", spec(epochs=1), on_step=steps.append)
    assert steps[-1].epsilon_end is None, "without privacy"


@pytest.mark.parametrize("privacy", [PLAIN, PrivacySpec(noise_multiplier=1.0, delta=1e-3)], ids=["plain", "private"])
def test_progress_within_a_step_ends_at_the_steps_own_loss(
    monkeypatch: pytest.MonkeyPatch, privacy: PrivacySpec
) -> None:
    monkeypatch.setattr(trainer, "IN_STEP_SECONDS", 0.0)
    steps: list[StepEvent] = []
    told: list[InStepEvent] = []
    settings = spec(epochs=2, batch_size=12, physical_batch=3)
    trained("gpt2", settings, privacy, on_step=steps.append, on_progress=told.append)
    for step in (step for step in steps if step.loss is not None):
        own = [event for event in told if event.step == step.step]
        done = [event.done for event in own]
        assert len(own) > 1 and done == sorted(set(done)), "a logical batch is read in pieces"
        assert done[-1] == own[-1].total and {event.total for event in own} == {own[-1].total}
        assert own[-1].loss == pytest.approx(step.loss)
        assert {(event.epoch, event.steps, event.epochs) for event in own} == {(step.epoch, step.steps, step.epochs)}


def test_the_first_progress_comes_at_once_and_the_next_not_too_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "IN_STEP_SECONDS", 3600.0)
    told: list[InStepEvent] = []
    trained("gpt2", spec(epochs=1, batch_size=12, physical_batch=3), on_progress=told.append)
    assert [(event.step, event.done) for event in told] == [(1, 3)]


def test_a_plain_epoch_sees_every_sample_once() -> None:
    steps: list[StepEvent] = []
    _, result = trained("gpt2", spec(epochs=2, batch_size=10), on_step=steps.append)
    assert result.mechanism is None and {event.epsilon for event in steps} == {None}
    per_epoch = len(steps) // 2
    assert steps[-1].tokens == 2 * steps[per_epoch - 1].tokens
    assert [event.epoch for event in steps] == [1] * per_epoch + [2] * per_epoch


def test_a_step_that_samples_nobody_adds_noise_and_counts() -> None:
    steps: list[StepEvent] = []
    gradients: list[float] = []

    def listen(event: StepEvent) -> None:
        steps.append(event)
        gradients.append(max(p.grad.abs().max().item() for p in lm.model.parameters() if p.grad is not None))

    lm = language_model("gpt2")
    result = train(
        lm, COHORT, spec(epochs=1, batch_size=1), PrivacySpec(noise_multiplier=1.0, delta=1e-3), on_step=listen
    )
    empty = [number for number, event in enumerate(steps) if event.loss is None]
    assert len(steps) == 24 and 3 <= len(empty) <= 16  # e⁻¹ of them, on average
    assert min(gradients[number] for number in empty) > 1.0  # σ·C / 1, the largest of thousands of draws
    assert steps[-1].epsilon == pytest.approx(
        epsilon(noise_multiplier=1.0, sample_rate=1 / 24, steps=24, delta=1e-3), rel=1e-6
    )
    assert result.mechanism.steps == 24


@pytest.mark.parametrize("unit", ["note", "patient"])
@pytest.mark.parametrize("kind", ["gpt2", "bert"])
def test_the_physical_batch_changes_memory_and_not_the_result(kind: str, unit: str) -> None:
    privacy = PrivacySpec(noise_multiplier=1.0, delta=1e-3, unit=unit)
    few, _ = trained(kind, spec(epochs=1, physical_batch=2, batch_size=12), privacy)
    many, _ = trained(kind, spec(epochs=1, physical_batch=64, batch_size=12), privacy)
    assert same(few, many, atol=1e-5)
    few, _ = trained(kind, spec(epochs=1, physical_batch=2, learning_rate=1e-4))
    many, _ = trained(kind, spec(epochs=1, physical_batch=64, learning_rate=1e-4))
    assert same(few, many, atol=2e-4)  # AdamW's first steps blow up the last bits of a tiny gradient


def test_noise_is_added_once_a_logical_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: dict[str, int] = {"clip": 0, "noisy_gradient": 0}
    for name in calls:
        real = getattr(Clipper, name)

        def counted(self: Clipper, *args: Any, _real: Any = real, _name: str = name) -> Any:
            calls[_name] += 1
            return _real(self, *args)

        monkeypatch.setattr(Clipper, name, counted)
    _, result = trained("gpt2", spec(batch_size=12, physical_batch=3), PrivacySpec(noise_multiplier=1.0, delta=1e-3))
    assert calls["noisy_gradient"] == len(result.history) == 4
    assert calls["clip"] > 8


@pytest.mark.parametrize(
    ("kind", "training", "privacy"),
    [
        ("gpt2", spec(), PLAIN),
        ("distilbert", spec(weight_averaging=0.8), PrivacySpec(target_epsilon=3.0, delta=1e-3)),
        ("gpt2", spec(trainable="no-embeddings"), PrivacySpec(noise_multiplier=0.7, delta=1e-3, unit="patient")),
    ],
    ids=["plain", "averaged", "patient"],
)
def test_a_killed_run_goes_on_to_the_same_weights_and_epsilon(
    kind: str, training: TrainingSpec, privacy: PrivacySpec, tmp_path: Path
) -> None:
    whole_steps: list[StepEvent] = []
    whole, uninterrupted = trained(kind, training, privacy, on_step=whole_steps.append)
    steps: list[StepEvent] = []

    def die(event: StepEvent) -> None:
        if event.step == 6:  # two steps after the checkpoint of the first epoch
            raise KeyboardInterrupt
        steps.append(event)

    with pytest.raises(KeyboardInterrupt):
        trained(kind, training, privacy, on_step=die, checkpoint=tmp_path)
    first = next(iter(step.step for step in steps if step.step > 4), None)
    again, resumed = trained(kind, training, privacy, on_step=steps.append, checkpoint=tmp_path)
    assert first == 5 and steps[5].step == 5  # it went on after step 4 and did not begin anew
    assert same(whole, again)
    assert resumed.mechanism == uninterrupted.mechanism
    assert [row["loss"] for row in resumed.history] == [row["loss"] for row in uninterrupted.history]
    assert [event.epsilon for event in steps[5:]] == [event.epsilon for event in whole_steps[4:]]
    assert steps[-1].tokens == whole_steps[-1].tokens
    finished, _ = trained(kind, training, privacy, checkpoint=tmp_path)  # killed after the last step: nothing to do
    assert same(whole, finished)


def test_secret_noise_of_an_older_form_is_not_continued(tmp_path: Path) -> None:
    """Half of a training would have noise of 32 bits. A public seed gives what it always gave, and continues."""
    key, privacy = SecretKey(bytes(16)), PrivacySpec(noise_multiplier=1.0, noise_source="secret")

    def die(event: StepEvent) -> None:
        if event.step == 6:
            raise KeyboardInterrupt

    for chosen, source in ((privacy, key), (PrivacySpec(noise_multiplier=1.0), None)):
        folder = tmp_path / str(chosen.noise_source)
        with pytest.raises(KeyboardInterrupt):
            trained("gpt2", spec(), chosen, on_step=die, checkpoint=folder, randomness=source)
        tensors, state = checkpoint.read(folder)
        assert state["fingerprint"].isalnum() == (source is None), "as in older versions, or with the form of the noise"
        older = state | {"fingerprint": state["fingerprint"].split()[0]}
        checkpoint.write(tmp_path / f"older {chosen.noise_source}", tensors, older)
    assert not trained("gpt2", spec(), privacy, checkpoint=tmp_path / "secret", randomness=key)[1].stopped
    with pytest.raises(ValueError, match="fewer random bits.*cancel this run, or delete its work folder"):
        trained("gpt2", spec(), privacy, checkpoint=tmp_path / "older secret", randomness=key)
    with pytest.raises(ValueError, match="other settings or notes"):
        trained("gpt2", spec(), privacy, checkpoint=tmp_path / "secret", randomness=SecretKey(bytes(range(16))))


def test_a_training_names_every_version_that_made_steps_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version resumes; one that finds the last step done adds nothing; older checkpoints name none."""
    by = [{"PHI Leak Lab": "0.0.8"}, {"PHI Leak Lab": "0.0.9"}, {"PHI Leak Lab": "0.1.0"}]

    def die(event: StepEvent) -> None:
        if event.step == 6:
            raise KeyboardInterrupt

    monkeypatch.setattr(versions, "versions", lambda packages: by[0])
    with pytest.raises(KeyboardInterrupt):
        trained("gpt2", spec(), on_step=die, checkpoint=tmp_path / "a")
    tensors, state = checkpoint.read(tmp_path / "a")
    checkpoint.write(tmp_path / "old", tensors, {key: value for key, value in state.items() if key != "versions"})
    _, same_version = trained("gpt2", spec(), checkpoint=shutil.copytree(tmp_path / "a", tmp_path / "b"))
    assert same_version.versions == by[:1]
    monkeypatch.setattr(versions, "versions", lambda packages: by[1])
    assert trained("gpt2", spec(), checkpoint=tmp_path / "a")[1].versions == by[:2]
    assert trained("gpt2", spec(), checkpoint=tmp_path / "old")[1].versions == [{}, by[1]]
    monkeypatch.setattr(versions, "versions", lambda packages: by[2])
    assert trained("gpt2", spec(), checkpoint=tmp_path / "a")[1].versions == by[:2]


def test_a_checkpoint_of_other_settings_or_a_damaged_one_is_refused(tmp_path: Path) -> None:
    trained("gpt2", spec(), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="other settings or notes"):
        trained("gpt2", spec(seed=1), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="other settings or notes"):
        trained("gpt2", spec(), cohort=notes(seed=5), checkpoint=tmp_path)
    file = tmp_path / checkpoint.FILE
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match="cannot be read .* delete it"):
        trained("gpt2", spec(), checkpoint=tmp_path)


def test_a_checkpoint_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    checkpoint.save_file({"a": torch.ones(1)}, tmp_path / checkpoint.FILE, metadata={"state": "[" * 100_000})
    with pytest.raises(ValueError, match="delete it to restart this run"):
        checkpoint.read(tmp_path)


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint.write(tmp_path, {"a": torch.ones(3)}, {"step": 1})

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.write(tmp_path, {"a": torch.zeros(3)}, {"step": 2})
    tensors, state = checkpoint.read(tmp_path)
    assert state == {"step": 1} and tensors["a"].tolist() == [1, 1, 1]
    assert [path.name for path in tmp_path.iterdir()] == [checkpoint.FILE]
    assert checkpoint.read(tmp_path / "nothing") is None


@pytest.mark.parametrize("privacy", [PLAIN, PrivacySpec(noise_multiplier=1.0, delta=1e-3)], ids=["plain", "private"])
def test_stopping_takes_effect_before_the_next_physical_batch(privacy: PrivacySpec) -> None:
    polls = 0

    def stop() -> bool:
        nonlocal polls
        polls += 1
        return polls > 9

    steps: list[StepEvent] = []
    before = language_model("gpt2").model.state_dict()
    training = spec(batch_size=12, physical_batch=3)
    weights, result = trained("gpt2", training, privacy, should_stop=stop, on_step=steps.append)
    assert result.stopped and polls == 10 and 1 <= len(steps) < 4
    assert not same(before, weights)
    if privacy.private:  # the step that was broken off was never applied and costs nothing
        assert result.mechanism.steps == len(steps)


def test_frozen_embeddings_stay_as_they_were_and_thaw_again() -> None:
    lm = language_model("gpt2")
    before = {name: value.clone() for name, value in lm.model.state_dict().items()}
    train(lm, COHORT, spec(trainable="no-embeddings"), PrivacySpec(noise_multiplier=1.0, delta=1e-3))
    moved = {name for name, value in lm.model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved and not any("wte" in name or "wpe" in name or "lm_head" in name for name in moved)
    assert all(parameter.requires_grad and parameter.grad is None for parameter in lm.model.parameters())
    assert not any(module._forward_hooks for module in lm.model.modules())


def test_averaged_weights_are_the_bias_corrected_average_and_are_what_is_evaluated() -> None:
    lm = language_model("gpt2")
    name = "transformer.h.0.mlp.c_fc.weight"
    weights, evaluated = [], []
    train(
        lm,
        COHORT,
        spec(weight_averaging=0.7),
        PLAIN,
        on_step=lambda _: weights.append(lm.model.state_dict()[name].clone()),
        evaluate=lambda model: evaluated.append(model.model.state_dict()[name].clone()) or EpochEvaluation(),
    )

    def average(count: int) -> torch.Tensor:
        shares = np.array([0.7 ** (count - 1 - step) for step in range(count)])
        return sum(share * weight for share, weight in zip(shares / shares.sum(), weights[:count], strict=True))

    torch.testing.assert_close(lm.model.state_dict()[name], average(len(weights)), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(evaluated[0], average(len(weights) // 2), atol=1e-6, rtol=1e-5)
    assert not torch.allclose(lm.model.state_dict()[name], weights[-1])


def test_a_longer_note_is_cut_and_stays_one_unit() -> None:
    long = notes(12, words=60)
    steps: list[StepEvent] = []
    _, result = trained(
        "gpt2",
        spec(batch_size=6, max_tokens=16),
        PrivacySpec(noise_multiplier=1.0, delta=1e-3),
        cohort=long,
        on_step=steps.append,
    )
    assert result.mechanism.sample_rate == 6 / 12  # twelve notes, however many samples


@pytest.mark.parametrize(
    ("training", "cohort", "words"),
    [
        (spec(batch_size=25), COHORT, r"batch size \(25\) is larger than the cohort \(24"),
        (spec(), COHORT[:0], "no notes"),
    ],
)
@pytest.mark.parametrize("privacy", [PLAIN, PrivacySpec(target_epsilon=1.0)], ids=["plain", "private"])
def test_what_cannot_be_trained_gets_a_sentence(
    training: TrainingSpec, cohort: pd.DataFrame, words: str, privacy: PrivacySpec
) -> None:
    with pytest.raises(ValueError, match=words):
        trained("gpt2", training, privacy, cohort=cohort)


def test_shards_that_each_add_noise_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    with pytest.raises(ValueError, match=r"4 shards .* σ·√P = 2\.00·σ"):
        trained("gpt2", spec(), PrivacySpec(noise_multiplier=1.0, delta=1e-3))
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
    assert not trained("gpt2", spec(epochs=1), PrivacySpec(noise_multiplier=1.0, delta=1e-3))[1].stopped


def test_no_epochs_is_the_model_as_it_was() -> None:
    before = language_model("gpt2").model.state_dict()
    weights, result = trained("gpt2", spec(epochs=0))
    assert same(before, weights)
    assert asdict(result) == {"history": [], "mechanism": None, "stopped": False, "versions": []}


@pytest.mark.parametrize("privacy", [PLAIN, PrivacySpec(noise_multiplier=1e-20)], ids=["plain", "private"])
def test_a_run_that_explodes_says_so(privacy: PrivacySpec) -> None:
    with pytest.raises(TrainingDiverged, match="(?i)lower the learning rate"):
        trained("gpt2", spec(epochs=4, learning_rate=1e30), privacy)
