"""Standings, costs and the likelihood ratio against retrained models, on numbers whose answer is known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from core.evaluation.forgetting import costs, likelihood_ratios, odd_one_out, shares, standings, told_apart
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.boundary_intervals import auc_interval


def notes(own, others, arm="original", nats=2.0):
    """A note for the patient of each gain in `own`, and one for each never-seen patient."""
    rows = [(arm, f"n{place}", "P", True, 10, nats, gain) for place, gain in enumerate(own)]
    rows += [(arm, f"h{place}", f"H{place}", False, 10, nats, gain) for place, gain in enumerate(others)]
    return pd.DataFrame(rows, columns=["arm", "note_id", "patient_id", "forgotten", "tokens", "nats", "gain"])


def test_the_place_is_the_share_of_patients_below_with_ties_half():
    found = standings(notes([1.0, 3.0], [0.0, 1.0, 2.0, 5.0])).iloc[0]
    assert found["gain"] == 2.0
    assert found["percentile"] == (2 + 0.5) / 4
    assert (found["at_least"], found["never_seen"], found["mean"]) == (2, 4, 2.0)
    assert 0 < found["low"] < found["percentile"] < found["high"] < 1


def test_a_patient_never_read_stands_anywhere():
    """Null: with the patient's gain drawn as everybody's, the place is uniform: mean ½, a tenth below 0.1."""
    rng = np.random.default_rng(14)
    places = [standings(notes([rng.normal()], rng.normal(size=60)))["percentile"].iloc[0] for _ in range(400)]
    assert np.mean(places) == pytest.approx(0.5, abs=0.05)
    assert np.mean(np.array(places) < 0.1) == pytest.approx(0.1, abs=0.05)
    assert np.mean(np.array(places) > 0.9) == pytest.approx(0.1, abs=0.05)


def test_perplexity_is_that_of_held_out_notes_alone():
    found = costs(notes([9.0], [0.0, 0.0, 0.0], nats=10 * np.log(3.0)), resamples=20).iloc[0]
    assert found["perplexity"] == pytest.approx(3.0) and found["low"] == pytest.approx(3.0)


def test_shares_have_their_denominators():
    row = {
        "texts": 700,
        "patient_texts": 7,
        "never_seen": 100,
        "never_seen_written": 0,
        "others": 0,
        "others_leaked": 0,
    }
    found = shares(row)
    assert found["patient"].value == 0.01 and found["never_seen"].low == 0.0 and np.isnan(found["others"].value)
    unknown = shares(row | {"patient_texts": None})["patient"]
    assert np.isnan([unknown.value, unknown.low]).all(), "nothing of this patient could be found in a text"


def models(shift, *, seeds=6, patients=12, spread=0.1, rng=None):
    """Gains of `patients` on 3 notes each, under models that never read them and models that unlearned them."""
    rng = rng or np.random.default_rng(0)
    rows = []
    for patient in range(patients):
        for note in range(3):
            middle = rng.normal()  # a note's own difficulty: larger than what tells the models apart
            for seed in range(seeds):
                for unlearned in (False, True):
                    gain = middle + shift * unlearned * (-1) ** note + rng.normal(scale=spread)
                    rows.append((f"P{patient}", f"{patient}-{note}", seed, unlearned, gain))
    return pd.DataFrame(rows, columns=["patient_id", "note_id", "seed", "unlearned", "gain"])


def test_what_an_average_hides_is_found():
    """The shift is up on one note and down on the next, so a patient's mean hardly moves; the test sees each note."""
    gains = models(0.5)
    mean = gains.groupby("unlearned")["gain"].mean()
    assert mean[True] - mean[False] == pytest.approx(0.5 / 3, abs=0.05)
    found = told_apart(likelihood_ratios(gains))
    assert found.value > 0.99 and found.low > 0.8  # twelve patients, all pairs in order: Newcombe's lower end is .83


def test_seven_patients_in_order_are_no_certainty():
    """All pairs in order: every resample has them in order, too, so the interval is that of seven against seven."""
    found = told_apart(likelihood_ratios(models(20.0, patients=7)))
    expected = auc_interval(Interval(1.0, 1.0, 1.0), 7, 7)
    assert (found.value, found.high) == (1.0, 1.0) and found.low == expected.low < 0.8


def test_models_that_are_alike_are_not_told_apart():
    """Null: over many sets of models without a difference, the mean is ½, and 95 % intervals hold it."""
    rng = np.random.default_rng(5)
    found = [told_apart(likelihood_ratios(models(0.0, rng=rng)), resamples=200) for _ in range(60)]
    assert np.mean([one.value for one in found]) == pytest.approx(0.5, abs=0.04)
    assert np.mean([one.low <= 0.5 <= one.high for one in found]) >= 0.85


def test_the_score_is_the_naive_log_ratio():
    """Oracle: one patient with one note, three seeds; the fits leave the judged seed out."""
    never, after = [0.0, 1.0, 2.0], [5.0, 7.0, 6.0]
    rows = [
        ("P", "n", seed, kind, values[seed]) for kind, values in ((False, never), (True, after)) for seed in range(3)
    ]
    found = likelihood_ratios(pd.DataFrame(rows, columns=["patient_id", "note_id", "seed", "unlearned", "gain"]))

    def log_normal(value, fitted):
        mean, spread = np.mean(fitted), np.std(fitted, ddof=1)
        return -0.5 * ((value - mean) / spread) ** 2 - np.log(spread)

    expected = log_normal(0.0, after[1:]) - log_normal(0.0, never[1:])
    row = found[(found["seed"] == 0) & ~found["unlearned"]].iloc[0]
    assert row["score"] == pytest.approx(expected)


def test_too_few_models_are_refused():
    with pytest.raises(ValueError, match="at least three seeds"):
        likelihood_ratios(models(0.1, seeds=2))
    with pytest.raises(ValueError, match="from two models a seed"):
        likelihood_ratios(models(0.1).iloc[1:])


def gains(rng, shift=0.0, patients=300):
    rows = [(f"P{patient}", f"n{note}", rng.normal() + shift) for patient in range(patients) for note in range(3)]
    return pd.DataFrame(rows, columns=["patient_id", "note_id", "gain"])


def test_the_odd_one_of_three_alike_is_each_in_a_third():
    rng = np.random.default_rng(3)
    found = odd_one_out(gains(rng), (gains(rng), gains(rng)))
    assert len(found) == 300 and found.mean() == pytest.approx(1 / 3, abs=0.08)
    assert odd_one_out(gains(rng, 9.0), (gains(rng), gains(rng))).all()


def test_the_odd_one_by_hand():
    """P: 0 and 1 are the close pair, so 5 is odd. Q: 0 and 0.5 are, so 3, which never read Q, is odd."""

    def one(p, q):
        return pd.DataFrame({"patient_id": ["P", "Q"], "note_id": ["a", "b"], "gain": [p, q]})

    found = odd_one_out(one(5.0, 0.5), (one(0.0, 0.0), one(1.0, 3.0)))
    assert found["P"] and not found["Q"]
