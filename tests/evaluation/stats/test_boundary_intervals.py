"""Intervals at the end of a range, where resampling sees no spread."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from core.evaluation.membership.curve import curve
from core.evaluation.membership.strongest_attack import strongest
from core.evaluation.membership.summary import figures
from core.evaluation.membership.units import units
from core.evaluation.memorisation.predictors import predict_memorised
from core.evaluation.stats.bootstrap import Interval
from core.evaluation.stats.boundary_intervals import (
    auc_interval,
    bits_interval,
    difference_interval,
    mean_within,
    share_interval,
)
from core.evaluation.stats.intervals import proportion_interval


def scored(members: int, others: int, gap: float) -> pd.DataFrame:
    """Two notes a patient; members' scores are 0 … 1 above `gap`, others' 0 … 1."""
    rows = []
    for number in range(members + others):
        split = "member" if number < members else "heldout"
        for note in range(2):
            score = (number * 7 + note * 3) % 10 / 10 + (gap if split == "member" else 0.0)
            rows.append((f"n{number}-{note}", f"a{number}", f"p{number}", split, 20, split == "member", score))
    names = ["note_id", "admission_id", "patient_id", "split", "tokens", "member", "score"]
    return pd.DataFrame(rows, columns=names)


def test_newcombes_interval_by_hand():
    """8 members all above 7 others: the lower end solves (1 − θ)² = z²·var(θ), and the mirror image at 0."""
    found = auc_interval(Interval(1.0, 1.0, 1.0), 8, 7)
    theta, rest = found.low, (8 + 7) / 2 - 1
    q1, q2 = theta / (2 - theta), 2 * theta**2 / (1 + theta)  # Hanley & McNeil 1982, both n − 1 replaced by N
    variance = (theta * (1 - theta) + rest * (q1 - theta**2) + rest * (q2 - theta**2)) / (8 * 7)
    assert (1 - theta) ** 2 == pytest.approx(stats.norm.isf(0.025) ** 2 * variance)
    assert found.high == 1.0 and 0.7 < theta < 0.8
    mirror = auc_interval(Interval(0.0, 0.0, 0.0), 8, 7)
    assert (mirror.low, mirror.high) == (0.0, pytest.approx(1 - theta))


def test_equal_scores_of_everybody_give_no_interval():
    """An AUC of .5 to .5 would be certain to be below any limit."""
    same = scored(8, 7, 0.0).assign(score=0.0)
    (auc,) = [one for one in figures(units(same, "patient"), own=None, resamples=200, seed=0) if one.metric == "auc"]
    assert auc.value == 0.5 and math.isnan(auc.low) and math.isnan(auc.high)
    strong = strongest(same.assign(attack="constant"), "auc")
    assert strong is not None and math.isnan(strong.interval.low)


@pytest.mark.parametrize(("members", "others"), [(8, 7), (17, 7)])
def test_an_auc_below_the_interval_seldom_orders_all_pairs_right(members, others):
    """Normal scores of the AUC at the lower end: all pairs in order in at most 2.5 % of cases."""
    low = auc_interval(Interval(1.0, 1.0, 1.0), members, others).low
    rng = np.random.default_rng(1)
    shift = math.sqrt(2) * stats.norm.ppf(low)
    worst_member = rng.normal(shift, 1, (20_000, members)).min(axis=1)
    assert (worst_member > rng.normal(0, 1, (20_000, others)).max(axis=1)).mean() <= 0.025


def test_only_figures_without_spread_are_changed():
    inside, none = Interval(0.3, 0.2, 0.4), Interval(1.0, math.nan, math.nan)
    assert share_interval(inside, 50) == inside and auc_interval(inside, 5, 5) == inside
    assert math.isnan(share_interval(none, 50).low) and math.isnan(auc_interval(none, 5, 1).low)
    assert share_interval(Interval(0.0, 0.0, 0.0), 129) == Interval(0.0, *proportion_interval(0, 129))
    assert share_interval(Interval(1.0, 1.0, 1.0), 3) == Interval(1.0, *proportion_interval(3, 3))
    alike = share_interval(Interval(0.5, 0.5, 0.5), 2)  # as of two texts that are both half right
    assert alike.value == 0.5 and math.isnan(alike.low) and math.isnan(alike.high)
    moved = difference_interval(inside, Interval(0.5, 0.4, 0.6), Interval(0.2, 0.1, 0.3))
    assert moved == inside


def test_a_difference_takes_the_spread_of_the_share_that_shows_none():
    """10 of 20 caught, 0 of 20 accused: Newcombe's (1998) method 10 by hand."""
    caught, accused = (Interval(k / 20, *proportion_interval(k, 20)) for k in (10, 0))
    found = difference_interval(Interval(0.5, caught.low, caught.high), caught, accused)
    assert found.low == pytest.approx(0.5 - math.hypot(0.5 - caught.low, accused.high))
    assert found.high == pytest.approx(caught.high)


