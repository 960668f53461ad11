"""Differences between membership attacks, against slow and obvious ones."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest

from core.evaluation.stats.bootstrap import Interval, patient_weights
from core.findings.measures import attacks
from core.findings.measures.attacks import Side, auc, caught_at, difference, leakage, mean_difference, single
from tests.findings.toy_scores import scores


def naive_auc(rows: pd.DataFrame, weight: dict[str, float]) -> float:
    """Over every pair of a member's and another's note, one by one."""
    sides = [rows[rows["split"] == split] for split in ("member", "heldout")]
    ours, theirs = (
        [(weight[one], score) for one, score in zip(s["patient_id"], s["score"], strict=True)] for s in sides
    )
    right = pairs = 0.0
    for (w, score), (v, other) in product(ours, theirs):
        right += w * v * ((score > other) + 0.5 * (score == other))
        pairs += w * v
    return right / pairs


def drawn_weights(rows: pd.DataFrame, resamples: int) -> list[dict[str, float]]:
    people = sorted(rows["patient_id"].unique())
    member = rows.groupby("patient_id")["split"].first().reindex(people) == "member"
    return [dict(zip(people, one, strict=True)) for one in patient_weights(member, resamples=resamples, seed=0)]


def test_the_difference_of_two_attacks_resamples_patients_for_both_together() -> None:
    one, other = scores(1.0), scores(0.3, seed=1)
    found = difference(Side(one, "ratio"), Side(other, "loss"), auc, resamples=40)
    everyone = dict.fromkeys(one["patient_id"], 1.0)
    assert found.value == pytest.approx(naive_auc(one, everyone) - naive_auc(other, everyone))
    drawn = [naive_auc(one, weight) - naive_auc(other, weight) for weight in drawn_weights(one, 40)]
    assert min(drawn) - 1e-9 <= found.low <= np.quantile(drawn, 0.1)
    assert np.quantile(drawn, 0.9) <= found.high <= max(drawn) + 1e-9


def test_a_mean_of_differences_has_the_same_patients_in_all_of_them() -> None:
    pairs = [(scores(1.0, seed=seed), scores(0.3, seed=seed + 10)) for seed in range(3)]
    sides = [(Side(one, "ratio"), Side(other, "loss")) for one, other in pairs]
    found = mean_difference(sides, auc, resamples=40)
    everyone = dict.fromkeys(pairs[0][0]["patient_id"], 1.0)

    def mean(weight: dict[str, float]) -> float:
        return float(np.mean([naive_auc(one, weight) - naive_auc(other, weight) for one, other in pairs]))

    drawn = [mean(weight) for weight in drawn_weights(pairs[0][0], 40)]
    assert found.value == pytest.approx(mean(everyone))
    assert min(drawn) - 1e-9 <= found.low <= np.quantile(drawn, 0.1)
    assert np.quantile(drawn, 0.9) <= found.high <= max(drawn) + 1e-9
    assert mean_difference(sides[:1], auc, resamples=40) == difference(*sides[0], auc, resamples=40)
    fewer = Side(scores(1.0, patients=9), "ratio"), Side(scores(0.3, patients=9), "loss")
    with pytest.raises(ValueError, match="different patients"):
        mean_difference([sides[0], fewer], auc, resamples=10)


@pytest.mark.parametrize(
    ("value", "low", "high", "near"),
    [(2.2, -0.2, 4.7, True), (2.2, 0.1, 4.7, True), (-1.0, -3.0, 0.2, True), (9.0, 5.0, 12.0, False)]
    + [(0.5, -2.0, 3.0, False), (-9.0, -12.0, -5.0, False), (0.0, 0.0, 0.0, False), (1.0, math.nan, math.nan, False)],
)
def test_a_difference_is_near_zero_where_an_end_may_lie_on_either_side_of_it(value, low, high, near) -> None:
    assert attacks._near_zero(Interval(value, low, high)) is near


def test_more_resamples_are_drawn_where_a_difference_is_near_zero() -> None:
    pairs = [
        (Side(scores(shift, seed=seed), "ratio"), Side(scores(0.3, seed=seed + 10), "loss"))
        for shift, seed in product((0.3, 1.0, 3.0), range(4))
    ]
    near = 0
    for pair in pairs:
        few, more = (difference(*pair, resamples=count) for count in (attacks.RESAMPLES, attacks.MORE))
        close = attacks._near_zero(few)
        near += close
        assert few.value == more.value and few != more and difference(*pair) == (more if close else few)
    assert 0 < near < len(pairs)


def test_an_attack_does_not_differ_from_itself() -> None:
    one = scores(1.0)
    for measure in (auc, leakage, caught_at(0.1)):
        found = difference(Side(one, "loss"), Side(one, "loss"), measure, resamples=20)
        assert (found.value, found.low, found.high) == (0.0, 0.0, 0.0)


def test_only_notes_that_both_attacks_scored_count() -> None:
    one, other = scores(1.0), scores(0.5, seed=1)
    fewer = other[other["note_id"] != "P1-0"]
    kept = one[one["note_id"] != "P1-0"]
    assert difference(Side(one, "ratio"), Side(fewer, "loss"), resamples=20) == difference(
        Side(kept, "ratio"), Side(fewer, "loss"), resamples=20
    )


def test_a_level_and_a_length_are_compared_on_the_same_patients() -> None:
    one = scores(1.0)
    by_patient = one.groupby(["patient_id", "split"], as_index=False)["score"].mean()
    everyone = dict.fromkeys(one["patient_id"], 1.0)
    found = difference(Side(one, "loss", "patient"), Side(one, "loss"), resamples=20)
    assert found.value == pytest.approx(naive_auc(by_patient, everyone) - naive_auc(one, everyone))
    long = one["tokens"] > one["tokens"].median()
    found = difference(Side(one, "loss", length="long"), Side(one, "loss", length="short"), resamples=20)
    assert found.value == pytest.approx(naive_auc(one[long], everyone) - naive_auc(one[~long], everyone))
    most = int(one["tokens"].quantile(0.2))
    found = difference(Side(one, "loss", length="long"), Side(one, "loss", most_tokens=most), resamples=20)
    short = one["tokens"] <= most
    assert 0 < short.sum() < (~long).sum()
    assert found.value == pytest.approx(naive_auc(one[long], everyone) - naive_auc(one[short], everyone))


def test_privacy_leakage_and_the_share_caught_are_those_of_their_definitions() -> None:
    one = scores(1.0)
    member = one["split"] == "member"
    line = one.loc[member, "score"].mean()
    expected = (one.loc[member, "score"] > line).mean() - (one.loc[~member, "score"] > line).mean()
    assert single(Side(one, "loss"), leakage, resamples=20).value == pytest.approx(expected)
    others = np.sort(one.loc[~member, "score"])
    lowest = min(t for t in one["score"] if (others >= t).mean() <= 0.1)
    assert single(Side(one, "loss"), caught_at(0.1), resamples=20).value == pytest.approx(
        (one.loc[member, "score"] >= lowest).mean()
    )
