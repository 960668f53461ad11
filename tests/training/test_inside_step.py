"""Inside a step: inner products of the units' gradients, against the engine's own step and naive gradients."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from core.models.encoding import encode_samples
from core.spec import PrivacySpec, TrainingSpec
from core.training.inside_step import first_step
from core.training.step_gradients import StepGradients
from core.training.steps import ClippedSteps
from tests.training.tiny import language_model, notes

COHORT = notes()


def spec(**changes) -> TrainingSpec:
    return TrainingSpec(**{"epochs": 1, "batch_size": 10, "max_tokens": 32, "seed": 4} | changes)


@pytest.mark.parametrize("norm", [0.05, 1.5, 1e6])
@pytest.mark.parametrize("unit", ["note", "patient"])
@pytest.mark.parametrize("kind", ["gpt2", "distilbert"])
def test_the_clipped_sum_is_the_engines(kind, unit, norm):
    training = spec(masks=2, mask_share=0.4) if kind == "distilbert" else spec()
    privacy = PrivacySpec(unit=unit)
    found = first_step(language_model(kind), COHORT, training, privacy)
    assert 3 < len(found) == found.sampled
    lm = language_model(kind)
    clipping = training.model_copy(update={"clip_norm": norm})
    samples = encode_samples(lm, COHORT["text"].array, 32)
    engine = ClippedSteps(lm, samples, COHORT["patient_id"].to_numpy(dtype=object), clipping, privacy)
    engine.gradient(1, lambda: None, lambda stats: None)
    flat = torch.cat([one.grad.flatten() for one in lm.model.parameters() if one.grad is not None])
    engine.close()
    ours = found.clipped(norm, np.ones(len(found), dtype=bool))
    assert ours.length / found.expected == pytest.approx(float(flat.norm()), rel=2e-3)
    assert ours.clipped == (found.norms > norm).sum()


def test_inner_products_are_those_of_naive_gradients():
    """Independent of the batches: each note's mean token loss by torch's own cross-entropy, alone."""
    lm = language_model("gpt2")
    found = first_step(lm, COHORT, spec(), PrivacySpec())
    texts = COHORT.set_index("note_id")["text"]
    rows = []
    for note, patient in zip(found.notes, found.patients, strict=True):
        assert COHORT.set_index("note_id").loc[note, "patient_id"] == patient
        ids = torch.from_numpy(encode_samples(lm, [texts[note]], 32).ids[0])[None]
        lm.model.zero_grad()
        lm.model(input_ids=ids, labels=ids).loss.backward()
        rows.append(torch.cat([one.grad.flatten() for one in lm.model.parameters()]).numpy())
    naive = np.stack(rows).astype(np.float64)
    assert found.parameters == naive.shape[1]
    expected = naive @ naive.T
    np.testing.assert_allclose(found.norms, np.linalg.norm(naive, axis=1), rtol=1e-4)
    np.testing.assert_allclose(found.gram, expected, atol=2e-3 * expected.max())


def gradients(matrix: np.ndarray) -> StepGradients:
    names = tuple(f"n{row}" for row in range(len(matrix)))
    return StepGradients(names, names, matrix @ matrix.T, matrix.shape[1], 4.0, len(matrix))


matrices = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).normal(size=(6, 9)))


@given(matrices, st.floats(0.01, 10.0), st.lists(st.booleans(), min_size=6, max_size=6))
def test_any_clipping_and_choice_follow_from_the_inner_products(matrix, norm, wanted):
    chosen = np.array(wanted)
    found = gradients(matrix).clipped(norm, chosen)
    lengths = np.linalg.norm(matrix, axis=1)
    summed = (matrix * np.minimum(1.0, norm / lengths)[:, None])[chosen].sum(0)
    assert found.length == pytest.approx(np.linalg.norm(summed), abs=1e-6)
    without = chosen & (np.arange(6) != 0)
    moved = gradients(matrix).clipped(norm, chosen).place - gradients(matrix).clipped(norm, without).place
    assert np.linalg.norm(moved) <= norm * (1 + 1e-9), "one unit moves the sum by at most C, also in the picture"


@given(matrices)
def test_places_are_the_two_principal_components(matrix):
    """By another road: the singular value decomposition of the gradients themselves."""
    found = gradients(matrix)
    left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    np.testing.assert_allclose(np.abs(found.places), np.abs(left[:, :2] * values[:2]), atol=1e-6)
    assert found.explained == pytest.approx((values[:2] ** 2).sum() / (values**2).sum())


def test_it_is_stored_and_read_again(tmp_path: Path):
    before = gradients(np.random.default_rng(0).normal(size=(5, 8)))
    before.save(tmp_path / "step.safetensors", private=False)
    after = StepGradients.load(tmp_path / "step.safetensors")
    assert (after.notes, after.patients, len(after)) == (before.notes, before.patients, 5)
    assert (after.parameters, after.expected, after.sampled) == (8, 4.0, 5)
    np.testing.assert_allclose(after.gram, before.gram, rtol=1e-6)
    with pytest.raises(FileNotFoundError):
        StepGradients.load(tmp_path / "none.safetensors")


def test_of_a_large_sample_some_units_are_drawn_and_progress_is_told():
    told = []
    lm = language_model("gpt2")
    few = first_step(lm, COHORT, spec(), PrivacySpec(), most=4, on_progress=lambda *done: told.append(done))
    every = first_step(lm, COHORT, spec(), PrivacySpec())
    assert len(few) == 4 and few.sampled == every.sampled == len(every) > 4
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    same = [every.notes.index(note) for note in few.notes]
    np.testing.assert_allclose(few.gram, every.gram[np.ix_(same, same)], rtol=1e-6)


def test_a_step_that_samples_nothing_says_so():
    """With one note of 24 expected, a third of all seeds sample none in the first step."""
    empty = 0
    for seed in range(12):
        try:
            assert len(first_step(language_model("gpt2"), COHORT, spec(batch_size=1, seed=seed), PrivacySpec())) > 0
        except ValueError as error:
            assert "sampled no notes: raise its batch size" in str(error)
            empty += 1
    assert 0 < empty < 12


def test_only_what_is_trained_has_a_gradient():
    lm = language_model("gpt2")
    frozen = first_step(lm, COHORT, spec(trainable="no-embeddings"), PrivacySpec(), most=3)
    every = first_step(lm, COHORT, spec(), PrivacySpec(), most=3)
    tables = sum(one.weight.numel() for one in lm.model.modules() if isinstance(one, torch.nn.Embedding))
    assert frozen.parameters == every.parameters - tables and (frozen.norms < every.norms).all()


def test_a_model_whose_gradients_do_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("core.training.inside_step.MOST_BYTES", 1_000)
    with pytest.raises(ValueError, match="do not fit into memory"):
        first_step(language_model("gpt2"), COHORT, spec(), PrivacySpec())


@pytest.mark.parametrize("private", [True, False])
def test_inner_products_of_real_notes_are_for_their_owner_alone(tmp_path, private):
    found = StepGradients(("n1", "n2"), ("p1", "p2"), np.eye(2), 10, 2.0, 2)
    tmp_path.chmod(0o755)
    before = os.umask(0o022)
    try:
        found.save(tmp_path / "step", private=private)
    finally:
        os.umask(before)
    assert (stat.S_IMODE((tmp_path / "step").stat().st_mode) == 0o600) is private
    assert StepGradients.load(tmp_path / "step").patients == ("p1", "p2")
