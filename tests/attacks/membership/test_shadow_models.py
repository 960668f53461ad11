"""LiRA: naive oracles, known answers, and what it says where there is nothing to find."""

from __future__ import annotations

import math

import numpy as np
import pytest

from core.attacks.membership.reference import POPULATION, SHADOWS, reference_notes
from core.attacks.membership.shadow_models import (
    ACCUSED,
    BLOCK,
    LEAST,
    caught_patients,
    left_out,
    likelihood_ratios,
    logit,
    ratios_of_each,
)
from core.attacks.membership.shadow_scores import ShadowScores
from core.attacks.registry import NotPossible
from core.evaluation.stats.roc import roc
from tests.attacks.membership.test_membership_attacks import target
from tests.tiny_models import tiny

PATIENTS = [f"P{number:03d}" for number in range(43)]


def drawn(models: int, notes: int, *, effect: float, seed: int = 0, spread: float = 1.0) -> ShadowScores:
    """Models over notes of differing difficulty; reading a note raises its log-odds by `effect`."""
    rng = np.random.default_rng(seed)
    inside = np.stack([rng.permutation(models) < 0.7 * models for _ in range(notes)], axis=1)
    odds = rng.normal(-1.0, spread, notes) + rng.normal(0, 0.2, (models, notes)) + effect * inside
    return ShadowScores(-np.log1p(np.exp(-odds)), inside)


def naive(own: np.ndarray, shadows: ShadowScores) -> list[float]:
    """Note by note, with loops."""

    def phi(value: float) -> float:
        return math.log(math.exp(value) / (1 - math.exp(value)))

    means: dict[bool, list[float]] = {True: [], False: []}
    squares, free = {True: 0.0, False: 0.0}, {True: 0, False: 0}
    for note in range(shadows.likelihoods.shape[1]):
        for side in (True, False):
            values = [phi(row[note]) for row, read in zip(*vars(shadows).values(), strict=True) if read[note] == side]
            mean = sum(values) / len(values)
            means[side].append(mean)
            squares[side] += sum((value - mean) ** 2 for value in values)
            free[side] += len(values) - 1
    found = []
    for note, value in enumerate(own):
        density = {}
        for side in (True, False):
            variance = squares[side] / free[side]
            exponent = -((phi(value) - means[side][note]) ** 2) / (2 * variance)
            density[side] = math.log(math.exp(exponent) / math.sqrt(2 * math.pi * variance))
        found.append(density[True] - density[False])
    return found


def test_each_patient_is_left_out_equally_often_and_no_model_depends_on_how_many_there_are():
    counts = dict.fromkeys(PATIENTS, 0)
    for number in range(2 * BLOCK):
        out = left_out(PATIENTS, 5, number)
        assert out == left_out(list(reversed(PATIENTS)), 5, number)
        assert len(out) == pytest.approx(0.3 * len(PATIENTS), abs=3)
        for patient in out:
            counts[patient] += 1
    assert set(counts.values()) == {6}
    assert left_out(PATIENTS, 5, 0) != left_out(PATIENTS, 6, 0) != left_out(PATIENTS, 6, BLOCK)


def test_the_logit_has_known_values():
    found = logit(np.log(np.array([0.5, 0.75, 1.0])))
    assert found[:2] == pytest.approx([0.0, math.log(3.0)]) and np.isfinite(found[2]) and found[2] > 20


def test_ratios_are_those_of_two_normal_densities():
    shadows = drawn(12, 7, effect=0.5)
    own = drawn(1, 7, effect=0.5, seed=9).likelihoods[0]
    assert likelihood_ratios(own, shadows) == pytest.approx(naive(own, shadows))


def test_each_model_is_attacked_by_all_the_others():
    shadows = drawn(14, 5, effect=0.3)
    found = ratios_of_each(shadows)
    for model in range(14):
        rest = ShadowScores(np.delete(shadows.likelihoods, model, 0), np.delete(shadows.inside, model, 0))
        assert found[model] == pytest.approx(naive(shadows.likelihoods[model], rest))


def test_it_sees_what_the_difficulty_of_notes_hides():
    notes, shadows = 600, drawn(24, 600, effect=0.4, spread=2.0)
    target = ShadowScores(shadows.likelihoods[:1], shadows.inside[:1])
    rest = ShadowScores(shadows.likelihoods[1:], shadows.inside[1:])
    member, own = target.inside[0], target.likelihoods[0]
    by_loss = roc(own[member], own[~member]).auc
    ratios = likelihood_ratios(own, rest)
    assert by_loss < 0.6 and roc(ratios[member], ratios[~member]).auc > 0.85 and len(ratios) == notes


def test_models_that_did_not_learn_give_nothing_away():
    shadows = drawn(24, 900, effect=0.0)
    ratios = ratios_of_each(shadows)
    auc = np.mean([roc(row[read], row[~read]).auc for row, read in zip(ratios, shadows.inside, strict=True)])
    assert auc == pytest.approx(0.5, abs=0.02)
    found = caught_patients([f"P{note // 3}" for note in range(900)], _by_patient(shadows))
    assert found["caught"].sum() / found["read"].sum() == pytest.approx(ACCUSED, abs=0.01)


def _by_patient(shadows: ShadowScores) -> ShadowScores:
    """All three notes of a patient are read by the same models."""
    return ShadowScores(shadows.likelihoods, np.repeat(shadows.inside[:, ::3], 3, axis=1))


def test_patients_are_counted_over_all_models():
    rng = np.random.default_rng(3)
    people, models = 40, 20
    inside = np.repeat(np.stack([rng.permutation(models) < 14 for _ in range(people)], axis=1), 2, axis=1)
    odds = rng.normal(-1, 0.1, (models, 2 * people))
    odds[:, :2] += 6 * inside[:, :2]  # the first patient is certain to be caught
    found = caught_patients([f"P{note // 2:02d}" for note in range(2 * people)], ShadowScores(_log(odds), inside))
    assert found["patient_id"].tolist() == sorted(found["patient_id"]) and len(found) == people
    first = found.iloc[0]
    assert first["caught"] == first["read"] == inside[:, 0].sum() and first["accused"] == 0
    assert (found["read"] + found["unread"] == models).all() and (found["accused"] <= found["unread"]).all()
    assert found["accused"].sum() <= ACCUSED * found["unread"].sum()


def _log(odds: np.ndarray) -> np.ndarray:
    return -np.log1p(np.exp(-odds))


def test_too_few_models_and_notes_that_everybody_read_are_refused():
    with pytest.raises(NotPossible, match=f"at least {LEAST}"):
        likelihood_ratios(np.full(4, -1.0), drawn(LEAST - 1, 4, effect=0.1))
    every = ShadowScores(np.full((12, 2), -1.0), np.ones((12, 2), dtype=bool))
    with pytest.raises(NotPossible, match="read it"):
        likelihood_ratios(np.full(2, -1.0), every)


def test_every_shadow_reads_its_own_half_of_the_reference_patients():
    one = target("gpt2", {"target": tiny("gpt2", seed=3)})
    read = {role: frozenset(reference_notes(one, role)["patient_id"]) for role in (POPULATION, *SHADOWS)}
    assert len(set(read.values())) == 3
    assert all(len(read[role]) == len(read[POPULATION]) // 2 for role in SHADOWS)
