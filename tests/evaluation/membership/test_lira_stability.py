"""LiRA with fewer, other and more shadow models: naive oracles, known answers, and null data."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from core.attacks.membership.shadow_models import likelihood_ratios, ratios_where_possible
from core.attacks.membership.shadow_scores import ShadowScores
from core.evaluation.membership import lira_stability
from core.evaluation.membership.lira_stability import (
    HALF_COLUMNS,
    NUMBER_COLUMNS,
    SEED_COLUMNS,
    _rank_correlations,
    stability,
    stability_sentences,
)

PATIENTS, NOTES_EACH = 60, 2


def cohort() -> pd.DataFrame:
    """60 patients of two notes each, two thirds of them members."""
    patient = np.repeat(np.arange(PATIENTS), NOTES_EACH)
    return pd.DataFrame(
        {
            "note_id": [f"N{number}" for number in range(len(patient))],
            "admission_id": [f"A{number}" for number in patient],
            "patient_id": [f"P{number:02d}" for number in patient],
            "split": np.where(patient < 40, "member", "heldout"),
            "tokens": 10,
        }
    )


def drawn(models: int, *, effect: float, seed: int = 0, noise: float = 0.3) -> tuple[ShadowScores, np.ndarray]:
    """Shadow models that read 7 of 10 patients, and the log-likelihoods of a target that read the members."""
    rng, notes = np.random.default_rng(seed), cohort()
    read = np.stack([rng.permutation(models) < round(0.7 * models) for _ in range(PATIENTS)], axis=1)
    inside = np.repeat(read, NOTES_EACH, axis=1)
    difficulty = rng.normal(-1, 1, len(notes))
    odds = difficulty + rng.normal(0, noise, inside.shape) + effect * inside
    own = difficulty + rng.normal(0, noise, len(notes)) + effect * (notes["split"] == "member").to_numpy()
    return ShadowScores(-np.log1p(np.exp(-odds)), inside), -np.log1p(np.exp(-own))


def asked(shadows: ShadowScores, own: np.ndarray, **others: np.ndarray) -> lira_stability.Stability:
    runs = {"r": (0, own)} | {name: (number, one) for number, (name, one) in enumerate(others.items(), start=1)}
    return stability(cohort(), runs, shadows, resamples=40)


def auc_of(score: dict[str, float]) -> float:
    """By pairs."""
    members = [value for patient, value in score.items() if int(patient[1:]) < 40]
    others = [value for patient, value in score.items() if int(patient[1:]) >= 40]
    return float(np.mean([(a > b) + 0.5 * (a == b) for a in members for b in others]))


def by_patient(scores: np.ndarray) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for patient, value in zip(cohort()["patient_id"], scores, strict=True):
        if not math.isnan(value):
            found.setdefault(patient, []).append(float(value))
    return {patient: sum(values) / len(values) for patient, values in found.items()}


def test_with_all_models_it_is_the_attack_itself():
    shadows, own = drawn(12, effect=0.4)
    assert ratios_where_possible(own, shadows) == pytest.approx(likelihood_ratios(own, shadows))
    found = asked(shadows, own)
    every = found.by_number[(found.by_number["models"] == 12) & (found.by_number["level"] == "patient")].iloc[0]
    assert every["auc"] == pytest.approx(auc_of(by_patient(likelihood_ratios(own, shadows))))
    assert (every["subsets"], every["judged"]) == (1, 1.0) and every["auc_low"] == every["auc_high"] == every["auc"]
    seeds = found.by_seed[found.by_seed["level"] == "patient"].iloc[0]
    assert seeds["auc"] == pytest.approx(every["auc"]) and seeds["caught"] == every["caught"]


def test_subsets_are_those_of_loops():
    """Five models, so every subset is tried: means over them, patient by patient and pair by pair."""
    shadows, own = drawn(5, effect=0.4)
    found = asked(shadows, own).by_number
    assert found["models"].unique().tolist() == [2, 4, 5]
    for number in (2, 4):
        expected = []
        for chosen in combinations(range(5), number):
            few = ShadowScores(shadows.likelihoods[list(chosen)], shadows.inside[list(chosen)])
            scores = ratios_where_possible(own, few)
            read = few.inside.sum(axis=0)
            assert (np.isnan(scores) == ((read == 0) | (read == number))).all()
            expected.append(auc_of(by_patient(scores)))
        row = found[(found["models"] == number) & (found["level"] == "patient")].iloc[0]
        assert row["subsets"] == math.comb(5, number) and row["auc"] == pytest.approx(np.mean(expected))
        assert row["auc_low"] == pytest.approx(np.quantile(expected, 0.025))


def test_two_models_compare_distances():
    """One model that read a note and one that did not: no variance is known, so the nearer of both decides."""
    inside = np.array([[True, False], [False, True]])
    shadows = ShadowScores(np.log([[0.8, 0.2], [0.3, 0.7]]), inside)
    scores = ratios_where_possible(np.log([0.7, 0.25]), shadows)

    def phi(p: float) -> float:
        return math.log(p / (1 - p))

    first = ((phi(0.7) - phi(0.3)) ** 2 - (phi(0.7) - phi(0.8)) ** 2) / 2
    second = ((phi(0.25) - phi(0.2)) ** 2 - (phi(0.25) - phi(0.7)) ** 2) / 2
    assert scores == pytest.approx([first, second]) and scores[0] > 0 > scores[1]


def test_halves_agree_where_models_do_and_not_where_they_are_noise():
    """Known answers: without noise between models both halves rank alike; of models without effect they do not."""
    shadows, own = drawn(24, effect=1.0, noise=0.02)
    alike = asked(shadows, own + np.random.default_rng(5).normal(0, 0.05, len(own))).by_halves
    assert alike["group"].tolist() == ["member", "heldout"] and (alike["models"] == 12).all()
    assert (alike["rho"] > 0.8).all() and (alike["low"] <= alike["rho"]).all()
    null = pd.concat([asked(*drawn(24, effect=0.0, seed=seed)).by_halves for seed in range(6)])
    assert abs(null["rho"].mean()) < 0.25


def test_other_seeds_are_attacked_by_the_same_models():
    shadows, own = drawn(12, effect=0.8)
    rng = np.random.default_rng(7)
    found = asked(shadows, own, same=own, blind=rng.permutation(own)).by_seed
    people = found[found["level"] == "patient"].set_index("run")
    assert list(people.index) == ["r", "same", "blind"] and people["seed"].tolist() == [0, 1, 2]
    assert math.isnan(people.loc["r", "rho_member"]) and people.loc["same", "rho_member"] == pytest.approx(1.0)
    assert people.loc["same", "auc"] == people.loc["r", "auc"] > 0.9
    assert people.loc["blind", "auc"] < people.loc["r", "auc"] and (people["low"] <= people["auc"]).all()
    assert (people["accused"] <= 0.01).all()


def test_models_that_learned_nothing_find_nothing_at_any_number():
    found = pd.concat([asked(*drawn(10, effect=0.0, seed=seed)).by_number for seed in range(8)])
    means = found[found["level"] == "patient"].groupby("models")["auc"].mean()
    assert (abs(means - 0.5) < 0.08).all(), means


@pytest.mark.parametrize("models", [2, 3, 7, 64])
def test_any_number_of_models_gives_finite_figures(models):
    found = asked(*drawn(models, effect=0.5))
    assert found.models == models and found.by_number["models"].max() == models
    assert list(found.by_number.columns) == list(NUMBER_COLUMNS) and list(found.by_seed.columns) == list(SEED_COLUMNS)
    assert list(found.by_halves.columns) == list(HALF_COLUMNS) and len(found.by_halves) == (2 if models >= 4 else 0)
    assert np.isfinite(found.by_number.select_dtypes("number")).all().all()
    assert (found.by_number["subsets"] <= lira_stability.SUBSETS).all()
    assert all(len(sentence.split()) > 5 for sentence in stability_sentences(found))


def test_sentences_have_the_figures_of_the_tables():
    found = asked(*drawn(10, effect=0.5), same=drawn(10, effect=0.5)[1])
    said = " ".join(stability_sentences(found))
    row = found.by_number[(found.by_number["models"] == 2) & (found.by_number["level"] == "note")].iloc[0]
    assert f"By note: AUC {row['auc']:.3f} with 2 shadow models" in said and "with all 10." in said
    assert "Two attacks, each with its own 5 shadow models, rank" in said and "(seed 1)" in said


def test_members_and_others_are_correlated_apart():
    member = np.arange(8) < 4
    one = np.array([1.0, 2, 3, 4, 11, 12, 13, 14])
    other = np.array([1.0, 2, 3, 4, 14, 13, 12, 11])
    assert _rank_correlations(one, other, member) == {"member": pytest.approx(1.0), "heldout": pytest.approx(-1.0)}
