from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.evaluation.memorisation import predictors
from core.evaluation.memorisation.predictors import (
    FEATURE_SETS,
    PREDICTOR_COLUMNS,
    memorised_notes,
    predict_memorised,
    unseen_log_odds,
)


def test_at_most_ten_percent_of_the_others_are_called_memorised_and_ties_are_not():
    others = np.arange(20.0)
    assert memorised_notes([17.0, 17.5, 18.0], others).tolist() == [False, True, True]
    assert memorised_notes(others, others).mean() <= 0.10
    assert not memorised_notes(np.zeros(5), np.zeros(20)).any()
    for size in (1, 9, 10, 37):
        drawn = np.random.default_rng(size).normal(size=size)
        assert memorised_notes(drawn, drawn).sum() == size // 10
    with pytest.raises(ValueError, match="non-members"):
        memorised_notes([1.0], [])


def cohort(rng: np.random.Generator, notes: int = 600) -> tuple[pd.DataFrame, np.ndarray]:
    names = ["digits", "tokens", "others", "rarest", "second_rarest", "third_rarest"]
    table = pd.DataFrame(rng.normal(10, 3, (notes, 6)), columns=names)
    return table, np.array([f"P{n // 4}" for n in range(notes)])


def test_a_feature_that_decides_is_found_and_others_are_not():
    rng = np.random.default_rng(0)
    table, patients = cohort(rng)
    memorised = table["others"] + rng.normal(0, 0.5, len(table)) > 10
    found = predict_memorised(table, memorised, patients, resamples=100).set_index(["features", "half"])
    assert list(found.reset_index().columns) == list(PREDICTOR_COLUMNS)
    assert set(found.index.get_level_values(0)) == set(FEATURE_SETS)
    alone = found.loc[("C: other characters", "judged")]
    assert alone["precision"] > 0.9 and alone["recall"] > 0.9
    assert alone["precision_low"] < alone["precision"] < alone["precision_high"]
    assert found.loc[("A: digits", "judged"), "precision"] < 0.65
    assert found.loc[("C and D", "judged"), "recall"] > 0.9


def test_features_that_say_nothing_predict_no_better_than_calling_all_memorised(monkeypatch):
    """40 seeds of labels drawn at random: the share of memorised notes lies in the precision's interval."""
    monkeypatch.setattr(predictors, "FEATURE_SETS", {"A, B, C and D": FEATURE_SETS["A, B, C and D"]})
    missed = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        table, patients = cohort(rng)
        found = predict_memorised(table, rng.random(len(table)) < 0.6, patients, seed=seed, resamples=60)
        row = found[(found["features"] == "A, B, C and D") & (found["half"] == "judged")].iloc[0]
        missed += not row["precision_low"] <= row["memorised"] <= row["precision_high"]
    assert missed <= stats.binom.ppf(0.999, 40, 0.05)


def test_no_patient_is_in_both_halves_and_a_rare_class_is_never_called():
    rng = np.random.default_rng(3)
    table, patients = cohort(rng)
    found = predict_memorised(table, rng.random(len(table)) < 0.1, patients, resamples=20)
    halves = found.drop_duplicates("half").set_index("half")
    assert halves["patients"].sum() == len(set(patients)) and halves["notes"].sum() == len(table)
    row = found[(found["features"] == "A: digits") & (found["half"] == "judged")].iloc[0]
    assert np.isnan(row["precision"]) and row["recall"] == 0, "as the paper's table 7 has it for (A) and (B)"


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_all_or_nothing_is_no_question(share):
    table, patients = cohort(np.random.default_rng(0), 40)
    with pytest.raises(ValueError, match="too few, or all of them"):
        predict_memorised(table, np.full(40, bool(share)), patients)


def test_log_odds_rank_unseen_notes_by_a_single_feature_in_the_direction_that_was_fitted():
    rng = np.random.default_rng(4)
    table, patients = cohort(rng)
    memorised = table["tokens"] + rng.normal(0, 2, len(table)) < 9  # the fewer tokens, the likelier
    odds, judged = unseen_log_odds(table, memorised, patients, "B: length", seed=2)
    assert not set(patients[judged]) & set(patients[~judged]) and 0 < judged.sum() < len(table)
    assert stats.spearmanr(odds, -table["tokens"][judged]).statistic == pytest.approx(1)
    row = predict_memorised(table, memorised, patients, seed=2, resamples=20).set_index(["features", "half"])
    said, truth = odds > 0, memorised.to_numpy()[judged]
    assert row.loc[("B: length", "judged"), "precision"] == pytest.approx(truth[said].mean())
    assert row.loc[("B: length", "judged"), "recall"] == pytest.approx(said[truth].mean())


def test_the_half_that_is_judged_teaches_nothing():
    features, patients = cohort(np.random.default_rng(0), 200)
    memorised = features["others"].to_numpy() > 10
    before, judged = unseen_log_odds(features, memorised, patients, "C: other characters")
    after, _ = unseen_log_odds(features, np.where(judged, ~memorised, memorised), patients, "C: other characters")
    np.testing.assert_array_equal(before, after)