def test_an_attack_that_is_always_right_still_has_intervals():
    judged = units(scored(9, 6, gap=2.0), "patient")
    found = {(one.rule, one.metric): one for one in figures(judged, own=1.5, resamples=50, seed=0)}
    auc = found["", "auc"]
    assert (auc.value, auc.high) == (1.0, 1.0)
    assert auc.low == pytest.approx(auc_interval(Interval(1.0, 1.0, 1.0), 9, 6).low)
    caught, accused = found["own", "true_positive_rate"], found["own", "false_positive_rate"]
    assert (caught.value, caught.low) == (1.0, pytest.approx(proportion_interval(9, 9)[0]))
    assert (accused.value, accused.high) == (0.0, pytest.approx(proportion_interval(0, 6)[1]))
    leaked, precision = found["own", "privacy_leakage"], found["own", "precision"]
    assert leaked.low == pytest.approx(1 - math.hypot(1 - caught.low, accused.high)) and leaked.high == 1.0
    assert (precision.value, precision.low) == (1.0, pytest.approx(proportion_interval(9, 9)[0]))


def test_notes_of_a_patient_are_one_trial():
    """18 notes of 9 patients all caught: the interval is that of 9."""
    judged = units(scored(9, 6, gap=2.0), "sample")
    caught = next(one for one in figures(judged, own=1.5, resamples=50, seed=0) if one.metric == "true_positive_rate")
    assert caught.low == pytest.approx(proportion_interval(9, 9)[0])


def test_the_band_of_a_perfect_curve_has_a_width_but_where_all_are_accused():
    found = curve(units(scored(9, 6, gap=2.0), "patient"), resamples=50, seed=0)
    inside = found[found["fpr"] < 1]
    assert (inside["tpr"] == 1).all() and (inside["low"] < 0.8).all()
    assert found.loc[found["fpr"] == 1, "low"].item() == 1.0


def test_a_rule_that_finds_nothing_has_a_recall_with_an_interval():
    table = pd.DataFrame(
        dict.fromkeys(["digits", "tokens", "others", "rarest", "second_rarest", "third_rarest"], np.zeros(40))
    )
    memorised = np.arange(40) % 5 == 0
    found = predict_memorised(table, memorised, [f"p{number // 2}" for number in range(40)], resamples=20)
    row = found[found["half"] == "judged"].iloc[0]
    assert row["recall"] == 0.0 and row["recall_high"] > 0.2 and math.isnan(row["precision"])


def test_canaries_that_all_rank_first_are_no_certainty():
    """Three of three first: at least 44 % of such canaries are, so the mean is at least 0.44 of the most."""
    most = math.log2(1000)
    found = bits_interval([most] * 3, most)
    assert (found.value, found.high) == (pytest.approx(most), most)
    assert found.low == pytest.approx(most * 3 / (3 + stats.norm.isf(0.025) ** 2))  # Wilson's lower end of n of n
    assert math.isnan(bits_interval([most], most).low)
    spread = bits_interval([most, most - 1], most)
    assert spread.high == most and spread.value == pytest.approx(most - 0.5)
    assert spread.low == pytest.approx(most - 0.5 - stats.t.ppf(0.975, 1) * 0.5)
    beyond = bits_interval([11.0, 12.0, 13.0], math.inf)
    half = stats.t.ppf(0.975, 2) / math.sqrt(3)
    assert (beyond.low, beyond.high) == (pytest.approx(12 - half), pytest.approx(12 + half))


@pytest.mark.parametrize("lost", [0.5, 1.0, math.log2(1000)])
def test_canaries_that_all_have_another_rank_are_no_certainty_either(lost):
    """Three of one rank: 44 % of such canaries have it, and the others anything from 0 bits to the most."""
    most = math.log2(1000)
    found, share = bits_interval([most - lost] * 3, most), 3 / (3 + stats.norm.isf(0.025) ** 2)
    assert found.value == pytest.approx(most - lost)
    assert found.low == pytest.approx(share * (most - lost)) and found.low <= found.value
    assert found.high == pytest.approx(share * (most - lost) + (1 - share) * most) and found.high > found.value
    alike = bits_interval([most - lost] * 3, math.inf)
    assert math.isnan(alike.low) and math.isnan(alike.high), "nothing bounds the others"


def test_differences_that_are_all_the_same_are_no_certainty():
    """Five of −2 in −10 … 10: 57 % of such pairs differ by −2, and the others by anything."""
    found, share = mean_within([-2.0] * 5, -10.0, 10.0), 5 / (5 + stats.norm.isf(0.025) ** 2)
    assert found.value == pytest.approx(-2.0)
    assert found.low == pytest.approx(share * -2.0 + (1 - share) * -10.0)
    assert found.high == pytest.approx(share * -2.0 + (1 - share) * 10.0)
    at_an_end = mean_within([-10.0] * 5, -10.0, 10.0)
    assert at_an_end.low == -10.0 and at_an_end.high == pytest.approx(share * -10.0 + (1 - share) * 10.0)


def test_thresholds_that_vary_widen_a_share_of_nought():

    assert share_interval(Interval(0.0, 0.0, 0.4), 50).high == 0.4
    assert share_interval(Interval(1.0, 0.3, 1.0), 50).low == 0.3
